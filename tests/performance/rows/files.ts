/** Files through the file agent, against Node's own on a file system of the same kind. */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { SandboxPort } from '@boxkite/protocol';
import { type Comparison, compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { BLOCK_BYTES, buildBlock, PatternCheck } from '../pattern.ts';
import { atPercentile, callByCall, sandwich } from '../rounds.ts';
import type { Row } from '../row.ts';
import { withSandbox } from '../sandboxes.ts';

const CHUNK_BYTES = 256 * 1024;
/** Blocks of 256 MiB. */
export const BIG_FILE_BLOCKS = Math.ceil((256 * 1024 * 1024) / BLOCK_BYTES);

/** A place of the host that is memory-backed, as a workspace is. */
export async function withHostDirectory<Result>(use: (directory: string) => Promise<Result>): Promise<Result> {
  const directory = await mkdtemp('/dev/shm/boxkite-bench-');
  try {
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** 256 MiB in and out, every byte checked on its way out. */
export const bigFiles: Row = {
  name: 'files',
  source: 'tests/performance/rows/files.ts',
  what: '256 MiB written and read through the file agent',
  baseline: 'fs streams on a tmpfs',
  run: async ({ rounds, scale }): Promise<readonly Comparison[]> =>
    await withSandbox({}, async (sandbox) =>
      withHostDirectory(async (directory) => {
        const blocks = amountOfCalls(BIG_FILE_BLOCKS, scale);
        const path = join(directory, 'big');
        const rate = { unit: 'MB/s', better: 'higher', promise: 0.8, stretch: 1.2 } as const;
        const written = await sandwich(
          rounds,
          async () => await rateOf(blocks, async () => await sandbox.files.write('big', chunks(blocks))),
          async () =>
            await rateOf(blocks, async () => await pipeline(Readable.from(chunks(blocks)), createWriteStream(path))),
        );
        const read = await sandwich(
          rounds,
          async () => await rateOf(blocks, async () => await checked(sandbox.files.read('big'), blocks)),
          async () => await rateOf(blocks, async () => await checked(createReadStream(path), blocks)),
        );
        return [compare({ name: 'write', ...rate }, written), compare({ name: 'read', ...rate }, read)];
      }),
    ),
};

/** A small file, one after another. */
export const smallRead: Row = {
  name: 'small-read',
  source: 'tests/performance/rows/files.ts',
  what: 'a read of 1 KB through the file agent',
  baseline: 'fs.promises.readFile',
  run: async ({ rounds, scale }) =>
    await withSandbox({}, async (sandbox) =>
      withHostDirectory(async (directory) => {
        const content = Buffer.alloc(1024, 'x');
        const path = join(directory, 'small');
        await writeFile(path, content);
        await sandbox.files.write('small', content);
        const subject = async (): Promise<void> => same(await readInside(sandbox, 'small'), content);
        const baseline = async (): Promise<void> => same(await readFile(path), content);
        const samples = await callByCall(rounds, amountOfCalls(400, scale), subject, baseline);
        return [
          compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 1.5, stretch: 0.8 }, atPercentile(samples, 0.5)),
        ];
      }),
    ),
};

/** The numbered blocks in pieces; each piece is a buffer of its own, because both sides may still hold the last one. */
export async function* chunks(blocks: number): AsyncGenerator<Buffer> {
  const block = buildBlock([]);
  for (let number = 0; number < blocks; number += 1) {
    const copy = Buffer.from(block);
    copy.write(String(number).padStart(16, '0'), 0, 'latin1');
    for (let from = 0; from < copy.length; from += CHUNK_BYTES) yield copy.subarray(from, from + CHUNK_BYTES);
  }
}

/** Reads a stream to its end and checks every byte. */
export async function checked(source: AsyncIterable<Uint8Array>, blocks: number): Promise<void> {
  const check = new PatternCheck(buildBlock([]));
  for await (const data of source) check.push(data);
  check.finish(blocks);
}

async function readInside(sandbox: SandboxPort, path: string): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of sandbox.files.read(path)) parts.push(part);
  return Buffer.concat(parts);
}

function same(actual: Buffer, expected: Buffer): void {
  if (!actual.equals(expected)) throw new TypeError(`${actual.length} other bytes were read`);
}

/** MB/s of an act that moves so many blocks. */
export async function rateOf(blocks: number, act: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await act();
  return (blocks * BLOCK_BYTES) / 1e6 / ((performance.now() - start) / 1000);
}
