import { insideSource, lane, pythonJson, startRunner, type TestRunner, type TestSandbox } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LAST_NUMBER, readTable, systemCallViolations, tryInside, tryOnHost } from './support/system-calls.ts';

const NAMESPACES = ['mnt', 'cgroup', 'uts', 'ipc', 'user', 'pid', 'net'];

describe(`system calls, ${lane}`, () => {
  let runner: TestRunner;
  let sandbox: TestSandbox;
  let conditional: Readonly<Record<string, string>>;

  beforeAll(async () => {
    runner = await startRunner();
    sandbox = await runner.create();
    conditional = await pythonJson(sandbox, insideSource('conditional-calls.py'));
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it('has a table with one reason per call', () => {
    const table = readTable();
    expect(table.length).toBeGreaterThan(350);
    expect(table.filter((row) => row.reason === '' || !/^(allow|rule:\w+|E[A-Z]+)$/.test(row.action))).toEqual([]);
    expect(new Set(table.map((row) => row.name)).size).toBe(table.length);
    expect(Math.max(...table.map((row) => row.number ?? 0))).toBeLessThan(LAST_NUMBER);
  });

  it('gives each call under the filter the answer of the table', async () => {
    expect(systemCallViolations(await tryInside(sandbox), tryOnHost())).toEqual([]);
  });

  it('makes no namespace, by whatever flags', () => {
    for (const name of NAMESPACES) {
      expect.soft(conditional[`clone ${name}`], `clone ${name}`).toBe('EPERM');
      expect.soft(conditional[`unshare ${name}`], `unshare ${name}`).toBe('EPERM');
    }
    expect(conditional['unshare time']).toBe('EPERM');
    expect([conditional['unshare files'], conditional['unshare fs']]).toEqual(['ok', 'ok']);
  });

  it('opens sockets of UNIX, INET, INET6 and NETLINK_ROUTE only', () => {
    const opened = Object.entries(conditional)
      .filter(([label, result]) => /^(socket|netlink|inet) /.test(label) && result === 'ok')
      .map(([label]) => label);
    expect(opened.toSorted()).toEqual(
      [
        'inet protocol 1 type 2',
        'inet protocol 17 type 2',
        'inet protocol 6 type 1',
        'netlink 0',
        'socket 1 datagram',
        'socket 1 stream',
        'socket 10 datagram',
        'socket 10 stream',
        'socket 16 raw',
        'socket 2 datagram',
        'socket 2 stream',
        'socket 16 datagram',
      ]
        .filter((label) => label !== 'inet protocol 1 type 2' || conditional[label] === 'ok')
        .toSorted(),
    );
  });

  it('pushes nothing into terminals and changes no line discipline or project', () => {
    for (const name of ['TIOCSTI', 'TIOCLINUX', 'TIOCCONS', 'TIOCSETD', 'FS_IOC_SETFLAGS', 'FS_IOC_FSSETXATTR']) {
      expect.soft(conditional[`ioctl ${name}`], name).toBe('EPERM');
      expect.soft(conditional[`ioctl ${name} with upper bits`], `${name} with upper bits`).toBe('EPERM');
    }
    expect(conditional['ioctl TIOCGWINSZ']).toBe('ok');
  });

  it("keeps executable protection, names and listeners in the caller's bounds", () => {
    expect({
      query: conditional['personality ffffffff'],
      none: conditional['personality 0'],
      fixed: conditional['personality 40000'],
    }).toEqual({ query: 'ok', none: 'ok', fixed: 'ok' });
    for (const value of ['400000', '100000', '200000', '8000000'])
      expect.soft(conditional[`personality ${value}`], value).toBe('EPERM');
    for (const option of [35, 57, 62, 67]) expect.soft(conditional[`prctl ${option}`], `prctl ${option}`).toBe('EPERM');
    for (const option of [79, 1000]) expect.soft(conditional[`prctl ${option}`], `prctl ${option}`).toBe('EINVAL');
    expect(conditional['prctl name']).toBe('ok');
    expect([conditional['seccomp listener'], conditional['seccomp actions']]).toEqual(['EPERM', 'ok']);
  });

  it('makes no device node, and fifos and memory files as ever', () => {
    for (const call of process.arch === 'x64' ? ['mknod', 'mknodat'] : ['mknodat']) {
      expect.soft([conditional[`${call} char`], conditional[`${call} block`]]).toEqual(['EPERM', 'EPERM']);
      expect
        .soft([conditional[`${call} fifo`], conditional[`${call} regular`], conditional[`${call} socket`]])
        .toEqual(['ok', 'ok', 'ok']);
    }
    expect(conditional['memfd_create']).toBe('ok');
  });
});
