/** The WebAssembly codecs of images, which no bundler inlines: the helper finds them in one directory of a bundle. */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What `packages/sidecar/src/images/helper.ts` compiles. */
export const codecs = [
  '@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm',
  '@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm',
  '@jsquash/png/codec/pkg/squoosh_png_bg.wasm',
  '@jsquash/resize/lib/resize/pkg/squoosh_resize_bg.wasm',
  '@jsquash/webp/codec/dec/webp_dec.wasm',
  '@jsquash/webp/codec/enc/webp_enc.wasm',
  '@jsquash/webp/codec/enc/webp_enc_simd.wasm',
] as const;

function fileOf(codec: string): string {
  return fileURLToPath(import.meta.resolve(codec));
}

/** Copies them to a directory that is made. */
export function copyCodecs(directory: string): void {
  mkdirSync(directory);
  for (const codec of codecs) copyFileSync(fileOf(codec), join(directory, basename(codec)));
}

/** The licences of what was compiled to them, which lie beside or above them in their packages. */
export function codecNotices(): string {
  const texts = codecs.map((codec) => {
    let directory = dirname(fileOf(codec));
    let licence: string | undefined;
    while (licence === undefined && !existsSync(join(directory, 'package.json'))) {
      licence = readdirSync(directory).find((name) => /^licen[cs]e/i.test(name));
      if (licence === undefined) directory = dirname(directory);
    }
    if (licence === undefined) throw new Error(`bundle: ${codec} has no licence to pass on`);
    return readFileSync(join(directory, licence), 'utf8').trim();
  });
  return `Codecs of images\n----------------\n\n${[...new Set(texts)].join('\n\n')}\n`;
}
