/** `ExecsPort` over `/v1`. */
import type {
  CollectedExec,
  Effective,
  ExecEvent,
  ExecHandle,
  ExecRequest,
  ExecSummary,
  ExecsPort,
  OutputRange,
} from '@boxkite/protocol';
import { BoxkiteError, defaultOutputBytes, maxArgumentBytes, v1 } from '@boxkite/protocol';
import { collectEvents } from '../collect.ts';
import { Deadline, maxTimeoutMs } from '../deadline.ts';
import { collectedExec, toBase64 } from './answers.ts';
import { AttachedExec } from './attach.ts';
import { pause, within } from './backoff.ts';
import type { Call, HttpClient } from './client.ts';
import { Feed, hasEnough } from './feed.ts';
import { followOutput } from './follow.ts';
import { execPath, sandboxPath, withQuery } from './paths.ts';
import type { HttpResponse } from './transport.ts';
import { finishThenUndo } from './undo.ts';

/** Input that travels with the request; more is written behind it. */
const MAX_INLINE_STDIN_BYTES = 4 * 1024 * 1024;
/** ms beyond a command's own time limit in which its answer comes. */
const ANSWER_GRACE_MS = 30_000;
/** ms that a cancelled call waits for its command to be gone. */
const KILLING_MS = 1000;
const INPUT_PIECE_BYTES = 1024 * 1024;
/** A byte of output takes at most six of JSON, and base64 beside it. */
const ANSWER_BYTES_PER_BYTE = 8;
const ANSWER_BYTES = 1024 * 1024;

/** Execs of one sandbox of a server. */
export class HttpExecs implements ExecsPort {
  readonly #client: HttpClient;
  readonly #sandbox: string;
  readonly #effective: () => Effective;
  /** Input is written in the order of its calls. */
  readonly #writing = new Map<string, Promise<void>>();
  readonly #opening = new Set<Promise<unknown>>();
  /** Input that is being written behind its command, or was lost. */
  readonly #feeds = new Map<string, Feed>();

  constructor(client: HttpClient, sandbox: string, effective: () => Effective) {
    this.#client = client;
    this.#sandbox = sandbox;
    this.#effective = effective;
  }

  async start(request: ExecRequest, signal?: AbortSignal): Promise<ExecSummary> {
    const streams = request.stdin === 'stream';
    const large = request.stdin instanceof Uint8Array && request.stdin.length > MAX_INLINE_STDIN_BYTES;
    const { tty } = request;
    const body: v1.StartExecBody = {
      ...execBody({ ...request, stdin: large || streams ? undefined : request.stdin }),
      ...(streams || large ? { stdin_open: true } : {}),
      ...(tty === undefined ? {} : { tty }),
    };
    const summary = await this.#client.json(this.#keyed('/execs', body, signal), v1.execSummary);
    if (large && request.stdin instanceof Uint8Array) this.#feed(summary.exec_id, request.stdin);
    return summary;
  }

  async run(request: ExecRequest, signal?: AbortSignal): Promise<CollectedExec> {
    if (request.timeout_ms === undefined) return this.#run(request, signal);
    // The server keeps the limit; a server that is out of reach does not keep its caller.
    const timeout_ms = Math.min(request.timeout_ms + ANSWER_GRACE_MS, maxTimeoutMs);
    return new Deadline({ signal, timeout_ms }).run((either) => this.#run(request, either));
  }

  async #run(request: ExecRequest, signal: AbortSignal | undefined): Promise<CollectedExec> {
    if (request.stdin instanceof Uint8Array && request.stdin.length > MAX_INLINE_STDIN_BYTES)
      return this.#runFollowed(request, signal);
    const most = ANSWER_BYTES + 2 * ANSWER_BYTES_PER_BYTE * (request.limits?.output_bytes ?? defaultOutputBytes);
    const take = (value: unknown, response: HttpResponse): CollectedExec => {
      const collected = collectedExec(value, this.#client);
      if (response.header('idempotent-replayed') === 'true' && collected.record.end === 'killed') throw this.#killed();
      return collected;
    };
    const call = this.#once('/exec', execBody(request), signal);
    const late = signal?.aborted === true;
    try {
      return await this.#client.read(call, take, most);
    } catch (error) {
      if (signal?.aborted === true && !late) await within(KILLING_MS, this.#untilGone(request.argv));
      throw error;
    }
  }

  async list(signal?: AbortSignal): Promise<readonly ExecSummary[]> {
    const path = sandboxPath(this.#sandbox, '/execs');
    return (await this.#client.json({ method: 'GET', path, repeat: 'repeatable', signal }, v1.execList)).execs;
  }

  get(execId: string, signal?: AbortSignal): Promise<ExecSummary> {
    const path = execPath(this.#sandbox, execId);
    return this.#client.json({ method: 'GET', path, repeat: 'repeatable', signal }, v1.execSummary);
  }

  output(execId: string, range: OutputRange = {}, signal?: AbortSignal): AsyncIterable<ExecEvent> {
    const feed = this.#feeds.get(execId);
    if (feed === undefined) return this.#output(execId, range, signal);
    return feed.guard(this.#output(execId, range, feed.bounded(signal)), signal);
  }

  #output(execId: string, range: OutputRange, signal: AbortSignal | undefined): AsyncIterable<ExecEvent> {
    const { only, follow = true } = range;
    const path = execPath(this.#sandbox, execId, '/output');
    const open = async (offsets: { readonly stdout: number; readonly stderr: number }) => {
      const query =
        only === undefined
          ? { stdout_offset: offsets.stdout, stderr_offset: offsets.stderr, follow }
          : { stream: only, offset: offsets[only], follow };
      const headers = { accept: v1.outputMediaType };
      const call = { method: 'GET', path: withQuery(path, query), repeat: 'repeatable', headers, signal } as const;
      const response = await this.#tracked(this.#client.open(call));
      return { bytes: response.body, discard: () => response.discard() };
    };
    const start = { stdout: range.stdout, stderr: range.stderr };
    return followOutput(open, { start, follow, signal, explain: (error) => this.#client.explain(error, signal) });
  }

  /** One connection for output and input. Errors: as of `get`. */
  async attach(execId: string, range: OutputRange = {}, signal?: AbortSignal): Promise<ExecHandle> {
    const summary = await this.get(execId, signal);
    const effective = summary.record?.effective ?? this.#effective();
    const held = { client: this.#client, execs: this, sandbox: this.#sandbox, feed: this.#feeds.get(execId) };
    return new AttachedExec({ ...held, summary, effective, range, signal });
  }

  /** What is behind a write that failed fails with it, so that no hole is in the input. */
  write(execId: string, data: Uint8Array): Promise<void> {
    const before = this.#writing.get(execId) ?? Promise.resolve();
    const writing = before.then(() => this.#write(execId, data));
    this.#writing.set(execId, writing);
    const settled = (): void => {
      if (this.#writing.get(execId) === writing) this.#writing.delete(execId);
    };
    writing.then(settled, settled);
    return writing;
  }

  async closeStdin(execId: string): Promise<void> {
    try {
      await this.#writing.get(execId);
    } catch (error) {
      if (!hasEnough(error)) throw error;
    }
    await this.#post(execId, '/close-stdin', {}, 'repeatable');
  }

  signal(execId: string, signal: string | number): Promise<void> {
    return this.#post(execId, '/signal', { signal }, 'once');
  }

  kill(execId: string): Promise<void> {
    return this.#post(execId, '/signal', { all: true }, 'repeatable');
  }

  resize(execId: string, columns: number, rows: number): Promise<void> {
    return this.#post(execId, '/resize', { columns, rows }, 'repeatable');
  }

  /** Resolves when every reader that was asked for before has its output: what ends the sandbox comes after them. */
  async opened(): Promise<void> {
    await Promise.allSettled(this.#opening);
  }

  async #tracked<T>(opening: Promise<T>): Promise<T> {
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
    }
  }

  #post(execId: string, rest: string, json: unknown, repeat: 'repeatable' | 'once'): Promise<void> {
    return this.#client.done({ method: 'POST', path: execPath(this.#sandbox, execId, rest), json, repeat });
  }

  /**
   * A call whose connection ends with what it does. A key lets it be sent again where the server had ended unnoticed. The
   * server's note of it takes a tenth of the time of a short command, so that one command right behind another has none.
   */
  #once(rest: string, json: unknown, signal: AbortSignal | undefined): Call {
    if (!this.#client.justAnswered) return this.#keyed(rest, json, signal);
    return { method: 'POST', path: sandboxPath(this.#sandbox, rest), json, repeat: 'once', signal };
  }

  #keyed(rest: string, json: unknown, signal: AbortSignal | undefined) {
    const headers = { 'idempotency-key': this.#client.idempotencyKey() };
    return { method: 'POST', path: sandboxPath(this.#sandbox, rest), json, headers, repeat: 'keyed', signal } as const;
  }

  async #write(execId: string, data: Uint8Array): Promise<void> {
    const path = execPath(this.#sandbox, execId, '/input');
    for (let at = 0; at < data.length; at += INPUT_PIECE_BYTES) {
      const body = data.subarray(at, at + INPUT_PIECE_BYTES);
      await this.#client.done({ method: 'POST', path, body, repeat: 'once' });
    }
  }

  #feed(execId: string, data: Uint8Array): void {
    const feed = new Feed(this, execId);
    this.#feeds.set(execId, feed);
    void feed.pass(data).then((whole) => {
      if (whole) this.#feeds.delete(execId);
    });
  }

  /** With input that is too long for one request. */
  async #runFollowed(request: ExecRequest, signal: AbortSignal | undefined): Promise<CollectedExec> {
    const { exec_id } = await finishThenUndo(
      () => this.start(request),
      (started) => this.kill(started.exec_id),
      signal,
    );
    const cap = request.limits?.output_bytes ?? defaultOutputBytes;
    try {
      const collected = await collectEvents(this.output(exec_id, {}, signal), cap);
      if (collected !== null) return collected;
    } catch (error) {
      // One that has ended meanwhile needs no killing.
      if (signal?.aborted === true)
        await within(
          KILLING_MS,
          this.kill(exec_id).catch(() => undefined),
        );
      throw error;
    }
    throw this.#lost();
  }

  /** The server kills a command whose connection was cut; an abort is told when none like it runs any more. */
  async #untilGone(argv: readonly string[]): Promise<void> {
    try {
      for (let wait = 2; ; wait = Math.min(2 * wait, 100)) {
        const execs = await this.list();
        const same = (other: readonly string[]) =>
          other.length === argv.length && other.every((part, at) => part === argv[at]);
        if (!execs.some((exec) => exec.state !== 'ended' && same(exec.argv))) return;
        await pause(wait);
      }
    } catch {
      // With its sandbox, or its server, the command is gone or out of reach.
    }
  }

  #killed(): BoxkiteError {
    return new BoxkiteError('connection_lost', 'the connection ended during the command, which was killed with it', {
      hint: 'Start the command by `execs.start` where it is to outlive a connection.',
    });
  }

  #lost(): BoxkiteError {
    return new BoxkiteError('connection_lost', 'the output of the command ended without its record');
  }
}

/** The fields of a command that every way of starting it has. Errors: `argument_list_too_long`. */
function execBody(request: ExecRequest): v1.ExecBody {
  const { argv, cwd, env, secret_env, stdin, timeout_ms, limits, overflow, fresh } = request;
  refuseTooLong(argv);
  const body: v1.ExecBody = { argv: [...argv], timeout: timeout_ms === undefined ? null : timeout_ms / 1000 };
  if (cwd !== undefined) body.cwd = cwd;
  if (env !== undefined) body.env = env;
  if (secret_env !== undefined) body.secret_env = secret_env;
  if (stdin instanceof Uint8Array) body.stdin_base64 = toBase64(stdin);
  if (limits !== undefined) body.limits = limits;
  if (overflow !== undefined) body.overflow = overflow;
  if (fresh !== undefined) body.fresh = fresh;
  return body;
}

/** What no system call takes is not sent, so that its refusal says why. */
function refuseTooLong(argv: readonly string[]): void {
  let length = 0;
  for (const argument of argv) length += argument.length + 4;
  if (length <= maxArgumentBytes) return;
  throw new BoxkiteError('argument_list_too_long', `the arguments have more than ${maxArgumentBytes} bytes`, {
    details: { field: 'argv' },
  });
}
