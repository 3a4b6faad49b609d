/** Images for tests, made as they are needed. */
import { crc32, deflateSync } from 'node:zlib';

/** Red, green, blue and alpha of a place. */
export type Colour = (x: number, y: number) => readonly [number, number, number, number];

const pattern: Colour = (x, y) => [x & 255, y & 255, (x * y) & 255, 255];

/** A chunk of a PNG. */
export function pngChunk(type: string, data: Uint8Array): Buffer {
  const out = Buffer.alloc(12 + data.length);
  out.writeUInt32BE(data.length, 0);
  out.write(type, 4, 'latin1');
  out.set(data, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
  return out;
}

/** The header of a PNG with eight bits of four channels. */
export function pngHeader(width: number, height: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 6, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), pngChunk('IHDR', header)]);
}

/** A PNG, packed badly, so that there is something to gain. */
export function makePng(width: number, height: number, colour: Colour = pattern): Buffer {
  const raw = Buffer.alloc(height * (1 + width * 4));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) raw.set(colour(x, y), y * (1 + width * 4) + 1 + x * 4);
  }
  return wrapPng(width, height, deflateSync(raw, { level: 1 }));
}

/** A PNG of black that unpacks to four bytes for each of its pixels. */
export function makeBomb(width: number, height: number): Buffer {
  const row = Buffer.alloc(1 + width * 4);
  return wrapPng(width, height, deflateSync(Buffer.concat(Array.from({ length: height }, () => row))));
}

function wrapPng(width: number, height: number, data: Uint8Array): Buffer {
  return Buffer.concat([pngHeader(width, height), pngChunk('IDAT', data), pngChunk('IEND', Buffer.alloc(0))]);
}
