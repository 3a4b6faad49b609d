import type { RunnerClient } from './runner-client.ts';

/** A runner as what lives on it holds it: its start, its end and what keeps this process alive are its owner's matter. */
export interface RunnerAccess {
  /** Runs one call; its owner may turn the failure of a runner that never served into a better one. */
  call<T>(run: (client: RunnerClient) => Promise<T>): Promise<T>;
  /** Whether calls can't succeed any more. */
  readonly ended: boolean;
  /** Resolves, never rejects, when the connection to the runner is gone. */
  readonly lost: Promise<void>;
  /** Keeps this process from ending until the returned function is called. Absent where something else does. */
  hold?(): () => void;
}
