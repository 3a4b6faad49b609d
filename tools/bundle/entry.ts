/**
 * First module of the bundle: turns on Node's compile cache, then loads the program. A module that is imported
 * statically is compiled before any code runs, so the program has to come by `import()`.
 */
import { lstatSync, mkdirSync } from 'node:fs';
import * as nodeModule from 'node:module';
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

// An older one would fail somewhere inside the program, with a message that names no version.
const [major = 0] = process.versions.node.split('.').map(Number);
if (major < 24) {
  process.stderr.write(`boxkite: this needs Node.js 24 or newer, and runs under ${process.versions.node}\n`);
  process.exit(1);
}
const directory = cacheDirectory();
// Of the namespace, since an older Node.js refuses the import of a name that it lacks before any code runs.
if (directory !== undefined) nodeModule.enableCompileCache(directory);
await import('../../packages/cli/src/main.ts');
