/** What happens to one sandbox: start, stop, destroy, and what its substrate tells about it. */
import type { SandboxPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { Accounts } from './accounts.ts';
import type { Clock } from './clock.ts';
import type { Operation, Session } from './session.ts';
import type { SandboxHandle, Substrate, SubstrateEvent } from './substrate.ts';

/** Told of failures that no caller gets. */
export type Report = (what: string, error: unknown, sandbox: string | null) => void;

/** What a lifecycle is made of. */
export interface LifecycleParts {
  readonly substrate: Substrate;
  readonly clock: Clock;
  readonly accounts: Accounts;
  readonly report: Report;
  /** The session is finished: nothing of it is left. */
  readonly onFinished: (session: Session) => void;
}

const GONE_REASONS = { runner_lost: 'runner_lost', failed: 'sandbox_failed', destroyed: 'sandbox_failed' } as const;

/** Runs the transitions. Decisions are made in one step in memory; the store confirms them. */
export class Lifecycle {
  readonly #parts: LifecycleParts;
  readonly #handles = new Map<SandboxHandle, Session>();

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** The session is reached by this handle from now on. */
  attach(session: Session, handle: SandboxHandle, port: SandboxPort | null): void {
    session.handle = handle;
    session.port = port;
    session.lost = null;
    this.#handles.set(handle, session);
  }

  /**
   * Makes the sandbox of a session that is `creating`; resolves when it is `ready`. Otherwise nothing of it is left but a
   * workspace that was there before. Errors: those of the substrate, `closing`, `aborted`, `state_unavailable`.
   */
  start(session: Session, reopen: boolean, signal?: AbortSignal): Promise<void> {
    return this.#operate(session, 'start', signal, (abort) => this.#start(session, reopen, abort));
  }

  /** Ends everything in a sandbox and keeps its `disk` workspace. Errors: `workspace_not_kept`, `state_unavailable`. */
  stop(session: Session, reason: string): Promise<void> {
    return this.#operate(session, 'stop', undefined, () => this.#stop(session, reason));
  }

  /** Resolves when nothing is left; calls at the same time are one. An operation that runs is aborted. */
  destroy(session: Session, reason: string): Promise<void> {
    session.ending ??= this.#destroy(session, reason).finally(() => {
      session.ending = null;
    });
    return session.ending;
  }

  /** What the substrate tells. */
  onEvent(event: SubstrateEvent): void {
    if (event.type !== 'gone') return;
    const session = this.#handles.get(event.handle);
    if (session === undefined) return;
    this.#detach(session);
    const reason = GONE_REASONS[event.reason];
    session.lost = reason;
    this.#noticeLoss(session);
  }

  /** A destroy or an operation finds out by itself, unless it was over but for its last word. */
  #noticeLoss(session: Session): void {
    const { lost, ending, operation, row } = session;
    if (lost === null || ending !== null || operation !== null || row.state !== 'ready') return;
    this.fail(session, lost).catch((error: unknown) => this.#parts.report('a loss', error, row.id));
  }

  /** What is gone is said to be: `failed` with the true reason, and whether its files are kept. */
  async fail(session: Session, reason: string): Promise<void> {
    this.#detach(session);
    const kept = session.row.kind === 'disk' && (await this.#isKept(session));
    if (session.ending !== null || session.row.destroyed_at !== null) return;
    await session.record({
      state: 'failed',
      state_reason: reason,
      goal: null,
      kept,
      destroyed_at: kept ? null : this.#now(session),
    });
    if (!kept) this.#finish(session);
  }

  #operate(
    session: Session,
    kind: Operation['kind'],
    signal: AbortSignal | undefined,
    run: (abort: AbortSignal) => Promise<void>,
  ): Promise<void> {
    // A destroy that began first has nothing to wait for.
    if (session.ending !== null || session.row.destroyed_at !== null) return Promise.reject(destroyed(session));
    const abort = new AbortController();
    const stop = (): void => abort.abort();
    if (signal?.aborted === true) stop();
    signal?.addEventListener('abort', stop, { once: true });
    const result = run(abort.signal).finally(() => {
      session.operation = null;
      signal?.removeEventListener('abort', stop);
      this.#noticeLoss(session);
    });
    session.operation = { kind, abort, done: result.catch(() => undefined) };
    return result;
  }

  async #start(session: Session, reopen: boolean, abort: AbortSignal): Promise<void> {
    session.lost = null;
    try {
      const handle = await this.#make(session, reopen, abort);
      const { port } = await this.#parts.substrate.endpoint(handle);
      session.port = port;
      await this.#confirm(session, port, abort);
    } catch (error) {
      await this.#undoStart(session, reopen, error);
      throw abort.aborted ? cancelled(session) : error;
    }
  }

  async #make(session: Session, reopen: boolean, abort: AbortSignal): Promise<SandboxHandle> {
    if (abort.aborted) throw cancelled(session);
    const { spec, id, kind } = session.row;
    const handle = await this.#parts.substrate.start(
      { ...spec, id, workspace: kind, ...(reopen ? { reopen: true } : {}) },
      abort,
    );
    this.attach(session, handle, null);
    return handle;
  }

  async #confirm(session: Session, port: SandboxPort, abort: AbortSignal): Promise<void> {
    if (abort.aborted || session.ending !== null) throw cancelled(session);
    const ready = await session.move(['creating'], {
      state: 'ready',
      state_reason: null,
      goal: null,
      kept: session.row.kind === 'disk',
      effective: port.effective,
    });
    if (!ready || abort.aborted || session.ending !== null) throw cancelled(session);
    if (session.lost !== null) throw new BoxkiteError('runner_lost', 'the sandbox was lost while it was started');
  }

  /** Leaves nothing but a workspace that was there before. */
  async #undoStart(session: Session, reopen: boolean, error: unknown): Promise<void> {
    const disposed = (await this.#dispose(session, reopen)) && (reopen || (await this.#discard(session)));
    // The destroy that aborted it goes on from here.
    if (session.ending !== null) return;
    if (!disposed) {
      await session.record({ state: 'stopping', state_reason: 'start_failed', goal: reopen ? 'stop' : 'destroy' });
      return;
    }
    const lost = session.lost ?? (error instanceof BoxkiteError && error.code === 'runner_lost' ? 'runner_lost' : null);
    const wasCancelled = error instanceof BoxkiteError && (error.code === 'aborted' || error.code === 'closing');
    if (reopen && wasCancelled && lost === null) {
      await session.record({ state: 'stopped', state_reason: 'requested', goal: null, kept: true });
      return;
    }
    if (!reopen) {
      await session.record({
        state: wasCancelled ? 'destroyed' : 'failed',
        state_reason: wasCancelled ? 'requested' : (lost ?? 'start_failed'),
        goal: null,
        kept: false,
        destroyed_at: this.#now(session),
      });
      this.#finish(session);
      return;
    }
    await this.fail(session, lost ?? 'start_failed');
  }

  /** Ends what a start had made. Where that fails the session keeps its handle, and `retry` goes on. */
  async #dispose(session: Session, keepFiles: boolean): Promise<boolean> {
    const { substrate, report } = this.#parts;
    const { handle } = session;
    session.port = null;
    if (handle === null) return true;
    try {
      await (keepFiles ? substrate.stop(handle) : substrate.destroy(handle));
    } catch (error) {
      // A sandbox that went by itself has left nothing to end.
      if (session.handle === null) return true;
      report('leftovers of a start', error, session.row.id);
      return false;
    }
    this.#detach(session);
    return true;
  }

  /** Goes on with what was left half done, by a failure or by the end of a former process. */
  async retry(session: Session): Promise<void> {
    const { row } = session;
    if (session.ending !== null || session.operation !== null || row.state !== 'stopping') return;
    if (row.goal !== 'stop') return this.destroy(session, row.state_reason ?? 'requested');
    await this.#operate(session, 'stop', undefined, () => this.#finishStop(session, row.state_reason ?? 'requested'));
  }

  async #stop(session: Session, reason: string): Promise<void> {
    const moved =
      session.handle !== null &&
      (await session.move(['ready'], { state: 'stopping', state_reason: reason, goal: 'stop' }));
    if (session.ending !== null) throw cancelled(session);
    if (!moved) throw notReady(session);
    await this.#finishStop(session, reason);
  }

  async #finishStop(session: Session, reason: string): Promise<void> {
    const { handle } = session;
    session.port = null;
    try {
      if (handle !== null) await this.#parts.substrate.stop(handle);
    } catch (error) {
      await this.#afterFailedStop(session, error);
      throw error;
    }
    this.#detach(session);
    if (session.ending !== null) throw cancelled(session);
    if (handle === null && !(await this.#isKept(session))) return this.fail(session, 'runner_lost');
    if (session.ending !== null) throw cancelled(session);
    await session.record({ state: 'stopped', state_reason: reason, goal: null, kept: true });
  }

  async #afterFailedStop(session: Session, error: unknown): Promise<void> {
    if (session.ending !== null) return;
    const { handle } = session;
    const ready = handle !== null && session.lost === null && (await this.#isReady(session));
    if (session.ending !== null) return;
    // Half stopped stays so, and is tried again.
    if (handle === null || session.lost !== null) return this.fail(session, session.lost ?? 'sandbox_failed');
    if (!ready && !(error instanceof BoxkiteError && error.code === 'workspace_not_kept')) return;
    const { port } = await this.#parts.substrate.endpoint(handle);
    if (session.ending !== null || session.handle !== handle) return;
    session.port = port;
    await session.record({ state: 'ready', state_reason: null, goal: null });
  }

  async #destroy(session: Session, reason: string): Promise<void> {
    const { substrate } = this.#parts;
    const { operation } = session;
    operation?.abort.abort();
    await operation?.done;
    if (session.row.state === 'destroyed') return;
    if (session.row.destroyed_at !== null) {
      // It had failed, and left nothing.
      await session.record({ state: 'destroyed', state_reason: reason, goal: null });
      return;
    }
    // The store may be full: what is destroyed frees room, so that it goes on and is written down later.
    await session.record({ state: 'stopping', state_reason: reason, goal: 'destroy', destroyed_at: null });
    const handle = session.handle;
    session.port = null;
    if (handle !== null) await substrate.destroy(handle);
    this.#detach(session);
    if (session.row.kind === 'disk') await substrate.discard(session.row.id);
    await session.record({
      state: 'destroyed',
      state_reason: reason,
      goal: null,
      kept: false,
      destroyed_at: this.#now(session),
    });
    this.#finish(session);
  }

  #detach(session: Session): void {
    if (session.handle !== null) this.#handles.delete(session.handle);
    session.handle = null;
    session.port = null;
  }

  #finish(session: Session): void {
    if (session.finished) return;
    session.finished = true;
    const { account, created_at, destroyed_at } = session.row;
    this.#parts.accounts.finished(account, created_at, destroyed_at ?? this.#parts.clock.wall());
    this.#parts.onFinished(session);
  }

  /** A clock that was set back makes nothing end before it began. */
  #now(session: Session): number {
    return Math.max(session.row.created_at, this.#parts.clock.wall());
  }

  async #discard(session: Session): Promise<boolean> {
    if (session.row.kind !== 'disk') return true;
    try {
      await this.#parts.substrate.discard(session.row.id);
      return true;
    } catch (error) {
      this.#parts.report('the workspace of a start that failed', error, session.row.id);
      return false;
    }
  }

  /** Where it can't be told, a workspace counts as kept: nothing throws away what may be there. */
  async #isKept(session: Session): Promise<boolean> {
    try {
      return (await this.#parts.substrate.workspaces()).includes(session.row.id);
    } catch (error) {
      this.#parts.report('looking for a workspace', error, session.row.id);
      return true;
    }
  }

  async #isReady(session: Session): Promise<boolean> {
    try {
      const observed = await this.#parts.substrate.list();
      return observed.some(({ handle, state }) => handle === session.handle && state === 'ready');
    } catch (error) {
      this.#parts.report('looking for a sandbox', error, session.row.id);
      return false;
    }
  }
}

/** Refuses what only a ready sandbox can do. */
export function notReady(session: Pick<Session, 'row'>): BoxkiteError {
  const { state, state_reason, id } = session.row;
  return new BoxkiteError('sandbox_not_ready', `the sandbox is ${state}`, {
    details: { sandbox: id, state, reason: state_reason },
  });
}

function cancelled(session: Session): BoxkiteError {
  return session.ending === null
    ? new BoxkiteError('aborted', 'the call was cancelled by its caller')
    : destroyed(session);
}

function destroyed(session: Session): BoxkiteError {
  return new BoxkiteError('closing', 'the sandbox was destroyed meanwhile', { details: { sandbox: session.row.id } });
}
