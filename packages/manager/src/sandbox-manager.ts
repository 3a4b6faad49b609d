import { setImmediate } from 'node:timers/promises';
import type { SandboxPort, SandboxSpec, SandboxState, SandboxSummary, SandboxUsage, v1 } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { Accounts } from './accounts.ts';
import { Deadlines } from './deadlines.ts';
import { Lifecycle, notReady } from './lifecycle.ts';
import type { ListQuery, ManagerLimits, ManagerParts, Page } from './manager-types.ts';
import type { Access } from './records.ts';
import { closing, mayUse, newRow, notFound, notKept } from './records.ts';
import { inTurns, recover } from './recovery.ts';
import { Session } from './session.ts';
import { SharedCall } from './shared-call.ts';
import type { SandboxRow } from './store.ts';
import type { Substrate } from './substrate.ts';
import { deadlineOf, grant, summaryOf } from './summary.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
/** Turns of the event loop that accept a connection, read its request and answer it. */
const PARTING_TURNS = 3;

/**
 * Holds sandboxes by their records: states, deadlines, capacity, recovery. What runs is found in memory alone, so that a
 * call to a ready sandbox reads no store.
 */
export class SandboxManager {
  readonly #parts: ManagerParts;
  readonly #sessions = new Map<string, Session>();
  readonly #accounts: Accounts;
  readonly #lifecycle: Lifecycle;
  readonly #deadlines: Deadlines;
  readonly #watching = new AbortController();
  /** Destroyed, and nobody was told yet. */
  readonly #parting = new Map<string, Session>();
  /** Of all sandboxes, whoever asks: it takes time from what starts their commands. */
  readonly #usage: SharedCall<ReadonlyMap<string, SandboxUsage>>;
  #unknownWorkspaces: readonly string[] = [];
  #closing = false;
  #nextForget: number;

  private constructor(parts: ManagerParts) {
    this.#parts = parts;
    this.#accounts = new Accounts(parts.limits, parts.store, parts.clock);
    this.#lifecycle = new Lifecycle({ ...parts, accounts: this.#accounts, onFinished: (one) => this.#finished(one) });
    this.#deadlines = new Deadlines(parts.clock, () => this.#look());
    this.#usage = new SharedCall(
      () => usageOf(parts.substrate),
      () => parts.clock.monotonic(),
    );
    this.#nextForget = parts.clock.monotonic();
  }

  /** Starts from the records: what runs is taken over, what was left half done is finished. Errors: `state_unavailable`. */
  static async open(parts: ManagerParts): Promise<SandboxManager> {
    const manager = new SandboxManager(parts);
    await manager.#recover();
    return manager;
  }

  /** Kept workspaces that no record names. */
  get unknownWorkspaces(): readonly string[] {
    return this.#unknownWorkspaces;
  }

  /** What may be handed out. */
  get limits(): ManagerLimits {
    return this.#parts.limits;
  }

  /**
   * Makes one or several alike, all or none. Errors: `concurrent_sandbox_limit_reached`, `global_capacity_reached`,
   * `invalid_request`, `closing` where one was destroyed meanwhile, `state_unavailable`, those of the substrate.
   */
  async create(
    account: string,
    spec: SandboxSpec,
    options: { readonly count?: number; readonly signal?: AbortSignal } = {},
  ): Promise<readonly SandboxSummary[]> {
    this.#refuseClosing();
    const { count = 1, signal } = options;
    const minutes = this.#minutes(spec.lifetime_minutes ?? this.#parts.limits.defaultLifetimeMinutes);
    this.#accounts.reserve(account, count);
    const sessions = await this.#insert(account, spec, minutes, count);
    if (this.#closing) await Promise.all(sessions.map((one) => this.#lifecycle.destroy(one, 'daemon_stopped')));
    const started = await Promise.allSettled(sessions.map((one) => this.#lifecycle.start(one, false, signal)));
    const failed = started.find((result) => result.status === 'rejected');
    if (failed === undefined) return sessions.map((one) => this.#summary(one));
    await Promise.allSettled(
      sessions.filter(({ row }) => row.state === 'ready').map((one) => this.#lifecycle.destroy(one, 'start_failed')),
    );
    throw failed.reason;
  }

  /** The port of a ready one. Errors: `not_found`, `sandbox_not_ready`, `closing`. */
  async port(id: string, access: Access): Promise<SandboxPort> {
    const session = this.#sessions.get(id);
    if (session?.port != null && session.ending === null && mayUse(session.row, access)) return session.port;
    const row = await this.#row(id, access);
    if (row.state === 'destroyed') throw notFound();
    if (session !== undefined && session.ending !== null) throw closing(id);
    throw notReady({ row });
  }

  /** Errors: `not_found`; one that is destroyed is found for as long as its record is kept. */
  async get(id: string, access: Access): Promise<SandboxSummary> {
    const session = this.#sessions.get(id);
    if (session !== undefined && mayUse(session.row, access)) return this.#summary(session);
    return summaryOf(await this.#row(id, access), this.#parts.clock);
  }

  /** Oldest first. Errors: `state_unavailable`. */
  async list(access: Access, query: ListQuery): Promise<Page> {
    const { limit, after } = query;
    const account = access.admin ? null : access.account;
    const most = limit === null ? null : limit + 1;
    const stored = query.activeOnly ? [] : await this.#parts.store.finished({ account, after, limit: most });
    const found = new Map<number, SandboxSummary>();
    for (const row of stored) found.set(row.seq, summaryOf(row, this.#parts.clock));
    for (const session of this.#sessions.values()) {
      const { row } = session;
      if (row.seq <= after || !mayUse(row, access)) continue;
      if (query.activeOnly && row.destroyed_at !== null) continue;
      found.set(row.seq, this.#summary(session));
    }
    const order = [...found.keys()].sort((a, b) => a - b);
    const page = limit === null ? order : order.slice(0, limit);
    const sandboxes = page.flatMap((seq) => found.get(seq) ?? []);
    return { sandboxes, next: order.length > page.length ? (page.at(-1) ?? null) : null };
  }

  /** Moves the deadline to `minutes` from now: once this resolves it holds. Errors: `not_found`, `closing`, `invalid_request`, `state_unavailable`. */
  async extend(id: string, access: Access, minutes: number): Promise<SandboxSummary> {
    const checked = this.#minutes(minutes);
    const session = await this.#session(id, access);
    // One after the other, so that each is measured from a deadline that holds.
    const extended = session.extending.then(() => this.#extend(session, checked));
    session.extending = extended.catch(() => undefined);
    await extended;
    return this.#summary(session);
  }

  /** Ends everything in it and keeps its files. Errors: `not_found`, `workspace_not_kept`, `sandbox_not_ready`, `closing`. */
  async stop(id: string, access: Access): Promise<SandboxSummary> {
    const session = await this.#session(id, access);
    if (session.ending !== null) throw closing(id);
    if (session.row.kind !== 'disk') throw notKept(id);
    if (session.operation?.kind === 'start') await session.operation.done;
    if (session.operation?.kind === 'stop') await session.operation.done;
    else if (session.row.state === 'ready') await this.#lifecycle.stop(session, 'requested');
    if (session.ending !== null) throw closing(id);
    if (session.row.state !== 'stopped') throw notReady(session);
    return this.#summary(session);
  }

  /** Makes a stopped or failed one ready again, with its files and no process. Errors: as `stop`, and those of a create. */
  async start(id: string, access: Access, signal?: AbortSignal): Promise<SandboxSummary> {
    this.#refuseClosing();
    const session = await this.#session(id, access);
    if (session.ending !== null) throw closing(id);
    if (session.operation !== null) await session.operation.done;
    const { state, kept, state_reason } = session.row;
    if (session.ending === null && session.operation === null && (state === 'stopped' || state === 'failed')) {
      if (!kept) throw notKept(id);
      await this.#restart(session, signal, state_reason);
    } else if (session.operation !== null) await session.operation.done;
    if (session.ending !== null) throw closing(id);
    if (session.row.state !== 'ready' || session.port === null) throw notReady(session);
    return this.#summary(session);
  }

  /**
   * Resolves when nothing of it is left; a create that runs is aborted, and calls at the same time are one. Errors:
   * `not_found`, also for one that is destroyed; those of the substrate, and then it is tried again by itself.
   */
  async destroy(id: string, access: Access, reason = 'requested'): Promise<void> {
    const session = this.#parting.get(id) ?? this.#sessions.get(id);
    if (session !== undefined && mayUse(session.row, access) && (this.#parting.has(id) || isAlive(session))) {
      await this.#lifecycle.destroy(session, reason);
      this.#parting.set(id, session);
      // Calls that are on their way came before anybody could know of the end: they are part of this one.
      for (let turn = 0; turn < PARTING_TURNS; turn += 1) await setImmediate();
      this.#parting.delete(id);
      return;
    }
    const row = await this.#row(id, access);
    if (row.state === 'destroyed') throw notFound();
    // One that failed and left nothing: its record says the rest.
    await this.#parts.store.update(
      { ...row, state: 'destroyed', state_reason: reason, version: row.version + 1 },
      row.version,
    );
  }

  /** What an account uses: the reference's summary. */
  usage(account: string): Promise<v1.UsageSummary> {
    return this.#accounts.usage(account, this.#sessions.values());
  }

  /** What each ready sandbox uses, measured now or a moment ago. */
  measure(): Promise<ReadonlyMap<string, SandboxUsage>> {
    return this.#usage.get();
  }

  /** How many there are by state, without those that are finished. */
  counts(): Record<Exclude<SandboxState, 'destroyed'>, number> {
    const counts = { creating: 0, ready: 0, stopping: 0, stopped: 0, failed: 0 };
    for (const { row } of this.#sessions.values()) {
      if (row.state !== 'destroyed' && row.destroyed_at === null) counts[row.state] += 1;
    }
    return counts;
  }

  /**
   * Ends the manager. `daemon_stopped`: `disk` sandboxes are stopped and kept, all others destroyed. `release`: all are
   * left running for the next manager.
   */
  async close(how: 'daemon_stopped' | 'release'): Promise<void> {
    this.#closing = true;
    this.#deadlines.stop();
    if (how === 'daemon_stopped') await inTurns(this.#sessions.values(), (session) => this.#end(session));
    this.#watching.abort();
    await Promise.allSettled([...this.#sessions.values()].map((session) => session.flush()));
  }

  async #extend(session: Session, minutes: number): Promise<void> {
    const { clock } = this.#parts;
    const { id, goal } = session.row;
    const before = session.deadline;
    if (session.ending !== null || goal === 'destroy' || before <= clock.monotonic()) throw closing(id);
    const granted = grant(clock, minutes);
    const deadline = granted.monotonic + minutes * MINUTE;
    // A later one counts at once, so that the old one can't come while it is being stored; an earlier one once it is.
    session.deadline = Math.max(before, deadline);
    try {
      const moved = await session.move(['creating', 'ready', 'stopping', 'stopped', 'failed'], {
        expires_at: granted.wall + minutes * MINUTE,
        grant: granted,
      });
      if (!moved || session.ending !== null) throw closing(id);
      session.deadline = deadline;
    } catch (error) {
      session.deadline = before;
      throw error;
    } finally {
      this.#deadlines.expect(session.deadline);
    }
  }

  async #end(session: Session): Promise<void> {
    try {
      if (session.row.kind === 'tmpfs' || session.row.goal === 'create' || session.ending !== null) {
        return await this.#lifecycle.destroy(session, 'daemon_stopped');
      }
      await session.operation?.done;
      if (session.row.state === 'ready') await this.#lifecycle.stop(session, 'daemon_stopped');
      else await this.#lifecycle.retry(session);
    } catch (error) {
      this.#parts.report('the end of a sandbox', error, session.row.id);
    }
  }

  async #recover(): Promise<void> {
    const { store, clock, substrate, report } = this.#parts;
    for (const row of await store.unfinished()) {
      this.#sessions.set(row.id, new Session(row, deadlineOf(row, clock), store));
      this.#accounts.adopt(row.account, 1);
    }
    const events = substrate.watch(this.#watching.signal);
    const { unknownWorkspaces } = await recover([...this.#sessions.values()], {
      substrate,
      lifecycle: this.#lifecycle,
      report,
    });
    this.#unknownWorkspaces = unknownWorkspaces;
    this.#follow(events).catch((error: unknown) => report('the events of the substrate', error, null));
    this.#deadlines.run();
  }

  async #follow(events: ReturnType<Substrate['watch']>): Promise<void> {
    for await (const event of events) this.#lifecycle.onEvent(event);
  }

  async #insert(account: string, spec: SandboxSpec, minutes: number, count: number): Promise<readonly Session[]> {
    const { store, clock } = this.#parts;
    const granted = grant(clock, minutes);
    const rows = Array.from({ length: count }, () => newRow(account, spec, granted));
    let stored: readonly SandboxRow[];
    try {
      stored = await store.insert(rows);
    } catch (error) {
      this.#accounts.release(account, count);
      throw error;
    }
    this.#accounts.created(account, count);
    const deadline = granted.monotonic + minutes * MINUTE;
    this.#deadlines.expect(deadline);
    return stored.map((row) => {
      const session = new Session(row, deadline, store);
      this.#sessions.set(row.id, session);
      return session;
    });
  }

  async #restart(session: Session, signal: AbortSignal | undefined, reason: string | null): Promise<void> {
    const moved = await session.move(['stopped', 'failed'], { state: 'creating', state_reason: null, goal: 'start' });
    if (session.ending !== null) throw closing(session.row.id);
    // Somebody else has begun to start it.
    if (!moved) return void (await session.operation?.done);
    try {
      await this.#lifecycle.start(session, true, signal);
    } catch (error) {
      if (session.row.state === 'stopped' && reason !== null) await session.record({ state_reason: reason });
      throw error;
    }
  }

  /** What is due is done; returns when to look again. */
  #look(): number {
    const { clock, report } = this.#parts;
    const now = clock.monotonic();
    let next = Number.POSITIVE_INFINITY;
    for (const session of this.#sessions.values()) {
      const { row } = session;
      const complain = (error: unknown): void => report('the end of a sandbox', error, row.id);
      if (session.behind) session.flush().then(() => this.#forgetFinished(session), complain);
      if (row.destroyed_at !== null || session.ending !== null) continue;
      if (session.deadline <= now) this.#lifecycle.destroy(session, 'lifetime').catch(complain);
      else if (row.state === 'stopping') this.#lifecycle.retry(session).catch(complain);
      else next = Math.min(next, session.deadline);
    }
    if (now >= this.#nextForget) {
      this.#nextForget = now + DAY / 24;
      const oldest = clock.wall() - this.#parts.limits.retentionDays * DAY;
      this.#parts.store.forget(oldest).catch((error: unknown) => report('dropping old records', error, null));
    }
    return next;
  }

  #finished(session: Session): void {
    this.#accounts.release(session.row.account, 1);
    this.#forgetFinished(session);
  }

  /** What the store lacks stays in memory, where it is found, until the store has it. */
  #forgetFinished(session: Session): void {
    if (!session.behind && session.row.destroyed_at !== null) this.#sessions.delete(session.row.id);
  }

  #summary(session: Session): SandboxSummary {
    const { row } = session;
    const deadline = row.destroyed_at === null ? session.deadline : undefined;
    return summaryOf(row, this.#parts.clock, deadline);
  }

  async #session(id: string, access: Access): Promise<Session> {
    const session = this.#sessions.get(id);
    if (session !== undefined && mayUse(session.row, access) && session.row.destroyed_at === null) return session;
    const row = await this.#row(id, access);
    if (row.state === 'destroyed') throw notFound();
    throw row.kind === 'tmpfs' ? notKept(id) : notReady({ row });
  }

  async #row(id: string, access: Access): Promise<SandboxRow> {
    const row = this.#sessions.get(id)?.row ?? (await this.#parts.store.get(id));
    if (row === undefined || !mayUse(row, access)) throw notFound();
    return row;
  }

  #minutes(minutes: number): number {
    const { maxLifetimeMinutes } = this.#parts.limits;
    if (Number.isInteger(minutes) && minutes >= 1 && minutes <= maxLifetimeMinutes) return minutes;
    throw new BoxkiteError('invalid_request', `a sandbox lives for 1 to ${maxLifetimeMinutes} minutes`, {
      details: { field: 'lifetime_minutes', limit: maxLifetimeMinutes },
    });
  }

  #refuseClosing(): void {
    if (this.#closing) throw new BoxkiteError('state_unavailable', 'the daemon is stopping');
  }
}

async function usageOf(substrate: Substrate): Promise<ReadonlyMap<string, SandboxUsage>> {
  const observed = await substrate.list({ usage: true });
  return new Map(observed.flatMap(({ id, usage }) => (usage === null ? [] : [[id, usage] as const])));
}

function isAlive(session: Session): boolean {
  return session.row.state !== 'destroyed';
}
