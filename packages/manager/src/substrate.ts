/**
 * Where sandboxes come from. One Linux machine (`local`) and a cluster (`kubernetes`) implement it; everything else of
 * the manager is written against it.
 */
import type { SandboxPort, SandboxSpec } from '@boxkite/protocol';

/** Names one sandbox within its substrate; opaque to everybody else. */
export type SandboxHandle = string & { readonly __brand: 'SandboxHandle' };

/** The kind of sandbox that can be made ahead: everything of a spec that can't be bound later. */
export type Shape = Pick<SandboxSpec, 'rootfs'>;

/** What is bound when a made-ahead sandbox is claimed. */
export type Binding = Omit<SandboxSpec, 'rootfs'>;

/** What happens to sandboxes; each is `gone` once. */
export type SubstrateEvent =
  | { readonly type: 'ready'; readonly handle: SandboxHandle }
  | { readonly type: 'gone'; readonly handle: SandboxHandle; readonly reason: 'destroyed' | 'runner_lost' | 'failed' };

/** A sandbox as its substrate sees it now. */
export interface ObservedSandbox {
  readonly handle: SandboxHandle;
  readonly state: 'creating' | 'ready' | 'stopping';
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
  start(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle>;
  /** Takes one that was made ahead, or `null` where none of this shape is ready. */
  claim(shape: Shape, binding: Binding, signal?: AbortSignal): Promise<SandboxHandle | null>;
  /** Errors: `not_found`. */
  endpoint(handle: SandboxHandle): Promise<Endpoint>;
  /** Resolves when nothing of it is left; resolves too for one that is unknown. A destroy during a start wins. */
  destroy(handle: SandboxHandle): Promise<void>;
  list(): Promise<readonly ObservedSandbox[]>;
  /** Events from now on, until the signal aborts. */
  watch(signal: AbortSignal): AsyncIterable<SubstrateEvent>;
}
