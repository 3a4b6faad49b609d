/** Images that only a codec makes. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Pixels } from '../../src/images/pixels.ts';

declare const WebAssembly: { compile(bytes: Uint8Array): Promise<never> };

async function wasm(module: string): Promise<never> {
  return WebAssembly.compile(await readFile(fileURLToPath(import.meta.resolve(module))));
}

function pixels(width: number, height: number): Pixels {
  const data = new Uint8ClampedArray(width * height * 4);
  for (let at = 0; at < data.length; at += 1) data[at] = at % 4 === 3 ? 255 : (at * 7) % 251;
  return { data, width, height };
}

/** A JPEG of the best quality. */
export async function makeJpeg(width: number, height: number): Promise<Buffer> {
  const { default: encode, init } = await import('@jsquash/jpeg/encode.js');
  await init(await wasm('@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm'));
  return Buffer.from(await encode(pixels(width, height), { quality: 100 }));
}

/** A WebP of the best quality. */
export async function makeWebp(width: number, height: number): Promise<Buffer> {
  const { default: encode, init } = await import('@jsquash/webp/encode.js');
  await init(await wasm('@jsquash/webp/codec/enc/webp_enc_simd.wasm'));
  return Buffer.from(await encode(pixels(width, height), { quality: 100 }));
}
