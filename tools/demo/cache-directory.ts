import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where boxkite keeps what can be fetched again. A relative XDG_CACHE_HOME is ignored, as its specification says. */
export function cacheDirectory(xdgCacheHome: string | undefined): string {
  return join(xdgCacheHome?.startsWith('/') === true ? xdgCacheHome : join(homedir(), '.cache'), 'boxkite');
}
