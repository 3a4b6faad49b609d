/**
 * Reads one member of a zip archive that is held in memory. The archive's hash is checked before it gets here, so only
 * what pip's wheels use is understood: no zip64, no encryption, stored or deflated members.
 */
import { inflateRawSync } from 'node:zlib';

const END_OF_DIRECTORY = 0x06054b50;
const DIRECTORY_ENTRY = 0x02014b50;
const LOCAL_ENTRY = 0x04034b50;
const LARGEST_MEMBER = 64 * 1024 * 1024;

/** Thrown when an archive is not of the understood form or lacks the member. */
export class ZipError extends Error {
  override readonly name = 'ZipError';
}

interface Entry {
  readonly method: number;
  readonly packedBytes: number;
  readonly headerOffset: number;
}

/** Gives the bytes of the member with exactly this name. Throws ZipError. */
export function readZipMember(archive: Buffer, name: string): Buffer {
  const entry = findEntry(archive, name);
  if (entry.headerOffset + 30 > archive.length || archive.readUInt32LE(entry.headerOffset) !== LOCAL_ENTRY)
    throw new ZipError(`the header of ${name} is damaged`);
  const nameLength = archive.readUInt16LE(entry.headerOffset + 26);
  const extraLength = archive.readUInt16LE(entry.headerOffset + 28);
  const start = entry.headerOffset + 30 + nameLength + extraLength;
  const packed = archive.subarray(start, start + entry.packedBytes);
  if (packed.length !== entry.packedBytes) throw new ZipError(`${name} is cut off`);
  if (entry.method === 0) return packed;
  if (entry.method === 8) return inflateRawSync(packed, { maxOutputLength: LARGEST_MEMBER });
  throw new ZipError(`${name} is packed by method ${entry.method}`);
}

function findEntry(archive: Buffer, wanted: string): Entry {
  let end = archive.length - 22;
  while (end >= 0 && archive.readUInt32LE(end) !== END_OF_DIRECTORY) end -= 1;
  if (end < 0) throw new ZipError('this is no zip archive');
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    if (at + 46 > archive.length || archive.readUInt32LE(at) !== DIRECTORY_ENTRY)
      throw new ZipError('the directory is damaged');
    const nameLength = archive.readUInt16LE(at + 28);
    if (archive.toString('utf8', at + 46, at + 46 + nameLength) === wanted)
      return {
        method: archive.readUInt16LE(at + 10),
        packedBytes: archive.readUInt32LE(at + 20),
        headerOffset: archive.readUInt32LE(at + 42),
      };
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  throw new ZipError(`${wanted} is not in the archive`);
}
