/**
 * Where sandboxes come from. One Linux machine (`local`) and a cluster (`kubernetes`) implement it; everything else of
 * the manager is written against it.
 */
import type { SandboxPort, SandboxSpec, SandboxUsage } from '@boxkite/protocol';

/** Names one sandbox within its substrate; opaque to everybody else. */
export type SandboxHandle = string & { readonly __brand: 'SandboxHandle' };

/** The kind of sandbox that can be made ahead: everything of a spec that can't be bound later. */
export type Shape = Pick<SandboxSpec, 'rootfs'>;

/** What is bound when a made-ahead sandbox is claimed. */
export type Binding = Omit<SubstrateSpec, 'rootfs'>;

/** A sandbox to be made. Label and lifetime are the manager's and not the substrate's. */
export interface SubstrateSpec extends Omit<SandboxSpec, 'copy' | 'label' | 'lifetime_minutes'> {
  /** The sandbox's id for ever, a UUID; a `disk` workspace is kept under it. */
  readonly id: string;
  /** The `disk` workspace of this id exists and is opened with all that it holds; where it is gone: `workspace_not_kept`. */
  readonly reopen?: boolean | undefined;
}

/** What happens to sandboxes; each is `gone` once. */
export type SubstrateEvent =
  | { readonly type: 'ready'; readonly handle: SandboxHandle }
  | { readonly type: 'gone'; readonly handle: SandboxHandle; readonly reason: 'destroyed' | 'runner_lost' | 'failed' };

/** A sandbox as its substrate sees it now. */
export interface ObservedSandbox {
  readonly handle: SandboxHandle;
  /** The id of its spec, by which a restarted manager knows whose it is; where that is not known any more, the handle. */
  readonly id: string;
  readonly state: 'creating' | 'ready' | 'stopping';
  readonly usage: SandboxUsage | null;
}

/** How a sandbox is reached. A cluster adds a kind with URL, token and pinned certificate. */
export type Endpoint = { readonly kind: 'port'; readonly port: SandboxPort };

/**
 * Idempotency: `destroy` and `list` may be repeated; `start` and `claim` may not, unless they failed with a retryable
 * error, in which case nothing was made. Errors: `BoxkiteError` codes `isolation_unavailable`, `capacity`,
 * `invalid_request`, `runner_lost`.
 */
export interface Substrate {
  /** Makes a sandbox; resolves when it works. Aborting leaves nothing behind. */
  start(spec: SubstrateSpec, signal?: AbortSignal): Promise<SandboxHandle>;
  /** Takes one that was made ahead, or `null` where none of this shape is ready. */
  claim(shape: Shape, binding: Binding, signal?: AbortSignal): Promise<SandboxHandle | null>;
  /** Errors: `not_found`. */
  endpoint(handle: SandboxHandle): Promise<Endpoint>;
  /** Resolves when nothing of it is left; resolves too for one that is unknown. A destroy during a start wins. */
  destroy(handle: SandboxHandle): Promise<void>;
  /** Ends everything in it and keeps its `disk` workspace under the sandbox's id. Errors: `workspace_not_kept`, and then nothing has ended. */
  stop(handle: SandboxHandle): Promise<void>;
  /** Removes the kept workspace of a sandbox that is not running; resolves too where there is none. */
  discard(id: string): Promise<void>;
  /** Ids whose `disk` workspace is kept, running ones included. */
  workspaces(): Promise<readonly string[]>;
  /** All that exist now, made by this process or found at its start. Usage is measured only where it is asked for. */
  list(options?: { readonly usage?: boolean }): Promise<readonly ObservedSandbox[]>;
  /** Events from now on, until the signal aborts. */
  watch(signal: AbortSignal): AsyncIterable<SubstrateEvent>;
}
