/** Background processes of the reference: views over the execs that were started as such. */
import { processOf, processRequest } from '@boxkite/kit';
import { BoxkiteError, type ExecSummary } from '@boxkite/protocol';
import { z } from 'zod';
import type { Budget } from './budget.ts';
import { exitCodeOf } from './exit-code.ts';
import { generationGone } from './generation.ts';
import type { SessionCore, SessionPart } from './part.ts';
import { ProcessInput } from './process-input.ts';
import { endOfCharacters, startOfCharacters } from './utf8.ts';

/** What is to run. */
export interface ProcessSpec {
  /** A line for `sh -c`. */
  readonly command: string;
  readonly description: string | null;
  /** Everything of it is killed then. */
  readonly maxRuntimeSeconds: number;
}

/** Where a process is, and its exit code once it has ended. */
export interface ProcessState {
  readonly status: 'running' | 'exited' | 'stopped' | 'killed';
  /** Minus the number of the signal that ended it. */
  readonly exit_code: number | null;
}

/** A process as lists show it. */
export interface ProcessJson extends ProcessState {
  readonly process_id: string;
  readonly exec_id: string;
  readonly command: string;
  readonly description: string | null;
  /** ISO 8601, UTC. */
  readonly started_at: string;
  readonly expose_port: null;
}

/** Output from an offset on. */
export interface ProcessOutput extends ProcessState {
  readonly stdout_chunk: string;
  /** Bytes of the merged output. */
  readonly next_offset: number;
  /** Bytes before the chunk are no longer kept. */
  readonly truncated: boolean;
}

/** Why the processes ended that did not end by themselves, by exec. */
const keptSchema = z.record(z.string(), z.enum(['stopped', 'killed']));

/** Ended ones that are kept; the oldest go first. */
const MOST_ENDED = 100;

type Core = Pick<SessionCore, 'execs' | 'settings' | 'save' | 'found' | 'use'>;

/** Of one session. Errors of what takes an id: `not_found`. */
export class Processes implements SessionPart {
  readonly #core: Core;
  readonly #budget: Budget;
  #ends = new Map<string, 'stopped' | 'killed'>();
  /** Of what runs or is being started: one each. */
  readonly #running = new Set<object>();
  readonly #starting = new Set<Promise<unknown>>();
  readonly #stopping = new Map<string, Promise<void>>();
  readonly #inputs = new Map<string, ProcessInput>();

  constructor(core: Core, budget: Budget) {
    this.#core = core;
    this.#budget = budget;
    const found = keptSchema.safeParse(core.found('processes'));
    if (found.success) this.#ends = new Map(Object.entries(found.data));
    for (const { exec_id } of this.#alive()) this.#watch(exec_id, {});
  }

  kept(): Readonly<Record<string, 'stopped' | 'killed'>> {
    return Object.fromEntries(this.#ends);
  }

  reset(): void {
    this.#ends.clear();
    this.#stopping.clear();
    this.#inputs.clear();
  }

  async spent(): Promise<void> {
    await this.#killRunning();
  }

  /** Errors: `capacity`, `session_budget_exceeded`. */
  async start({ command, description, maxRuntimeSeconds }: ProcessSpec): Promise<ProcessJson> {
    const { running, outputBytes } = this.#core.settings.processes;
    if (this.#running.size >= running) {
      throw new BoxkiteError('capacity', `${running} background processes run already`, {
        hint: 'Stop one of them, or wait until one has ended.',
        details: { limit: 'background processes', running },
      });
    }
    const place = {};
    this.#running.add(place);
    try {
      const use = this.#core.use();
      this.#core.execs.admit(processRequest(command, description, maxRuntimeSeconds));
      await this.#budget.reserve();
      if (use !== this.#core.use()) throw generationGone();
      // Errors go where output goes, so that their order is kept; the newest bytes are.
      const request = {
        ...processRequest(command, description, maxRuntimeSeconds),
        keeps: { head: 0, tail: outputBytes },
      };
      const summary = await this.#tracked(this.#core.execs.start(request));
      this.#watch(summary.exec_id, place);
      if (this.#budget.isSpent) await this.#killRunning();
      const json = this.#json(this.#core.execs.look(summary.exec_id));
      await this.#prune();
      return json;
    } catch (error) {
      this.#running.delete(place);
      throw error;
    }
  }

  /** In the order of their start. */
  list(): readonly ProcessJson[] {
    return this.#all().map((summary) => this.#json(summary));
  }

  get(processId: string): ProcessJson {
    return this.#json(this.#find(processId));
  }

  /** What it wrote from `since` on, stdout and stderr in their order; no character is cut. */
  async output(processId: string, since: number, signal?: AbortSignal): Promise<ProcessOutput> {
    const summary = this.#find(processId);
    const total = summary.stdout_bytes;
    const asked = Math.min(since, total);
    const from = Math.max(asked, total - this.#core.settings.processes.outputBytes);
    let truncated = from > asked;
    let next = from;
    const chunks: Uint8Array[] = [];
    const range = { stdout: from, only: 'stdout', follow: false } as const;
    for await (const event of this.#core.execs.output(summary.exec_id, range, signal)) {
      if (event.type === 'ended') break;
      if (event.type === 'gap') {
        truncated = true;
        next = event.to;
      } else {
        chunks.push(event.data);
        next = event.offset + event.data.length;
      }
      if (next >= total) break;
    }
    const bytes = Buffer.concat(chunks);
    const begin = truncated ? startOfCharacters(bytes) : 0;
    const end = summary.record === null ? endOfCharacters(bytes) : bytes.length;
    return {
      ...this.#state(summary),
      stdout_chunk: bytes.toString('utf8', Math.min(begin, end), end),
      next_offset: next - (bytes.length - end),
      truncated,
    };
  }

  /** Resolves with how many of the bytes it gets. Errors: `exec_ended`, `stdin_closed`, `capacity`. */
  async write(processId: string, data: Uint8Array): Promise<number> {
    return this.#input(processId).write(data);
  }

  /** What was written before still reaches it. */
  async closeInput(processId: string): Promise<void> {
    const { exec_id } = this.#find(processId);
    await this.#input(processId).close(() => this.#core.execs.closeStdin(exec_id));
  }

  /** SIGTERM, time to end by itself, then SIGKILL of everything. Resolves when nothing of it is alive. */
  async stop(processId: string): Promise<ProcessState> {
    const { exec_id, record } = this.#find(processId);
    if (record === null) {
      let stopping = this.#stopping.get(exec_id);
      if (stopping === undefined) {
        stopping = this.#stop(exec_id).finally(() => this.#stopping.delete(exec_id));
        this.#stopping.set(exec_id, stopping);
      }
      await stopping;
    }
    return this.#state(this.#find(processId));
  }

  /** Kills all of them, and forgets them with their output. The answer is how many were alive. */
  async killAll(): Promise<number> {
    const killed = await this.#killRunning();
    for (const { exec_id, record } of this.#all()) if (record !== null) await this.#forget(exec_id);
    await this.#core.save();
    return killed;
  }

  async #killRunning(): Promise<number> {
    await Promise.allSettled(this.#starting);
    const alive = this.#alive().map(({ exec_id }) => exec_id);
    for (const id of alive) this.#ends.set(id, 'killed');
    if (alive.length > 0) await this.#core.save();
    await Promise.all(alive.map((id) => this.#core.execs.kill(id)));
    return alive.length;
  }

  async #stop(execId: string): Promise<void> {
    const { execs } = this.#core;
    // Before it can end by the signal: a process that handles it ends like any other one.
    this.#ends.set(execId, 'stopped');
    await this.#core.save();
    const ended = execs.ended(execId).then(() => true);
    // This process may stop while the signal is under way, when nothing else hears of it.
    ended.catch(ignore);
    try {
      await execs.signal(execId, 'SIGTERM');
    } catch (error) {
      if (this.#ends.get(execId) === 'stopped') this.#ends.delete(execId);
      if (!(error instanceof BoxkiteError) || error.code !== 'exec_ended') throw error;
      await this.#core.save();
    }
    const late = Promise.withResolvers<false>();
    const timer = setTimeout(() => late.resolve(false), this.#core.settings.processes.graceSeconds * 1000);
    const inTime = await Promise.race([ended, late.promise]).finally(() => clearTimeout(timer));
    if (!inTime) await execs.kill(execId);
  }

  #tracked<T>(starting: Promise<T>): Promise<T> {
    this.#starting.add(starting);
    const done = (): void => void this.#starting.delete(starting);
    starting.then(done, done);
    return starting;
  }

  #watch(execId: string, place: object): void {
    this.#running.add(place);
    const done = (): void => {
      this.#running.delete(place);
      this.#inputs.delete(execId);
    };
    this.#core.execs.ended(execId).then(done, done);
  }

  async #prune(): Promise<void> {
    const all = this.#all();
    const ended = all.filter(({ record }) => record !== null);
    // Records go by themselves too.
    const there = new Set(all.map(({ exec_id }) => exec_id));
    for (const id of this.#ends.keys()) if (!there.has(id)) this.#ends.delete(id);
    for (const { exec_id } of ended.slice(0, Math.max(0, ended.length - MOST_ENDED))) {
      // What is left of its files is removed when the session is opened again.
      await this.#forget(exec_id).catch(() => undefined);
    }
  }

  async #forget(execId: string): Promise<void> {
    this.#ends.delete(execId);
    try {
      await this.#core.execs.forget(execId);
    } catch (error) {
      // Somebody else was faster.
      if (!(error instanceof BoxkiteError) || error.code !== 'not_found') throw error;
    }
  }

  #input(processId: string): ProcessInput {
    const { exec_id } = this.#find(processId);
    const known = this.#inputs.get(exec_id);
    if (known !== undefined) return known;
    const input = new ProcessInput((data) => this.#core.execs.write(exec_id, data));
    if (this.#find(processId).record === null) this.#inputs.set(exec_id, input);
    return input;
  }

  #all(): readonly ExecSummary[] {
    return this.#core.execs.all.filter(({ argv }) => processOf(argv) !== null);
  }

  #alive(): readonly ExecSummary[] {
    return this.#all().filter(({ record }) => record === null);
  }

  #find(processId: string): ExecSummary {
    const execId = execIdOf(processId);
    try {
      const found = execId === null ? null : this.#core.execs.look(execId);
      if (found !== null && processOf(found.argv) !== null) return found;
    } catch (error) {
      if (!(error instanceof BoxkiteError) || error.code !== 'not_found') throw error;
    }
    throw new BoxkiteError('not_found', 'there is no such process', { details: { kind: 'process' } });
  }

  #state({ exec_id, record }: ExecSummary): ProcessState {
    if (record === null) return { status: 'running', exit_code: null };
    const byItself = record.end === 'exited' || record.end === 'signaled';
    return { status: this.#ends.get(exec_id) ?? (byItself ? 'exited' : 'killed'), exit_code: exitCodeOf(record) };
  }

  #json(summary: ExecSummary): ProcessJson {
    const { exec_id, started_at, argv } = summary;
    const { command, description } = processOf(argv) ?? { command: '', description: null };
    const process_id = processIdOf(exec_id);
    return { process_id, exec_id, command, description, ...this.#state(summary), started_at, expose_port: null };
  }
}

/** In the reference's form: 32 hexadecimal digits. Of an exec's id: ten of the runner's life, then its number. */
function processIdOf(execId: string): string {
  const [instance = '', number = '0'] = execId.split('-');
  return `proc_${instance}${BigInt(number).toString(16).padStart(22, '0')}`;
}

/** `null` for what is no such id. */
function execIdOf(processId: string): string | null {
  const [, instance, number] = /^proc_([0-9a-f]{10})([0-9a-f]{22})$/.exec(processId) ?? [];
  return instance === undefined ? null : `${instance}-${BigInt(`0x${number}`)}`;
}

function ignore(): void {
  // Whoever waits for it gets the error.
}
