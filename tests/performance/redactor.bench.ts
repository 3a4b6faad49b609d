/**
 * Speed of the redactor beside its baseline, the same bytes through a pipe of `child_process`. Run by node itself:
 * `node tests/performance/redactor.bench.ts [MiB]`. Exits 1 if clean output is slower than the pipe, without WebAssembly
 * slower than a quarter of it, if a text that was made to be slow takes more than fifty times as long as the pipe, or if
 * memory grows with the stream.
 */
import { spawn } from 'node:child_process';
import { createByteRedactor, createRedactor, KnownValues } from '../../packages/policy/src/index.ts';

const CHUNK = 65_536;
const REQUIRED_SHARE = 1;
const SCRIPT_SHARE = 0.25;
const WORST_RATIO = 50;
const mebibytes = Number(process.argv[2] ?? '256');

/** A fixed sequence of numbers in [0, 1), so that every run measures the same bytes. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const random = sequence(7);
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
function word(length: number): string {
  return Array.from({ length }, () => ALPHABET.charAt(Math.floor(random() * ALPHABET.length))).join('');
}

const secrets = Array.from({ length: 20 }, (_, index) => [`SECRET_${index}`, word(20 + index * 3)] as const);
const values = secrets.map(([, value]) => value);
const known = new KnownValues(new Map(secrets));

const WORDS =
  'the build step compiled in seconds with warnings and then tests passed for module index of error at line node file path'.split(
    ' ',
  );
function proseLine(): string {
  let line = '';
  while (line.length < 70) line += `${WORDS[Math.floor(random() * WORDS.length)] ?? ''} `;
  return `${line.slice(0, 50 + Math.floor(random() * 20))}\n`;
}

/** Repeats what `next` gives up to one chunk of bytes. */
function chunkOf(next: () => string): Buffer {
  let text = '';
  while (text.length < CHUNK) text += next();
  return Buffer.from(text).subarray(0, CHUNK);
}

function pick(): string {
  return values[Math.floor(random() * values.length)] ?? '';
}

const CLEAN = chunkOf(proseLine);
const INPUTS: Readonly<Record<string, Buffer>> = {
  'build log': chunkOf(() => `[${Math.floor(random() * 1e6)}] ${proseLine()}`),
  'base64 in lines of 76': chunkOf(() => `${word(76)}\n`),
  'random bytes': Buffer.from(Array.from({ length: CHUNK }, () => Math.floor(random() * 256))),
  'only A': chunkOf(() => 'A'.repeat(1024)),
  'only newlines': chunkOf(() => '\n'.repeat(1024)),
  'a character a line': chunkOf(() => `${word(1)}\n`),
  'beginnings of values': chunkOf(() => pick().slice(0, 6)),
  'all but the end of values': chunkOf(() => pick().slice(0, -1)),
  'values in the wrong case': chunkOf(() => pick().toLowerCase()),
  'beginnings with newlines': chunkOf(() => `${pick().slice(0, 12)}${'\n'.repeat(40)}`),
  'only values': chunkOf(pick),
  'values, a character a line': chunkOf(() => [...pick()].join('\r\n')),
};

/** Megabytes a second of `push` over `count` chunks. */
function speed(push: (chunk: Buffer) => unknown, chunk: Buffer, count: number): number {
  const start = process.hrtime.bigint();
  for (let index = 0; index < count; index += 1) push(chunk);
  return (count * chunk.length * 1000) / Number(process.hrtime.bigint() - start);
}

function byteSpeed(chunk: Buffer, count: number, values_: KnownValues = known): number {
  const redactor = createByteRedactor(values_, { patterns: false });
  const warm = createByteRedactor(values_, { patterns: false });
  speed((piece) => warm.pushParts(piece), chunk, Math.ceil(count / 4));
  return speed((piece) => redactor.pushParts(piece), chunk, count);
}

async function pipeSpeed(total: number): Promise<number> {
  const start = process.hrtime.bigint();
  const child = spawn('head', ['-c', `${total}`, '/dev/zero'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let seen = 0;
  for await (const chunk of child.stdout) seen += (chunk as Buffer).length;
  if (seen !== total) throw new Error(`the pipe gave ${seen} of ${total} bytes`);
  return (total * 1000) / Number(process.hrtime.bigint() - start);
}

const REPETITIVE = new KnownValues({ A: 'A'.repeat(65_536), B: 'Ab'.repeat(1000), C: 'a/'.repeat(500) });
const REPETITIVE_INPUTS: Readonly<Record<string, Buffer>> = {
  'repetitive values: A': chunkOf(() => 'A'.repeat(1024)),
  'repetitive values: near misses': chunkOf(() => `${'A'.repeat(60_000)}B`),
  'repetitive values: wrong case late': chunkOf(() => `${'Ab'.repeat(1500)}aB`),
  'repetitive values: percent, wrong case': chunkOf(() => `${'a%2f'.repeat(800)}A%2F`),
};

/** Speed with the filter in JavaScript, as where a module may not be compiled. */
function scriptSpeed(count: number): number {
  const api = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly');
  Reflect.deleteProperty(globalThis, 'WebAssembly');
  const rate = byteSpeed(CLEAN, count, new KnownValues(new Map(secrets)));
  if (api !== undefined) Object.defineProperty(globalThis, 'WebAssembly', api);
  return rate;
}

function show(name: string, rate: number, pipe: number): void {
  console.log(`${name.padEnd(40)} ${rate.toFixed(0).padStart(6)} MB/s = ${(rate / pipe).toFixed(2)} x the pipe`);
}

async function main(): Promise<number> {
  const problems: string[] = [];
  const count = (mebibytes * 1024 * 1024) / CHUNK;
  const pipe = await pipeSpeed(mebibytes * 1024 * 1024);
  const clean = byteSpeed(CLEAN, count);
  const before = process.memoryUsage.rss();
  byteSpeed(CLEAN, count);
  const grown = (process.memoryUsage.rss() - before) / 1e6;
  const joining = createByteRedactor(known, { patterns: false });
  const joined = speed((piece) => joining.push(piece), CLEAN, count);
  const script = scriptSpeed(count);
  const textRedactor = createRedactor(known, { patterns: false });
  const text = speed((piece) => textRedactor.push(piece.toString('latin1')), CLEAN, count);
  show('pipe of child_process', pipe, pipe);
  show('clean bytes, 20 known values', clean, pipe);
  show('the same, its parts joined', joined, pipe);
  show('the same, without WebAssembly', script, pipe);
  show('clean text with its decoding', text, pipe);
  console.log(`memory grown over the stream: ${grown.toFixed(1)} MB`);
  if (clean < pipe * REQUIRED_SHARE) problems.push('clean bytes are too slow');
  if (script < pipe * SCRIPT_SHARE) problems.push('clean bytes are too slow without WebAssembly');
  if (grown > 20) problems.push('memory grows');
  const few = Math.max(16, Math.floor(count / 16));
  const report = (name: string, rate: number): void => {
    show(name, rate, pipe);
    if (pipe / rate > WORST_RATIO) problems.push(`${name}: more than ${WORST_RATIO} times slower than the pipe`);
  };
  for (const [name, chunk] of Object.entries(INPUTS)) report(name, byteSpeed(chunk, few));
  for (const [name, chunk] of Object.entries(REPETITIVE_INPUTS)) report(name, byteSpeed(chunk, few, REPETITIVE));
  for (const problem of problems) console.log(`FAILED: ${problem}`);
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main();
