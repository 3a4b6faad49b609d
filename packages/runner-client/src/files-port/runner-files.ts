/** Files of one sandbox over a connection to its file agent that is opened at the first call and again when it has ended. */
import { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FileInfo, FilesPort, PackEnd, WriteOptions } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerAccess } from '../access.ts';
import type { FileStat } from '../files/index.ts';
import { FileAgentClient, FileAgentDisconnectedError } from '../files/index.ts';
import type { FileView, SandboxId } from '../types.ts';
import { writeExpecting } from './expected-file.ts';
import { absolutePath, fileError, targetError } from './file-errors.ts';
import { IdleTimer } from './idle-timer.ts';

/** Whether a call may be sent again when its connection ended before the answer. */
type Repeat = 'repeatable' | 'once';

/** The most that the agent allows: what is unpacked here is bounded by the inodes and bytes of the sandbox itself. */
const ARCHIVE_LIMITS = { maxEntries: 1_000_000, maxDepth: 256 } as const;

/** A connection that is not used for so long is closed, so that the file agent ends, and opened again when it is needed. */
const IDLE_MS = 10_000;

/** Before each repetition of a call. The first one may be handed to an agent too that is dying and does not tell yet. */
const PAUSES_MS: readonly number[] = [0, 50];

/** `FilesPort` over the runner's `file` operation. */
export class RunnerFiles implements FilesPort {
  readonly #runner: RunnerAccess;
  readonly #sandbox: SandboxId;
  #client: Promise<FileAgentClient> | null = null;
  readonly #view: FileView;
  readonly #idle = new IdleTimer(IDLE_MS, () => this.#release());
  /** What calls are told once it is closed. */
  #closed: BoxkiteError | null = null;

  constructor(runner: RunnerAccess, sandbox: SandboxId, view: FileView = 'commands') {
    this.#runner = runner;
    this.#sandbox = sandbox;
    this.#view = view;
  }

  async stat(
    path: string,
    signal?: AbortSignal,
    options: { readonly follow?: boolean | undefined } = {},
  ): Promise<FileInfo> {
    const { follow = false } = options;
    const full = absolutePath(path);
    const stat = await this.#call(full, 'repeatable', signal, (client) => client.stat(full, { follow, signal }));
    return fileInfo(full, stat);
  }

  async *read(
    path: string,
    range: { readonly offset?: number; readonly length?: number } = {},
    signal?: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const full = absolutePath(path);
    yield* this.#iterate(full, signal, (client) =>
      client.read(full, { offset: range.offset, length: range.length, signal }),
    );
  }

  async write(
    path: string,
    data: Uint8Array | AsyncIterable<Uint8Array>,
    options: WriteOptions = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const full = absolutePath(path);
    const { mode, parents = true, expected } = options;
    // Bytes may be written again with the same end; a stream has been consumed, and what was expected is there no more.
    const repeat = data instanceof Uint8Array && expected === undefined ? 'repeatable' : 'once';
    await this.#call(full, repeat, signal, (client) =>
      writeExpecting(full, expected, ({ createParents = false, ...condition }) =>
        client.write(full, data, { mode, createParents: parents && createParents, ...condition, signal }),
      ),
    );
  }

  async *list(path: string, signal?: AbortSignal): AsyncGenerator<FileInfo, void, undefined> {
    const full = absolutePath(path);
    for await (const entry of this.#iterate(full, signal, (client) => client.list(full, { signal }))) {
      yield fileInfo(posix.join(full, entry.path), entry);
    }
  }

  async mkdir(path: string, signal?: AbortSignal): Promise<void> {
    const full = absolutePath(path);
    await this.#call(full, 'repeatable', signal, (client) => client.mkdir(full, { parents: true, signal }));
  }

  async remove(path: string, signal?: AbortSignal): Promise<void> {
    const full = absolutePath(path);
    await this.#call(full, 'once', signal, (client) => client.remove(full, { recursive: true, signal }));
  }

  async move(from: string, to: string, signal?: AbortSignal): Promise<void> {
    const [source, target] = [absolutePath(from), absolutePath(to)];
    await this.#call(source, 'once', signal, async (client) => {
      try {
        await client.rename(source, target, { signal });
      } catch (error) {
        throw targetError(error, target) ?? error;
      }
    });
  }

  async unpack(path: string, tar: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<void> {
    const full = absolutePath(path);
    await this.#call(full, 'once', signal, (client) =>
      client.archiveIn(full, tar, { createParents: true, ...ARCHIVE_LIMITS, signal }),
    );
  }

  async *pack(
    path: string,
    signal?: AbortSignal,
    onEnd?: (end: PackEnd) => void,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const full = absolutePath(path);
    yield* this.#iterate(full, signal, async function* (client) {
      const { skipped, changed } = yield* client.archiveOut(full, { signal });
      onEnd?.({ omitted: skipped, cut: changed });
    });
  }

  /** A call of the agent beyond the port, about an absolute path; errors as of the port. `once`: never sent a second time. */
  async agent<T>(
    path: string,
    run: (client: FileAgentClient) => Promise<T>,
    signal?: AbortSignal,
    repeat: Repeat = 'repeatable',
  ): Promise<T> {
    const full = absolutePath(path);
    return this.#call(full, repeat, signal, run);
  }

  /** The same with a stream as its answer. */
  async *agentStream<T>(
    path: string,
    run: (client: FileAgentClient) => AsyncIterable<T>,
    signal?: AbortSignal,
  ): AsyncGenerator<T, void, undefined> {
    const full = absolutePath(path);
    yield* this.#iterate(full, signal, run);
  }

  /** Ends the connection, which cancels calls; these and later ones fail with `reason`. */
  close(reason = new BoxkiteError('closing', 'the sandbox is destroyed')): void {
    this.#closed ??= reason;
    this.#release();
  }

  /** Lets go of the connection; the next call makes another one. */
  #release(): void {
    const client = this.#client;
    this.#client = null;
    void client?.then(
      (open) => open.close(),
      () => undefined,
    );
  }

  async #call<T>(
    path: string,
    repeat: Repeat,
    signal: AbortSignal | undefined,
    run: (client: FileAgentClient) => Promise<T>,
  ): Promise<T> {
    const release = this.#runner.hold?.();
    const used = this.#idle.use();
    try {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await this.#attempt(signal, run);
        } catch (error) {
          const repeats = error instanceof FileAgentDisconnectedError && repeat === 'repeatable';
          if (!repeats || !(await this.#mayRetry(attempt, signal))) throw this.#explain(error, path, signal);
        }
      }
    } finally {
      used();
      release?.();
    }
  }

  /** One that finds its connection ended sees to it that no other attempt takes that: `close` is told only later. */
  async #attempt<T>(signal: AbortSignal | undefined, run: (client: FileAgentClient) => Promise<T>): Promise<T> {
    const connected = this.#connected(signal);
    try {
      return await run(await unlessAborted(connected, signal));
    } catch (error) {
      if (error instanceof FileAgentDisconnectedError) this.#forget(connected);
      throw error;
    }
  }

  /** A call whose answer is a stream; it is sent again only while nothing of the answer has been given out. */
  async *#iterate<T>(
    path: string,
    signal: AbortSignal | undefined,
    run: (client: FileAgentClient) => AsyncIterable<T>,
  ): AsyncGenerator<T, void, undefined> {
    const release = this.#runner.hold?.();
    const used = this.#idle.use();
    let begun = false;
    try {
      for (let attempt = 0; ; attempt += 1) {
        const connected = this.#connected(signal);
        try {
          for await (const item of run(await unlessAborted(connected, signal))) {
            begun = true;
            yield item;
          }
          return;
        } catch (error) {
          const disconnected = error instanceof FileAgentDisconnectedError;
          if (disconnected) this.#forget(connected);
          const repeats = disconnected && !begun;
          if (!repeats || !(await this.#mayRetry(attempt, signal))) throw this.#explain(error, path, signal);
        }
      }
    } finally {
      used();
      release?.();
    }
  }

  /** Whether a call may be sent again after so many failed repetitions; resolves when it is time to. */
  async #mayRetry(repetitions: number, signal: AbortSignal | undefined): Promise<boolean> {
    const pause = PAUSES_MS[repetitions];
    if (pause === undefined) return false;
    if (pause > 0) await sleep(pause, undefined, { signal }).catch(() => undefined);
    return this.#closed === null && !this.#runner.ended && signal?.aborted !== true;
  }

  #connected(signal: AbortSignal | undefined): Promise<FileAgentClient> {
    if (signal?.aborted === true) return Promise.reject(aborted(signal));
    if (this.#closed !== null) return Promise.reject(this.#closed);
    this.#client ??= this.#open();
    return this.#client;
  }

  #open(): Promise<FileAgentClient> {
    const opening: Promise<FileAgentClient> = this.#runner
      .call((runner) => runner.connectFiles(this.#sandbox, this.#view))
      .then((socket) => {
        // A waiting call holds the runner's connection instead, so that an idle one ends no later than the program.
        socket.unref();
        socket.once('close', () => this.#forget(opening));
        if (socket.closed) this.#forget(opening);
        return new FileAgentClient(socket);
      });
    opening.catch(() => this.#forget(opening));
    return opening;
  }

  #forget(client: Promise<FileAgentClient>): void {
    if (this.#client === client) this.#client = null;
  }

  #explain(error: unknown, path: string, signal: AbortSignal | undefined): unknown {
    if (error instanceof BoxkiteError) return error;
    if (signal?.aborted === true) return aborted(signal);
    if (!(error instanceof FileAgentDisconnectedError)) return fileError(error, path) ?? error;
    if (this.#closed !== null) return this.#closed;
    if (this.#runner.ended)
      return new BoxkiteError('runner_lost', 'the runner ended during the call', { cause: error });
    return new BoxkiteError(
      'io_error',
      `${path}: the file agent ended during the call, which may or may not have taken effect`,
      {
        hint: 'Look at the path before you call again; too little memory in the sandbox is the usual reason.',
        cause: error,
      },
    );
  }
}

/** Whoever leaves waits no longer for a connection that others may go on to wait for. */
async function unlessAborted<T>(connected: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return connected;
  const left = Promise.withResolvers<never>();
  const leave = (): void => left.reject(aborted(signal));
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await Promise.race([connected, left.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

function aborted(signal: AbortSignal): BoxkiteError {
  return new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
}

function fileInfo(path: string, stat: FileStat): FileInfo {
  const { type, size, mode, mtimeMs, target } = stat;
  const known = type === 'file' || type === 'directory' || type === 'symlink' ? type : 'other';
  return {
    name: posix.basename(path),
    path,
    type: known,
    size,
    mode: mode & 0o777,
    modified_ms: Math.floor(mtimeMs),
    ...(target === undefined ? {} : { target: Buffer.from(target).toString() }),
  };
}
