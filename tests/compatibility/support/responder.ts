/** A sidecar that does nothing: it answers each route with what the reference's pages say, or with what a test says. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An answer. `broken`: the connection ends without one. */
export type Scripted = { readonly status: number; readonly body: unknown } | 'broken';

const PROCESS = 'proc-1';
const image = Buffer.from('not looked at').toString('base64');
const entry = { path: '/workspace/a.txt', is_dir: false, size: 3, modified_at: '2026-01-01T00:00:00+00:00' };
const folder = { path: '/workspace/sub/', is_dir: true, size: 0, modified_at: '2026-01-01T00:00:00+00:00' };

const answers: Readonly<Record<string, unknown>> = {
  'GET /health': { status: 'healthy', session_id: null, idle_seconds: 0.5, runtime_mode: 'compose' },
  'POST /configure': { status: 'configured', prefetched_files: [] },
  'POST /prefetch-uploads': { status: 'ok', prefetched_files: ['/mnt/user-data/uploads/a'] },
  'POST /exec': { exit_code: 0, stdout: 'out', stderr: 'err' },
  'POST /interpreter/exec': { stdout: 'out', result: '42', error: null, truncated: true },
  'POST /interpreter/reset': { status: 'reset' },
  'POST /node-interpreter/exec': { stdout: 'out', result: '42', error: null, truncated: false },
  'POST /node-interpreter/reset': { status: 'reset' },
  'POST /file-create': { path: '/workspace/a.txt', size: 3, created: true },
  'POST /view': { content: 'one\ntwo', lines: 2, is_directory: false, entries: null },
  'POST /read-image': { path: 'a.png', mime_type: 'image/png', size_bytes: 13, base64_data: image },
  'POST /str-replace': { path: '/workspace/a.txt', replaced: true, occurrences: 1 },
  'POST /present-files': {
    files: [
      {
        file_path: '/mnt/user-data/outputs/a.txt',
        storage_key: 'p/outputs/a.txt',
        size: 3,
        content_type: 'text/plain',
      },
    ],
    copy_operations: ['Copied /workspace/a.txt to /mnt/user-data/outputs/a.txt'],
  },
  'POST /ls': { entries: [entry, folder] },
  'POST /glob': { matches: [entry] },
  'POST /grep': { matches: [{ path: '/workspace/a.txt', line: 1, text: 'one' }], error: null, truncated: true },
  'POST /watch': { changes: [{ path: '/workspace/a.txt', event: 'created' }], timed_out: false },
  'POST /process/start': { process_id: PROCESS, status: 'running', started_at: '2026-01-01T00:00:00+00:00' },
  'GET /process': {
    processes: [
      {
        process_id: PROCESS,
        command: 'sleep 1',
        description: 'nap',
        status: 'running',
        started_at: 'x',
        exit_code: null,
      },
      { process_id: 'proc-2', command: 'true', description: null, status: 'exited', started_at: 'x', exit_code: 0 },
    ],
  },
  [`GET /process/${PROCESS}/output`]: {
    status: 'exited',
    stdout_chunk: 'out',
    next_offset: 3,
    truncated: true,
    exit_code: 0,
  },
  [`POST /process/${PROCESS}/input`]: { bytes_written: 3 },
  [`POST /process/${PROCESS}/stop`]: { status: 'stopped', exit_code: -15 },
  'POST /process/kill-all': { killed: 0 },
  'POST /ensure-skills': { status: 'ok', skills_rev: 'x' },
  'POST /flush': { status: 'flushed' },
  'POST /flush/confirmed': { status: 'flushed', storage_prefix: 'p', storage_keys: [] },
  'POST /scratch/set': { key: 'k', bytes_stored: 1, keys: 1 },
  'GET /scratch/get': { key: 'k', value: 'v', found: true },
  'POST /scratch/delete': { key: 'k', deleted: true, keys: 0 },
  'GET /scratch/list': {
    entries: [{ key: 'k', bytes: 1 }],
    keys: 1,
    total_bytes: 1,
    max_keys: 256,
    max_total_bytes: 1048576,
  },
  'POST /http-request': { status_code: 200, headers: {}, body: 'b', truncated: false },
  'POST /pty-exec': { output: 'out', exit_code: 0, timed_out: false },
  'POST /lsp/start': { lsp_id: 'lsp-1' },
  'POST /lsp/lsp-1/open': { status: 'opened' },
  'POST /lsp/lsp-1/completion': { items: [] },
  'POST /lsp/lsp-1/stop': { status: 'stopped' },
  'POST /browser/navigate': { title: 't', url: 'u', status: 200, error: null },
  'POST /browser/exec': { result: 1, error: null },
  'POST /browser/screenshot': { image_base64: image, error: null },
  'POST /browser/close': { status: 'closed' },
  'GET /preview/3000/index.html': { any: 'thing' },
};

/** The scripted server. */
export class Responder implements AsyncDisposable {
  readonly #server: Server;
  #script: Scripted[] = [];

  private constructor() {
    this.#server = createServer((request, response) => {
      request.resume().once('end', () => {
        const route = `${request.method} ${request.url?.split('?', 1)[0]}`;
        const next = this.#script.shift() ?? { status: 200, body: answers[route] };
        if (next === 'broken') request.socket.destroy();
        else if (next.body === undefined) response.writeHead(404).end('{"detail":"Not Found"}');
        else response.writeHead(next.status, { 'content-type': 'application/json' }).end(JSON.stringify(next.body));
      });
    });
  }

  /** Listens on a free port of 127.0.0.1. */
  static async start(): Promise<Responder> {
    const responder = new Responder();
    responder.#server.listen(0, '127.0.0.1');
    await once(responder.#server, 'listening');
    return responder;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What the next requests get, in this order. What is left of an older script goes. */
  script(next: readonly Scripted[]): void {
    this.#script = [...next];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
