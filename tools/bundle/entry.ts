/**
 * First module of the bundle: turns on Node's compile cache, then loads the program. A module that is imported
 * statically is compiled before any code runs, so the program has to come by `import()`.
 */
import { lstatSync, mkdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { userInfo } from 'node:os';
import { join } from 'node:path';

/**
 * The cache holds code that this process will run, so it lies in a directory that nobody else can write: never the
 * shared temporary directory (Node's default), nor one named by an environment that another user may have set.
 */
function cacheDirectory(): string | undefined {
  try {
    const { uid, homedir } = userInfo();
    const base = uid === 0 ? '/var/cache' : join(homedir, '.cache');
    const directory = join(base, 'boxkite');
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const found = lstatSync(directory);
    return found.isDirectory() && found.uid === uid && (found.mode & 0o022) === 0 ? directory : undefined;
  } catch {
    // No home, a read-only one, or no entry for this uid: the program is only compiled anew at each start.
    return undefined;
  }
}

const directory = cacheDirectory();
if (directory !== undefined) enableCompileCache(directory);
await import('../../packages/cli/src/main.ts');
