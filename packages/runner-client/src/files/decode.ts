import { PayloadReader } from './payload.ts';
import type { FileEntry, FileStat, FileType } from './types.ts';

const types: readonly FileType[] = [
  'unknown',
  'file',
  'directory',
  'symlink',
  'fifo',
  'socket',
  'character_device',
  'block_device',
];

/** Reads the 40 bytes of a file's attributes. */
export function decodeStat(reader: PayloadReader): FileStat {
  const type = types[reader.u8()] ?? 'unknown';
  reader.raw(3);
  const mode = reader.u32();
  const size = reader.u64();
  const seconds = reader.i64();
  const mtimeMs = seconds * 1000 + reader.u32() / 1e6;
  return { type, mode, size, mtimeMs, links: reader.u32(), inode: reader.u64() };
}

/** Reads attributes followed by the target of a link. */
export function decodeStatAndTarget(reader: PayloadReader): FileStat {
  const stat = decodeStat(reader);
  const target = reader.bytes();
  return stat.type === 'symlink' ? { ...stat, target } : stat;
}

/** Reads all entries of a batch. */
export function* decodeEntries(payload: Uint8Array): Generator<FileEntry> {
  const reader = new PayloadReader(payload);
  while (reader.more) {
    const bytes = reader.bytes();
    yield { path: bytes.toString(), bytes, ...decodeStatAndTarget(reader) };
  }
}
