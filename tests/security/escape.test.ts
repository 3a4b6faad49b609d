import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  collect,
  type HostTargets,
  lane,
  python,
  sh,
  sleep,
  slowness,
  startRunner,
  startStaying,
  startTargets,
  type TestRunner,
  type TestSandbox,
  within,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attack, attackCommand } from './support/attack.ts';

/** Attacks that need nothing from outside. `setuid_programs` and `limits` try what they find inside. */
const ALONE = [
  'change_system',
  'root_is_writable',
  'devices',
  'mounts',
  'new_namespaces',
  'setuid_programs',
  'own_setuid_file',
  'sysctls',
  'kernel_memory',
  'init',
  'regain',
  'no_new_privs',
  'capabilities',
  'limits',
  'socket_families',
  'kernel_interfaces',
  'cgroups',
  'terminal_injection',
  'see_others',
];

describe(`escapes, ${lane}`, () => {
  let runner: TestRunner;
  let sandbox: TestSandbox;
  let sibling: TestSandbox;
  let targets: HostTargets;

  beforeAll(async () => {
    targets = await startTargets();
    runner = await startRunner();
    sandbox = await runner.create();
    sibling = await runner.create();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
    await targets?.[Symbol.asyncDispose]();
  });

  it.each(ALONE)('%s reaches nothing', async (name) => {
    const { reached, detail } = await attack(sandbox, name);
    expect(detail).toBeDefined();
    expect(reached, JSON.stringify(detail)).toBe(false);
  });

  it('reads no file of the host by any way', async () => {
    for (const name of ['read_path', 'read_through_processes']) {
      for (const path of [
        targets.file,
        '/etc/shadow',
        '/root',
        '/var/lib',
        '/boot',
        '/sys/kernel',
        runner.place.directory,
      ]) {
        const { reached, detail } = await attack(sandbox, name, [path]);
        expect.soft(reached, `${name} ${path}: ${JSON.stringify(detail)}`).toBe(false);
      }
    }
    expect((await attack(sandbox, 'hard_link', [targets.file])).reached).toBe(false);
  });

  it('sees and signals no process of the host, and no environment', async () => {
    for (const [name, argument] of [
      ['find_marker', targets.marker],
      ['signal_process', String(targets.pid)],
      ['signal_process', String(process.pid)],
      ['signal_process', String(runner.pid)],
    ] as const) {
      const { reached, detail } = await attack(sandbox, name, [argument]);
      expect.soft(reached, `${name}: ${JSON.stringify(detail)}`).toBe(false);
    }
  });

  it('reaches no listener of the host', async () => {
    const before = targets.contacts();
    for (const [name, args] of [
      ['connect_tcp', [String(targets.tcpPort), ...targets.addresses]],
      ['send_udp', [String(targets.udpPort), ...targets.addresses]],
      ['connect_unix', [targets.abstract]],
      ['connect_unix', [targets.unixPath]],
      ['connect_unix', [runner.socketPath]],
    ] as const) {
      const { reached, detail } = await attack(sandbox, name, args);
      expect.soft(reached, `${name}: ${JSON.stringify(detail)}`).toBe(false);
    }
    expect(targets.contacts()).toBe(before);
  });

  it('shares nothing with a sibling, nor between two running commands of one sandbox', async () => {
    const made = await startStaying(
      sandbox,
      attackCommand('make_shared', ['4711', 'posix-object', 'abstract-object', '7011']),
    );
    for (const other of [sibling, sandbox]) {
      for (const [name, args] of [
        ['shared_memory', ['4711', 'posix-object']],
        ['connect_unix', ['@abstract-object']],
        ['connect_tcp', ['7011']],
        ['see_others', []],
        ['find_marker', ['make_shared']],
      ] as const) {
        const { reached, detail } = await attack(other, name, args);
        expect
          .soft(
            reached,
            `${name} in ${other === sibling ? 'a sibling' : 'the same sandbox'}: ${JSON.stringify(detail)}`,
          )
          .toBe(false);
      }
      const signalled = await python(
        other,
        `
import os, signal
for pid in range(2, 400):
    if pid != os.getpid():
        try: os.kill(pid, signal.SIGKILL); print('killed', pid)
        except ProcessLookupError: pass
`,
      );
      expect.soft(signalled.stdout).toBe('');
    }
    await made.finish();
  });

  it('ends nothing but its own command by the limits of PID 1', async () => {
    const bystander = await startStaying(sandbox, ['/bin/sh', '-c', 'echo here; cat; echo still']);
    const { stdout, record } = await collect(await sandbox.exec({ argv: attackCommand('init_limits') }));
    if (lane === 'user-one-id') {
      // PID 1 shares the command's id, as `effective.init` says: the kernel lets a command set its limits.
      expect(sandbox.effective.init).toBe('same-user');
      expect(record.end === 'exited' || record.reason === 'init_died', JSON.stringify(record)).toBe(true);
    } else expect(JSON.parse(stdout)).toMatchObject({ reached: false });
    expect((await bystander.finish()).stdout).toContain('still');
    expect((await sh(sandbox, 'echo works')).stdout).toBe('works\n');
  });

  it('sees no file of a sibling', async () => {
    await (await sandbox.agent()).write('/workspace/secret-of-one', Buffer.from('x'));
    await sh(
      sandbox,
      'echo x > /tmp/secret-of-one; echo x > /mnt/user-data/outputs/secret-of-one; echo x > /dev/shm/gone',
    );
    const { stdout } = await sh(
      sibling,
      'ls -a /workspace /tmp /mnt/user-data/outputs /dev/shm; cat /workspace/secret-of-one',
    );
    expect(stdout).not.toContain('secret-of-one');
    expect(stdout).not.toContain('gone');
  });

  it('survives kill -9 of PID 1 and of everything, and so does a sibling', async () => {
    const bystander = await startStaying(sibling, ['/bin/sh', '-c', 'echo here; cat; echo still']);
    const everything = await sh(sandbox, 'kill -9 1; kill -9 -1; sleep 0.2');
    expect(['exited', 'signaled']).toContain(everything.record.end);
    expect((await sh(sandbox, 'echo alive')).stdout).toBe('alive\n');
    expect((await bystander.finish()).stdout).toContain('still');
  });

  it('fills its workspace and /tmp only to their size, and a sibling has its own', async () => {
    await using small = await runner.create({ workspaceMb: 8 });
    for (const directory of ['/workspace', '/tmp', '/mnt/user-data/outputs']) {
      const { stdout, stderr, record } = await sh(
        small,
        `head -c 33554432 /dev/zero > ${directory}/big; stat -c %s ${directory}/big; rm ${directory}/big`,
      );
      expect.soft(stderr, directory).toMatch(/No space left on device/);
      expect.soft(Number(stdout), directory).toBeLessThanOrEqual(8 * 1_048_576);
      expect.soft(record.end).toBe('exited');
    }
    const together = await sh(
      small,
      'for d in /workspace /tmp /mnt/user-data/outputs; do head -c 33554432 /dev/zero > $d/big 2>/dev/null; done; cat /workspace/big /tmp/big /mnt/user-data/outputs/big | wc -c; rm -f /workspace/big /tmp/big /mnt/user-data/outputs/big',
    );
    expect(Number(together.stdout)).toBeLessThanOrEqual(8 * 1_048_576);
    const inodes = await (async () => {
      await using few = await runner.create({ inodes: 200 });
      return await sh(few, 'i=0; while [ $i -lt 400 ]; do : > /workspace/f$i || break; i=$((i+1)); done; echo $i');
    })();
    expect(Number(inodes.stdout)).toBeLessThan(200);
    expect((await sh(sibling, 'head -c 9000000 /dev/zero > /workspace/own && echo fits')).stdout).toBe('fits\n');
    await expect(
      (await small.agent()).write('/workspace/by-agent', Buffer.alloc(16 * 1_048_576)),
    ).rejects.toMatchObject({ code: 'no_space' });
    expect((await sh(small, 'ls -A /workspace')).stdout).toBe('');
  });

  it('stops a fork bomb at the cap, and a sibling stays quick', async () => {
    await using bomber = await runner.create({ pids: 64 });
    const quiet = await latencies(sibling, 15);
    const bomb = await bomber.exec({ argv: attackCommand('fork_bomb', ['3']), timeout_ms: within(20_000) });
    const loud = await latencies(sibling, 15);
    const { stdout, record } = await collect(bomb);
    expect(record.end).toBe('exited');
    const { detail } = JSON.parse(stdout) as { detail: { most: number; refusals: number } };
    expect(detail.refusals).toBeGreaterThan(0);
    expect(detail.most).toBeLessThanOrEqual(64);
    expect(detail.most).toBeGreaterThan(20);
    expect(median(loud)).toBeLessThan(median(quiet) * 10 + 50);
    expect((await sh(bomber, 'echo works')).stdout).toBe('works\n');
  });

  it('ends a command that uses up its memory as out of memory, and no other', async () => {
    const bystander = await startStaying(sibling, ['/bin/sh', '-c', 'echo here; cat; echo still']);
    await using hog = await runner.create(lane === 'root' ? { memoryMb: 64 } : {});
    if (hog.effective.memory.via === 'none') {
      expect(lane).not.toBe('root');
      await expect(runner.create({ memoryMb: 64, requireMemory: true })).rejects.toMatchObject({
        code: 'isolation_unavailable',
      });
    } else {
      const { record } = await python(
        hog,
        'x = bytearray(256 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint("done")',
      );
      expect(record.end).toBe('out_of_memory');
      expect((await sh(hog, 'echo works')).stdout).toBe('works\n');
      const files = await sh(hog, 'head -c 200000000 /dev/zero > /workspace/big');
      expect(files.record.end).toBe('out_of_memory');
    }
    expect((await bystander.finish()).stdout).toContain('still');
  });

  it('leaves nothing for the next command of the sandbox', async () => {
    await sh(sandbox, 'echo x > /dev/shm/left; setsid sleep 1000 >/dev/null 2>&1 &');
    const { reached, detail } = await attack(sandbox, 'shared_memory', ['4711', 'left']);
    expect(reached, JSON.stringify(detail)).toBe(false);
    expect((await attack(sandbox, 'see_others')).reached).toBe(false);
  });

  it('lets no file call out through a link that is exchanged while it runs', { timeout: within(120_000) }, async () => {
    await using raced = await runner.create();
    await (await raced.agent()).write('/workspace/race/inside', Buffer.from('inside'), { createParents: true });
    const exchanger = await startStaying(raced, ['/usr/bin/python3', '-I', '-S', '-c', EXCHANGER, targets.file]);
    const reads = Math.ceil(100_000 / slowness);
    const { inside, refused, outside } = await readMany(raced, reads, 32);
    await exchanger.finish();
    expect(outside).toBe(0);
    expect(inside).toBeGreaterThan(1000);
    expect(refused).toBeGreaterThan(1000);
    expect(inside + refused).toBe(reads);
  });

  it('is a race that a naive reader on the host loses', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'boxkite-race-'));
    try {
      writeFileSync(join(directory, 'inside'), 'inside');
      symlinkSync(targets.file, join(directory, 'other'));
      const exchanger = spawn('/usr/bin/python3', ['-I', '-S', '-c', EXCHANGER, targets.file, directory], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      await new Promise((resolve) => exchanger.stdout.once('data', resolve));
      let outside = 0;
      const deadline = performance.now() + 30_000;
      while (outside === 0 && performance.now() < deadline)
        if (readFileSync(join(directory, 'inside'), 'utf8') === targets.canary) outside += 1;
      exchanger.stdin.end();
      expect(outside).toBeGreaterThan(0);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  it('follows no link out of the roots in any file call', async () => {
    await sh(
      sandbox,
      `cd /workspace; rm -rf links; mkdir links; cd links; ln -s ${targets.file} file; ln -s / root; ln -s /proc/self/environ environ; ln -s /proc/1/root/etc/passwd init; ln -s ../../../../etc/passwd up; ln -s /etc directory; mkfifo fifo; ln -s /dev/null device; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"`,
    );
    const agent = await sandbox.agent();
    for (const name of [
      'file',
      'environ',
      'init',
      'up',
      'directory/passwd',
      'root/etc/passwd',
      'root/proc/1/environ',
      'fifo',
      'device',
      'sock',
    ]) {
      const path = `/workspace/links/${name}`;
      await expect.soft(agent.readAll(path), `read ${name}`).rejects.toThrow();
      if (name.includes('/')) await expect.soft(agent.write(path, Buffer.from('x')), `write ${name}`).rejects.toThrow();
    }
    for (const name of ['root/etc', 'directory', 'root/proc'])
      await expect.soft(agent.list(`/workspace/links/${name}`).next(), `list ${name}`).rejects.toThrow();
    await expect(agent.rename('/workspace/links/file', '/etc/x')).rejects.toThrow();
    await expect(agent.rename('/proc/self/environ', '/workspace/environ')).rejects.toThrow();
    for (const path of [
      '/etc/passwd',
      '/proc/1/environ',
      '/usr/bin/python3',
      '/dev/zero',
      '../../etc/passwd',
      '/workspace/../etc/passwd',
      '/proc/self/exe',
      '/proc/self/fd/0',
    ]) {
      await expect.soft(agent.readAll(path), path).rejects.toThrow();
    }
    expect(readFileSync(targets.file, 'utf8')).toBe(targets.canary);
  });
});

/** Exchanges `inside` and a link to the file of its first argument as fast as it can, until standard input ends. */
const EXCHANGER = `
import ctypes, os, select, sys
os.chdir(sys.argv[2] if len(sys.argv) > 2 else '/workspace/race')
if not os.path.lexists('other'): os.symlink(sys.argv[1], 'other')
libc = ctypes.CDLL(None)
print('ready', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(500): libc.renameat2(-100, b'inside', -100, b'other', 2)
`;

async function readMany(
  sandbox: TestSandbox,
  calls: number,
  parallel: number,
): Promise<{ inside: number; refused: number; outside: number }> {
  const count = { inside: 0, refused: 0, outside: 0 };
  const agent = await sandbox.agent();
  let left = calls;
  await Promise.all(
    Array.from({ length: parallel }, async () => {
      while (left > 0) {
        left -= 1;
        try {
          const text = (await agent.readAll('/workspace/race/inside')).toString();
          if (text === 'inside') count.inside += 1;
          else count.outside += 1;
        } catch (error) {
          const code = error instanceof Error && 'code' in error ? error.code : undefined;
          if (code !== 'not_found') throw error;
          count.refused += 1;
        }
      }
    }),
  );
  return count;
}

async function latencies(sandbox: TestSandbox, rounds: number): Promise<number[]> {
  const found: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const start = performance.now();
    await sh(sandbox, ':');
    found.push(performance.now() - start);
    await sleep(20);
  }
  return found;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
