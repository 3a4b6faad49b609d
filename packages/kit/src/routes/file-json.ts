import type { FileInfo } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** A file as the header of its content has it: JSON in which all that is not ASCII is escaped. */
export function fileInfoHeader(info: FileInfo): string {
  return JSON.stringify(info).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** A file as the reference's list has it, with our fields beside. */
export function listedFile(info: FileInfo) {
  return {
    ...info,
    is_dir: info.type === 'directory',
    modified_at: new Date(Math.max(0, info.modified_ms)).toISOString(),
  };
}

/** Part of a file. */
export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/**
 * The part that a Range header asks for; `null` for the whole, also for what is no single range of bytes. Errors:
 * `range_not_satisfiable`.
 */
export function byteRange(header: string | undefined, size: number): ByteRange | null {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return null;
  if (first === '') {
    const length = Math.min(Number(last), size);
    if (length === 0) throw unsatisfiable(size);
    return { offset: size - length, length };
  }
  const offset = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  // A range that ends before it begins is none, and is ignored as HTTP says.
  if (last !== '' && Number(last) < offset) return null;
  if (offset >= size) throw unsatisfiable(size);
  return { offset, length: end - offset + 1 };
}

function unsatisfiable(size: number): BoxkiteError {
  return new BoxkiteError('range_not_satisfiable', `the file has ${size} bytes`, { details: { size } });
}
