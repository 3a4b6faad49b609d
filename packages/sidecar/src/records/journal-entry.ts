/**
 * Entries of the journal: header of 24 bytes, then four parts. Header: kind u8 · 3 × 0 · CRC-32 u32 of all that follows it
 * · lengths of the parts u32: `meta` (JSON), `effective` (JSON or nothing), kept bytes of stdout, kept bytes of stderr.
 * Little-endian. An entry that is cut or damaged ends its segment.
 */
import { crc32 } from 'node:zlib';

/** `start`: a command runs. `end`: it has ended; says all that `start` said. */
export type EntryKind = 'start' | 'end';

/** What an entry is made of. */
export interface EntryParts {
  readonly kind: EntryKind;
  /** JSON. */
  readonly meta: string;
  /** JSON of what was measured; many entries share it. */
  readonly effective: string;
  readonly stdout: readonly Uint8Array[];
  readonly stderr: readonly Uint8Array[];
}

/** An entry found in a segment; offsets are of the segment. */
export interface FoundEntry {
  readonly kind: EntryKind;
  readonly meta: string;
  readonly effective: string;
  readonly position: number;
  readonly length: number;
  readonly stdout: { readonly position: number; readonly length: number };
  readonly stderr: { readonly position: number; readonly length: number };
}

const HEADER_BYTES = 24;
const KINDS: readonly (EntryKind | undefined)[] = [undefined, 'start', 'end'];

function sum(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((total, piece) => total + piece.length, 0);
}

/** The pieces of an entry and where its output is in them. */
export function encodeEntry(parts: EntryParts): {
  readonly pieces: readonly Uint8Array[];
  readonly length: number;
  readonly stdoutAt: number;
  readonly stderrAt: number;
} {
  const meta = Buffer.from(parts.meta);
  const effective = Buffer.from(parts.effective);
  const [stdout, stderr] = [sum(parts.stdout), sum(parts.stderr)];
  const header = Buffer.alloc(HEADER_BYTES);
  header[0] = KINDS.indexOf(parts.kind);
  header.writeUInt32LE(meta.length, 8);
  header.writeUInt32LE(effective.length, 12);
  header.writeUInt32LE(stdout, 16);
  header.writeUInt32LE(stderr, 20);
  const pieces = [header, meta, effective, ...parts.stdout, ...parts.stderr];
  let check = crc32(header.subarray(8));
  for (const piece of pieces.slice(1)) check = crc32(piece, check);
  header.writeUInt32LE(check, 4);
  const stdoutAt = HEADER_BYTES + meta.length + effective.length;
  return { pieces, length: stdoutAt + stdout + stderr, stdoutAt, stderrAt: stdoutAt + stdout };
}

/** The whole entries at the beginning of a segment. */
export function* entriesOf(segment: Buffer): Generator<FoundEntry, void, undefined> {
  let at = 0;
  for (;;) {
    const found = entryAt(segment, at);
    if (found === null) return;
    yield found;
    at += found.length;
  }
}

function entryAt(segment: Buffer, at: number): FoundEntry | null {
  if (segment.length - at < HEADER_BYTES) return null;
  const kind = KINDS[segment.readUInt8(at)];
  const [meta, effective, stdout, stderr] = [8, 12, 16, 20].map((field) => segment.readUInt32LE(at + field)) as [
    number,
    number,
    number,
    number,
  ];
  const length = HEADER_BYTES + meta + effective + stdout + stderr;
  if (kind === undefined || segment.length - at < length) return null;
  if (crc32(segment.subarray(at + 8, at + length)) !== segment.readUInt32LE(at + 4)) return null;
  const metaAt = at + HEADER_BYTES;
  const outputAt = metaAt + meta + effective;
  return {
    kind,
    meta: segment.toString('utf8', metaAt, metaAt + meta),
    effective: segment.toString('utf8', metaAt + meta, outputAt),
    position: at,
    length,
    stdout: { position: outputAt, length: stdout },
    stderr: { position: outputAt + stdout, length: stderr },
  };
}
