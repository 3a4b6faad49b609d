import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { failedReport, formatReport, reportOf } from '../src/doctor.ts';
import type { MachineFacts } from '../src/machine-facts.ts';

const facts: MachineFacts = {
  uid: 1000,
  user: 'someone',
  kernel: '6.1.0',
  container: false,
  systemd: true,
  newuidmap: false,
  subordinateIds: false,
  sysctl: { unprivileged_userns_clone: null, apparmor_restrict_unprivileged_userns: null, max_user_namespaces: '1000' },
};

const ok = (name: string) => ({ name, status: 'works' as const, detail: '' });
const missing = (name: string) => ({ name, status: 'missing' as const, detail: 'it was refused' });

test('a machine where all works says so', () => {
  const report = reportOf({ mode: 'root', layers: [ok('seccomp'), ok('memory_limit')] }, facts);
  expect(report.sandboxes).toBe(true);
  expect(report.lines.every(({ remedy }) => remedy === null)).toBe(true);
  expect(formatReport(report)).toContain('Sandboxes work here, as root');
});

test('a machine where all seems to work and no sandbox is made says that, and why', () => {
  const probed = reportOf({ mode: 'root', layers: [ok('root_file_system'), ok('seccomp')] }, facts);
  const error = new BoxkiteError('isolation_unavailable', 'not available: clone', { details: { layer: 'clone' } });
  const report = failedReport(probed, error, facts);
  expect(report).toMatchObject({ sandboxes: false, mode: 'root' });
  expect(report.lines.map(({ name, status }) => [name, status])).toEqual([
    ['clone', 'missing'],
    ['seccomp', 'works'],
  ]);
  expect(report.lines[0]?.remedy).toContain('chroot');
  expect(formatReport(report)).toContain('Sandboxes do NOT work here.');
});

test('a missing needed layer means no sandboxes; one that is not needed does not', () => {
  expect(reportOf({ mode: 'one_id', layers: [missing('seccomp')] }, facts).sandboxes).toBe(false);
  expect(reportOf({ mode: 'one_id', layers: [missing('landlock'), missing('memory_limit')] }, facts).sandboxes).toBe(
    true,
  );
});

test.each([
  ['id_range', facts, 'apt-get install uidmap'],
  ['id_range', { ...facts, newuidmap: true }, 'usermod --add-subuids'],
  ['memory_limit', facts, 'systemd-run --user --scope -p Delegate=yes'],
  ['memory_limit', { ...facts, container: true }, '--cgroupns=private'],
  ['memory_limit', { ...facts, container: true }, 'mkdir /sys/fs/cgroup/init'],
  ['mount proc', { ...facts, container: true }, 'systempaths=unconfined'],
  [
    'user namespace',
    { ...facts, sysctl: { ...facts.sysctl, unprivileged_userns_clone: '0' } },
    'unprivileged_userns_clone=1',
  ],
  ['user namespace', { ...facts, sysctl: { ...facts.sysctl, apparmor_restrict_unprivileged_userns: '1' } }, 'apparmor'],
] as const)('%s: the remedy fits the machine', (name, machine, text) => {
  const report = reportOf({ mode: 'one_id', layers: [missing(name)] }, machine);
  expect(report.lines[0]?.remedy).toContain(text);
  expect(formatReport(report)).toContain(text);
  expect(formatReport(report)).toContain('it was refused');
});

test.each([
  ['id_range', 0, 'needs no range'],
  ['loop_workspaces', 0, '`boxkite status`'],
  ['project_quota', 0, '`boxkite status`'],
  ['loop_workspaces', 1000, 'refused to an ordinary user'],
  ['project_quota', 1000, 'refused to an ordinary user'],
])('%s, not tried for user %i, says why and how to know', (name, uid, text) => {
  const layers = [{ name, status: 'not_needed' as const, detail: 'the runner was started without --state' }];
  const report = reportOf({ mode: 'root', layers }, { ...facts, uid });
  expect(report.lines[0]).toMatchObject({ remedy: null, means: expect.stringContaining(text) as unknown });
  expect(formatReport(report)).not.toContain('--state');
});

test('a probe that is new to this version is shown in its own words', () => {
  const report = reportOf({ mode: 'root', layers: [missing('new_thing')] }, facts);
  expect(report.lines[0]).toMatchObject({ title: 'new thing', means: 'it was refused', remedy: null });
});

test('the report fits a terminal of 80 columns, but for a remedy, which can be copied in one piece', () => {
  const layers = ['memory_limit', 'process_limit', 'cpu_limit'].map((name) => ({
    name,
    status: 'missing' as const,
    detail: 'make group at /sys/fs/cgroup/memory/some/where: Permission denied; '.repeat(4),
  }));
  const report = reportOf({ mode: 'one_id', layers }, facts);
  const lines = formatReport(report).split('\n');
  const remedies = lines.filter((line) => line.includes('remedy: '));
  expect(remedies).toEqual([
    `         remedy: ${report.lines[0]?.remedy}`,
    '         remedy: as for "memory limit"',
    '         remedy: as for "memory limit"',
  ]);
  for (const line of lines) if (!remedies.includes(line)) expect(line.length).toBeLessThanOrEqual(80);
});
