import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import {
  lane,
  PROBE_MODE,
  passwdEntry,
  processesOf,
  python,
  sh,
  startRunner,
  type TestRunner,
  type TestSandbox,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { observe, postureViolations } from './support/posture.ts';

describe(`posture, ${lane}`, () => {
  let runner: TestRunner;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    runner = await startRunner({ idleSeconds: 60 });
    // Who first reads Python's files after they left the page cache is charged for them, and its envelope retired.
    await using first = await runner.create();
    await observe(first);
    sandbox = await runner.create();
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it('is the way in that this lane names', async () => {
    expect((await runner.client.probe()).mode).toBe(PROBE_MODE[lane]);
  });

  it('is the one expected posture, for every thread, and effective says the same', async () => {
    expect(postureViolations(await observe(sandbox), sandbox.effective, lane)).toEqual([]);
  });

  // Only root may look at the descriptors of processes that are not dumpable: elsewhere there is no test to skip.
  it.each(lane === 'root' ? ['PID 1 or a file agent'] : [])('has no descriptor of the host in %s', async () => {
    await sh(sandbox, 'true');
    const agent = await sandbox.agent();
    await agent.write('/workspace/seen', Buffer.from('seen'));
    const isFirst = (pid: number) => /^NSpid:.*\t1$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    const inside = processesOf(runner.pid, runner.place.directory).filter(({ pid }) => isFirst(pid));
    expect(inside.map(({ name }) => name).toSorted()).toEqual(expect.arrayContaining(['boxkite-init', 'test-agent']));
    for (const { pid, name } of inside) {
      const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
      const foreign = links.filter(
        (link) => !/^(\/dev\/null|socket:|anon_inode:\[(eventpoll|eventfd|signalfd)\])/.test(link),
      );
      expect(foreign, `${name} ${pid}`).toEqual([]);
      expect([0, 1, 2].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))).toEqual(Array(3).fill('/dev/null'));
    }
  });

  it('is the same in a kept envelope and in a fresh one', async () => {
    await sh(sandbox, 'true');
    expect(postureViolations(await observe(sandbox), sandbox.effective, lane)).toEqual([]);
    await using fresh = await runner.create({ fresh: true });
    const handle = await fresh.exec({ argv: ['/bin/true'] });
    expect(handle.effective.namespaces.pid).toBeGreaterThan(0);
    const seen = await observe(fresh);
    expect(postureViolations(seen, { ...fresh.effective, namespaces: namespacesOf(seen) }, lane)).toEqual([]);
  });

  it('answers with the effective posture of the very exec', async () => {
    const handle = await sandbox.exec({
      argv: [
        '/usr/bin/python3',
        '-I',
        '-S',
        '-c',
        'import os;print(os.stat("/proc/self/ns/pid").st_ino, os.stat("/proc/self/ns/user").st_ino)',
      ],
    });
    let text = '';
    for await (const event of handle) {
      if (event.type === 'output') text += Buffer.from(event.data).toString();
      if (event.type === 'ended') {
        const [pid, user] = text.trim().split(' ').map(Number);
        expect(event.record.effective.namespaces.pid).toBe(pid);
        expect(event.record.effective.namespaces.user).toBe(user);
      }
    }
  });

  it('shares no namespace between sandboxes, and no host id where ids are ranges', async () => {
    await using other = await runner.create();
    const [left, right] = [await observe(sandbox), await observe(other)];
    for (const name of ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup']) {
      expect.soft(left.threads[0]?.ns[name], name).not.toBe(right.threads[0]?.ns[name]);
    }
    if (lane === 'user-one-id') expect(other.effective.user.host_uid).toBe(process.getuid?.());
    else {
      expect(other.effective.user.host_uid).not.toBe(sandbox.effective.user.host_uid);
      for (const { effective } of [sandbox, other]) {
        expect([0, 1001, process.getuid?.()]).not.toContain(effective.user.host_uid);
      }
    }
  });

  it('names nothing of the host', async () => {
    const { stdout } = await python(
      sandbox,
      `
import os
for base in ('/proc/self', '/proc/1', '/proc/thread-self'):
    for name in ('cmdline', 'comm', 'environ', 'mountinfo', 'mounts', 'mountstats', 'cgroup', 'status', 'maps'):
        try: print(open(base + '/' + name).read() if base != '/proc/self' or name != 'cmdline' else '')
        except OSError: pass
for name in ('hostname', 'hosts', 'passwd', 'group', 'resolv.conf', 'machine-id', 'fstab', 'mtab', 'motd', 'shadow', 'subuid', 'ssh/ssh_host_ed25519_key.pub'):
    try: print(open('/etc/' + name).read())
    except OSError: pass
print(os.uname().nodename)
`,
    );
    const { name: user = '', home = '' } = passwdEntry() ?? {};
    const names = [
      runner.place.base,
      runner.place.directory,
      process.cwd(),
      ...(home.length < 4 ? [] : [`${home}/`]),
      ...(user === '' || user === 'root' ? [] : [user]),
    ];
    expect(names.filter((name) => stdout.includes(name))).toEqual([]);
    expect(stdout.split(/\s+/).includes(hostname())).toBe(false);
  });
});

function namespacesOf(seen: Awaited<ReturnType<typeof observe>>): Readonly<Record<string, number>> {
  return seen.threads[0]?.ns ?? {};
}
