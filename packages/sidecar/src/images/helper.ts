/**
 * The helper process: decodes, scales and encodes one image, and ends. Codecs are WebAssembly, so that what a hostile file
 * makes of one reaches the memory of its instance and nothing else; whoever starts this process bounds its memory and time.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { decodeMessage, encodeMessage, type ImageJob } from './job.ts';
import type { Pixels } from './pixels.ts';
import { recompressPng } from './png-level.ts';

/** What is used of WebAssembly. Declared here, since it is in the types of neither ECMAScript nor Node. */
declare const WebAssembly: { compile(bytes: Uint8Array): Promise<never>; validate(bytes: Uint8Array): boolean };

/** In a bundle all lie in one directory, else each in its package. */
async function wasm(module: string): Promise<never> {
  return WebAssembly.compile(await codecBytes(module));
}

async function codecBytes(module: string): Promise<Uint8Array> {
  const bundled = join(import.meta.dirname, 'codecs', module.split('/').at(-1) ?? '');
  const path = existsSync(bundled) ? bundled : fileURLToPath(import.meta.resolve(module));
  return readFile(path);
}

async function decode(codec: ImageJob['codec'], bytes: Buffer): Promise<Pixels> {
  if (codec === 'png') {
    const png = await import('@jsquash/png/decode.js');
    await png.init(await wasm('@jsquash/png/codec/pkg/squoosh_png_bg.wasm'));
    return png.decode(exactly(bytes));
  }
  if (codec === 'jpeg') {
    const jpeg = await import('@jsquash/jpeg/decode.js');
    await jpeg.init(await wasm('@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm'));
    // The orientation that is only noted would be lost with the note.
    return jpeg.default(exactly(bytes), { preserveOrientation: true });
  }
  const webp = await import('@jsquash/webp/decode.js');
  await webp.init(await wasm('@jsquash/webp/codec/dec/webp_dec.wasm'));
  return webp.default(exactly(bytes));
}

async function scale(pixels: Pixels, most: number): Promise<Pixels> {
  const factor = most / Math.max(pixels.width, pixels.height);
  if (factor >= 1) return pixels;
  const width = Math.max(1, Math.round(pixels.width * factor));
  const height = Math.max(1, Math.round(pixels.height * factor));
  const { default: resize, initResize } = await import('@jsquash/resize');
  await initResize(await wasm('@jsquash/resize/lib/resize/pkg/squoosh_resize_bg.wasm'));
  // The codec's own way of it takes twice the memory.
  const isTransparent = premultiply(pixels.data);
  const options = { width, height, method: 'lanczos3', premultiply: false, linearRGB: false } as const;
  const scaled = await resize(pixels, options);
  if (isTransparent) divide(scaled.data);
  return scaled;
}

/** What is transparent is not to colour what is beside it. Whether anything is. */
function premultiply(data: Uint8ClampedArray): boolean {
  let isTransparent = false;
  for (let at = 3; at < data.length; at += 4) {
    const alpha = data[at] ?? 0;
    if (alpha === 255) continue;
    isTransparent = true;
    for (let channel = at - 3; channel < at; channel += 1) data[channel] = ((data[channel] ?? 0) * alpha) / 255;
  }
  return isTransparent;
}

function divide(data: Uint8ClampedArray): void {
  for (let at = 3; at < data.length; at += 4) {
    const alpha = data[at] ?? 0;
    if (alpha === 255 || alpha === 0) continue;
    for (let channel = at - 3; channel < at; channel += 1) data[channel] = ((data[channel] ?? 0) * 255) / alpha;
  }
}

async function encode(job: ImageJob, pixels: Pixels): Promise<Uint8Array> {
  if (job.codec === 'png') {
    const png = await import('@jsquash/png/encode.js');
    await png.init(await wasm('@jsquash/png/codec/pkg/squoosh_png_bg.wasm'));
    return recompressPng(Buffer.from(await png.default(pixels)), job.pngCompression);
  }
  if (job.codec === 'jpeg') {
    const jpeg = await import('@jsquash/jpeg/encode.js');
    await jpeg.init(await wasm('@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm'));
    return new Uint8Array(await jpeg.default(pixels, { quality: job.jpegQuality }));
  }
  // The encoder takes the one with vectors where they are to be had.
  const vectors = '@jsquash/webp/codec/enc/webp_enc_simd.wasm';
  const encoder = WebAssembly.validate(await codecBytes(vectors)) ? vectors : '@jsquash/webp/codec/enc/webp_enc.wasm';
  const webp = await import('@jsquash/webp/encode.js');
  await webp.init(await wasm(encoder));
  return new Uint8Array(await webp.default(pixels, { quality: job.webpQuality, method: 6 }));
}

/** Memory of its own: codecs take a whole buffer. */
function exactly(bytes: Buffer): ArrayBuffer {
  const copy = new Uint8Array(bytes.length);
  copy.set(bytes);
  return copy.buffer;
}

async function main(): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of process.stdin) parts.push(part as Buffer);
  const { head, bytes } = decodeMessage(Buffer.concat(parts));
  parts.length = 0;
  // Written by the process that starts this one.
  const job = head as ImageJob;
  const before = await decode(job.codec, bytes);
  const pixels = await scale(before, job.maxDimension);
  const encoded = await encode(job, pixels);
  const changed = pixels !== before || encoded.length < bytes.length;
  for (const part of encodeMessage({ changed }, changed ? encoded : new Uint8Array())) process.stdout.write(part);
}

await main();
