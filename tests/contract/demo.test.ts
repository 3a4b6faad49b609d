/** The demo on a file of its user: bad lines are named and skipped, the rest runs, and its exit status is true. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const MAIN = join(import.meta.dirname, '..', '..', 'tools', 'demo', 'main.ts');
const directory = mkdtempSync(join(tmpdir(), 'boxkite-demo-test-'));
afterAll(() => rmSync(directory, { recursive: true }));

const GOOD = {
  task_id: 'Mine/good',
  prompt: 'def one():\n',
  canonical_solution: '    return 1\n',
  test: 'def check(candidate):\n    assert candidate() == 1\n',
  entry_point: 'one',
};

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function demo(file: string): Promise<Ended> {
  const child = spawn(process.execPath, [MAIN, file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, XDG_CACHE_HOME: directory, NO_COLOR: '1' },
  });
  const text = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text.stdout += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (text.stderr += part));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return { code, ...text };
}

function write(name: string, values: readonly (object | string)[]): string {
  const path = join(directory, name);
  writeFileSync(path, values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join('\n'));
  return path;
}

test('bad lines are named and skipped, the rest runs, the offenders are stopped', async () => {
  const { code, stdout, stderr } = await demo(
    write('mixed.jsonl', [GOOD, '{', { ...GOOD, task_id: 'Mine/2', test: 3 }]),
  );
  expect(stderr).toBe('');
  expect(stdout).toContain('skipped line 2: not JSON');
  expect(stdout).toContain('skipped line 3: "test" must be a string');
  expect(stdout).toContain('1/1 sandboxes, 0 failed');
  expect(stdout.match(/^ {2}stopped; alive after it: 0$/gm)).toHaveLength(3);
  expect(stdout.match(/^ {2}succeeds there/gm)).toHaveLength(3);
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(code).toBe(0);
});

test('a program that fails, ends early or loops makes the exit status 1 and is named', async () => {
  const wrong = { ...GOOD, task_id: 'Mine/wrong', canonical_solution: '    return 2\n' };
  const early = { ...GOOD, task_id: 'Mine/early', canonical_solution: '    import os\n    os._exit(0)\n' };
  const { code, stdout } = await demo(write('failing.jsonl', [GOOD, wrong, early]));
  expect(stdout).toContain('failed Mine/wrong: AssertionError');
  expect(stdout).toContain('failed Mine/early: ended with status 0 before its check came to the end');
  expect(code).toBe(1);
});

test('a missing file, one without a program, and a wrong call are refused with a hint and status 2', async () => {
  for (const file of [join(directory, 'none.jsonl'), write('empty.jsonl', ['', '{}']), '--wrong']) {
    const { code, stderr } = await demo(file);
    expect(stderr).toMatch(/^demo: .+\n {2}.+/);
    expect(code).toBe(2);
  }
});
