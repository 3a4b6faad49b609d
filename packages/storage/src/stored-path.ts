/**
 * Paths of stored files as text: each byte string has one text, and back. What is no UTF-8 is a NUL, which no path has, and
 * then each byte as the character of its number.
 */
import { isUtf8 } from 'node:buffer';

const RAW = '\0';
/** Linux takes no longer path, and none with a longer name. */
const MOST_PATH_BYTES = 4095;
const MOST_NAME_BYTES = 255;

/** The text of a path. */
export function textOfPath(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return isUtf8(buffer) ? buffer.toString('utf8') : RAW + buffer.toString('latin1');
}

/** The bytes of a path's text. */
export function bytesOfPath(text: string): Buffer {
  return text.startsWith(RAW) ? Buffer.from(text.slice(1), 'latin1') : Buffer.from(text, 'utf8');
}

/** Whether text is what `textOfPath` says of some bytes without NUL. */
export function isPathText(text: string): boolean {
  if (text === '' || !text.isWellFormed()) return false;
  const bytes = bytesOfPath(text);
  return !bytes.includes(0) && textOfPath(bytes) === text;
}

/** Whether a path leads downwards by plain names alone, at least two of them. */
export function isStoredPath(text: string): boolean {
  if (!isPathText(text)) return false;
  const bytes = bytesOfPath(text);
  if (bytes.length > MOST_PATH_BYTES) return false;
  const names = bytes.toString('latin1').split('/');
  return (
    names.length > 1 &&
    names.every((name) => name !== '' && name !== '.' && name !== '..' && name.length <= MOST_NAME_BYTES)
  );
}
