/** What a key may be: the same for every store, so that what one takes the others take too. */
import { BoxkiteError } from '@boxkite/protocol';

/** Bytes of a key, as the narrowest store counts them. */
const MOST_KEY_BYTES = 1024;
/** Bytes between two slashes: a file name with one byte to spare. */
const MOST_SEGMENT_BYTES = 254;

/** Whether text is one part of a key: no slash, no control character, neither `.` nor `..`, and no lone surrogate. */
export function isSegment(text: string): boolean {
  if (text === '' || text === '.' || text === '..' || !text.isWellFormed()) return false;
  if (/[/\\\u0000-\u001f\u007f]/.test(text)) return false;
  return Buffer.byteLength(text) <= MOST_SEGMENT_BYTES;
}

/** Whether text is a key: segments with a slash between each two. */
export function isKey(text: string): boolean {
  return text !== '' && Buffer.byteLength(text) <= MOST_KEY_BYTES && text.split('/').every(isSegment);
}

/** Errors: `invalid_request`. */
export function checkKey(key: string): void {
  if (isKey(key)) return;
  throw new BoxkiteError(
    'invalid_request',
    'a key is to have 1 to 1,024 bytes: names with single slashes between them',
    {
      hint: 'Use no empty name, no `.` or `..`, no backslash, no control character, and at most 254 bytes a name.',
      details: { field: 'key' },
    },
  );
}

/** The segments of a listing's prefix, which is empty or ends with a slash. Errors: `invalid_request`. */
export function prefixSegments(prefix: string): readonly string[] {
  if (prefix === '') return [];
  if (!prefix.endsWith('/')) {
    throw new BoxkiteError('invalid_request', 'a prefix is to be empty or to end with a slash', {
      details: { field: 'prefix' },
    });
  }
  const key = prefix.slice(0, -1);
  checkKey(key);
  return key.split('/');
}

/** Byte order, in which every store lists. */
export function byBytes(a: string, b: string): number {
  // Code units have the order of bytes but where surrogates meet what is above them.
  if (LATE.test(a) && LATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

const LATE = /[\ud800-\uffff]/;
