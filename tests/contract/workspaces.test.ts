/** Disk workspaces: what is in them outlives the sandbox and the runner; their size is enforced; nothing of one is left when it is gone. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BoxkiteError } from '@boxkite/protocol';
import {
  eventually,
  lane,
  ownMachine,
  processesOf,
  python,
  sh,
  sleep,
  slowness,
  startRunner,
  type TestRunner,
  type TestSandbox,
  type TestSpec,
  unlessGone,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ID_LOCKS = '/run/boxkite/ids';
const MIB = 1_048_576;

const newId = (): Uint8Array => randomBytes(16);
const hex = (id: Uint8Array): string => Buffer.from(id).toString('hex');
const fresh = (id: Uint8Array) => ({ kind: 'disk', id, reopen: false }) as const;
const kept = (id: Uint8Array) => ({ kind: 'disk', id, reopen: true }) as const;

function newState(): string {
  return mkdtempSync(join(tmpdir(), 'boxkite-state-'));
}

/** Names of the images of a state directory that belong to this id, half-made ones included. */
function imagesOf(state: string, id?: Uint8Array): string[] {
  const files = readdirSync(join(state, 'workspaces'));
  return id === undefined ? files : files.filter((file) => file.startsWith(hex(id)));
}

/** Loop devices that are bound to a file below `state`, by their backing file; a removed one counts too. */
function loopsOf(state: string): string[] {
  const backing = readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .map((name) => `/sys/block/${name}/loop/backing_file`)
    .filter((path) => existsSync(path));
  const files = backing.map((path) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return '';
    }
  });
  return files.filter((file) => file.startsWith(state));
}

/** The child of the runner that works on the disk: it alone holds the lock of the state directory beside the runner. */
function keeperOf(runner: TestRunner, state: string): number {
  const holders = processesOf(runner.pid, '/nonexistent')
    .map(({ pid }) => pid)
    .filter((pid) =>
      unlessGone(() => readdirSync(`/proc/${pid}/fd`), []).some((fd) =>
        linkOf(`/proc/${pid}/fd/${fd}`).startsWith(state),
      ),
    );
  if (holders.length !== 1) throw new Error(`${holders.length} processes hold the lock of ${state}`);
  return holders[0] as number;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function mountsOf(runner: TestRunner): string[] {
  const lines = readFileSync(`/proc/${runner.pid}/mountinfo`, 'utf8').split('\n');
  return lines.filter((line) => line.includes(' ext4 /dev/loop'));
}

async function text(sandbox: TestSandbox, script: string): Promise<string> {
  const { record, stdout, stderr } = await sh(sandbox, script);
  if (record.exit_code !== 0) throw new Error(`${script}: ${record.end} ${record.exit_code} ${stderr}`);
  return stdout;
}

const ordinaryUser = (): void => {
  it.each([true, false])('are refused with the name of what is missing (--state %s)', async (hasState) => {
    const state = newState();
    try {
      await using runner = await startRunner(hasState ? { state } : {});
      const refused = { code: 'isolation_unavailable', details: { layer: 'disk workspace' } };
      await expect(runner.create({ workspace: fresh(newId()) })).rejects.toMatchObject(refused);
      await expect(runner.create({ workspace: kept(newId()) })).rejects.toMatchObject(refused);
      const entry = (await runner.client.probe()).layers.find(({ name }) => name === 'loop_workspaces');
      expect(entry).toMatchObject({ status: hasState ? 'missing' : 'not_needed', detail: /root/ });
      await using sandbox = await runner.create();
      expect(sandbox.effective.workspace.via).toBe('tmpfs');
    } finally {
      rmSync(state, { recursive: true });
    }
  });
};

const root = (): void => {
  const state = newState();
  let runner: TestRunner;
  let bystander: TestSandbox;
  /** What holds new ones here. */
  let via: 'loop' | 'project_quota';

  beforeAll(async () => {
    runner = await startRunner({ state });
    bystander = await runner.create();
    via = (await layer('project_quota'))?.status === 'works' ? 'project_quota' : 'loop';
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
    rmSync(state, { recursive: true });
  });

  const layer = async (name: string) => (await runner.client.probe()).layers.find((one) => one.name === name);
  const create = (id: Uint8Array, spec: TestSpec = {}) =>
    runner.create({ workspaceMb: 64, inodes: 2000, workspace: fresh(id), ...spec });
  const reopen = (id: Uint8Array) => runner.create({ workspace: kept(id) });
  const restart = async () => {
    await runner.kill();
    rmSync(runner.place.base, { recursive: true });
    runner = await startRunner({ state });
    bystander = await runner.create();
  };
  /** Nothing of it: no file, no loop device, no mount, no lock. */
  const expectGone = (id: Uint8Array) => {
    expect(imagesOf(state, id)).toEqual([]);
    expect(loopsOf(state).filter((file) => file.includes(hex(id)))).toEqual([]);
    const marks = readdirSync(ID_LOCKS).filter((file) => readFileSync(join(ID_LOCKS, file), 'utf8').includes(hex(id)));
    expect(marks).toEqual([]);
  };

  it('are what probe says', async () => {
    expect(await layer('loop_workspaces')).toMatchObject({ status: 'works' });
    expect(await layer('project_quota')).toMatchObject(
      via === 'loop' ? { status: 'missing', detail: /^workspace: / } : { status: 'works' },
    );
    // The machine of that lane has a kernel and a file system with project quota.
    expect(via).toBe(ownMachine ? 'project_quota' : via);
    await using sandbox = await create(newId());
    expect(sandbox.effective.workspace.via).toBe(via);
  });

  it.each([
    [8, 64],
    [64, 2000],
    [130, 300_000],
    [1024, 262_144],
    [5000, 1000],
  ])('of %i MiB and %i inodes have that and little more, and say what was measured', async (workspaceMb, inodes) => {
    await using sandbox = await create(newId(), { workspaceMb, inodes });
    const [size = 0, available = 0, files = 0, free = 0] = (
      await text(sandbox, `stat -f -c '%b %a %c %d' /workspace; stat -f -c '%S' /workspace`)
    )
      .split(/\s/)
      .map(Number);
    const block = 4096;
    expect(sandbox.effective.workspace).toEqual({ via, bytes: size * block, inodes: files });
    expect(available * block).toBeGreaterThanOrEqual(workspaceMb * MIB);
    expect(size * block).toBeLessThan(workspaceMb * MIB * 1.04 + 2 * MIB);
    expect(free).toBeGreaterThanOrEqual(inodes);
    expect(files).toBeLessThan(inodes * 1.04 + 1000);
    expect(statSync(join(state, 'workspaces')).mode & 0o777).toBe(0o700);
    for (const image of imagesOf(state).filter((file) => file.endsWith('.img'))) {
      expect(statSync(join(state, 'workspaces', image)).mode & 0o777).toBe(0o600);
    }
  });

  it('enforce their size: ENOSPC inside, and others notice nothing', async () => {
    await using sandbox = await create(newId());
    const full = await sh(sandbox, 'dd if=/dev/zero of=/workspace/big bs=1M count=200');
    expect(full.record.exit_code).toBe(1);
    // ext4 has a word of its own for a quota.
    const noSpace = via === 'loop' ? 'No space left on device' : 'Disk quota exceeded';
    expect(full.stderr).toContain(noSpace);
    const size = Number(await text(sandbox, 'stat -c %s /workspace/big'));
    expect(size).toBeGreaterThan(60 * MIB);
    expect(size).toBeLessThan(72 * MIB);
    expect((await sh(sandbox, 'dd if=/dev/zero of=/tmp/x bs=4k count=5000')).stderr).toContain(noSpace);
    expect(await text(bystander, 'dd if=/dev/zero of=/workspace/big bs=1M count=200 2>/dev/null && echo fits')).toBe(
      'fits\n',
    );
    await text(bystander, 'rm /workspace/big');
    expect(await text(sandbox, 'rm /workspace/big && echo again > /workspace/a && cat /workspace/a')).toBe('again\n');
  });

  it('enforce their inodes', async () => {
    await using sandbox = await create(newId());
    const made = await python(
      sandbox,
      'import os\nfor n in range(5000):\n  try: open(f"/workspace/{n}", "x").close()\n  except OSError as e: print(n, e.errno); break',
    );
    const [count = 0, errno] = made.stdout.split(' ').map(Number);
    expect(errno).toBe(constants.errno[via === 'loop' ? 'ENOSPC' : 'EDQUOT']);
    expect(count).toBeGreaterThanOrEqual(2000);
    expect(count).toBeLessThan(3100);
  });

  it('are written beyond the memory of a command', async () => {
    await using sandbox = await create(newId(), { workspaceMb: 400, memoryMb: 48 });
    expect(await text(sandbox, 'dd if=/dev/zero of=/workspace/big bs=1M count=300 2>/dev/null && echo fits')).toBe(
      'fits\n',
    );
  });

  it('keep content, owners, modes and times, and their ids, over close, and over kill -9 of the runner', async () => {
    const id = newId();
    const script = `cd /workspace && mkdir -p d/e && printf hello > d/e/f && chmod 0640 d/e/f && chmod 0700 d && ln -s f d/e/l &&
      ln d/e/f d/e/h && touch -d 2001-02-03T04:05:06Z d/e/f && printf tmp > /tmp/t && printf out > /mnt/user-data/outputs/o`;
    const look = `cd / && for f in workspace workspace/d workspace/d/e/f workspace/d/e/l workspace/d/e/h tmp tmp/t mnt/user-data/outputs/o mnt/user-data/uploads mnt/skills; do
      stat -c '%n %F %u %g %a %h %s %Y' $f; done | grep -v '^\\(workspace\\|tmp\\) ' ; cat workspace/d/e/l tmp/t mnt/user-data/outputs/o; stat -c '%n %u %a' workspace tmp`;
    let sandbox = await create(id);
    await text(sandbox, script);
    await (await sandbox.agent()).write('/workspace/uploaded', Buffer.from('by the file agent'), { mode: 0o600 });
    const before = await text(sandbox, look);
    const hostUid = sandbox.effective.user.host_uid;
    await sandbox.destroy({ keep: true });
    expect(mountsOf(runner)).toEqual([]);
    expect(loopsOf(state)).toEqual([]);
    expect((await runner.client.list()).workspaces.map(hex)).toContain(hex(id));
    sandbox = await reopen(id);
    expect(await text(sandbox, look)).toBe(before);
    expect(sandbox.effective.user.host_uid).toBe(hostUid);
    await text(sandbox, 'echo unsynced >> /workspace/uploaded');
    await sandbox.exec({ argv: ['/bin/sh', '-c', 'while :; do echo x >> /workspace/busy; done'] });
    await restart();
    expect((await runner.client.list()).workspaces.map(hex)).toContain(hex(id));
    sandbox = await reopen(id);
    expect(await text(sandbox, look)).toBe(before);
    expect(await text(sandbox, 'cat /workspace/uploaded')).toBe('by the file agentunsynced\n');
    expect(sandbox.effective.user.host_uid).toBe(hostUid);
    expect(Number(await text(sandbox, 'ls /proc | grep -c "^[0-9]"'))).toBeLessThan(6);
    await sandbox.destroy();
    expectGone(id);
  });

  it('are kept when the owner ends, and gone when a sandbox is closed', async () => {
    const [stays, goes] = [newId(), newId()];
    const own = newState();
    {
      await using first = await startRunner({ state: own });
      const open = await first.create({ workspaceMb: 16, workspace: fresh(stays) });
      await text(open, 'echo acknowledged > /workspace/a');
      const closed = await first.create({ workspaceMb: 16, workspace: fresh(goes) });
      await closed.destroy();
    }
    expect(imagesOf(own, goes)).toEqual([]);
    expect(loopsOf(own)).toEqual([]);
    {
      await using second = await startRunner({ state: own });
      await using sandbox = await second.create({ workspace: kept(stays) });
      expect(await text(sandbox, 'cat /workspace/a')).toBe('acknowledged\n');
    }
    rmSync(own, { recursive: true });
  });

  it('are open once at a time, exist once, and are told apart from those that do not exist', async () => {
    const id = newId();
    await expect(reopen(id)).rejects.toMatchObject({ code: 'workspace_not_kept' });
    const first = await create(id);
    await expect(create(id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(reopen(id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(runner.client.removeWorkspace(id)).rejects.toMatchObject({ code: 'conflict' });
    await text(first, 'echo here > /workspace/a');
    await first.destroy({ keep: true });
    await expect(create(id)).rejects.toMatchObject({ code: 'conflict' });
    const opened = await Promise.allSettled(Array.from({ length: 10 }, () => reopen(id)));
    const won = opened.filter((one) => one.status === 'fulfilled');
    expect(won.length).toBe(1);
    expect(
      opened.filter((one) => one.status === 'rejected' && (one.reason as BoxkiteError).code === 'conflict').length,
    ).toBe(9);
    expect(await text(won[0]?.value as TestSandbox, 'cat /workspace/a')).toBe('here\n');
    await won[0]?.value.destroy({ keep: true });
    await Promise.all([runner.client.removeWorkspace(id), sleep(0)]);
    await runner.client.removeWorkspace(id);
    await expect(reopen(id)).rejects.toMatchObject({ code: 'workspace_not_kept' });
    expectGone(id);
  });

  it('go when one of several closes wants it, and a tmpfs is never kept', async () => {
    for (let round = 0; round < 10; round += 1) {
      const id = newId();
      const sandbox = await create(id);
      // A keeper that stands still ends no close before all of them are there.
      const keeper = keeperOf(runner, state);
      process.kill(keeper, 'SIGSTOP');
      const closes = [true, true, false, true].map((keep) => runner.client.closeSandbox(sandbox.number, { keep }));
      await runner.client.list();
      process.kill(keeper, 'SIGCONT');
      await Promise.all(closes);
      expectGone(id);
    }
    const refused = { code: 'invalid_request', details: { field: 'keep' } };
    await expect(bystander.destroy({ keep: true })).rejects.toMatchObject(refused);
    expect(await text(bystander, 'echo lives')).toBe('lives\n');
  });

  it('leave nothing of an open that is aborted or whose client has left', async () => {
    const ids = Array.from({ length: 20 }, newId);
    for (const [index, id] of ids.entries()) {
      const client = await runner.anotherClient();
      const controller = new AbortController();
      const request = { memoryBytes: 2 ** 28, workspaceBytes: 2 ** 24, inodes: 64, pids: 16, cpuMillis: 0, root: 0 };
      const opening = client.openSandbox({ ...request, workspace: fresh(id) }, controller.signal);
      const outcome = opening.catch((error: unknown) => error as BoxkiteError);
      await sleep(2 * index);
      if (index % 2 === 0) controller.abort();
      else await client.close();
      // One that was opened first is its client's to close.
      const opened = await outcome;
      if ('sandbox' in opened) await runner.client.closeSandbox(opened.sandbox);
      else expect(opened.code).toMatch(/^(aborted|runner_lost)$/);
      await client.close();
    }
    // An answer that nobody was there to read leaves a sandbox that the list shows: whoever comes next closes it.
    const gone = async () => {
      const { sandboxes } = await runner.client.list();
      const unread = sandboxes.filter(({ workspace, closing }) => workspace !== null && !closing && isOneOf(workspace));
      await Promise.all(unread.map(({ sandbox }) => runner.client.closeSandbox(sandbox)));
      return ids.every((id) => imagesOf(state, id).length === 0);
    };
    const isOneOf = (workspace: Uint8Array) => ids.some((id) => hex(id) === hex(workspace));
    await eventually(gone, 10_000 * slowness, () => imagesOf(state).join(' '));
    for (const id of ids) expectGone(id);
  });

  it(
    'are removed whatever is in them',
    async () => {
      const id = newId();
      const sandbox = await create(id, { workspaceMb: 512, inodes: 100_000 });
      const hostile = await python(
        sandbox,
        `
import os, fcntl, struct
os.chdir('/workspace')
for n in range(${ownMachine ? 1 : 6}):
    open(f'o{n}', 'w').close()
    for m in range(50000): os.link(f'o{n}', f'l{n}-{m}')
os.chdir('/tmp')
for n in range(${ownMachine ? 300 : 3000}):
    os.mkdir('d'); os.chdir('d')
os.chdir('/mnt/user-data/outputs')
for name in (b'\\xff' * 255, b'-rf', b'a\\nb', b' '): os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0))
os.mkdir('closed'); os.close(os.open('closed/x', os.O_CREAT, 0o4777)); os.chmod('closed', 0)
refused = []
for kind in (0o020000, 0o060000):
    try: os.mknod('device', kind | 0o666, os.makedev(1, 3))
    except OSError as e: refused.append(e.errno)
os.close(os.open('immutable', os.O_CREAT | os.O_WRONLY))
file = os.open('immutable', os.O_RDONLY)
for flag in (0x10, 0x20):
    try: fcntl.ioctl(file, 0x40086602, struct.pack('l', flag))
    except OSError as e: refused.append(e.errno)
for root in ('/workspace', '/tmp', '/mnt/user-data/outputs'): os.chmod(root, 0)
print(refused)
`,
        { timeout_ms: 120_000 * slowness },
      );
      expect(hostile.stdout.trim(), hostile.stderr).toMatch(/^\[1, 1, (1|25), (1|25)\]$/);
      const began = performance.now();
      await sandbox.destroy({ keep: true });
      await runner.client.removeWorkspace(id);
      expect(performance.now() - began).toBeLessThan(20_000 * slowness);
      expectGone(id);
    },
    180_000 * slowness,
  );

  it('hold up nobody else while they are made, written down and removed', async () => {
    const ids = Array.from({ length: 8 }, newId);
    let closed = false;
    const began = performance.now();
    const working = (async () => {
      const boxes = await Promise.all(ids.map((id) => create(id, { workspaceMb: 128 })));
      await Promise.all(boxes.map((box) => text(box, 'dd if=/dev/urandom of=/workspace/x bs=1M count=60 2>/dev/null')));
      await Promise.all(boxes.map((box) => box.destroy({ keep: true })));
      await Promise.all(ids.map((id) => runner.client.removeWorkspace(id)));
      closed = true;
    })();
    let execs = 0;
    let longest = 0;
    while (!closed) {
      const start = performance.now();
      await Promise.race([sh(bystander, ':'), working]);
      longest = Math.max(longest, performance.now() - start);
      execs += 1;
    }
    await working;
    const all = performance.now() - began;
    // One that waited for a disk would take as long as the whole.
    expect(execs).toBeGreaterThan(5);
    expect(longest).toBeLessThan(Math.max(all / 2, 100 * slowness));
    for (const id of ids) expectGone(id);
  });

  it('have what listing says of their use', async () => {
    const id = newId();
    await using sandbox = await create(id);
    await sandbox.exec({ argv: ['/bin/sh', '-c', 'sleep 60 & sleep 60 & while :; do :; done'] });
    const entry = async (usage: boolean) =>
      (await runner.client.list({ usage })).sandboxes.find((one) => one.sandbox === sandbox.number);
    const first = (await entry(true))?.usage.cpuUs ?? 0;
    await sleep(300);
    const { usage, workspace } = (await entry(true)) ?? {};
    expect(hex(workspace ?? new Uint8Array())).toBe(hex(id));
    expect(usage?.cpuUs ?? 0).toBeGreaterThan(first + 30_000);
    // The shell, two sleeps and PID 1.
    expect(usage?.processes).toBeGreaterThanOrEqual(4);
    expect(usage?.memoryBytes).toBeGreaterThan(100_000);
    expect((await entry(false))?.usage).toEqual({ memoryBytes: null, cpuUs: null, processes: null });
    const tmpfs = (await runner.client.list()).sandboxes.find((one) => one.sandbox === bystander.number);
    expect(tmpfs?.workspace).toBeNull();
  });

  it('have the posture of a tmpfs but for the device', async () => {
    await using disk = await create(newId());
    const look = async (sandbox: TestSandbox) => {
      const seen = await text(
        sandbox,
        'cat /proc/self/mountinfo; grep -v "^\\(Pid\\|Tgid\\|PPid\\|NSpid\\|NStgid\\|NSpgid\\|NSsid\\|Vm\\|Rss\\|Hugetlb\\|volu\\|nonvol\\|Cpus\\|Mems\\|Sig\\|Shd\\|Threads\\|Speculation\\)" /proc/self/status; ls -l /proc/self/fd | wc -l',
      );
      return (
        seen
          .split('\n')
          .map((line) => line.replace(/^\d+ \d+ \d+:\d+ /, ''))
          .map((line) => line.replace(/ - (ext4 \/dev\/\S+|tmpfs tmpfs|tmpfs none) .*/, ' - its file system'))
          // The root of a mount is a directory of its file system.
          .map((line) => line.replace(/^\S+(\/\w+ \/(workspace|tmp|mnt\/\S+) )/, '$1'))
          .map((line) => line.replace(/[ug]id=\d+/g, 'id'))
          .map((line) => line.replace(/\bmaster:\d+ |\bshared:\d+ /g, ''))
      );
    };
    await using memory = await runner.create({ workspaceMb: 64, inodes: 2000 });
    const [onDisk, inMemory] = [await look(disk), await look(memory)];
    expect(onDisk.filter((line) => line.includes(' - its file system')).length).toBeGreaterThanOrEqual(5);
    expect(onDisk).toEqual(inMemory);
    const same = ({ effective }: TestSandbox) => ({
      ...effective,
      namespaces: Object.keys(effective.namespaces),
      workspace: null,
      user: { ...effective.user, host_uid: 0 },
    });
    expect(same(disk)).toEqual(same(memory));
    expect(
      (await sh(disk, 'cp /bin/true /workspace/t && chmod 4755 /workspace/t && /workspace/t')).record.exit_code,
    ).toBe(0);
  });

  it('refuse a second runner on the same state', async () => {
    await expect(startRunner({ state })).rejects.toThrow(/state: in use/);
  });

  it(
    'are whole after kill -9 of the runner at any moment',
    async () => {
      const known = new Map<string, { readonly id: Uint8Array; written: number }>();
      for (let round = 0; round < (ownMachine ? 3 : 15); round += 1) {
        const id = newId();
        const entry = { id, written: 0 };
        const work = (async () => {
          const sandbox = await create(id, { workspaceMb: 16 });
          known.set(hex(id), entry);
          for (;;) {
            await text(sandbox, `printf ${String(entry.written % 10)} >> /workspace/log`);
            entry.written += 1;
            if (entry.written % 8 === 0) {
              const again = [...known.values()][round % known.size] ?? entry;
              if (again !== entry) await (await reopen(again.id)).destroy({ keep: true });
            }
          }
        })();
        const ended = work.catch((error: unknown) => error);
        await sleep((10 + round * 12) * slowness);
        await restart();
        expect(await ended).toMatchObject({ code: 'runner_lost' });
        expect(imagesOf(state).filter((file) => file.endsWith('-new'))).toEqual([]);
        const workspaces = (await runner.client.list()).workspaces.map(hex);
        expect(workspaces).toEqual(expect.arrayContaining([...known.keys()]));
        for (const [name, { id: one, written }] of known) {
          const sandbox = await reopen(one);
          const log = written === 0 ? '' : await text(sandbox, 'cat /workspace/log');
          expect(log.length, name).toBeGreaterThanOrEqual(written);
          expect(log.startsWith('0123456789'.repeat(100).slice(0, written))).toBe(true);
          await sandbox.destroy({ keep: true });
        }
        // One whose open was not answered is there or not; who asked for it removes it.
        for (const name of workspaces.filter((one) => !known.has(one))) {
          await runner.client.removeWorkspace(Buffer.from(name, 'hex'));
        }
      }
      for (const { id } of known.values()) {
        await runner.client.removeWorkspace(id);
        expectGone(id);
      }
      expect(loopsOf(state)).toEqual([]);
    },
    120_000 * slowness,
  );

  describe('on a host without room', () => {
    let small = '';
    beforeAll(() => {
      small = newState();
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=96m,mode=0700', 'boxkite-test', small]);
    });
    afterAll(() => {
      execFileSync('umount', [small]);
      rmSync(small, { recursive: true });
    });

    it('are refused before anything is written, with what is there and what was asked', async () => {
      await using own = await startRunner({ state: small });
      const id = newId();
      const refused = { code: 'capacity', details: { limit: 'disk space', detail: /MiB are free/ } };
      await expect(own.create({ workspaceMb: 1024, workspace: fresh(id) })).rejects.toMatchObject(refused);
      expect(imagesOf(small)).toEqual([]);
      await using first = await own.create({ workspaceMb: 48, inodes: 64, workspace: fresh(id) });
      // What the first has not taken yet is promised to it.
      await expect(own.create({ workspaceMb: 48, inodes: 64, workspace: fresh(newId()) })).rejects.toMatchObject(
        refused,
      );
      expect(
        await text(first, 'dd if=/dev/zero of=/workspace/big bs=1M count=47 2>/dev/null && sync && echo fits'),
      ).toBe('fits\n');
    });

    it('fail inside and harm nobody else when others take the room later', async () => {
      await using own = await startRunner({ state: small });
      const [id, other] = [newId(), newId()];
      const victim = await own.create({ workspaceMb: 32, inodes: 64, workspace: fresh(id) });
      await using beside = await own.create({ workspaceMb: 16, inodes: 64 });
      await text(victim, 'echo early > /workspace/early && sync');
      const hole = join(small, 'others');
      try {
        writeFileSync(hole, Buffer.alloc(90 * MIB));
      } catch {
        // Full is what it is to be.
      }
      const { record } = await sh(victim, 'dd if=/dev/zero of=/workspace/big bs=1M count=30 conv=fsync');
      expect(record.exit_code).not.toBe(0);
      expect(await text(beside, 'echo fine > /workspace/a && cat /workspace/a')).toBe('fine\n');
      expect(await text(bystander, 'echo fine')).toBe('fine\n');
      await victim.destroy();
      rmSync(hole);
      await using later = await own.create({ workspaceMb: 16, inodes: 64, workspace: fresh(other) });
      expect(await text(later, 'echo fine > /workspace/a && sync && cat /workspace/a')).toBe('fine\n');
      expect(imagesOf(small, id)).toEqual([]);
    });
  });
};

describe(`disk workspaces, ${lane}`, lane === 'root' ? root : ordinaryUser);
