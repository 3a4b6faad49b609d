/** A runner that has no descriptor left, at the moments when it needs one: nothing is lost, and nothing stays behind. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BoxkiteError } from '@boxkite/protocol';
import { processesOf, run, startRunner, startStaying, type TestRunner } from '@boxkite/testing';
import { describe, expect, it } from 'vitest';

/** While it is held, `pid` gets no new descriptor: its limit is its first free number. */
function withoutDescriptors(pid: number): Disposable {
  const [, soft = ''] = /^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'latin1')) ?? [];
  const used = new Set(readdirSync(`/proc/${pid}/fd`));
  let free = 0;
  while (used.has(String(free))) free += 1;
  const limit = (most: number | string): unknown => execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${most}:`]);
  limit(free);
  return { [Symbol.dispose]: () => limit(soft) };
}

/** Process ids of what a process has started itself. */
export function childrenOf(pid: number): readonly number[] {
  return processesOf(pid, '/nonexistent').flatMap((entry) => (entry.parent === pid ? [entry.pid] : []));
}

/** What becomes of a request whose answer by one of the runner's processes comes when it has no descriptor for it. */
async function answeredWithout<T>(runner: TestRunner, request: () => Promise<T>): Promise<T | Error> {
  const answerers = childrenOf(runner.pid);
  for (const pid of answerers) process.kill(pid, 'SIGSTOP');
  const outcome = request().catch((error: Error) => error);
  // With this answer the order is on its way.
  await runner.client.list();
  using _none = withoutDescriptors(runner.pid);
  for (const pid of answerers) process.kill(pid, 'SIGCONT');
  return await outcome;
}

/** Tests for root alone, since a runner can't be looked into by another user. */
export function runnerWithoutDescriptors(): void {
  describe('a runner without a descriptor', () => {
    it('keeps all output of a command that writes more than a little', async () => {
      await using runner = await startRunner({ blanks: 0 });
      const sandbox = await runner.create();
      const write = 'head -c 300000 /dev/zero | tr "\\0" x; exit 0';
      const script = `trap '${write}' TERM; echo ready; while :; do sleep 0.05; done`;
      const staying = await startStaying(sandbox, ['/bin/sh', '-c', script]);
      using _none = withoutDescriptors(runner.pid);
      await staying.handle.signal('SIGTERM');
      const { stdout, record } = await staying.drain();
      expect(stdout === `ready\n${'x'.repeat(300_000)}`).toBe(true);
      expect(record).toMatchObject({ end: 'exited', exit_code: 0, stdout_bytes: 300_006 });
    });

    it('ends an envelope whose process it could not be told of, and closes the sandbox', async () => {
      await using runner = await startRunner({ blanks: 0 });
      const makers = childrenOf(runner.pid);
      const sandbox = await runner.create();
      const busy = await startStaying(sandbox, ['/bin/sh', '-c', 'echo on; cat']);
      const held = childrenOf(runner.pid);
      expect(await answeredWithout(runner, () => sandbox.exec({ argv: ['/bin/true'] }))).toBeInstanceOf(Error);
      expect(childrenOf(runner.pid)).toEqual(held);
      await busy.finish();
      await runner.client.closeSandbox(sandbox.number);
      expect(childrenOf(runner.pid)).toEqual(makers);
    });

    it('starts no command whose terminal it could not take', async () => {
      await using runner = await startRunner({ blanks: 0 });
      const sandbox = await runner.create();
      const exec = () => sandbox.exec({ argv: ['/bin/cat'], tty: { columns: 80, rows: 24 } });
      expect(await answeredWithout(runner, exec)).toMatchObject({ code: 'start_failed' });
      expect((await run(sandbox, ['/bin/echo', 'on'])).stdout).toBe('on\n');
    });

    it('lets go of a disk workspace that it could not take', async () => {
      const state = mkdtempSync(join(tmpdir(), 'boxkite-state-'));
      try {
        await using runner = await startRunner({ blanks: 0, state });
        const id = randomBytes(16);
        const open = (reopen: boolean) => runner.create({ workspace: { kind: 'disk', id, reopen }, workspaceMb: 16 });
        expect(await answeredWithout(runner, () => open(false))).toMatchObject({ code: 'capacity' });
        await expect.poll(() => readdirSync(join(state, 'workspaces'))).toEqual([]);
        // It is in use until the keeper has let go of it.
        const opened = (reopen: boolean) =>
          open(reopen).then(
            ({ number }) => runner.client.closeSandbox(number, { keep: true }).then(() => 'opened'),
            ({ code }: BoxkiteError) => code,
          );
        await expect.poll(() => opened(false)).toBe('opened');
        expect(await answeredWithout(runner, () => open(true))).toMatchObject({ code: 'capacity' });
        await expect.poll(() => opened(true)).toBe('opened');
      } finally {
        rmSync(state, { recursive: true, force: true });
      }
    });
  });
}
