/**
 * Turns on Node's compile cache for a service of the bundle, which writes it when it serves. It lies in the home that
 * `supervise` gives, which only the service user can write.
 */
import { mkdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

function cacheDirectory(): string | undefined {
  const home = process.env['HOME'];
  if (process.env['BOXKITE_SUPERVISED'] !== '1' || home === undefined) return undefined;
  try {
    const directory = join(home, 'compile-cache');
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    return directory;
  } catch {
    // A full disk: the program is only compiled anew.
    return undefined;
  }
}

const directory = cacheDirectory();
if (directory !== undefined) enableCompileCache(directory);
