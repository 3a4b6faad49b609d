/** Bytes in bulk by the SDK through the daemon's `/v1`. */
import { execFile } from 'node:child_process';
import { createReadStream, createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CuttingProxy } from '@boxkite/testing';
import { Sandbox } from 'boxkite';
import { compare } from '../comparison.ts';
import { providerOf, withDaemon } from '../daemons.ts';
import { amountOfCalls } from '../effort.ts';
import { BLOCK_BYTES, buildBlock } from '../pattern.ts';
import { sandwich } from '../rounds.ts';
import type { Row } from '../row.ts';
import { streamedRate } from '../streamed-rate.ts';
import { BIG_FILE_BLOCKS, checked, chunks, rateOf, withHostDirectory } from './files.ts';
import { checkingSink, GIBIBYTE_BLOCKS, producer } from './output.ts';

const SOURCE = 'tests/performance/rows/daemon-transfer.ts';
const CUTS = 5;
/** Smaller than the other rows: what is measured is the price of coming back. */
const CUT_BLOCKS = 256;

/** 256 MiB up and down. */
export const daemonFiles: Row = {
  name: 'v1-files',
  source: SOURCE,
  what: '256 MiB up and down by the SDK through /v1',
  baseline: 'fs streams on a tmpfs',
  run: async ({ rounds, scale }) =>
    await withDaemon(async (_daemon, create) => {
      const sandbox = await create();
      return await withHostDirectory(async (directory) => {
        const blocks = amountOfCalls(BIG_FILE_BLOCKS, scale);
        const path = join(directory, 'big');
        const rate = { unit: 'MB/s', better: 'higher', promise: 0.5, stretch: 0.9 } as const;
        const up = await sandwich(
          rounds,
          async () => await rateOf(blocks, async () => await sandbox.files.write('big', chunks(blocks))),
          async () =>
            await rateOf(blocks, async () => await pipeline(Readable.from(chunks(blocks)), createWriteStream(path))),
        );
        const down = await sandwich(
          rounds,
          async () => await rateOf(blocks, async () => await checked(sandbox.files.readStream('big'), blocks)),
          async () => await rateOf(blocks, async () => await checked(createReadStream(path), blocks)),
        );
        return [compare({ name: 'up', ...rate }, up), compare({ name: 'down', ...rate }, down)];
      });
    }),
};

/** 1 GiB of output. */
export const daemonOutput: Row = {
  name: 'v1-output',
  source: SOURCE,
  what: '1 GiB of output, byte-exact, by the SDK through /v1, each reading in a process of its own',
  baseline: 'a child_process pipe from the same program, in a process of its own too',
  run: async ({ rounds, scale }) => {
    const blocks = amountOfCalls(GIBIBYTE_BLOCKS, scale);
    return await withDaemon(async (daemon, create) => {
      const { id } = await create();
      const read = async (...source: readonly string[]): Promise<number> =>
        await rateOfReader([String(blocks), ...source], daemon.key());
      const measured = await sandwich(
        rounds,
        async () => await read(daemon.socket, id),
        async () => await read('pipe'),
      );
      return [compare({ name: 'rate', unit: 'MB/s', better: 'higher', promise: 0.5, stretch: 0.9 }, measured)];
    });
  },
};

/** The same stream with its connection cut five times. */
export const daemonCuts: Row = {
  name: 'v1-cuts',
  source: SOURCE,
  what: `output streamed with ${CUTS} forced disconnects, byte-exact`,
  baseline: 'the same stream without a cut, through the same proxy',
  run: async ({ rounds, scale }) => {
    const blocks = amountOfCalls(CUT_BLOCKS, scale);
    const argv = await producer(blocks, []);
    return await withDaemon(async (daemon, create) => {
      const { id } = await create();
      await using proxy = await CuttingProxy.start(daemon.socket);
      const provider = providerOf(daemon, proxy.socket);
      try {
        const sandbox = await Sandbox.connect(id, { provider });
        const seconds = async (cuts: number): Promise<number> => {
          const before = proxy.cuts;
          proxy.cutEvery(cuts === 0 ? null : Math.floor((blocks * BLOCK_BYTES) / (cuts + 1)), cuts);
          const rate = await streamedRate(sandbox, argv, blocks, checkingSink(buildBlock([]), blocks));
          if (proxy.cuts - before !== cuts) throw new TypeError(`${proxy.cuts - before} cuts instead of ${cuts}`);
          return (blocks * BLOCK_BYTES) / 1e6 / rate;
        };
        const measured = await sandwich(
          rounds,
          async () => await seconds(CUTS),
          async () => await seconds(0),
        );
        return [compare({ name: 'time', unit: 's', better: 'lower', promise: 1.3 }, measured)];
      } finally {
        await provider.close();
      }
    });
  },
};

/** What `programs/read-output.ts` prints. */
async function rateOfReader(args: readonly string[], key: string): Promise<number> {
  const program = fileURLToPath(new URL('../programs/read-output.ts', import.meta.url));
  const options = { env: { ...process.env, BENCH_KEY: key } };
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], options);
  return Number(stdout);
}
