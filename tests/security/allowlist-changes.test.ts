/** Lists of programs as they come and go: what is refused, what a change waits for, what is left; and the page's examples. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { BoxkiteError } from '@boxkite/protocol';
import { eventually, groupsOf, lane, python, run, sh, startRunner, type TestRunner } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { codeOf, refusal } from './support/code-attacks.ts';

/** Children of a runner that are in its own pid namespace: makers. PID 1 of an envelope has two numbers. */
function makersOf(runner: number): number[] {
  const statusOf = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/status`, 'utf8');
    } catch {
      return '';
    }
  };
  const own =
    /^NSpid:(.*)$/m
      .exec(statusOf(String(runner)))?.[1]
      ?.trim()
      .split(/\s+/).length ?? 1;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const status = statusOf(pid);
      const numbers = /^NSpid:(.*)$/m.exec(status)?.[1]?.trim().split(/\s+/).length;
      return new RegExp(`^PPid:\\s${runner}$`, 'm').test(status) && numbers === own && !/^State:\tZ/m.test(status);
    })
    .map(Number);
}

describe(`lists, ${lane}`, () => {
  let runner: TestRunner;
  beforeAll(async () => {
    runner = await startRunner();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it('change while nothing runs, and not while something does', async () => {
    await using sandbox = await runner.create();
    const { client } = runner;
    const exit = async (): Promise<number | string> => {
      try {
        return (await run(sandbox, ['id'])).record.exit_code ?? -1;
      } catch (error) {
        return error instanceof BoxkiteError ? error.code : String(error);
      }
    };
    expect(await exit()).toBe(0);
    const set = await client.setPrograms(sandbox.number, { programs: ['ls', 'cd', 'no-such-program'] });
    expect(set.missing).toEqual(['cd', 'no-such-program']);
    expect(set.effective.programs).toMatchObject({ enforced: 'kernel', count: 2 });
    expect(await exit()).toBe('not_executable');
    const handle = await sandbox.exec({ argv: ['sh', '-c', 'read line'], stdin: 'stream' });
    expect((await refusal(client.setPrograms(sandbox.number, null))).code).toBe('conflict');
    await handle.kill();
    for await (const _ of handle);
    expect((await client.setPrograms(sandbox.number, { programs: ['id'] })).effective.programs.count).toBe(2);
    expect(await exit()).toBe(0);
    const none = await client.setPrograms(sandbox.number, null);
    expect(none.effective.programs).toEqual({ enforced: 'none', count: 0, via: [] });
    expect(none.effective.layers.programs).toBeUndefined();
    expect((await sh(sandbox, 'cp /usr/bin/id x && ./x')).stdout).toContain('uid=1001');
  });

  it('that the kernel can not enforce are refused by name, and what was in force stays', async () => {
    await using sandbox = await runner.create({ programs: { programs: ['ls'] } });
    const { client } = runner;
    const refused = async (...programs: string[]): Promise<unknown> => {
      const error = await refusal(client.setPrograms(sandbox.number, { programs }));
      expect(error.code).toBe('invalid_request');
      return error.details;
    };
    expect(await refused('ls', '/workspace/tool')).toMatchObject({
      reason: 'writable_root',
      program: '/workspace/tool',
    });
    expect(await refused('/tmp/x')).toMatchObject({ reason: 'writable_root' });
    expect(await refused('./gradlew')).toMatchObject({ reason: 'relative_path', program: './gradlew' });
    expect(await refused('/etc/passwd')).toMatchObject({ reason: 'not_a_program' });
    expect(await refused('/usr/bin')).toMatchObject({ reason: 'not_a_program' });
    expect(await refused('ldd')).toMatchObject({ reason: 'interpreter_not_listed', program: 'ldd' });
    if (existsSync('/usr/bin/busybox') || existsSync('/bin/busybox')) {
      expect(await refused('busybox')).toMatchObject({ reason: 'multi_call', program: 'busybox' });
    }
    expect(await refused('')).toMatchObject({ field: 'programs' });
    expect(await refused('a\0b')).toMatchObject({ field: 'programs' });
    expect(await refused(...Array.from({ length: 1025 }, (_, index) => `p${index}`))).toMatchObject({
      field: 'programs',
    });
    expect((await refusal(run(sandbox, ['id']))).code).toBe('not_executable');
    expect((await run(sandbox, ['ls', '/'])).record.exit_code).toBe(0);
  });

  it('leave no sandbox where one is opened with a list that is refused', async () => {
    const before = (await runner.client.list()).sandboxes.length;
    expect((await refusal(runner.create({ programs: { programs: ['./x'] } }))).code).toBe('invalid_request');
    expect((await runner.client.list()).sandboxes.length).toBe(before);
  });

  it('hold for fresh envelopes, in parallel and after changes', async () => {
    await using sandbox = await runner.create({ programs: { programs: ['python3'] }, fresh: true });
    const tries = Array.from({ length: 12 }, async (_, index) =>
      index % 2 === 0
        ? (await refusal(run(sandbox, ['/usr/bin/id']))).code
        : (
            await python(
              sandbox,
              'import os\ntry: os.execv("/usr/bin/id", ["id"])\nexcept OSError as e: print(e.errno)',
            )
          ).stdout,
    );
    expect(new Set(await Promise.all(tries))).toEqual(new Set(['not_executable', '13\n']));
  });

  it('change one at a time, and a command that is sent meanwhile is refused, never run under the list before', async () => {
    await using sandbox = await runner.create();
    let conflicts = 0;
    for (let round = 0; round < 10; round += 1) {
      const programs = ['ls', `absent-${round}`];
      const outcomes = await Promise.allSettled([
        runner.client.setPrograms(sandbox.number, { programs }),
        runner.client.setPrograms(sandbox.number, null),
        run(sandbox, ['id']),
      ]);
      const codes = outcomes.map((it) => (it.status === 'fulfilled' ? 'done' : codeOf(it.reason)));
      // On a busy machine the runner may have done with one before it reads the next.
      const [first, second = '', command] = codes;
      expect(first).toBe('done');
      expect(second).toMatch(/^(done|conflict)$/);
      expect(['conflict', second === 'done' ? 'done' : 'not_executable']).toContain(command);
      if (second === 'conflict') {
        conflicts += 1;
        expect((await refusal(run(sandbox, ['id']))).code).toBe('not_executable');
      }
      await runner.client.setPrograms(sandbox.number, null);
      expect((await run(sandbox, ['id'])).record.exit_code).toBe(0);
    }
    expect(conflicts).toBeGreaterThan(0);
  });

  it('change while an envelope of the list before is still being made', async () => {
    await using sandbox = await runner.create();
    for (let round = 0; round < 30; round += 1) {
      // Of commands beside each other each retires its envelope, and the next is made ahead.
      await Promise.all([run(sandbox, ['true']), run(sandbox, ['true']), run(sandbox, ['true'])]);
      const policy = round % 2 === 0 ? { programs: ['true'] } : null;
      const { effective } = await runner.client.setPrograms(sandbox.number, policy);
      expect(effective.programs.enforced).toBe(policy === null ? 'none' : 'kernel');
    }
  });

  // An ordinary user without a group can't make the kernel refuse a process at the right moment.
  if (lane === 'root') {
    it('are in force again where the first envelope of the next one can not be made', async () => {
      await using sandbox = await runner.create({ programs: { programs: ['ls'] } });
      const limit = groupsOf(runner.place.directory)
        .map((group) => `${group}/s${sandbox.number}/pids.max`)
        .find((path) => existsSync(path));
      if (limit === undefined) return expect(sandbox.effective.processes.via).toBe('rlimit');
      const most = readFileSync(limit, 'utf8');
      for (const policy of [null, { programs: ['id'] }]) {
        writeFileSync(limit, '0');
        try {
          expect((await refusal(runner.client.setPrograms(sandbox.number, policy))).code).toBe('capacity');
        } finally {
          writeFileSync(limit, most);
        }
        expect((await refusal(run(sandbox, ['id']))).code).toBe('not_executable');
        const { record } = await run(sandbox, ['ls', '/']);
        expect([record.exit_code, record.effective.programs]).toEqual([0, sandbox.effective.programs]);
      }
      expect((await runner.client.setPrograms(sandbox.number, null)).effective.programs.enforced).toBe('none');
      expect((await run(sandbox, ['id'])).record.exit_code).toBe(0);
    });
  }

  it('leave nothing where the sandbox, or the client, goes meanwhile', async () => {
    await using other = await startRunner({ idleSeconds: 1 });
    const makers = makersOf(other.pid).length;
    const outcomes: string[] = [];
    // On a busy machine the runner may have done with the change before it reads what ends the sandbox.
    for (let round = 0; round < 8 || (round < 80 && !outcomes.includes('closing')); round += 1) {
      const sandbox = await other.create();
      const programs = { programs: ['python3', `absent-${round}`] };
      if (round % 2 === 0) {
        const change = other.client.setPrograms(sandbox.number, programs);
        const [changed] = await Promise.allSettled([change, sandbox.destroy()]);
        outcomes.push(changed.status === 'fulfilled' ? 'done' : codeOf(changed.reason));
        expect(outcomes.at(-1)).toMatch(/^(closing|done)$/);
      } else {
        const client = await other.anotherClient();
        const change = client.setPrograms(sandbox.number, programs);
        const [changed] = await Promise.allSettled([change, client.close()]);
        expect(changed.status === 'fulfilled' ? 'done' : codeOf(changed.reason)).toMatch(/done|runner_lost/);
        await sandbox.destroy();
      }
    }
    expect(outcomes).toContain('closing');
    expect((await other.client.list()).sandboxes).toEqual([]);
    const ended = () => makersOf(other.pid).length === makers;
    await eventually(ended, 10_000, () => `${makersOf(other.pid).length} makers, ${makers} before`);
  });

  it('are refused for sandboxes that are closed or unknown', async () => {
    const sandbox = await runner.create();
    await sandbox.destroy();
    expect((await refusal(runner.client.setPrograms(sandbox.number, null))).code).toBe('not_found');
  });

  it('outlive their maker: what is kept works, nothing new is made, and the list can be set again', async () => {
    const makers = (): Set<number> => new Set(makersOf(runner.pid));
    const others = makers();
    await using sandbox = await runner.create({ programs: { programs: ['ls', 'cat'] } });
    const own = [...makers()].filter((pid) => !others.has(pid));
    expect(own).toHaveLength(1);
    for (const pid of own) process.kill(pid, 'SIGKILL');
    expect((await run(sandbox, ['ls', '/'])).record.exit_code).toBe(0);
    expect((await refusal(run(sandbox, ['ls', '/'], { fresh: true }))).code).toBe('isolation_unavailable');
    const kept = await run(sandbox, ['ls', '/']);
    expect([kept.record.exit_code, kept.record.effective.programs]).toMatchObject([
      0,
      { enforced: 'kernel', count: 3 },
    ]);
    expect((await refusal(run(sandbox, ['id']))).code).toBe('not_executable');
    expect(
      (await runner.client.setPrograms(sandbox.number, { programs: ['ls', 'cat'] })).effective.programs.count,
    ).toBe(3);
    expect((await run(sandbox, ['ls', '/'], { fresh: true })).record.exit_code).toBe(0);
  });

  it('are made again where their maker ends while an envelope is asked of it', async () => {
    const others = new Set(makersOf(runner.pid));
    const programs = ['ls', 'absent-maker'];
    await using sandbox = await runner.create({ programs: { programs } });
    await using other = await runner.create();
    await runner.client.setPrograms(sandbox.number, null);
    const own = makersOf(runner.pid).filter((pid) => !others.has(pid));
    expect(own).toHaveLength(1);
    for (const pid of own) process.kill(pid, 'SIGSTOP');
    const changes = [sandbox, other].map(({ number }) => runner.client.setPrograms(number, { programs }));
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const pid of own) process.kill(pid, 'SIGKILL');
    for (const { effective } of await Promise.all(changes)) expect(effective.programs.count).toBe(2);
    for (const each of [sandbox, other]) expect((await refusal(run(each, ['id']))).code).toBe('not_executable');
  });

  it('are many, and end with their sandboxes', async () => {
    for (let round = 0; round < 12; round += 1) {
      await using sandbox = await runner.create({ programs: { programs: ['ls', `absent-${round}`] } });
      expect((await refusal(run(sandbox, ['id']))).code).toBe('not_executable');
    }
    // The root's, and those of the lists that are kept; the keeper of disk workspaces is one more at most.
    expect(makersOf(runner.pid).length).toBeLessThanOrEqual(10);
  });
});

interface Example {
  readonly programs: readonly string[];
  readonly command?: string;
  readonly exit_code?: number;
  readonly stdout?: string;
  readonly stderr?: string;
  readonly refused?: string;
}

describe(`the examples of the page, ${lane}`, () => {
  const page = readFileSync(new URL('../../docs/reference/policy/kernel.md', import.meta.url), 'utf8');
  const lines = /^```json lines\n([\s\S]*?)^```$/m.exec(page)?.[1]?.trimEnd().split('\n') ?? [];
  let runner: TestRunner;
  beforeAll(async () => {
    runner = await startRunner();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it.each(lines)('%s', async (line) => {
    const { programs, command, refused, ...expected } = JSON.parse(line) as Example;
    if (command === undefined) {
      expect((await refusal(runner.create({ programs: { programs } }))).details).toMatchObject({ reason: refused });
      return;
    }
    await using sandbox = await runner.create({ programs: { programs } });
    const { record, stdout, stderr } = await sh(sandbox, command);
    if (expected.exit_code !== undefined) expect(record.exit_code, stderr).toBe(expected.exit_code);
    if (expected.stdout !== undefined) expect(stdout).toBe(expected.stdout);
    if (expected.stderr !== undefined) expect(stderr).toContain(expected.stderr);
    expect(stdout).not.toContain('uid=');
  });
});
