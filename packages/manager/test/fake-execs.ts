/** Execs whose programs are functions: the edge behind which the real manager and server are tested. */
import type {
  CollectedExec,
  Effective,
  EndReason,
  ExecEvent,
  ExecRecord,
  ExecRequest,
  ExecSummary,
  ExecsPort,
  OutputRange,
  OutputStream,
} from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** What a program works with. */
export interface ProgramIo {
  readonly argv: readonly string[];
  readonly request: ExecRequest;
  /** Ended by a kill, a signal, a time limit. */
  readonly ended: AbortSignal;
  readonly write: (stream: OutputStream, data: Uint8Array | string) => void;
  /** The next bytes of standard input; `null` at its end. */
  readonly read: () => Promise<Uint8Array | null>;
  /** What resizes and signals came. */
  readonly events: string[];
}

export type Program = (io: ProgramIo) => Promise<number> | number;

interface Log {
  readonly chunks: { readonly offset: number; readonly data: Uint8Array }[];
  end: number;
  /** Bytes before this one are dropped. */
  dropped: number;
}

class FakeExec {
  readonly id: string;
  readonly request: ExecRequest;
  readonly startedAt = new Date();
  readonly logs: Readonly<Record<OutputStream, Log>> = { stdout: newLog(), stderr: newLog() };
  readonly kill = new AbortController();
  readonly events: string[] = [];
  readonly input: Uint8Array[] = [];
  inputOpen: boolean;
  record: ExecRecord | null = null;
  endedAt: Date | null = null;
  #waiting: (() => void)[] = [];

  constructor(id: string, request: ExecRequest) {
    this.id = id;
    this.request = request;
    this.inputOpen = request.stdin === 'stream';
    if (request.stdin instanceof Uint8Array) this.input.push(request.stdin);
  }

  wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  change(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      signal?.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  summary(): ExecSummary {
    return {
      exec_id: this.id,
      state: this.record === null ? 'running' : 'ended',
      argv: this.request.argv,
      cwd: this.request.cwd ?? '/workspace',
      tty: this.request.tty !== undefined,
      started_at: this.startedAt.toISOString(),
      ended_at: this.endedAt?.toISOString() ?? null,
      stdout_bytes: this.logs.stdout.end,
      stderr_bytes: this.logs.stderr.end,
      record: this.record,
    };
  }
}

function newLog(): Log {
  return { chunks: [], end: 0, dropped: 0 };
}

/** `ExecsPort` over programs by name; a line for `sh -c` is split at spaces. */
export class FakeExecs implements ExecsPort {
  readonly programs: Map<string, Program>;
  readonly all = new Map<string, FakeExec>();
  readonly #effective: Effective;
  #count = 0;

  constructor(programs: Map<string, Program>, effective: Effective) {
    this.programs = programs;
    this.#effective = effective;
  }

  get running(): number {
    return [...this.all.values()].filter(({ record }) => record === null).length;
  }

  async start(request: ExecRequest): Promise<ExecSummary> {
    const [shell, flag, ...rest] = request.argv;
    const line = shell === '/bin/sh' && flag === '-c' ? (rest[2] ?? rest[0] ?? '') : null;
    const argv = line === null ? request.argv : line.split(' ');
    const program = this.programs.get(argv[0] ?? '');
    if (program === undefined) throw new BoxkiteError('command_not_found', `${argv[0]} is not there`);
    this.#count += 1;
    const exec = new FakeExec(`e${this.#count}`, request);
    this.all.set(exec.id, exec);
    void this.#run(exec, argv, program);
    return exec.summary();
  }

  async run(request: ExecRequest, signal?: AbortSignal): Promise<CollectedExec> {
    if (isAborted(signal)) throw aborted();
    const { exec_id } = await this.start(request);
    const exec = this.#get(exec_id);
    signal?.addEventListener('abort', () => exec.kill.abort('killed'), { once: true });
    while (exec.record === null) await exec.change();
    if (isAborted(signal)) throw aborted();
    const collect = (stream: OutputStream): Uint8Array =>
      Buffer.concat(exec.logs[stream].chunks.map(({ data }) => data));
    return {
      record: exec.record,
      stdout: collect('stdout'),
      stderr: collect('stderr'),
      stdout_truncated: exec.logs.stdout.dropped > 0,
      stderr_truncated: false,
    };
  }

  async list(): Promise<readonly ExecSummary[]> {
    return [...this.all.values()].map((exec) => exec.summary());
  }

  async get(execId: string): Promise<ExecSummary> {
    return this.#get(execId).summary();
  }

  async *output(execId: string, range: OutputRange = {}, signal?: AbortSignal): AsyncGenerator<ExecEvent> {
    const exec = this.#get(execId);
    const at = { stdout: range.stdout ?? 0, stderr: range.stderr ?? 0 };
    const streams = (['stdout', 'stderr'] as const).filter((name) => range.only === undefined || range.only === name);
    while (true) {
      const ended = exec.record;
      for (const stream of streams) {
        const log = exec.logs[stream];
        if (at[stream] < log.dropped) {
          yield { type: 'gap', stream, from: at[stream], to: log.dropped };
          at[stream] = log.dropped;
        }
        for (const { offset, data } of [...log.chunks]) {
          const skip = Math.max(0, at[stream] - offset);
          if (skip >= data.length) continue;
          yield { type: 'output', stream, offset: offset + skip, data: data.subarray(skip) };
          at[stream] = offset + data.length;
        }
      }
      if (signal?.aborted === true) throw aborted();
      if (ended !== null) {
        yield { type: 'ended', record: ended };
        return;
      }
      if (range.follow === false) return;
      if (exec.record === null && streams.every((name) => at[name] >= exec.logs[name].end)) await exec.change(signal);
    }
  }

  async write(execId: string, data: Uint8Array): Promise<void> {
    const exec = this.#get(execId);
    if (exec.record !== null) throw new BoxkiteError('exec_ended', 'it has ended');
    if (!exec.inputOpen) throw new BoxkiteError('stdin_closed', 'its input is closed');
    exec.input.push(Buffer.from(data));
    exec.wake();
  }

  async closeStdin(execId: string): Promise<void> {
    const exec = this.#get(execId);
    exec.inputOpen = false;
    exec.wake();
  }

  async signal(execId: string, signal: string | number): Promise<void> {
    const exec = this.#get(execId);
    if (exec.record !== null) throw new BoxkiteError('exec_ended', 'it has ended');
    exec.events.push(String(signal));
    if (String(signal) === 'SIGTERM') exec.kill.abort('signaled');
    exec.wake();
  }

  async kill(execId: string): Promise<void> {
    this.#get(execId).kill.abort('killed');
  }

  async resize(execId: string, columns: number, rows: number): Promise<void> {
    const exec = this.#get(execId);
    exec.events.push(`${columns}x${rows}`);
    exec.wake();
  }

  /** Drops the log before a byte, as a full record does. */
  drop(execId: string, stream: OutputStream, before: number): void {
    const log = this.#get(execId).logs[stream];
    const kept = log.chunks
      .filter(({ offset, data }) => offset + data.length > before)
      .map(({ offset, data }) => {
        const skip = Math.max(0, before - offset);
        return { offset: offset + skip, data: data.subarray(skip) };
      });
    log.chunks.splice(0, log.chunks.length, ...kept);
    log.dropped = before;
  }

  /** Everything ends, as with the sandbox. */
  end(): void {
    for (const exec of this.all.values()) exec.kill.abort('closed');
  }

  async #run(exec: FakeExec, argv: readonly string[], program: Program): Promise<void> {
    const { timeout_ms } = exec.request;
    const timer = timeout_ms === undefined ? undefined : setTimeout(() => exec.kill.abort('timed_out'), timeout_ms);
    exec.kill.signal.addEventListener('abort', () => exec.wake(), { once: true });
    const ended = new Promise<null>((resolve) => {
      exec.kill.signal.addEventListener('abort', () => resolve(null), { once: true });
    });
    const io: ProgramIo = {
      argv,
      request: exec.request,
      ended: exec.kill.signal,
      events: exec.events,
      write: (stream, data) => {
        const log = exec.logs[stream];
        const bytes = typeof data === 'string' ? Buffer.from(data) : data;
        log.chunks.push({ offset: log.end, data: bytes });
        log.end += bytes.length;
        exec.wake();
      },
      read: async () => {
        while (exec.input.length === 0 && exec.inputOpen && !exec.kill.signal.aborted) await exec.change();
        return exec.input.shift() ?? null;
      },
    };
    const status = await Promise.race([Promise.resolve(program(io)), ended]);
    clearTimeout(timer);
    this.#end(exec, status);
  }

  #end(exec: FakeExec, status: number | null): void {
    const why: unknown = exec.kill.signal.reason;
    const end: EndReason =
      status !== null ? 'exited' : why === 'timed_out' ? 'timed_out' : why === 'signaled' ? 'signaled' : 'killed';
    exec.endedAt = new Date();
    exec.record = {
      exec_id: exec.id,
      end,
      exit_code: status,
      signal: end === 'signaled' ? 'SIGTERM' : end === 'killed' ? 'SIGKILL' : null,
      reason: why === 'killed' ? 'requested' : why === 'closed' ? 'sandbox_closed' : null,
      stdout_bytes: exec.logs.stdout.end,
      stderr_bytes: exec.logs.stderr.end,
      duration_ms: 1,
      usage: { cpu_ms: 1, memory_peak_bytes: null },
      effective: this.#effective,
    };
    exec.wake();
  }

  #get(execId: string): FakeExec {
    const exec = this.all.get(execId);
    if (exec === undefined) throw new BoxkiteError('not_found', 'there is no such exec');
    return exec;
  }
}

/** It may change at any await. */
export function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function aborted(): BoxkiteError {
  return new BoxkiteError('aborted', 'the call was cancelled');
}

/** Programs that most tests need. */
export function commonPrograms(): Map<string, Program> {
  return new Map<string, Program>([
    ['true', () => 0],
    ['false', () => 1],
    [
      'echo',
      ({ argv, write }) => {
        write('stdout', `${argv.slice(1).join(' ')}\n`);
        return 0;
      },
    ],
    [
      'cat',
      async ({ read, write }) => {
        for (let data = await read(); data !== null; data = await read()) write('stdout', data);
        return 0;
      },
    ],
    ['hang', ({ ended }) => new Promise((resolve) => ended.addEventListener('abort', () => resolve(1)))],
    [
      'binary',
      ({ write }) => {
        write('stdout', Uint8Array.of(0xff, 0x41));
        write('stderr', 'é');
        return 3;
      },
    ],
    [
      'bytes',
      ({ argv, write }) => {
        const chunk = new Uint8Array(65_536).map((_, index) => index % 251);
        for (let left = Number(argv[1]); left > 0; left -= chunk.length) write('stdout', chunk.subarray(0, left));
        return 0;
      },
    ],
  ]);
}
