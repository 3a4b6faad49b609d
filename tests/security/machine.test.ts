/** What the machine under a sandbox gives, by what its kernel says itself, and that all of it is used. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { lane, ownMachine, startRunner, type TestRunner } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

interface Mount {
  readonly at: string;
  readonly type: string;
  readonly options: readonly string[];
}

/** Every mount of this process. */
function mounts(): readonly Mount[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [left = '', right = ''] = line.split(' - ');
      const [type = '', , options = ''] = right.split(' ');
      return { at: left.split(' ')[4] ?? '', type, options: options.split(',') };
    });
}

/** The version of Landlock that the kernel answers with, 0 for none. */
function landlockOfKernel(): number {
  const source = 'import ctypes; print(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))';
  return Math.max(0, Number(execFileSync('/usr/bin/python3', ['-I', '-S', '-c', source], { encoding: 'utf8' })));
}

/** The version of control groups that has a controller. */
function groupsOf(controller: string): string {
  const unified = mounts().find(({ type }) => type === 'cgroup2');
  const own = unified === undefined ? '' : readFileSync(join(unified.at, 'cgroup.controllers'), 'utf8');
  return own.trim().split(' ').includes(controller) ? 'cgroup_v2' : 'cgroup_v1';
}

const text = (path: string): string => readFileSync(path, 'utf8').trim();

describe(`machine, ${lane}`, () => {
  let runner: TestRunner;

  beforeAll(async () => {
    runner = await startRunner();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it('has its Landlock in force, whichever version that is', async () => {
    await using sandbox = await runner.create();
    expect(sandbox.effective.landlock).toBe(landlockOfKernel());
  });

  // An ordinary user has control groups only where somebody has handed them over.
  it.each(lane === 'root' || ownMachine ? ['memory', 'processes', 'cpu'] : [])(
    'has its control groups in force for %s',
    async (what) => {
      await using sandbox = await runner.create({ cpuMillis: 500 });
      const { memory, processes, cpu } = sandbox.effective;
      const found = { memory: memory.via, processes: processes.via, cpu: cpu.via };
      const controllers = { memory: groupsOf('memory'), processes: groupsOf('pids'), cpu: groupsOf('cpu') };
      expect(Object.entries(found).filter(([name]) => name === what)).toEqual(
        Object.entries(controllers).filter(([name]) => name === what),
      );
    },
  );

  // The machine of `make test-v2` is made for what it is; another one may be anything.
  it.each(ownMachine ? [release()] : [])('is the one that the lane promises: %s', () => {
    expect(mounts().filter(({ type }) => type === 'cgroup')).toEqual([]);
    expect(groupsOf('memory')).toBe('cgroup_v2');
    expect(text('/sys/module/apparmor/parameters/enabled')).toBe('Y');
    expect(text('/sys/kernel/security/lsm').split(',')).toEqual(expect.arrayContaining(['landlock', 'apparmor']));
    expect(landlockOfKernel()).toBeGreaterThan(0);
    const disk = mounts().findLast(({ at }) => at === tmpdir());
    expect(disk?.type).toBe('ext4');
    expect(disk?.options).toContain('prjquota');
  });
});
