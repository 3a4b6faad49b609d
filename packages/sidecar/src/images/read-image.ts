/** An image as a model is shown it: no larger than needed, and never more than the file says it is. */
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { readWhole } from '../files/text-files.ts';
import type { SidecarSettings } from '../settings.ts';
import type { ImageHelper } from './image-helper.ts';
import { type Codec, MOST_PIXELS } from './job.ts';
import { type ImageHeader, probeImage } from './probe.ts';

/** Files that are read, in bytes. */
const MOST_BYTES = 52_428_800;

/** What is shown. */
export interface ShownImage {
  readonly mime: string;
  readonly bytes: Buffer;
}

/** Errors: `bad_request` for what is no image of at most 50 MiB, `capacity`, `aborted`, and those of reading. */
export function readImage(
  files: RunnerFiles,
  helper: ImageHelper,
  settings: SidecarSettings['images'],
  path: string,
  signal: AbortSignal,
): Promise<ShownImage> {
  return helper.reads.take(signal, () => readInTurn(files, helper, settings, path, signal));
}

async function readInTurn(
  files: RunnerFiles,
  helper: ImageHelper,
  settings: SidecarSettings['images'],
  path: string,
  signal: AbortSignal,
): Promise<ShownImage> {
  const bytes = await imageBytes(files, path, signal);
  const header = probeImage(bytes);
  if (header === null) throw refused(path, 'is not an image', 'Read it by /view or a command.');
  const codec = codecOf(header);
  if (codec === null) return { mime: header.mime, bytes };
  const smaller = await helper.optimise({ codec, ...settings }, bytes, signal);
  return { mime: header.mime, bytes: smaller ?? bytes };
}

async function imageBytes(files: RunnerFiles, path: string, signal: AbortSignal): Promise<Buffer> {
  try {
    const bytes = await readWhole(files, path, MOST_BYTES, signal);
    if (bytes.length > 0) return bytes;
  } catch (error) {
    if (!(error instanceof BoxkiteError)) throw error;
    if (error.code === 'is_directory') throw refused(path, 'is a directory', 'Give the path of an image.');
    if (error.code !== 'file_over_limit') throw error;
    throw refused(path, `is larger than ${MOST_BYTES} bytes`, 'Make it smaller by a command first.');
  }
  throw refused(path, 'is empty', 'Give the path of an image.');
}

/** Which codec makes it smaller; `null` where it is shown as it is. */
function codecOf({ kind, size, isAnimated }: ImageHeader): Codec | null {
  if (kind !== 'png' && kind !== 'jpeg' && kind !== 'webp') return null;
  if (isAnimated || size === null || size.width * size.height > MOST_PIXELS) return null;
  return kind;
}

function refused(path: string, what: string, hint: string): BoxkiteError {
  return new BoxkiteError('bad_request', `${path} ${what}`, { hint, details: { field: 'path' } });
}
