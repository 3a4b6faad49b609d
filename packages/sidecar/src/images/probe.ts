/** What the first bytes of a file say of an image. Nothing is decoded. */

/** Kinds that are told by their first bytes. */
export type ImageKind = 'png' | 'jpeg' | 'gif' | 'webp' | 'bmp' | 'tiff' | 'ico' | 'avif' | 'heic' | 'svg';

/** An image as its header describes it. */
export interface ImageHeader {
  readonly kind: ImageKind;
  readonly mime: string;
  /** `null` where the header of this kind is not read, or has none. */
  readonly size: { readonly width: number; readonly height: number } | null;
  readonly isAnimated: boolean;
}

const MIMES: Readonly<Record<ImageKind, string>> = {
  png: 'image/png',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  bmp: 'image/bmp',
  tiff: 'image/tiff',
  ico: 'image/x-icon',
  avif: 'image/avif',
  heic: 'image/heic',
  svg: 'image/svg+xml',
};
/** An SVG says so here, behind comments and a declaration. */
const SVG_BYTES = 4096;
/** Chunks of a PNG, and markers of a JPEG, that are looked at. */
const MOST_PARTS = 4096;

type Described = Pick<ImageHeader, 'size' | 'isAnimated'>;
const UNKNOWN: Described = { size: null, isAnimated: false };

/** `null` for what is no image. */
export function probeImage(bytes: Buffer): ImageHeader | null {
  const kind = kindOf(bytes);
  if (kind === null) return null;
  const described =
    kind === 'png'
      ? describePng(bytes)
      : kind === 'jpeg'
        ? describeJpeg(bytes)
        : kind === 'webp'
          ? describeWebp(bytes)
          : UNKNOWN;
  return { kind, mime: MIMES[kind], ...described };
}

function kindOf(bytes: Buffer): ImageKind | null {
  const latin = bytes.toString('latin1', 0, 16);
  if (latin.startsWith('\x89PNG\r\n\x1a\n')) return 'png';
  if (latin.startsWith('\xff\xd8\xff')) return 'jpeg';
  if (latin.startsWith('GIF87a') || latin.startsWith('GIF89a')) return 'gif';
  if (latin.startsWith('RIFF') && latin.slice(8, 12) === 'WEBP') return 'webp';
  if (latin.startsWith('BM') && bytes.length >= 26) return 'bmp';
  if (latin.startsWith('II*\0') || latin.startsWith('MM\0*')) return 'tiff';
  if (latin.startsWith('\0\0\x01\0') && bytes.length >= 22) return 'ico';
  if (latin.slice(4, 8) === 'ftyp') {
    const brand = latin.slice(8, 12);
    return brand === 'avif' || brand === 'avis' ? 'avif' : HEIC.has(brand) ? 'heic' : null;
  }
  return isSvg(bytes) ? 'svg' : null;
}

const HEIC: ReadonlySet<string> = new Set(['heic', 'heix', 'hevc', 'mif1', 'msf1']);

/** What may stand before the element, by beginning and end. */
const SVG_PROLOGUE = [
  ['<?xml', '?>'],
  ['<!--', '-->'],
  ['<!DOCTYPE', '>'],
] as const;

function isSvg(bytes: Buffer): boolean {
  if (bytes.subarray(0, SVG_BYTES).includes(0)) return false;
  let rest = bytes
    .toString('utf8', 0, SVG_BYTES)
    .replace(/^\ufeff/, '')
    .trimStart();
  for (let part = SVG_PROLOGUE.find(([open]) => rest.startsWith(open)); part !== undefined; ) {
    const end = rest.indexOf(part[1]);
    if (end === -1) return false;
    rest = rest.slice(end + part[1].length).trimStart();
    part = SVG_PROLOGUE.find(([open]) => rest.startsWith(open));
  }
  return /^<svg[\s>]/.test(rest);
}

function describePng(bytes: Buffer): Described {
  if (bytes.length < 33 || bytes.toString('latin1', 12, 16) !== 'IHDR') return UNKNOWN;
  const size = { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  let at = 8;
  for (let part = 0; part < MOST_PARTS && at + 12 <= bytes.length; part += 1) {
    const type = bytes.toString('latin1', at + 4, at + 8);
    if (type === 'acTL') return { size, isAnimated: true };
    if (type === 'IDAT') break;
    at += 12 + bytes.readUInt32BE(at);
  }
  return { size, isAnimated: false };
}

function describeJpeg(bytes: Buffer): Described {
  let at = 2;
  for (let part = 0; part < MOST_PARTS && at + 9 <= bytes.length; part += 1) {
    if (bytes[at] !== 0xff) return UNKNOWN;
    const marker = bytes.readUInt8(at + 1);
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    // Frames: all of these markers but the tables of Huffman, of arithmetic coding, and JPG.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { size: { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) }, isAnimated: false };
    }
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return UNKNOWN;
}

function describeWebp(bytes: Buffer): Described {
  if (bytes.length < 30) return UNKNOWN;
  const chunk = bytes.toString('latin1', 12, 16);
  if (chunk === 'VP8X') {
    const size = { width: 1 + bytes.readUIntLE(24, 3), height: 1 + bytes.readUIntLE(27, 3) };
    return { size, isAnimated: (bytes.readUInt8(20) & 2) !== 0 };
  }
  if (chunk === 'VP8L') {
    const bits = bytes.readUInt32LE(21);
    return { size: { width: 1 + (bits & 0x3fff), height: 1 + ((bits >> 14) & 0x3fff) }, isAnimated: false };
  }
  if (chunk !== 'VP8 ') return UNKNOWN;
  return {
    size: { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff },
    isAnimated: false,
  };
}
