/** A gibibyte of output, byte-exact: as it is, and through the redactor. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createByteRedactor } from '@boxkite/policy';
import type { SandboxPort } from '@boxkite/protocol';
import { PYTHON } from '../../../tools/demo/run-sandboxed.ts';
import { compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { BLOCK_BYTES, buildBlock, PatternCheck } from '../pattern.ts';
import { sandwich } from '../rounds.ts';
import type { Row } from '../row.ts';
import { withSandbox } from '../sandboxes.ts';

const SECRETS = 20;

/** Whole blocks that make at least one gibibyte. */
export const GIBIBYTE_BLOCKS = Math.ceil(1024 ** 3 / BLOCK_BYTES);

/** Takes what arrives; `flush` after the last byte. */
export interface Sink {
  push(data: Uint8Array): void;
  flush(): void;
}

/** The producer's command line, its source included, so that both sides run the same. */
export async function producer(blocks: number, texts: readonly string[]): Promise<readonly string[]> {
  const source = await readFile(new URL('../programs/producer.py', import.meta.url), 'utf8');
  return [PYTHON, '-c', source, String(blocks), String(BLOCK_BYTES), ...texts];
}

/** No known secrets: what arrives is what was written. */
export const output: Row = {
  name: 'output',
  source: 'tests/performance/rows/output.ts',
  what: '1 GiB of output, byte-exact, no known secrets',
  baseline: 'a child_process pipe from the same program',
  run: async ({ rounds, scale }) => {
    const blocks = amountOfCalls(GIBIBYTE_BLOCKS, scale);
    const argv = await producer(blocks, []);
    return await withSandbox({}, async (sandbox) => {
      const makeSink = (): Sink => checkingSink(buildBlock([]), blocks);
      const measured = await sandwich(
        rounds,
        async () => await insideRate(sandbox, argv, blocks, makeSink()),
        async () => await bareRate(argv, blocks, makeSink()),
      );
      return [compare({ name: 'rate', unit: 'MB/s', better: 'higher', promise: 0.6, stretch: 1 }, measured)];
    });
  },
};

/** Twenty known secrets, each once in every block, masked on the way. */
export const outputRedacted: Row = {
  name: 'output-secrets',
  source: 'tests/performance/rows/output.ts',
  what: `1 GiB of output, byte-exact, ${SECRETS} known secrets masked`,
  baseline: 'a child_process pipe from the same program, unmasked',
  run: async ({ rounds, scale }) => {
    const blocks = amountOfCalls(GIBIBYTE_BLOCKS, scale);
    const secrets = new Map(
      Array.from({ length: SECRETS }, (_, index) => [`SECRET_${index}`, randomBytes(16).toString('hex')]),
    );
    const known = Object.fromEntries(secrets);
    const values = [...secrets.values()];
    const argv = await producer(blocks, values);
    const plain = buildBlock(values);
    const masked = maskedBlock(plain, known, values);
    return await withSandbox({}, async (sandbox) => {
      const measured = await sandwich(
        rounds,
        async () => {
          const redactor = createByteRedactor(known, { patterns: false });
          const sink = checkingSink(masked, blocks);
          const redacting: Sink = {
            push: (data) => {
              for (const part of redactor.pushParts(data)) sink.push(part);
            },
            flush: () => {
              sink.push(redactor.flush());
              sink.flush();
            },
          };
          return await insideRate(sandbox, argv, blocks, redacting);
        },
        async () => await bareRate(argv, blocks, checkingSink(plain, blocks)),
      );
      return [compare({ name: 'rate', unit: 'MB/s', better: 'higher', promise: 0.25, stretch: 0.5 }, measured)];
    });
  },
};

/** The block with each value replaced by what the redactor makes of that value alone. */
function maskedBlock(plain: Buffer, known: Readonly<Record<string, string>>, values: readonly string[]): Buffer {
  let text = plain.toString('latin1');
  for (const value of values) {
    const redactor = createByteRedactor(known, { patterns: false });
    const mask = Buffer.concat([redactor.push(Buffer.from(value)), redactor.flush()]).toString('latin1');
    if (mask === '' || mask.includes(value)) throw new TypeError('a known value was not masked');
    text = text.split(value).join(mask);
  }
  return Buffer.from(text, 'latin1');
}

/** Checks what arrives against the blocks. */
export function checkingSink(block: Buffer, blocks: number): Sink {
  const check = new PatternCheck(block);
  return { push: (data) => check.push(data), flush: () => check.finish(blocks) };
}

/** MB/s that the command wrote, from its call to its end. */
async function insideRate(sandbox: SandboxPort, argv: readonly string[], blocks: number, sink: Sink): Promise<number> {
  const start = performance.now();
  for await (const event of await sandbox.exec({ argv, overflow: 'block' })) {
    if (event.type === 'gap') throw new TypeError(`the bytes ${event.from} to ${event.to} were dropped`);
    if (event.type === 'output' && event.stream === 'stdout') sink.push(event.data);
    if (event.type === 'ended' && event.record.exit_code !== 0)
      throw new TypeError(`the producer ended as ${event.record.end}`);
  }
  sink.flush();
  return megabytesPerSecond(blocks, start);
}

/** The baseline: MB/s of the same program through a pipe. */
export async function bareRate([file, ...args]: readonly string[], blocks: number, sink: Sink): Promise<number> {
  if (file === undefined) throw new TypeError('a command line has a program');
  const start = performance.now();
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const data of child.stdout) sink.push(data);
  sink.flush();
  return megabytesPerSecond(blocks, start);
}

/** MB/s of whole blocks since `start`. */
export function megabytesPerSecond(blocks: number, start: number): number {
  return (blocks * BLOCK_BYTES) / 1e6 / ((performance.now() - start) / 1000);
}
