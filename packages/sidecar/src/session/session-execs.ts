/** The execs of one session: starts them, and finds them again by id. */
import {
  BoxkiteError,
  type CollectedExec,
  type ExecEvent,
  type ExecRecord,
  type ExecRequest,
  type ExecSummary,
  type ExecsPort,
  type OutputRange,
  type OutputStream,
} from '@boxkite/protocol';
import type { RunnerAccess, RunnerExecution, SandboxId } from '@boxkite/runner-client';
import { Collector } from '../records/collector.ts';
import { ExecLog } from '../records/exec-log.ts';
import { ExecStorage, type Shelf } from '../records/exec-storage.ts';
import { follow } from '../records/follower.ts';
import type { StartMeta } from '../records/meta.ts';
import { RawStream } from '../records/raw-stream.ts';
import type { RecordStore } from '../records/record-store.ts';
import { RecordedExec } from '../records/recorded-exec.ts';
import { StreamLog, type Window } from '../records/stream-log.ts';
import { runnerRequest, type SessionExecRequest, windowOf } from './exec-request.ts';
import type { CommandGate } from './gate.ts';
import { generationGone } from './generation.ts';
import type { KnownSecrets, KnownSet } from './known-secrets.ts';
import type { SessionState } from './session-state.ts';

/** What the execs of a session share. */
export interface ExecsParts {
  readonly sandbox: SandboxId;
  readonly runner: RunnerAccess;
  readonly shelf: Shelf;
  readonly store: RecordStore;
  readonly state: SessionState;
  readonly secrets: KnownSecrets;
  readonly gate: CommandGate;
}

type Collectors = Readonly<Record<OutputStream, Collector>>;

interface Launched {
  readonly exec: RecordedExec;
  readonly execution: RunnerExecution;
}

/** Commands of one sandbox at one time. */
export const MOST_RUNNING = 1024;
/** A collected exec that is over by then needs one entry in the journal instead of two. */
const START_ENTRY_AFTER_MS = 5;

/** `ExecsPort` of one session. */
export class SessionExecs implements ExecsPort {
  readonly #parts: ExecsParts;
  #sequence: number;
  #refusal: BoxkiteError | null = null;
  /** Rises when everything that was begun before is to be undone. */
  #generation = 0;
  readonly #launching = new Set<Promise<unknown>>();

  /** `sequence` is the first one that no found record has. */
  constructor(parts: ExecsParts, sequence: number) {
    this.#parts = parts;
    this.#sequence = sequence;
  }

  /** Calls that start something fail with this from now on, and so do those under way; `null` lets them again. */
  refuse(error: BoxkiteError | null): void {
    this.#refusal = error;
    if (error !== null) this.#generation += 1;
  }

  /** Resolves when no call that was refused meanwhile has anything left. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#launching);
  }

  /** Whether it may be started. Errors: `command_not_allowed`. */
  admit(request: SessionExecRequest): void {
    this.#parts.gate.admit(request);
  }

  async start(request: SessionExecRequest): Promise<ExecSummary> {
    const { exec } = await this.#launch(request, windowOf(request), undefined, undefined);
    try {
      await exec.storage.started();
    } catch (error) {
      // Nobody was told of it: a restart would not know it.
      exec
        .kill()
        .then(() => this.#parts.store.forget(exec))
        .catch(ignore);
      throw notKept(error);
    }
    if (!this.#parts.store.has(exec)) throw this.#refusal ?? generationGone();
    return exec.summary;
  }

  async run(request: SessionExecRequest, signal?: AbortSignal): Promise<CollectedExec> {
    const window = windowOf(request);
    const collectors = { stdout: new Collector(window), stderr: new Collector(window) };
    const { exec, execution } = await this.#launch(request, window, collectors, signal);
    const timer = setTimeout(() => void exec.storage.started().catch(ignore), START_ENTRY_AFTER_MS);
    const record = await exec.ended.finally(() => clearTimeout(timer));
    await exec.kept;
    if (execution.spoiled !== null) throw execution.spoiled;
    return {
      record,
      stdout: collectors.stdout.finish(),
      stderr: collectors.stderr.finish(),
      stdout_truncated: collectors.stdout.truncated,
      stderr_truncated: collectors.stderr.truncated,
    };
  }

  list(): Promise<readonly ExecSummary[]> {
    return Promise.resolve(this.all);
  }

  /** In the order of their start. */
  get all(): readonly ExecSummary[] {
    return this.#parts.store.list().map((exec) => exec.summary);
  }

  /** Resolves with the record of the end. Errors: `not_found`; `state_unavailable` where this process stops before. */
  async ended(execId: string): Promise<ExecRecord> {
    return this.#exec(execId).ended;
  }

  async get(execId: string): Promise<ExecSummary> {
    return this.look(execId);
  }

  /** Errors: `not_found`. */
  look(execId: string): ExecSummary {
    return this.#exec(execId).summary;
  }

  async *output(
    execId: string,
    range: OutputRange = {},
    signal?: AbortSignal,
  ): AsyncGenerator<ExecEvent, void, undefined> {
    yield* follow(this.#exec(execId).log, range, signal);
  }

  async write(execId: string, data: Uint8Array): Promise<void> {
    await (await this.#execution(execId)).write(data);
  }

  async closeStdin(execId: string): Promise<void> {
    const exec = this.#exec(execId);
    if (exec.log.record === null) await (await exec.execution()).closeStdin();
  }

  async signal(execId: string, signal: string | number): Promise<void> {
    await (await this.#execution(execId)).signal(signal);
  }

  async kill(execId: string): Promise<void> {
    await this.#exec(execId).kill();
  }

  async resize(execId: string, columns: number, rows: number): Promise<void> {
    await (await this.#execution(execId)).resize(columns, rows);
  }

  /** Kills all that run without a call that waits for their end. */
  async killUnattended(): Promise<void> {
    await this.settled();
    const left = this.#parts.store.list().filter(({ isAttended }) => !isAttended);
    await Promise.all(left.map((exec) => exec.kill()));
  }

  /** Nothing of an exec that has ended is known any more when it resolves. Errors: `not_found`. */
  async forget(execId: string): Promise<void> {
    await this.#parts.store.forget(this.#exec(execId));
  }

  #exec(execId: string): RecordedExec {
    return this.#parts.store.get(execId);
  }

  #execution(execId: string): Promise<RunnerExecution> {
    return this.#exec(execId).execution();
  }

  #launch(
    request: SessionExecRequest,
    window: Window,
    collectors: Collectors | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Launched> {
    const launching = this.#tryLaunch(request, window, collectors, signal);
    this.#launching.add(launching);
    const done = (): void => void this.#launching.delete(launching);
    launching.then(done, done);
    return launching;
  }

  async #tryLaunch(
    request: SessionExecRequest,
    window: Window,
    collectors: Collectors | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Launched> {
    if (this.#refusal !== null) throw this.#refusal;
    this.#checkRoom();
    this.admit(request);
    const generation = this.#generation;
    const { runner, sandbox, secrets } = this.#parts;
    const full = runnerRequest(request);
    const { set, isNew } = secrets.with(request.secret_env, request.labels);
    secrets.hold(set);
    try {
      // The values must be found again before the first byte can show one.
      if (isNew) await this.#saved(set);
      const execution = await runner.call((client) => client.exec(sandbox, full, signal, 'caller'));
      if (generation !== this.#generation) throw await this.#undo(execution);
      const exec = this.#record(full, window, set, execution, collectors);
      if (signal !== undefined) drainOnAbort(exec, signal);
      return { exec, execution };
    } catch (error) {
      secrets.release(set);
      throw error;
    }
  }

  async #saved(set: KnownSet): Promise<void> {
    const { secrets, state } = this.#parts;
    try {
      await state.save();
    } catch (error) {
      secrets.withdraw(set);
      throw error;
    }
    secrets.saved(set);
  }

  #checkRoom(): void {
    // One that is being started is in the store before it has left the set.
    if (this.#parts.store.running + this.#launching.size < MOST_RUNNING) return;
    throw new BoxkiteError('capacity', `${MOST_RUNNING} commands of this sandbox run already`, {
      details: { limit: 'running commands', running: MOST_RUNNING },
    });
  }

  /** Kills what was started for a generation that is over; the answer is what its caller is told. */
  async #undo(execution: RunnerExecution): Promise<BoxkiteError> {
    await new Promise<void>((resolve) => {
      execution.whenEnded(() => resolve());
      execution.discard();
    });
    return this.#refusal ?? generationGone();
  }

  #record(
    request: ExecRequest & { readonly cwd: string },
    window: Window,
    set: KnownSet,
    execution: RunnerExecution,
    collectors: Collectors | undefined,
  ): RecordedExec {
    const { shelf, store, state, secrets } = this.#parts;
    const now = Date.now();
    const meta: StartMeta = {
      sequence: this.#sequence,
      exec_id: `${state.instance}-${execution.exec_id}`,
      instance: state.instance,
      runner_exec: execution.exec_id,
      argv: request.argv.slice(),
      cwd: request.cwd,
      tty: request.tty !== undefined,
      started_at: new Date(now).toISOString(),
      deadline: request.timeout_ms === undefined ? null : now + request.timeout_ms,
      block: request.overflow === 'block',
      window,
      known: set.id,
    };
    this.#sequence += 1;
    const log = new ExecLog(new StreamLog(window), new StreamLog(window));
    const exec = new RecordedExec({
      meta,
      effective: execution.effective,
      log,
      storage: new ExecStorage(shelf, meta, log, execution.effective),
      raw: { stdout: new RawStream(set.known), stderr: new RawStream(set.known) },
      collectors,
      onEnd: (ended) => {
        store.ended(ended);
        secrets.release(set);
      },
    });
    store.add(exec);
    exec.attach(execution);
    return exec;
  }
}

/** Until its end: the signal may be that of many calls. */
function drainOnAbort(exec: RecordedExec, signal: AbortSignal): void {
  const drain = (): void => exec.drain();
  const done = (): void => signal.removeEventListener('abort', drain);
  signal.addEventListener('abort', drain, { once: true });
  exec.ended.then(done, done);
}

function notKept(cause: unknown): BoxkiteError {
  return new BoxkiteError('state_unavailable', 'the record of the command could not be written', { cause });
}

function ignore(): void {
  // It is tried again: a start with the first output and the end, a removal when the session is opened.
}
