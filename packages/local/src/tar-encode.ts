/**
 * Encodes tar headers (POSIX ustar, with pax records where a field doesn't fit). A generator that is pulled needs only
 * this, no stream object that must be torn down when its reader leaves.
 */

/** One entry of an archive. */
export interface TarEntry {
  readonly name: string;
  readonly type: 'file' | 'directory' | 'symlink';
  /** Permission bits. */
  readonly mode: number;
  /** Bytes of content that follow; 0 for all but files. */
  readonly size: number;
  /** Seconds since 1970, with fractions. */
  readonly mtime: number;
  /** Where a link leads. */
  readonly target?: string | undefined;
}

const BLOCK = 512;
const NAME_BYTES = 100;
/** The largest number of 11 octal digits. */
const MAX_OCTAL = 8 ** 11 - 1;
const TYPES = { file: '0', symlink: '2', directory: '5' } as const;
const PAX_TYPE = 'x';

/** The end of an archive. */
export const TAR_END: Uint8Array = new Uint8Array(2 * BLOCK);

/** Zeros from the end of a content of this size to the next block. */
export function tarPadding(size: number): Uint8Array {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The header of an entry, with the pax header before it where one is needed. */
export function tarHeader(entry: TarEntry): Uint8Array {
  const name = Buffer.from(entry.type === 'directory' ? `${entry.name}/` : entry.name);
  const target = Buffer.from(entry.target ?? '');
  const records: Buffer[] = [];
  if (name.length > NAME_BYTES) records.push(paxRecord('path', name));
  if (target.length > NAME_BYTES) records.push(paxRecord('linkpath', target));
  if (entry.size > MAX_OCTAL) records.push(paxRecord('size', Buffer.from(String(entry.size))));
  const plain = block({ ...entry, type: TYPES[entry.type], name, target });
  if (records.length === 0) return plain;
  const pax = Buffer.concat(records);
  const before = block({
    name: Buffer.from('pax'),
    type: PAX_TYPE,
    mode: 0o644,
    size: pax.length,
    mtime: 0,
    target: Buffer.alloc(0),
  });
  return Buffer.concat([before, pax, tarPadding(pax.length), plain]);
}

/** `LENGTH key=value\n`, where LENGTH counts its own digits. */
function paxRecord(key: string, value: Buffer): Buffer {
  const rest = key.length + value.length + 3;
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length = rest + String(length).length;
  return Buffer.concat([Buffer.from(`${length} ${key}=`), value, Buffer.from('\n')]);
}

interface RawHeader {
  readonly name: Buffer;
  readonly type: string;
  readonly mode: number;
  readonly size: number;
  readonly mtime: number;
  readonly target: Buffer;
}

function block(header: RawHeader): Buffer {
  const out = Buffer.alloc(BLOCK);
  header.name.copy(out, 0, 0, NAME_BYTES);
  octal(out, 100, 8, header.mode & 0o7777);
  // Owners mean nothing in the sandbox, where everything belongs to its one user.
  octal(out, 108, 8, 0);
  octal(out, 116, 8, 0);
  octal(out, 124, 12, header.size > MAX_OCTAL ? 0 : header.size);
  octal(out, 136, 12, Math.min(Math.max(0, Math.floor(header.mtime)), MAX_OCTAL));
  out.fill(0x20, 148, 156);
  out.write(header.type, 156, 'latin1');
  header.target.copy(out, 157, 0, NAME_BYTES);
  out.write('ustar\x0000', 257, 'latin1');
  const sum = out.reduce((total, byte) => total + byte, 0);
  out.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return out;
}

function octal(out: Buffer, at: number, width: number, value: number): void {
  out.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1');
}
