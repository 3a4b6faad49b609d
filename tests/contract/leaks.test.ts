/** 200 sandboxes made, used and destroyed in parallel, ten times over: everything that the host holds for them is gone after. */
import { readdirSync } from 'node:fs';
import {
  groupsOf,
  growth,
  lane,
  leftovers,
  type Resources,
  resourcesOf,
  run,
  sleep,
  slowness,
  startRunner,
  type TestRunner,
  within,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const SANDBOXES = Math.ceil(200 / slowness);
const ROUNDS = Math.ceil(10 / slowness);
/** The kernel takes network namespaces apart in the background. */
const SETTLE_MS = within(5000);

describe(`leaks, ${lane}`, () => {
  let runner: TestRunner;

  beforeAll(async () => {
    runner = await startRunner({ idleSeconds: 1 });
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  /** Makes, uses and destroys one sandbox; every fifth is destroyed while something runs in it. */
  const use = async (index: number): Promise<void> => {
    await using sandbox = await runner.create({ workspaceMb: 16 });
    const agent = await sandbox.agent();
    await agent.write('/workspace/file', Buffer.from(String(index)));
    const { stdout } = await run(sandbox, ['/bin/cat', '/workspace/file']);
    expect(stdout).toBe(String(index));
    expect((await agent.readAll('/workspace/file')).toString()).toBe(String(index));
    if (index % 5 === 0)
      await sandbox.exec({ argv: ['/bin/sh', '-c', 'echo x > /dev/shm/x; (setsid sleep 60 &); sleep 60'] });
  };

  const settled = async (before: Resources): Promise<readonly string[]> => {
    const deadline = performance.now() + SETTLE_MS;
    for (;;) {
      const grown = growth(before, resourcesOf(runner.pid, runner.place.base));
      if (grown.length === 0 || performance.now() > deadline) return grown;
      await sleep(100);
    }
  };

  it('are none, of processes, mounts, cgroups, namespaces, descriptors and files', {
    timeout: within(180_000),
  }, async () => {
    await Promise.all(Array.from({ length: 20 }, (_, index) => use(index)));
    await sleep(within(1500));
    const before = resourcesOf(runner.pid, runner.place.base);
    const ownDescriptors = readdirSync('/proc/self/fd').length;
    let most: readonly string[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const using = Promise.all(Array.from({ length: SANDBOXES }, (_, index) => use(index)));
      if (round === 0) {
        await Promise.race([using, sleep(within(400))]);
        most = growth(before, resourcesOf(runner.pid, runner.place.base));
      }
      await using;
      expect(await settled(before), `after round ${round}`).toEqual([]);
      expect((await runner.client.list()).sandboxes).toEqual([]);
      expect((await runner.client.list()).execs).toEqual([]);
    }
    // The count sees what it is there for: in the middle of a round there was more of nearly everything.
    // Only root may look at the namespaces of processes that are not dumpable, and has cgroups to write.
    for (const kind of ['processes', 'mounts', ...(lane === 'root' ? ['namespaces', 'cgroups', 'descriptors'] : [])]) {
      expect(
        most.some((line) => line.startsWith(`${kind}: `)),
        `${kind} in ${most.map((line) => line.slice(0, 40)).join(' | ')}`,
      ).toBe(true);
    }
    expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(ownDescriptors + 2);
  });

  it('are none after sandboxes that could not be made', async () => {
    const before = resourcesOf(runner.pid, runner.place.base);
    const bad = [{ root: 9 }, { memoryMb: 0 }, { workspaceMb: 0 }, { pids: 0 }, { inodes: 0 }];
    for (let round = 0; round < 10; round += 1) {
      for (const spec of bad)
        await runner.create(spec).then(
          (made) => made.destroy(),
          () => undefined,
        );
      const controller = new AbortController();
      const opening = runner.client.openSandbox(
        { memoryBytes: 1 << 28, workspaceBytes: 1 << 24, inodes: 1024, pids: 32, cpuMillis: 0, root: 0 },
        controller.signal,
      );
      controller.abort();
      await opening.then(
        ({ sandbox }) => runner.client.closeSandbox(sandbox),
        () => undefined,
      );
    }
    expect(await settled(before)).toEqual([]);
    await expect(runner.create({ root: 9 })).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('are none after the runner itself', async () => {
    const other = await startRunner();
    const { place } = other;
    const groups = groupsOf(place.directory);
    if (lane === 'root') expect(groups.length).toBeGreaterThan(0);
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        const sandbox = await other.create();
        await (await sandbox.agent()).write('/workspace/x', Buffer.from('x'));
        await sandbox.exec({ argv: ['/bin/sleep', '60'] });
      }),
    );
    await other[Symbol.asyncDispose]();
    expect(leftovers(place.base, groups)).toEqual([]);
    expect(other.ended).toEqual({ code: 0, signal: null });
    expect(other.complaints).toEqual([]);
  });
});
