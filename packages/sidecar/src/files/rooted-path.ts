/** Paths of the reference's file calls: their words are looked at here, what is behind them only by the file agent. */
import { BoxkiteError } from '@boxkite/protocol';
import { canonicalPath, isWithinRoots } from '../session/paths.ts';

const READ_ONLY = ['/mnt/user-data/uploads', '/mnt/skills'] as const;
/** Above the roots; they can be listed and watched. */
const ABOVE: ReadonlySet<string> = new Set(['/mnt', '/mnt/user-data']);

/** The absolute path in a root that is meant. Errors: `bad_request`. */
export function rootedPath(path: string): string {
  const canonical = canonicalPath(path);
  if (!isWithinRoots(canonical)) throw outside(canonical);
  return canonical;
}

/** The same for what is to be written. Errors also: `read_only`. */
export function writablePath(path: string): string {
  const canonical = rootedPath(path);
  if (READ_ONLY.some((root) => canonical === root || canonical.startsWith(`${root}/`))) {
    throw new BoxkiteError('read_only', `${canonical} is in a read-only root`, { details: { path: canonical } });
  }
  return canonical;
}

/** The same as `rootedPath`, and the directories above the roots. */
export function directoryPath(path: string): string {
  const canonical = canonicalPath(path);
  if (!isWithinRoots(canonical) && !ABOVE.has(canonical)) throw outside(canonical);
  return canonical;
}

function outside(path: string): BoxkiteError {
  return new BoxkiteError('bad_request', `${path} is outside of the roots of the sandbox`, {
    hint: 'Use a path below /workspace, /mnt/user-data, /mnt/skills or /tmp.',
    details: { field: 'path' },
  });
}
