/** One sandbox as its users hold it, for as long as it lives: execs with their records, and files. */
import { rm } from 'node:fs/promises';
import {
  BoxkiteError,
  type Effective,
  type ExecHandle,
  type ExecRequest,
  type FilesPort,
  PortExecHandle,
  type SandboxPort,
} from '@boxkite/protocol';
import {
  type ListedExec,
  type RunnerAccess,
  RunnerFiles,
  type RunnerListing,
  type SandboxId,
} from '@boxkite/runner-client';
import type { ObjectStore } from '@boxkite/storage';
import { keptInterpreter } from '../interpreter/interpreter.ts';
import { Journal } from '../records/journal.ts';
import { LogBudget } from '../records/log-budget.ts';
import { MOST_LOG_BYTES, RecordStore } from '../records/record-store.ts';
import { recover } from '../records/recovery.ts';
import { daemonSettings, type SidecarSettings } from '../settings.ts';
import { Skills } from '../skills/skills.ts';
import { programsOf } from './allowed-commands.ts';
import { ClientExecs } from './client-execs.ts';
import type { Configuration, Configured } from './configuration.ts';
import { CommandGate } from './gate.ts';
import { nextGeneration, wipe } from './generation.ts';
import { type KernelPrograms, mustBeEnforced } from './kernel-programs.ts';
import { KnownSecrets } from './known-secrets.ts';
import type { SessionPart } from './part.ts';
import { Redaction } from './redaction.ts';
import { keptOf, openServices, type SessionServices } from './services.ts';
import { SessionExecs } from './session-execs.ts';
import { SessionState, type StateBlob } from './session-state.ts';

/** What a session is made of. */
export interface SessionParts {
  readonly id: string;
  readonly sandbox: SandboxId;
  readonly effective: Effective;
  readonly runner: RunnerAccess;
  /** Private, of this sandbox alone; made when the first record is written. */
  readonly directory: string;
  readonly state: StateBlob;
  /** As `state`, for the notes of `/scratch`. Default: they end with this process. */
  readonly scratch?: StateBlob | undefined;
  /** Where `storage_prefix` of a configuration is. Default: it is refused. */
  readonly objects?: ObjectStore | undefined;
  /** Default: a daemon's. */
  readonly settings?: SidecarSettings | undefined;
  /** JSON of the command allowlist of the sandbox, for as long as it lives. Default: none. */
  readonly allowedCommands?: string | null | undefined;
  /** What the runner holds, where many sessions are opened at once; else it is asked. */
  readonly listing?: RunnerListing | undefined;
  /** Destroys the sandbox by its owner, who then calls `end`. Default: closes it at the runner, and ends. */
  readonly destroy?: (() => Promise<void>) | undefined;
}

/** Readers of a sandbox that goes get so long to take what is there. */
const LAST_READ_MS = 200;

/** A `SandboxPort` whose execs outlive their starters and a restart of this process. */
export class Session implements SandboxPort {
  readonly id: string;
  readonly effective: Effective;
  /** What hides secrets in everything that is shown. */
  readonly redaction: Redaction;
  /** What belongs to the present use beside execs and files. */
  readonly services: SessionServices;
  /** Of callers who have the values of secrets. */
  readonly execs: ClientExecs;
  /** Of callers whose `secret_env` names secrets that the session was granted. */
  readonly granted: ClientExecs;
  readonly #parts: SessionParts;
  #files: RunnerFiles;
  readonly #journal: Journal;
  readonly #store: RecordStore;
  readonly #execs: SessionExecs;
  readonly #state: SessionState;
  readonly #secrets: KnownSecrets;
  #configuring: Promise<unknown> = Promise.resolve();
  #use = 0;
  /** From the end of one use until the next one has begun, whatever fails meanwhile. */
  #isBetween = false;
  #touched = Date.now();
  #closed = false;
  #isEnding = false;
  #ending: Promise<void> | null = null;

  private constructor(parts: SessionParts, made: SessionMade) {
    this.id = parts.id;
    this.effective = parts.effective;
    this.#parts = parts;
    this.#files = new RunnerFiles(parts.runner, parts.sandbox);
    this.#journal = made.journal;
    this.#store = made.store;
    this.#execs = made.execs;
    this.#state = made.state;
    this.#secrets = made.secrets;
    this.redaction = new Redaction(made.secrets);
    this.services = openServices({
      id: parts.id,
      sandbox: parts.sandbox,
      runner: parts.runner,
      effective: parts.effective,
      settings: this.settings,
      directory: parts.directory,
      objects: parts.objects ?? null,
      scratch: parts.scratch ?? null,
      execs: made.execs,
      gate: made.gate,
      redaction: this.redaction,
      files: () => this.#files,
      provision: () => new RunnerFiles(parts.runner, parts.sandbox, 'provision'),
      use: () => this.#use,
      configured: () => made.state.configured,
      found: (part) => made.state.foundParts[part],
      save: () => made.state.save(),
    });
    made.state.parts = () => keptOf(this.services);
    const { budget, broker } = this.services;
    const clients = { execs: made.execs, budget, use: () => this.#use };
    this.execs = new ClientExecs(clients);
    this.granted = new ClientExecs({ ...clients, broker });
  }

  /** Resolves when it works: what an earlier process has left of it is found again. */
  static async open(parts: SessionParts): Promise<Session> {
    const journal = new Journal(parts.directory);
    const store = new RecordStore();
    let secrets = new KnownSecrets();
    const state = new SessionState(parts.state, () => secrets.kept());
    secrets = new KnownSecrets(state.foundSecrets);
    const shelf = { directory: parts.directory, journal, budget: new LogBudget(MOST_LOG_BYTES, store) };
    const { runner, sandbox, effective } = parts;
    const [listed] = await Promise.all([listedExecs(parts, state.found), state.found ? undefined : state.save()]);
    const instance = state.found ? state.instance : null;
    const interpreter = keptInterpreter(state.foundParts['interpreter']);
    const recorded = listed.filter(({ exec_id }) => exec_id !== interpreter);
    const sequence = await recover({ shelf, store, secrets, runner, effective, instance, listed: recorded });
    const gate = openGate(parts, state);
    await gate.settle();
    const execs = new SessionExecs({ sandbox, runner, shelf, store, state, secrets, gate }, sequence);
    const session = new Session(parts, { journal, store, execs, state, secrets, gate });
    if (state.isBetween) session.#leave();
    return session;
  }

  /** What its owner has set. */
  get settings(): SidecarSettings {
    return this.#parts.settings ?? daemonSettings;
  }

  /** Commands that have ended, and those of them that did not exit with 0. */
  get execCounts(): { readonly ended: number; readonly failed: number } {
    return this.#store.counts;
  }

  /** Of the last `/configure`; `null` before the first one. */
  get configured(): Configured | null {
    return this.#state.configured;
  }

  /** Changes when a use of the sandbox ends, and when the next one begins. */
  get use(): number {
    return this.#use;
  }

  /** Whether one use has ended and the next one has not begun: what comes now belongs to neither. */
  get isBetweenUses(): boolean {
    return this.#isBetween;
  }

  get files(): FilesPort {
    return this.#files;
  }

  /** Seconds since the last request or end of a command; 0 while one runs. */
  get idleSeconds(): number {
    if (this.running > 0 || this.services.interpreter.isBusy) return 0;
    return Math.max(0, Math.floor((Date.now() - Math.max(this.#touched, this.#store.lastEnd)) / 1000));
  }

  /** Somebody uses it. */
  touch(): void {
    this.#touched = Date.now();
  }

  /** Execs that run. */
  get running(): number {
    return this.#store.running;
  }

  async exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
    if (signal?.aborted === true) throw new BoxkiteError('aborted', 'the call was cancelled', { cause: signal.reason });
    const { exec_id } = await this.execs.start(request);
    const abort = (): void => {
      // Its end, or the loss of the runner, tells the rest.
      this.#execs.kill(exec_id).catch(() => undefined);
    };
    if (signal !== undefined) {
      signal.addEventListener('abort', abort);
      const done = (): void => signal.removeEventListener('abort', abort);
      this.#store.get(exec_id).ended.then(done, done);
      if (isAborted(signal)) abort();
    }
    const events = this.#execs.output(exec_id);
    // Leaving a loop loses nothing: the next one goes on.
    return new PortExecHandle(this.#execs, exec_id, this.effective, () => ({ next: () => events.next() }));
  }

  /**
   * Begins a generation, default the next one: everything of the one before is killed and removed when it resolves. The
   * same one with the same configuration changes nothing. Errors: `generation_gone` for a lower one, `conflict` for the
   * present one with another configuration.
   */
  configure(configuration: Configuration, generation?: number): Promise<Configured> {
    const configuring = this.#configuring.then(() => this.#configure(configuration, generation));
    this.#configuring = configuring.catch(() => undefined);
    return configuring;
  }

  async #configure(configuration: Configuration, generation?: number): Promise<Configured> {
    const before = this.#state.configured;
    const configured = nextGeneration(before, configuration, generation);
    if (configured === before) {
      if (!this.#isBetween) return before;
      throw new BoxkiteError('generation_gone', 'what was configured has ended: its files are removed', {
        hint: 'Configure the next generation.',
      });
    }
    const closing = this.#closing();
    if (closing !== null) throw closing;
    for (const part of this.#servicesList()) await part.check?.(configured);
    // A process that finds the use half removed must not go on with it.
    await this.#state.leave();
    this.#leave();
    await this.#execs.settled();
    await Promise.all(this.#store.list().map((exec) => exec.kill()));
    for (const part of this.#servicesList()) await part.reset();
    const { runner, sandbox } = this.#parts;
    await wipe(runner, sandbox, { skills: !Skills.staysFor(before, configured) });
    await Promise.all(this.#store.list().map((exec) => this.#store.forget(exec)));
    // An entry that nobody holds would be found again by the next process.
    await this.#journal.clear();
    this.#secrets.clear();
    this.#files = new RunnerFiles(runner, sandbox);
    for (const part of this.#servicesList()) await part.begin?.(configured);
    // Until here a failure leaves commands refused, and the same call again begins anew.
    await this.#state.configure(configured);
    const late = this.#closing();
    this.#use += 1;
    this.#isBetween = false;
    this.#execs.refuse(late);
    if (late === null) return configured;
    this.#files.close(late);
    throw late;
  }

  /** From here on what comes belongs to no use. */
  #leave(): void {
    const gone = new BoxkiteError('generation_gone', 'the sandbox is configured anew');
    this.#use += 1;
    this.#isBetween = true;
    this.#execs.refuse(gone);
    this.#files.close(gone);
  }

  #servicesList(): readonly SessionPart[] {
    return Object.values(this.services);
  }

  #closing(): BoxkiteError | null {
    if (this.#isEnding) return new BoxkiteError('closing', 'the sandbox is destroyed');
    return this.#closed ? new BoxkiteError('state_unavailable', 'the process that holds the sandbox stops') : null;
  }

  async destroy(): Promise<void> {
    if (this.#parts.destroy !== undefined) return this.#parts.destroy();
    this.#execs.refuse(new BoxkiteError('closing', 'the sandbox is being destroyed'));
    await this.#parts.runner.call((client) => client.closeSandbox(this.#parts.sandbox));
    await this.end();
  }

  /** This process stops: execs go on, and the next process finds all of them. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const error = new BoxkiteError('state_unavailable', 'the process that holds the sandbox stops');
    this.#execs.refuse(error);
    this.#files.close(error);
    await Promise.all(this.#servicesList().map(async (part) => part.close?.()));
    await Promise.all(this.#store.list().map((exec) => exec.stop(error)));
    await this.#journal.close();
  }

  /**
   * The sandbox is gone: what still runs has ended, readers get the rest and the end, and nothing is left on disk. Where
   * that fails, the next call goes on.
   */
  end(): Promise<void> {
    this.#isEnding = true;
    this.#ending ??= this.#end().catch((error: unknown) => {
      this.#ending = null;
      throw error;
    });
    return this.#ending;
  }

  async #end(): Promise<void> {
    this.#execs.refuse(new BoxkiteError('closing', 'the sandbox is destroyed'));
    this.#files.close();
    await Promise.all(this.#servicesList().map(async (part) => part.close?.()));
    const all = this.#store.list();
    for (const exec of all) exec.lose({ end: 'killed', reason: 'sandbox_closed' });
    await this.#lastRead();
    this.#closed = true;
    for (const exec of all) exec.abandon();
    await Promise.all(all.map((exec) => this.#store.forget(exec)));
    await this.#journal.close();
    await rm(this.#parts.directory, { recursive: true, force: true });
  }

  async #lastRead(): Promise<void> {
    const until = Date.now() + LAST_READ_MS;
    while (Date.now() < until && this.#store.list().some(({ log }) => log.readers > 0)) {
      await new Promise((resolve) => {
        setTimeout(resolve, 5);
      });
    }
  }
}

/** Execs that the runner holds of this sandbox; a sandbox that this process has just made has none. */
async function listedExecs({ listing, runner, sandbox }: SessionParts, found: boolean): Promise<readonly ListedExec[]> {
  if (!found) return [];
  const { execs } = listing ?? (await runner.call((client) => client.list()));
  return execs.filter((exec) => exec.sandbox === sandbox);
}

/** Asked anew after each wait, which is when it changes. */
function isAborted(signal: AbortSignal | undefined): signal is AbortSignal {
  return signal?.aborted === true;
}

/** With the list of the use that goes on. Errors: `invalid_request`. */
function openGate(
  { runner, sandbox, effective, settings = daemonSettings, allowedCommands }: SessionParts,
  state: SessionState,
) {
  const lists = { deployment: settings.allowedCommands, sandbox: allowedCommands ?? null };
  // Whoever opens the sandbox puts this into force, which a use can't take away.
  mustBeEnforced(programsOf(lists), effective);
  const kernel = async (programs: KernelPrograms): Promise<void> => {
    const policy = programs === null ? null : { programs };
    const set = await runner.call((client) => client.setPrograms(sandbox, policy));
    mustBeEnforced(programs, set.effective);
  };
  const used = state.configured?.sandbox_allowed_commands ?? null;
  return new CommandGate({ lists, used, kernel, found: state.foundParts['gate'], save: () => state.save() });
}

interface SessionMade {
  readonly gate: CommandGate;
  readonly journal: Journal;
  readonly store: RecordStore;
  readonly execs: SessionExecs;
  readonly state: SessionState;
  readonly secrets: KnownSecrets;
}
