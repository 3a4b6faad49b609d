/** Where characters begin and end in bytes that were cut somewhere. */

const LONGEST = 4;

/** Index of the first byte that is not the rest of a character. */
export function startOfCharacters(bytes: Uint8Array): number {
  let at = 0;
  while (at < LONGEST - 1 && at < bytes.length && isRest(bytes[at] as number)) at += 1;
  return at;
}

/** Index behind the last character that is whole, or can't become one. */
export function endOfCharacters(bytes: Uint8Array): number {
  for (let back = 1; back < LONGEST && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if (isRest(byte)) continue;
    return lengthOf(byte) > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function isRest(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** Of the character that this byte begins. */
function lengthOf(byte: number): number {
  if (byte >= 0xf0 && byte < 0xf5) return 4;
  if (byte >= 0xe0 && byte < 0xf0) return 3;
  return byte >= 0xc2 && byte < 0xe0 ? 2 : 1;
}
