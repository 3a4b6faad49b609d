/** Files of a run that Node alone reads. */
import { chmodSync, chownSync, writeFileSync } from 'node:fs';

/**
 * Writes a new file for one reader into a directory that the launcher's user alone can write. What it comes from may be
 * readable for root alone, and Node is never root.
 */
export function writePrivate(path: string, content: string | Buffer, reader: number): void {
  writeFileSync(path, content, { flag: 'wx', mode: 0o600 });
  if (reader !== process.geteuid?.()) chownSync(path, reader, reader);
  chmodSync(path, 0o400);
}
