/** The initial file system of the guest, as the kernel unpacks it: an archive in the format `newc`. */
import type { Module } from './modules.ts';

/** A file of the archive; directories need no mention of their own but `modules`. */
interface Entry {
  readonly name: string;
  readonly mode: number;
  readonly bytes: Uint8Array;
}

function record(index: number, { name, mode, bytes }: Entry): Buffer {
  const links = (mode & 0o40000) === 0 ? 1 : 2;
  const fields = [index, mode, 0, 0, links, 0, bytes.length, 0, 0, 0, 0, name.length + 1, 0];
  const head = `070701${fields.map((value) => value.toString(16).padStart(8, '0')).join('')}${name}\0`;
  const pad = (length: number): Buffer => Buffer.alloc((4 - (length % 4)) % 4);
  return Buffer.concat([Buffer.from(head, 'latin1'), pad(head.length), bytes, pad(bytes.length)]);
}

/** Packs busybox, the script that runs first, and the modules with the order in which they are loaded. */
export function packInitrd(busybox: Uint8Array, init: Uint8Array, modules: readonly Module[]): Buffer {
  const order = Buffer.from(modules.map(({ name }) => `${name}\n`).join(''));
  const entries: Entry[] = [
    { name: 'busybox', mode: 0o100755, bytes: busybox },
    { name: 'init', mode: 0o100755, bytes: init },
    { name: 'modules', mode: 0o40755, bytes: Buffer.alloc(0) },
    { name: 'modules/order', mode: 0o100644, bytes: order },
    ...modules.map(({ name, bytes }) => ({ name: `modules/${name}.ko`, mode: 0o100644, bytes })),
    { name: 'TRAILER!!!', mode: 0, bytes: Buffer.alloc(0) },
  ];
  return Buffer.concat(entries.map((entry, index) => record(index + 1, entry)));
}
