/** The part of `/v1` that the SDK calls, over scripted sandboxes, on a real socket whose connections can be cut. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ErrorBody, ExecEvent, ExecRecord, ExecRequest } from '@boxkite/protocol';
import {
  BoxkiteError,
  decodeAttachMessage,
  encodeOutputFrame,
  errorRegistry,
  outputFrameParts,
  shellStatus,
  v1,
} from '@boxkite/protocol';
import { collect } from '../src/collect.ts';
import { frame, OPCODE } from '../src/node/web-socket-frames.ts';
import type { FakeHandle, FakeSandbox } from './fake-port.ts';
import { effective } from './fake-port.ts';

/** What a test does with a request before the server would; `true` where nothing is left to do. */
export type Hook = (request: IncomingMessage, response: ServerResponse, body: Buffer) => boolean | Promise<boolean>;

interface Exec {
  readonly id: string;
  readonly request: ExecRequest;
  readonly handle: FakeHandle;
  /** What it has said so far; replayed to every follower. */
  readonly events: ExecEvent[];
  readonly done: Promise<void>;
}

export class V1Server implements AsyncDisposable {
  readonly url: string;
  readonly tcpUrl: string;
  /** `METHOD /path` of each request, in order. */
  readonly seen: string[] = [];
  /** Headers of each request. */
  readonly headers: IncomingMessage['headers'][] = [];
  /** Messages of attached clients, as words. */
  readonly messages: string[] = [];
  hook: Hook = () => false;
  /** What attaching is refused with. */
  refusal: BoxkiteError | null = null;
  /** Bytes of answers until the connection is cut; every connection gets the next number. */
  cuts: number[] = [];
  /** Size of the pieces in which frames are sent. */
  piece = 64 * 1024;
  created = 0;
  destroyed = 0;
  readonly #fake: FakeSandbox;
  readonly #execs = new Map<string, Exec>();
  readonly #keys = new Map<string, Promise<{ status: number; body: unknown }>>();
  readonly #directory: string;
  readonly #servers: readonly ReturnType<typeof createServer>[];
  readonly #sockets = new Set<Socket>();

  private constructor(fake: FakeSandbox, directory: string, servers: readonly ReturnType<typeof createServer>[]) {
    this.#fake = fake;
    this.#directory = directory;
    this.#servers = servers;
    this.url = `unix://${directory}/s`;
    const address = servers[1]?.address() as AddressInfo | undefined;
    this.tcpUrl = `http://127.0.0.1:${address?.port}`;
    for (const server of servers) {
      server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response));
      server.on('upgrade', (request: IncomingMessage, socket: Socket) => void this.#attach(request, socket));
      server.on('connection', (socket: Socket) => {
        this.#sockets.add(socket);
        socket.on('error', () => undefined);
        this.#limit(socket);
      });
    }
  }

  static async start(fake: FakeSandbox): Promise<V1Server> {
    const directory = await mkdtemp(join(tmpdir(), 'boxkite-sdk-'));
    const servers = [createServer({ keepAliveTimeout: 0 }), createServer({ keepAliveTimeout: 0 })];
    servers[0]?.listen(join(directory, 's'));
    servers[1]?.listen(0, '127.0.0.1');
    await Promise.all(servers.map((server) => once(server, 'listening')));
    return new V1Server(fake, directory, servers);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** Ends every connection without a word. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #limit(socket: Socket): void {
    const cut = this.cuts.shift();
    if (cut === undefined) return;
    let left = cut;
    const write = socket.write.bind(socket) as (data: Uint8Array, done?: () => void) => boolean;
    const limited = (data: string | Uint8Array, ...rest: unknown[]): boolean => {
      const bytes = typeof data === 'string' ? Buffer.from(data, rest[0] === 'latin1' ? 'latin1' : 'utf8') : data;
      const done = rest.find((each) => typeof each === 'function') as (() => void) | undefined;
      if (bytes.length < left) {
        left -= bytes.length;
        return write(bytes, done);
      }
      write(bytes.subarray(0, left), () => socket.destroy());
      left = 0;
      return false;
    };
    Object.assign(socket, { write: limited, cork: () => undefined, uncork: () => undefined });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    this.seen.push(`${request.method} ${request.url}`);
    this.headers.push(request.headers);
    try {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts);
      if (await this.hook(request, response, body)) return;
      await this.#route(request, response, body);
    } catch (error) {
      if (!response.headersSent && !response.destroyed) send(response, ...failure(error));
      else response.destroy();
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://x');
    const json = (): Record<string, unknown> => JSON.parse(body.toString()) as Record<string, unknown>;
    const at = `${request.method} ${url.pathname.replace(/^\/v1\/sandboxes\/[^/]+/, '/v1/sandboxes/*')}`;
    const exec = /\/execs\/([^/]+)/.exec(url.pathname)?.[1];
    if (at === 'GET /health') return send(response, 200, { status: 'ok' });
    if (at === 'POST /v1/sandboxes') return this.#keyed(request, response, body, () => this.#create());
    if (at === 'GET /v1/sandboxes/*') return send(response, 200, sandboxJson());
    if (at === 'DELETE /v1/sandboxes/*') {
      this.destroyed += 1;
      await this.#fake.destroy();
      response.writeHead(204).end();
      return;
    }
    if (at === 'POST /v1/sandboxes/*/exec')
      return this.#keyed(request, response, body, async () => ({
        status: 200,
        body: await this.#exec(json(), response),
      }));
    if (at === 'POST /v1/sandboxes/*/execs')
      return this.#keyed(request, response, body, async () => ({ status: 201, body: await this.#start(json()) }));
    if (exec !== undefined) return this.#ofExec(this.#known(exec), url, response, body);
    return this.#files(at, url, request, response, body);
  }

  async #create(): Promise<{ status: number; body: unknown }> {
    this.created += 1;
    return { status: 201, body: { ...sandboxJson(), usage: usageJson } };
  }

  /** As the server's Idempotency-Key: done once, answered as often as asked. */
  async #keyed(
    request: IncomingMessage,
    response: ServerResponse,
    body: Buffer,
    run: () => Promise<{ status: number; body: unknown }>,
  ): Promise<void> {
    const header = request.headers['idempotency-key'];
    const key = `${request.url} ${String(header)}`;
    const known = header === undefined ? undefined : this.#keys.get(key);
    const answering = known ?? run();
    if (known === undefined) {
      this.#keys.set(key, answering);
      answering.catch(() => this.#keys.delete(key));
    }
    void body;
    const answer = await answering;
    if (known !== undefined) response.setHeader('idempotent-replayed', 'true');
    send(response, answer.status, answer.body);
  }

  async #exec(json: Record<string, unknown>, response: ServerResponse): Promise<unknown> {
    const gone = new AbortController();
    response.on('close', () => {
      if (!response.writableEnded) gone.abort();
    });
    const request = requestOf(json);
    const handle = await this.#fake.exec(request, gone.signal);
    const { raw, ok: _ok, exitCode: _code, ...result } = await collect(handle, request.limits?.output_bytes ?? 8 << 20);
    return {
      ...result,
      exit_code: shellStatus(result),
      exit_status: result.exit_code,
      ...(isUtf8(raw.stdout) ? {} : { stdout_base64: Buffer.from(raw.stdout).toString('base64') }),
      ...(isUtf8(raw.stderr) ? {} : { stderr_base64: Buffer.from(raw.stderr).toString('base64') }),
    };
  }

  async #start(json: Record<string, unknown>): Promise<unknown> {
    const request = requestOf(json);
    const handle = (await this.#fake.exec(request)) as FakeHandle;
    const events: ExecEvent[] = [];
    const done = (async () => {
      for await (const event of handle) events.push(event);
    })();
    done.catch(() => undefined);
    const id = String(this.#execs.size + 1);
    const exec: Exec = { id, request, handle, events, done };
    this.#execs.set(id, exec);
    return summary(exec);
  }

  #known(id: string): Exec {
    const exec = this.#execs.get(id);
    if (exec === undefined) throw new BoxkiteError('not_found', 'there is no such exec');
    return exec;
  }

  async #ofExec(exec: Exec, url: URL, response: ServerResponse, body: Buffer): Promise<void> {
    const what = url.pathname.replace(/^.*\/execs\/[^/]+/, '');
    if (what === '') return send(response, 200, summary(exec));
    if (what === '/output') return this.#output(exec, url, response);
    const json = what === '/input' ? {} : (JSON.parse(body.toString()) as Record<string, unknown>);
    if (what === '/input') await exec.handle.write(body);
    else if (what === '/close-stdin') await exec.handle.closeStdin();
    else if (what === '/resize') await exec.handle.resize(Number(json['columns']), Number(json['rows']));
    else if (json['all'] === true) await exec.handle.kill();
    else await exec.handle.signal(String(json['signal']));
    send(response, 200, { bytes_written: body.length });
  }

  async #output(exec: Exec, url: URL, response: ServerResponse): Promise<void> {
    response.writeHead(200, { 'content-type': v1.outputMediaType });
    for await (const event of from(exec, offsetsOf(url))) {
      const whole = encodeOutputFrame(event);
      for (let at = 0; at < whole.length; at += this.piece) response.write(whole.subarray(at, at + this.piece));
      if (response.destroyed) return;
    }
    response.end();
  }

  async #attach(request: IncomingMessage, socket: Socket): Promise<void> {
    this.seen.push(`UPGRADE ${request.url}`);
    this.headers.push(request.headers);
    if (this.refusal !== null) {
      const [status, body] = failure(this.refusal);
      const text = JSON.stringify(body);
      socket.end(
        `HTTP/1.1 ${status} No\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
      );
      return;
    }
    const url = new URL(request.url ?? '/', 'http://x');
    const exec = this.#known(/\/execs\/([^/]+)/.exec(url.pathname)?.[1] ?? '');
    const key = String(request.headers['sec-websocket-key']);
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
        `Sec-WebSocket-Protocol: ${v1.attachProtocol}\r\n\r\n`,
    );
    socket.on('data', (data) => void this.#heard(exec, data));
    for await (const event of from(exec, offsetsOf(url))) {
      for (const part of [Buffer.concat(outputFrameParts(event))]) socket.write(unmasked(OPCODE.binary, part));
      if (socket.destroyed) return;
    }
    socket.write(unmasked(OPCODE.close, Uint8Array.of(3, 232)));
    socket.end();
  }

  async #heard(exec: Exec, data: Uint8Array): Promise<void> {
    for (const payload of unmask(data)) {
      const message = decodeAttachMessage(payload);
      if (message.type === 'stdin') await exec.handle.write(message.data);
      else if (message.type === 'resize') await exec.handle.resize(message.columns, message.rows);
      this.messages.push(message.type);
    }
  }

  async #files(at: string, url: URL, request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> {
    const { files } = this.#fake;
    const path = url.searchParams.get('path') ?? '';
    if (at === 'GET /v1/sandboxes/*/files/stat') return send(response, 200, await files.stat(path));
    if (at === 'PUT /v1/sandboxes/*/files/content') {
      await files.write(path, body);
      return send(response, 200, {});
    }
    if (at === 'PUT /v1/sandboxes/*/files/archive') {
      await files.unpack(path, chunks(body));
      return send(response, 200, {});
    }
    const stream = at === 'GET /v1/sandboxes/*/files/archive' ? files.pack(path) : files.read(path, rangeOf(request));
    for await (const part of stream) {
      if (response.destroyed) return;
      if (!response.write(part)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    }
    response.end();
  }
}

async function* chunks(body: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += 10_000) yield body.subarray(at, at + 10_000);
}

function rangeOf(request: IncomingMessage): { offset?: number; length?: number } {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  if (first === undefined) return {};
  return last === '' ? { offset: Number(first) } : { offset: Number(first), length: Number(last) - Number(first) + 1 };
}

function offsetsOf(url: URL): { stdout: number; stderr: number } {
  const number = (name: string): number => Number(url.searchParams.get(name) ?? 0);
  return { stdout: number('stdout_offset'), stderr: number('stderr_offset') };
}

/** An exec's events from the offsets on, waiting for those that are not there yet. */
async function* from(exec: Exec, offsets: { stdout: number; stderr: number }): AsyncGenerator<ExecEvent> {
  for (let index = 0; ; index += 1) {
    while (index >= exec.events.length) {
      const settled = await Promise.race([
        exec.done.then(() => true),
        new Promise((r) => setTimeout(() => r(false), 1)),
      ]);
      if (settled === true && index >= exec.events.length) return;
    }
    const event = exec.events[index];
    if (event === undefined) return;
    if (event.type === 'ended') yield event;
    else if (event.type === 'gap') {
      if (event.to > offsets[event.stream]) yield { ...event, from: Math.max(event.from, offsets[event.stream]) };
    } else {
      const skipped = Math.max(0, offsets[event.stream] - event.offset);
      if (skipped < event.data.length)
        yield { ...event, offset: event.offset + skipped, data: event.data.subarray(skipped) };
    }
  }
}

function unmasked(opcode: number, payload: Uint8Array): Uint8Array {
  const masked = frame(opcode, payload, new Uint8Array(4));
  const header = masked.length - payload.length - 4;
  const whole = Buffer.concat([masked.subarray(0, header), payload]);
  whole[1] = (whole[1] ?? 0) & 0x7f;
  return whole;
}

/** Payloads of the binary frames in one piece of a client's bytes. */
function* unmask(data: Uint8Array): Generator<Uint8Array> {
  const view = Buffer.from(data);
  for (let at = 0; at + 6 <= view.length; ) {
    const opcode = (view[at] ?? 0) & 0x0f;
    const short = (view[at + 1] ?? 0) & 0x7f;
    const start = at + 2 + (short === 126 ? 2 : short === 127 ? 8 : 0);
    const length =
      short === 126 ? view.readUInt16BE(at + 2) : short === 127 ? Number(view.readBigUInt64BE(at + 2)) : short;
    const mask = view.subarray(start, start + 4);
    const payload = view.subarray(start + 4, start + 4 + length).map((byte, index) => byte ^ (mask[index & 3] ?? 0));
    if (opcode === OPCODE.binary) yield payload;
    at = start + 4 + length;
  }
}

function requestOf(json: Record<string, unknown>): ExecRequest {
  const { argv, timeout, stdin_base64, stdin_open, ...rest } = json;
  const request: ExecRequest = { ...(rest as Partial<ExecRequest>), argv: argv as string[] };
  return {
    ...request,
    ...(typeof timeout === 'number' ? { timeout_ms: timeout * 1000 } : {}),
    ...(typeof stdin_base64 === 'string' ? { stdin: new Uint8Array(Buffer.from(stdin_base64, 'base64')) } : {}),
    ...(stdin_open === true ? { stdin: 'stream' as const } : {}),
  };
}

function summary(exec: Exec): v1.ExecSummaryJson {
  const last = exec.events.at(-1);
  const record: ExecRecord | null = last?.type === 'ended' ? last.record : null;
  return {
    exec_id: exec.id,
    state: record === null ? 'running' : 'ended',
    argv: [...exec.request.argv],
    cwd: '/workspace',
    tty: exec.request.tty !== undefined,
    started_at: '2026-01-01T00:00:00.000Z',
    ended_at: null,
    stdout_bytes: 0,
    stderr_bytes: 0,
    record: record as v1.ExecSummaryJson['record'],
  };
}

function isUtf8(bytes: Uint8Array): boolean {
  return Buffer.from(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)).equals(bytes);
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

/** The answer for a failure. */
export function failure(error: unknown): [status: number, body: ErrorBody] {
  const known = error instanceof BoxkiteError ? error : new BoxkiteError('internal', String(error), { cause: error });
  return [errorRegistry[known.code].status, known.toJSON()];
}

export const usageJson = {
  monthly_sandbox_hours_used: 0,
  monthly_sandbox_hours_limit: 1,
  concurrent_sandboxes: 1,
  concurrent_sandboxes_limit: 1,
  total_sandboxes_created: 1,
};

/** A sandbox that is ready. */
export function sandboxJson(fields: Partial<v1.Sandbox> = {}): v1.Sandbox {
  return {
    id: 'fake',
    status: 'active',
    label: null,
    created_at: '2026-01-01T00:00:00.000Z',
    destroyed_at: null,
    expires_at: '2026-01-02T00:00:00.000Z',
    connect: null,
    state: 'ready',
    state_reason: null,
    workspace: { kind: 'tmpfs', kept: true },
    effective: effective as v1.Sandbox['effective'],
    ...fields,
  };
}
