/** The rules of reuse: when an envelope is kept and when it is never seen again. One is recognised by its namespaces' inodes. */

import { readFileSync } from 'node:fs';
import { cpus, getPriority } from 'node:os';
import type { ExecRequest } from '@boxkite/protocol';
import {
  collect,
  eventually,
  lane,
  processesOf,
  slowness,
  startRunner,
  startStaying,
  type TestRunner,
  type TestSandbox,
  within,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Runs a command and names the envelope that it ran in. */
async function inEnvelope(
  sandbox: TestSandbox,
  argv: readonly string[],
  options: Omit<ExecRequest, 'argv'> = {},
): Promise<{ readonly name: string; readonly stdout: string }> {
  const tell = 'read -r line </proc/1/stat; echo "$line" >&2; exec "$@"';
  const handle = await sandbox.exec({
    timeout_ms: within(20_000),
    ...options,
    argv: ['/bin/sh', '-c', tell, 'sh', ...argv],
  });
  const { record, stdout, stderr } = await collect(handle);
  // An inode can be given again as soon as its namespace is gone; the moment at which PID 1 began can't.
  const began = /^1 \(.*\) (?:\S+ ){19}(\d+) /.exec(stderr)?.[1];
  if (began === undefined) throw new Error(`PID 1 is not to be seen: ${stderr}`);
  return { name: `${nameOf(record.effective.namespaces)} ${began}`, stdout };
}

/** What the kernel says of a process; empty where it has ended since it was listed. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

/** The name of the envelope that a command got. */
async function envelopeOf(...parameters: Parameters<typeof inEnvelope>): Promise<string> {
  return (await inEnvelope(...parameters)).name;
}

function nameOf(namespaces: Readonly<Partial<Record<string, number>>>): string {
  return `${namespaces['pid']}:${namespaces['ipc']}:${namespaces['mnt']}`;
}

const CLEAN = ['/bin/sh', '-c', 'echo x > /workspace/file; echo y > /tmp/file; sleep 0.01 & wait; true | cat'];
const script = (source: string): readonly string[] => ['/usr/bin/python3', '-I', '-S', '-c', source];

/** What a command may leave, each of which ends its envelope. */
const LEAVES: Readonly<Record<string, readonly string[]>> = {
  'a file in /dev/shm': script('open("/dev/shm/left", "w").write("x")'),
  'an empty directory in /dev/shm': script('import os; os.mkdir("/dev/shm/left")'),
  'a System V segment': script('import ctypes; print(ctypes.CDLL(None).shmget(99, 4096, 0o1666))'),
  'a System V semaphore set': script('import ctypes; print(ctypes.CDLL(None).semget(99, 1, 0o1666))'),
  'a System V queue': script('import ctypes; print(ctypes.CDLL(None).msgget(99, 0o1666))'),
  'a TCP connection that waits for its end': script(
    'import socket\ns = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); c = socket.create_connection(s.getsockname()); a, _ = s.accept(); c.close(); a.close()',
  ),
};

/** What a command may leave running: it is killed and reaped before the end is told, and then nothing of it is left. */
const DAEMONS: Readonly<Record<string, readonly string[]>> = {
  'a daemon': ['/bin/sh', '-c', 'setsid sleep 100 >/dev/null 2>&1 &'],
  'a daemon that ignores signals': script(
    'import os, signal, time\nif os.fork() == 0:\n os.setsid()\n signal.signal(15, signal.SIG_IGN)\n if os.fork() == 0: time.sleep(100)\n os._exit(0)\ntime.sleep(0.1)',
  ),
  'a listener with its abstract name': script(
    'import os, socket, time\ns = socket.socket(socket.AF_UNIX); s.bind("\\0left"); s.listen()\nif os.fork() == 0: time.sleep(100)',
  ),
};

/** Looks for anything that another command left. */
const LOOK = script(
  'import os\nprint(os.listdir("/dev/shm"), [len(open("/proc/sysvipc/" + k).readlines()) for k in ("shm", "sem", "msg")], sorted(p for p in os.listdir("/proc") if p.isdigit() and p not in ("1", str(os.getpid()))), open("/proc/net/unix").readlines()[1:], open("/proc/net/tcp").readlines()[1:])',
);
const NOTHING = '[] [1, 1, 1] [] [] []\n';

describe(`envelopes, ${lane}`, () => {
  let runner: TestRunner;

  beforeAll(async () => {
    runner = await startRunner({ idleSeconds: Math.ceil(slowness) });
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it('keep for the next command what was left clean', async () => {
    await using sandbox = await runner.create();
    const first = await envelopeOf(sandbox, CLEAN);
    for (let round = 0; round < 20; round += 1) expect(await envelopeOf(sandbox, CLEAN)).toBe(first);
  });

  it.each(Object.keys(LEAVES))('end when a command leaves %s', async (name) => {
    await using sandbox = await runner.create();
    const kept = await envelopeOf(sandbox, CLEAN);
    const dirty = await envelopeOf(sandbox, LEAVES[name] ?? []);
    expect(dirty).toBe(kept);
    const { stdout, name: next } = await inEnvelope(sandbox, LOOK);
    expect(stdout).toBe(NOTHING);
    expect(next).not.toBe(dirty);
    const { envelopes, idle } = (await runner.client.list()).sandboxes.find(
      (entry) => entry.sandbox === sandbox.number,
    ) ?? { envelopes: 0, idle: 0 };
    expect([envelopes, idle]).toEqual([1, 1]);
  });

  it('end when memory of a command stays charged to them', async () => {
    await using sandbox = await runner.create();
    const kept = await envelopeOf(sandbox, ['/bin/sh', '-c', 'head -c 1M /dev/zero > /workspace/small']);
    const charged = await envelopeOf(sandbox, ['/bin/sh', '-c', 'head -c 16M /dev/zero > /workspace/large']);
    expect(charged).toBe(kept);
    const next = await envelopeOf(sandbox, CLEAN);
    if (sandbox.effective.memory.via === 'none') expect(next).toBe(charged);
    else expect(next).not.toBe(charged);
  });

  it('reap what a running command has orphaned', async () => {
    await using sandbox = await runner.create();
    const orphans = script(
      'import os, time\nfor _ in range(50):\n pid = os.fork()\n if pid == 0:\n  if os.fork() == 0: os._exit(0)\n  os._exit(0)\n os.waitpid(pid, 0)\ndeadline = time.monotonic() + 5\nlisted = lambda: [p for p in os.listdir("/proc") if p.isdigit()]\nwhile len(listed()) > 2 and time.monotonic() < deadline: time.sleep(0.01)\nprint(len(listed()))',
    );
    expect((await collect(await sandbox.exec({ argv: orphans }))).stdout).toBe('2\n');
  });

  it('are made ahead, and then belong to the one sandbox that takes them', async () => {
    await using own = await startRunner({ blanks: 1 });
    const inits = (): readonly number[] =>
      processesOf(own.pid, own.place.directory)
        .map(({ pid }) => pid)
        .filter((pid) => /^NSpid:.*\s1$/m.test(statusOf(pid)));
    await eventually(
      () => inits().length === 1,
      5000,
      () => `${inits().length} are made ahead`,
    );
    const [blank] = inits();
    const runsInBlank = async (sandbox: TestSandbox): Promise<boolean> => {
      const staying = await startStaying(sandbox, ['/bin/sh', '-c', 'echo on; cat']);
      const found = processesOf(own.pid, own.place.directory).some(({ parent }) => parent === blank);
      await staying.finish();
      return found;
    };
    await using first = await own.create();
    expect(await runsInBlank(first)).toBe(true);
    await using second = await own.create();
    expect(await runsInBlank(second)).toBe(false);
    expect(await runsInBlank(first)).toBe(true);
  });

  it.each(Object.keys(DAEMONS))('show the next command nothing of %s', async (name) => {
    await using sandbox = await runner.create();
    await envelopeOf(sandbox, DAEMONS[name] ?? []);
    expect((await collect(await sandbox.exec({ argv: LOOK }))).stdout).toBe(NOTHING);
  });

  it('are each of one sandbox only', async () => {
    const seen = new Map<string, bigint>();
    for (let round = 0; round < 12; round += 1) {
      await using sandbox = await runner.create();
      for (let command = 0; command < 3; command += 1) {
        const name = await envelopeOf(sandbox, ['/bin/true']);
        expect(seen.get(name)).toBe(command > 0 ? sandbox.number : undefined);
        seen.set(name, sandbox.number);
      }
    }
    await using left = await runner.create();
    await using right = await runner.create();
    const names = await Promise.all(
      [left, right].flatMap((sandbox) => Array.from({ length: 4 }, () => envelopeOf(sandbox, ['/bin/sleep', '0.2']))),
    );
    expect(new Set(names).size).toBe(8);
  });

  it('are never shared by two running commands', async () => {
    await using sandbox = await runner.create();
    for (let round = 0; round < 3; round += 1) {
      const staying = await Promise.all(
        Array.from({ length: 12 }, () => startStaying(sandbox, ['/bin/sh', '-c', 'echo on; cat'])),
      );
      const names = staying.map(({ handle }) => nameOf(handle.effective.namespaces));
      expect(new Set(names).size).toBe(12);
      await Promise.all(staying.map((one) => one.finish()));
    }
  });

  it('end after a command beside which another of the sandbox ran, and are made ahead then', async () => {
    await using sandbox = await runner.create();
    const other = await startStaying(sandbox, ['/bin/sh', '-c', 'echo on; cat']);
    // What the two could have passed each other by a Unix socket in /workspace no look would find.
    const first = await envelopeOf(sandbox, CLEAN);
    await eventually(
      async () =>
        (await runner.client.list()).sandboxes.some((one) => one.sandbox === sandbox.number && one.idle === 1),
      500,
      () => 'no envelope is made ahead',
    );
    expect(await envelopeOf(sandbox, CLEAN)).not.toBe(first);
    await other.finish();
    const alone = await envelopeOf(sandbox, CLEAN);
    expect(await envelopeOf(sandbox, CLEAN)).toBe(alone);
  });

  it('refuse limits of one command above those of its sandbox', async () => {
    await using sandbox = await runner.create({ pids: 8 });
    const refused: unknown = expect.objectContaining({ code: 'invalid_request' });
    for (const pids of [9, 100_000, 2 ** 32 - 1])
      await expect(sandbox.exec({ argv: ['/bin/true'], limits: { pids } })).rejects.toEqual(refused);
    if (sandbox.effective.memory.via !== 'none')
      await expect(sandbox.exec({ argv: ['/bin/true'], limits: { memory_mb: 1 << 20 } })).rejects.toEqual(refused);
  });

  it('serve one command where fresh is asked for, by the sandbox or by the command', async () => {
    await using fresh = await runner.create({ fresh: true });
    for (let round = 0; round < 3; round += 1) await envelopeOf(fresh, CLEAN);
    await using sandbox = await runner.create();
    const kept = await envelopeOf(sandbox, CLEAN);
    const alone = await envelopeOf(sandbox, CLEAN, { fresh: true });
    expect(alone).not.toBe(kept);
    expect(await envelopeOf(sandbox, CLEAN)).toBe(kept);
    const listed = (await runner.client.list()).sandboxes;
    expect(listed.find((entry) => entry.sandbox === fresh.number)).toMatchObject({ idle: 0 });
    expect(listed.find((entry) => entry.sandbox === sandbox.number)).toMatchObject({ envelopes: 1, idle: 1 });
    // Inodes may be given again after each end, but the writable state of one is never seen in the next.
    await collect(await fresh.exec({ argv: LEAVES['a file in /dev/shm'] ?? [] }));
    expect((await collect(await fresh.exec({ argv: LOOK }))).stdout).toBe(NOTHING);
  });

  it.each(['timeout', 'kill', 'abort'])('end by a %s', async (how) => {
    await using sandbox = await runner.create();
    await envelopeOf(sandbox, CLEAN);
    const controller = new AbortController();
    const handle = await sandbox.exec(
      { argv: ['/bin/sleep', '30'], ...(how === 'timeout' ? { timeout_ms: 100 } : {}) },
      controller.signal,
    );
    if (how === 'kill') await handle.kill();
    if (how === 'abort') controller.abort();
    expect((await collect(handle)).record.end).toBe(how === 'timeout' ? 'timed_out' : 'killed');
    expect((await runner.client.list()).sandboxes.find((entry) => entry.sandbox === sandbox.number)).toMatchObject({
      envelopes: 0,
      idle: 0,
    });
    expect((await collect(await sandbox.exec({ argv: LOOK }))).stdout).toBe(NOTHING);
  });

  it('vanish after an idle time, and come back when needed', async () => {
    await using sandbox = await runner.create();
    await Promise.all(Array.from({ length: 5 }, () => envelopeOf(sandbox, ['/bin/sleep', '0.1'])));
    const count = async (): Promise<number> =>
      (await runner.client.list()).sandboxes.find((entry) => entry.sandbox === sandbox.number)?.envelopes ?? -1;
    expect(await count()).toBeGreaterThan(0);
    await eventually(
      async () => (await count()) === 0,
      5000,
      () => 'envelopes are left',
    );
    await envelopeOf(sandbox, ['/bin/true']);
    expect(await count()).toBe(1);
  });

  it('are at most k when idle, and never make a command wait', async () => {
    await using sandbox = await runner.create();
    const most = Math.max(16, 4 * cpus().length);
    const staying = await Promise.all(
      Array.from({ length: most + 8 }, () => startStaying(sandbox, ['/bin/sh', '-c', 'echo on; cat'])),
    );
    await Promise.all(staying.map((one) => one.finish()));
    const entry = async () => (await runner.client.list()).sandboxes.find((one) => one.sandbox === sandbox.number);
    await eventually(
      async () => ((await entry())?.envelopes ?? 0) <= most,
      500,
      () => `more than ${most} are kept`,
    );
  });

  it('keep terminals, groups and descriptors of one command from the next', async () => {
    await using sandbox = await runner.create();
    await collect(await sandbox.exec({ argv: ['/bin/sh', '-c', 'echo x'], tty: { columns: 80, rows: 24 } }));
    const { stdout } = await collect(
      await sandbox.exec({
        argv: script(
          'import os\nprint(os.listdir("/dev/pts"), os.getsid(0) == os.getpid())\ntry: open("/dev/tty")\nexcept OSError as e: print(e.errno)\nprint(os.umask(0), os.getpriority(0, 0))',
        ),
      }),
    );
    // A command has the niceness of whoever started the runner.
    expect(stdout).toBe(`['ptmx'] True\n6\n18 ${getPriority()}\n`);
  });

  it('are made where whoever started the runner ignores the ends of its children', async () => {
    await using own = await startRunner({ ignoresChildren: true });
    await using sandbox = await own.create();
    const first = await inEnvelope(sandbox, ['/bin/echo', 'on']);
    expect(first.stdout).toBe('on\n');
    expect((await inEnvelope(sandbox, ['/bin/true'])).name).toBe(first.name);
  });
});
