import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { extract } from 'tar-stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { measureTree, packTree } from '../src/copy-in.ts';

const uid = process.geteuid?.() ?? 0;
const ROOM = { bytes: 64 * 1024 * 1024, inodes: 10_000 };
let top = '';

interface Packed {
  readonly type: string;
  readonly mode: number;
  readonly link: string;
  readonly content: Buffer;
}

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'boxkite-copy-'));
});

afterEach(() => {
  chmodSync(top, 0o755);
  rmSync(top, { recursive: true, force: true });
});

/** Read by another implementation than ours. */
async function packed(tree: string): Promise<Map<string, Packed>> {
  const reader = extract();
  const entries = new Map<string, Packed>();
  const done = (async () => {
    for await (const entry of reader) {
      const parts: Buffer[] = [];
      for await (const chunk of entry) if (chunk instanceof Uint8Array) parts.push(Buffer.from(chunk));
      const { name, type, mode, linkname } = entry.header;
      entries.set(name.replace(/\/$/, ''), { type, mode, link: linkname ?? '', content: Buffer.concat(parts) });
    }
  })();
  for await (const chunk of packTree(tree))
    if (!reader.write(chunk)) await new Promise((resolve) => reader.once('drain', () => resolve(null)));
  reader.end(undefined);
  await done;
  return entries;
}

async function code(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => null,
    (reason: unknown) => reason,
  );
  return error instanceof BoxkiteError ? `${error.code}: ${error.message}` : `no BoxkiteError: ${String(error)}`;
}

test('files, modes, empty directories, links and long names arrive', async () => {
  const long = `${'d'.repeat(120)}/${'f'.repeat(200)}`;
  mkdirSync(join(top, 'd'.repeat(120)));
  writeFileSync(join(top, long), 'deep');
  writeFileSync(join(top, 'script.sh'), 'echo hi\n', { mode: 0o755 });
  writeFileSync(join(top, 'empty'), '', { mode: 0o640 });
  writeFileSync(join(top, 'ü ä'), 'name');
  mkdirSync(join(top, 'hollow'), { mode: 0o750 });
  symlinkSync('script.sh', join(top, 'near'));
  const entries = await packed(top);
  expect(entries.get('script.sh')).toMatchObject({ type: 'file', mode: 0o755 });
  expect(entries.get('script.sh')?.content.toString()).toBe('echo hi\n');
  expect(entries.get('empty')).toMatchObject({ type: 'file', mode: 0o640 });
  expect(entries.get('ü ä')?.content.toString()).toBe('name');
  expect(entries.get('hollow')).toMatchObject({ type: 'directory', mode: 0o750 });
  expect(entries.get('near')).toMatchObject({ type: 'symlink', link: 'script.sh' });
  expect(entries.get(long)?.content.toString()).toBe('deep');
});

test('a link out of the tree stays a link and nothing behind it is read', async () => {
  mkdirSync(join(top, 'tree'));
  mkdirSync(join(top, 'outside'));
  writeFileSync(join(top, 'outside', 'secret'), 'canary');
  symlinkSync('../outside', join(top, 'tree', 'out'));
  symlinkSync('/etc/passwd', join(top, 'tree', 'passwd'));
  const entries = await packed(join(top, 'tree'));
  expect([...entries.keys()].sort()).toEqual(['out', 'passwd']);
  expect(entries.get('out')).toMatchObject({ type: 'symlink', link: '../outside' });
});

test('a large file arrives byte for byte', async () => {
  const content = Buffer.alloc(3_000_001, 'boxkite!');
  writeFileSync(join(top, 'big'), content);
  expect((await packed(top)).get('big')?.content.equals(content)).toBe(true);
});

test('more headers than one chunk takes', async () => {
  for (let index = 0; index < 1500; index += 1) mkdirSync(join(top, `d${index}`));
  expect((await packed(top)).size).toBe(1500);
});

test('a pipe is left out and told', async () => {
  execFileSync('mkfifo', [join(top, 'pipe')]);
  writeFileSync(join(top, 'file'), 'x');
  expect(await measureTree(top, ROOM)).toMatchObject({ entries: 2, skipped: ['pipe'], bytes: 4096 });
  expect([...(await packed(top)).keys()]).toEqual(['file']);
});

test('a tree that does not fit is refused with numbers before anything is sent', async () => {
  writeFileSync(join(top, 'sparse'), '');
  truncateSync(join(top, 'sparse'), 65 * 1024 * 1024);
  expect(await code(measureTree(top, ROOM))).toMatch(/^no_space: .* holds 65 MiB and the workspace 64 MiB$/);
  expect(await code(measureTree(top, { bytes: 1e12, inodes: 0 }))).toMatch(/^no_space: .* 1 files/);
});

test('a file that may not be read is named', async () => {
  writeFileSync(join(top, 'private'), 'x', { mode: 0o000 });
  chmodSync(top, 0o755);
  // Root may read everything, so as root the copy is made by an id without that right.
  if (uid === 0) process.seteuid?.(65_534);
  const result = await code(packed(top)).finally(() => process.seteuid?.(uid));
  expect(result).toMatch(/^invalid_request: .*private can't be copied: you may not read it$/);
});

test('a name that is not UTF-8 is refused, not altered', async () => {
  writeFileSync(Buffer.concat([Buffer.from(`${top}/bad`), Buffer.from([0xff])]), '');
  expect(await code(measureTree(top, ROOM))).toMatch(/^invalid_request: a name in .* is not UTF-8/);
});

test('an abort ends it', async () => {
  writeFileSync(join(top, 'file'), 'x');
  const stop = new AbortController();
  stop.abort();
  const read = async () => {
    for await (const chunk of packTree(top, stop.signal)) void chunk;
  };
  expect(await code(read())).toMatch(/^aborted/);
});

test('leaving the stream early ends the walk', async () => {
  for (let index = 0; index < 20; index += 1) writeFileSync(join(top, `f${index}`), Buffer.alloc(1_000_000));
  for await (const chunk of packTree(top)) {
    expect(chunk.length).toBeGreaterThan(0);
    break;
  }
});
