/** Starts a helper process for each image, so that none has anything of another, and ends it at its bounds. */
import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BoxkiteError } from '@boxkite/protocol';
import { z } from 'zod';
import { NOT_CONFINED, startConfined } from './confined.ts';
import { decodeMessage, encodeMessage, type ImageJob, longestAnswer } from './job.ts';
import { cancelled, type TurnLimits, Turns } from './turns.ts';

/** Bounds of images. */
export interface ImageLimits extends TurnLimits {
  /** Resident memory of the process that decodes it. */
  readonly memoryBytes: number;
  readonly milliseconds: number;
  /** Images at one time that are read or decoded. */
  readonly held: number;
}

/** Fits forty million pixels, decoded, scaled and encoded. */
export const imageLimits: ImageLimits = {
  memoryBytes: 1024 * 1024 * 1024,
  milliseconds: 20_000,
  running: 2,
  held: 4,
  waiting: 64,
};

/** What waits to be read is no more than a request. */
const READS_PER_PLACE = 4;
const WATCH_MS = 20;
const PAGE_BYTES = 4096;
const outcomeSchema = z.object({ changed: z.boolean() });
const here = dirname(fileURLToPath(import.meta.url));

/** Helper processes of one app. */
export class ImageHelper {
  readonly #confinement: string | null;
  readonly #limits: ImageLimits;
  readonly #children = new Set<ChildProcess>();
  readonly #turns: Turns;
  #isClosed = false;
  /** Of images from the first byte that is read of one: those that wait are not in memory yet. */
  readonly reads: Turns;

  /** With the path of `boxkite-runner`, which confines each process; `null`: nothing is decoded. */
  constructor(confinement: string | null, limits: ImageLimits = imageLimits) {
    this.#confinement = confinement;
    this.#limits = limits;
    this.#turns = new Turns(limits);
    this.reads = new Turns({ running: limits.held, waiting: READS_PER_PLACE * limits.waiting });
  }

  /** Process ids of those that run. */
  get running(): readonly number[] {
    return [...this.#children].flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
  }

  /**
   * The image made smaller; `null` where it is best as it is, can't be decoded, or needs more than its bounds. Errors:
   * `capacity`, `aborted`, `isolation_unavailable` where the process can't be confined.
   */
  async optimise(job: ImageJob, bytes: Uint8Array, signal: AbortSignal): Promise<Buffer | null> {
    return this.#turns.take(signal, () => {
      if (this.#isClosed) throw cancelled(signal);
      return this.#run(job, bytes, signal);
    });
  }

  /** Ends all of them. */
  close(): void {
    this.#isClosed = true;
    for (const child of this.#children) child.kill('SIGKILL');
    this.#turns.release();
  }

  async #run(job: ImageJob, bytes: Uint8Array, signal: AbortSignal): Promise<Buffer | null> {
    if (this.#confinement === null) throw unconfined('the service has no native program to confine it');
    const child = start(this.#confinement);
    this.#children.add(child);
    const kill = (): void => void child.kill('SIGKILL');
    const deadline = setTimeout(kill, this.#limits.milliseconds);
    const watch = setInterval(() => void this.#watch(child), WATCH_MS);
    signal.addEventListener('abort', kill);
    try {
      const message = await answerOf(child, encodeMessage(job, bytes), longestAnswer(job, bytes));
      if (signal.aborted) throw cancelled(signal);
      return message === null ? null : smaller(message);
    } finally {
      clearTimeout(deadline);
      clearInterval(watch);
      signal.removeEventListener('abort', kill);
      kill();
      this.#children.delete(child);
    }
  }

  /** What can't be watched is not run. */
  async #watch(child: ChildProcess): Promise<void> {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      const [, resident] = (await readFile(`/proc/${child.pid}/statm`, 'latin1')).split(' ');
      if (Number(resident) * PAGE_BYTES <= this.#limits.memoryBytes) return;
    } catch {
      // It has ended, or is not to be seen.
    }
    child.kill('SIGKILL');
  }
}

/** Its program and what that may read: one directory of a bundle, or the packages of a checkout. */
function start(confinement: string): ChildProcess {
  const script = [join(here, 'image-helper.mjs'), join(here, '..', 'image-helper.mjs'), join(here, 'helper.ts')].find(
    (path) => existsSync(path),
  );
  if (script === undefined) throw new BoxkiteError('internal', 'the program that decodes images is not there');
  try {
    return startConfined(confinement, { script, readable: readable(script) });
  } catch (cause) {
    throw notStarted(cause);
  }
}

function readable(script: string): readonly string[] {
  const directory = dirname(script);
  if (script.endsWith('.mjs')) return [script, join(directory, 'codecs'), join(directory, 'lib')];
  const root = join(directory, '..', '..', '..', '..');
  return [join(root, 'packages', 'sidecar'), join(root, 'node_modules'), join(root, 'package.json')];
}

/**
 * What it wrote until it ended well; `null` where it did not, or where it is ended since that is more than it may be.
 * Errors: `isolation_unavailable`, `capacity`.
 */
function answerOf(child: ChildProcess, message: readonly Uint8Array[], most: number): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    child.once('error', (cause) => reject(notStarted(cause)));
    child.once('close', (code) => {
      if (code === NOT_CONFINED) reject(unconfined('the machine refuses a part of its confinement'));
      else resolve(code === 0 ? Buffer.concat(parts) : null);
    });
    child.stdout?.on('data', (part: Buffer) => {
      parts.push(part);
      length += part.length;
      if (length <= most) return;
      // What is read is made of a file that anybody may have made: it may write for ever.
      parts.length = 0;
      child.stdout?.destroy();
      child.kill('SIGKILL');
    });
    // One that can't be started may have no streams; the error tells why.
    if (!child.stdin) return;
    // It may end before it has read everything.
    child.stdin.on('error', () => undefined);
    for (const part of message) child.stdin.write(part);
    child.stdin.end();
  });
}

/** The machine may have enough of it again for the next one. */
const USED_UP: Readonly<Record<string, string>> = {
  EMFILE: 'open files',
  ENFILE: 'open files',
  EAGAIN: 'processes',
  ENOMEM: 'memory',
};

function notStarted(cause: unknown): BoxkiteError {
  const limit = cause instanceof Error && 'code' in cause ? USED_UP[String(cause.code)] : undefined;
  if (limit === undefined) return unconfined('the native program that confines it can not be started', cause);
  return new BoxkiteError('capacity', `an image can not be decoded: the service has no more ${limit}`, {
    details: { limit },
    cause,
  });
}

/** Nothing is decoded by a process that could reach more than the image. */
function unconfined(why: string, cause?: unknown): BoxkiteError {
  return new BoxkiteError('isolation_unavailable', `an image can not be decoded in a process of its own: ${why}`, {
    hint: 'Run `boxkite-runner confined --execute / -- /bin/true` as the user of the service: it says what is missing.',
    details: { layer: 'image_process' },
    cause,
  });
}

function smaller(message: Buffer): Buffer | null {
  try {
    const { head, bytes } = decodeMessage(message);
    return outcomeSchema.parse(head).changed ? bytes : null;
  } catch {
    return null;
  }
}
