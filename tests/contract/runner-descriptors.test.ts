/** A runner that has no descriptor left, at the moments when it needs one: nothing is lost, and nothing stays behind. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { startRunner, startStaying } from '@boxkite/testing';
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
});
