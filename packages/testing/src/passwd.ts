/** This process's user as `/etc/passwd` has it, where the native programs look too; a user id may have no entry. */
import { readFileSync } from 'node:fs';

/** Name and home directory of an entry. */
export interface PasswdEntry {
  readonly name: string;
  readonly home: string;
}

/** The first entry of a user id, of this process's user by default. */
export function passwdEntry(uid: number | undefined = process.getuid?.()): PasswdEntry | undefined {
  for (const line of readFileSync('/etc/passwd', 'utf8').split('\n')) {
    const [name = '', , id, , , home = ''] = line.split(':');
    if (id === String(uid)) return { name, home };
  }
  return undefined;
}
