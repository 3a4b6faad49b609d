/** The published package's command-line program, unmodified, in local mode over a real sidecar. */
import { startSidecar, type TestSidecar } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CommandLineOutcome, commandLine } from './support/published.ts';

let sidecar: TestSidecar;

beforeAll(async () => {
  sidecar = await startSidecar();
}, 120_000);

afterAll(() => sidecar[Symbol.asyncDispose]());

function run(...words: string[]): Promise<CommandLineOutcome> {
  return commandLine(sidecar, words);
}

const files = (...words: string[]) => run('files', ...words);

/** What a refusal looks like: our sentence, no traceback, no bare status. */
function expectRefusal(outcome: CommandLineOutcome, about: RegExp): void {
  expect(outcome.status).toBe(1);
  expect(outcome.stdout).toBe('');
  expect(outcome.stderr).toMatch(/^Error: \S/);
  expect(outcome.stderr).toMatch(about);
  expect(outcome.stderr).not.toMatch(/Traceback|HTTP \d/);
}

// Nothing configures the sandbox: the program has no call for it.
describe('the published command line in local mode', () => {
  describe('exec', () => {
    it('runs a command', async () => {
      const { status, stdout, stderr } = await run('exec', 'echo out; echo err >&2');
      expect(status).toBe(0);
      expect(stdout).toMatch(/^out\n+exit code: 0\n$/);
      expect(stderr).toMatch(/^err\n+$/);
    });

    it('keeps files from call to call', async () => {
      await run('exec', 'echo kept > /workspace/kept');
      expect((await run('exec', 'cat /workspace/kept')).stdout).toMatch(/^kept\n/);
    });

    it('fails as the command does', async () => {
      const { status, stdout } = await run('exec', 'exit 9');
      expect([status, stdout]).toEqual([1, 'exit code: 9\n']);
    });

    it('ends a command at its timeout', async () => {
      const started = performance.now();
      const { status, stdout } = await run('exec', '--timeout', '1', 'sleep 60');
      expect([status, stdout]).toEqual([1, 'exit code: 124\n']);
      expect(performance.now() - started).toBeLessThan(40_000);
    });

    it('cuts output at a megabyte', async () => {
      const { stdout } = await run('exec', 'head -c 3000000 /dev/zero | tr "\\0" x');
      expect(stdout.match(/x{2,}/)?.[0].length).toBe(1_048_576);
    });
  });

  describe('files', () => {
    it('create and view a file', async () => {
      const created = await files('create', 'sub/a.txt', '--content', 'one\ntwo \u00fc\nthree');
      expect([created.stderr, created.status]).toEqual(['', 0]);
      expect(created.stdout).toContain('/workspace/sub/a.txt');
      expect(created.stdout).toContain('16 bytes');
      expect((await files('view', 'sub/a.txt')).stdout).toBe('one\ntwo \u00fc\nthree\n');
      expect((await files('view', 'sub/a.txt', '--start-line', '2', '--end-line', '2')).stdout).toBe('two \u00fc\n');
    });

    it('view a directory', async () => {
      await run('exec', 'mkdir -p folder; touch folder/b folder/a');
      expect((await files('view', 'folder')).stdout.trim().split('\n').sort()).toEqual(['a', 'b']);
    });

    it('refuse to view and create with a sentence', async () => {
      expectRefusal(await files('view', 'none'), /none/);
      expectRefusal(await files('view', '/etc/passwd'), /\/etc\/passwd/);
      expectRefusal(await files('create', '/mnt/skills/a', '--content', 'x'), /\/mnt\/skills/);
    });

    it('create no file that is too large', async () => {
      await run('exec', 'truncate -s 26214401 huge');
      expectRefusal(await files('view', 'huge'), /26\D?214\D?40\d/);
    });

    it('edit one occurrence, or all', async () => {
      await files('create', 'edited', '--content', 'a b a');
      expect((await files('edit', 'edited', '--old', 'b', '--new', 'c')).stdout).toContain('1 occurrence');
      expectRefusal(await files('edit', 'edited', '--old', 'a', '--new', 'z'), /2/);
      expect((await files('edit', 'edited', '--old', 'a', '--new', 'z', '--replace-all')).stdout).toContain(
        '2 occurrence',
      );
      expect((await files('view', 'edited')).stdout).toBe('z c z\n');
      const none = await files('edit', 'edited', '--old', 'q', '--new', 'z');
      expect([none.status, none.stdout]).toEqual([0, expect.stringContaining('occurrences=0')]);
    });

    it('list, find and search', async () => {
      await run('exec', 'mkdir -p tree/in; echo needle > tree/one.py; echo hay > tree/in/two.py; echo needle > tree/c');
      const listed = await files('ls', 'tree');
      expect(listed.stdout.split('\n')).toEqual(
        expect.arrayContaining(['/workspace/tree/c', '/workspace/tree/one.py']),
      );
      expect(listed.stdout).toMatch(/^\/workspace\/tree\/in\/+$/m);
      const found = await files('glob', '**/*.py', '--path', 'tree');
      expect(found.stdout.trim().split('\n').sort()).toEqual(['/workspace/tree/in/two.py', '/workspace/tree/one.py']);
      const searched = await files('grep', 'need.e', '--path', 'tree');
      expect(searched.stdout.trim().split('\n').sort()).toEqual([
        '/workspace/tree/c:1:needle',
        '/workspace/tree/one.py:1:needle',
      ]);
      expect((await files('grep', 'needle', '--path', 'tree', '--glob', '*.py')).stdout).toBe(
        '/workspace/tree/one.py:1:needle\n',
      );
      const cut = await files('grep', 'needle', '--path', 'tree', '--max-matches', '1');
      expect(cut.stdout).toMatch(/^\/workspace\/tree\/\S+:1:needle\n.*truncated/);
    });

    it('refuse to list, find and search outside', async () => {
      for (const words of [
        ['ls', '/etc'],
        ['glob', '*', '--path', '/etc'],
        ['grep', 'x', '--path', '/etc'],
      ]) {
        expectRefusal(await files(...words), /\/etc/);
      }
    });
  });

  it('says that a wrong token is refused', async () => {
    expectRefusal(await commandLine({ url: sidecar.url, token: 'wrong' }, ['files', 'ls']), /token/);
  });

  it('has hosted commands that need another server', async () => {
    for (const words of [['session', 'ls'], ['log'], ['whoami']]) expectRefusal(await run(...words), /hosted/i);
  });
});
