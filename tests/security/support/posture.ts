/** The one expected posture of each way in, and the comparison with what was read inside. */
import type { Effective } from '@boxkite/protocol';
import { type Executor, hostNamespace, insideSource, type Lane, pythonJson } from '@boxkite/testing';
import {
  DEVICES,
  ENVIRONMENT,
  LIMITS,
  MOUNTS_ALLOWED,
  MOUNTS_REQUIRED,
  PROC_EMPTY,
  ROOT_ENTRIES,
  ROOT_ENTRIES_OF_SOME_HOSTS,
  WRITABLE,
} from './expected-posture.ts';

interface Status {
  readonly Uid: readonly string[];
  readonly Gid: readonly string[];
  readonly Groups: readonly string[];
  readonly CapInh: readonly string[];
  readonly CapPrm: readonly string[];
  readonly CapEff: readonly string[];
  readonly CapBnd: readonly string[];
  readonly CapAmb: readonly string[];
  readonly NoNewPrivs: readonly string[];
  readonly Seccomp: readonly string[];
  readonly Seccomp_filters: readonly string[];
  readonly SigBlk: readonly string[];
  readonly SigIgn: readonly string[];
  readonly NSpid: readonly string[];
}

type Namespaces = Readonly<Record<string, number>>;

/** One line of `mountinfo`. */
export interface MountEntry {
  readonly root: string;
  readonly point: string;
  readonly flags: readonly string[];
  readonly propagation: readonly string[];
  readonly type: string;
  readonly source: string;
  readonly super: readonly string[];
}

/** What `posture.py` prints. */
export interface Observed {
  readonly descriptors: Readonly<Record<string, string>>;
  readonly environ: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly threads: readonly { readonly where: string; readonly status: Status; readonly ns: Namespaces }[];
  readonly mounts: readonly MountEntry[];
  readonly devices: Readonly<Record<string, string>>;
  readonly interfaces: Readonly<Record<string, number>>;
  readonly routes: readonly string[];
  readonly routes6: readonly string[];
  readonly hostname: string;
  readonly domainname: string;
  readonly limits: Readonly<Record<string, readonly [number, number]>>;
  readonly oom_score_adj: string;
  readonly cgroup: readonly string[];
  readonly init: Status;
  readonly init_ns: Namespaces;
  readonly init_files: Readonly<Record<string, string>>;
  readonly processes: readonly number[];
  readonly self: number;
  readonly session: readonly [number, number];
  readonly sys: readonly string[];
  readonly root: readonly string[];
  readonly proc: Readonly<Record<string, string | readonly string[]>>;
  readonly writable: readonly string[];
  readonly passwd: string;
  readonly umask: string;
}

/** Capabilities that PID 1 may hold: KILL (5), SETGID (6), SETUID (7). */
const INIT_CAPABILITIES = 0b1110_0000n;
const NAMESPACES = ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup'] as const;

/** Reads the posture of a new command. */
export function observe(sandbox: Executor): Promise<Observed> {
  return pythonJson<Observed>(sandbox, insideSource('posture.py'));
}

class Violations {
  readonly list: string[] = [];

  same(what: string, found: unknown, expected: unknown): void {
    const [left, right] = [JSON.stringify(found), JSON.stringify(expected)];
    if (left !== right) this.list.push(`${what}: found ${left}, expected ${right}`);
  }

  that(what: string, holds: boolean, found: unknown): void {
    if (!holds) this.list.push(`${what}: found ${JSON.stringify(found)}`);
  }
}

/**
 * Only a privileged process may give groups up: where one id alone is mapped, the caller's stay, unmapped but its own.
 */
function checkGroups(check: Violations, label: string, groups: readonly string[], lane: Lane): void {
  if (lane !== 'user-one-id') return check.same(`${label} Groups`, groups, []);
  const own = process.getgroups?.() ?? [];
  const expected = own.map((group) => (group === process.getgid?.() ? '1001' : '65534')).toSorted();
  check.same(`${label} Groups`, groups.toSorted(), expected);
}

function checkThread(check: Violations, label: string, status: Status, lane: Lane): void {
  check.same(`${label} Uid`, status.Uid, ['1001', '1001', '1001', '1001']);
  check.same(`${label} Gid`, status.Gid, ['1001', '1001', '1001', '1001']);
  checkGroups(check, label, status.Groups, lane);
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'] as const) {
    check.same(`${label} ${set}`, status[set], ['0000000000000000']);
  }
  check.same(`${label} NoNewPrivs`, status.NoNewPrivs, ['1']);
  check.same(`${label} Seccomp`, status.Seccomp, ['2']);
  check.that(`${label} Seccomp_filters at least 1`, Number(status.Seccomp_filters[0]) >= 1, status.Seccomp_filters);
  check.same(`${label} SigBlk`, status.SigBlk, ['0000000000000000']);
  check.that(`${label} one pid namespace below what it sees`, status.NSpid.length === 1, status.NSpid);
}

function checkInit(check: Violations, seen: Observed, lane: Lane): void {
  const own = lane === 'user-one-id' ? '1001' : '0';
  check.same('PID 1 Uid', seen.init.Uid, [own, own, own, own]);
  check.same('PID 1 Gid', seen.init.Gid, [own, own, own, own]);
  checkGroups(check, 'PID 1', seen.init.Groups, lane);
  const allowed = lane === 'user-one-id' ? 0n : INIT_CAPABILITIES;
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'] as const) {
    const value = BigInt(`0x${seen.init[set][0] ?? 'ffff'}`);
    check.that(
      `PID 1 ${set} within what it needs`,
      (value & ~(set === 'CapInh' || set === 'CapAmb' ? 0n : allowed)) === 0n,
      seen.init[set],
    );
  }
  check.same('PID 1 NoNewPrivs', seen.init.NoNewPrivs, ['1']);
  check.same('PID 1 Seccomp', seen.init.Seccomp, ['2']);
  for (const name of ['environ', 'maps', 'cwd', 'root'])
    check.that(`PID 1 ${name} is closed`, /^errno/.test(seen.init_files[name] ?? ''), seen.init_files[name]);
  for (const [name, value] of Object.entries(seen.init_ns)) check.that(`PID 1 ns/${name} is closed`, value < 0, value);
  check.that(
    'PID 1 names no host path',
    !/\/(root|home|tmp|run|work|var)\//.test(seen.init_files['cmdline'] ?? ''),
    seen.init_files['cmdline'],
  );
}

function checkNamespaces(check: Violations, seen: Observed, effective: Effective): void {
  for (const name of NAMESPACES) {
    const inodes = new Set(seen.threads.map((thread) => thread.ns[name]));
    check.same(`one ${name} namespace for all threads`, inodes.size, 1);
    const inode = [...inodes][0];
    check.that(`own ${name} namespace`, inode !== undefined && inode > 0 && inode !== hostNamespace(name), inode);
    check.same(`effective ${name} namespace`, effective.namespaces[name], inode);
  }
}

function checkMounts(check: Violations, seen: Observed): void {
  const table = seen.mounts.map(
    (entry) =>
      `${entry.point} ${entry.type} ${entry.flags.filter((flag) => ['rw', 'ro', 'nosuid', 'nodev', 'noexec'].includes(flag)).join(',')}`,
  );
  for (const line of table) {
    check.that(
      'a mount that is not expected',
      [...MOUNTS_REQUIRED, ...MOUNTS_ALLOWED].some((pattern) => pattern.test(line)),
      line,
    );
  }
  for (const pattern of MOUNTS_REQUIRED) {
    check.that(
      'an expected mount is missing or there twice',
      table.filter((line) => pattern.test(line)).length === 1,
      pattern.source,
    );
  }
  for (const entry of seen.mounts) {
    check.that(
      `${entry.point} does not propagate`,
      !entry.propagation.some((flag) => flag.startsWith('shared:')),
      entry.propagation,
    );
    check.that(
      `${entry.point} shows no path of the host`,
      !/^\/(home|root|tmp|run|var|work|srv|opt)\//.test(entry.root),
      entry.root,
    );
  }
}

function checkSurroundings(check: Violations, seen: Observed): void {
  check.same('descriptors', Object.keys(seen.descriptors), ['0', '1', '2']);
  check.same('standard input', seen.descriptors['0'], '/dev/null');
  check.that('standard output is a pipe', /^pipe:/.test(seen.descriptors['1'] ?? ''), seen.descriptors['1']);
  check.that('standard error is a pipe', /^pipe:/.test(seen.descriptors['2'] ?? ''), seen.descriptors['2']);
  check.same('environment', Object.entries(seen.environ).toSorted(), Object.entries(ENVIRONMENT).toSorted());
  check.same('cwd', seen.cwd, '/workspace');
  check.same('devices', Object.entries(seen.devices).toSorted(), Object.entries(DEVICES).toSorted());
  check.same('interfaces', seen.interfaces, { lo: 1 });
  check.same('routes', seen.routes, []);
  check.same('IPv6 routes', seen.routes6, []);
  check.same('host name', seen.hostname, 'sandbox');
  check.same('domain name', seen.domainname, '(none)');
  check.same(
    'cgroup paths',
    seen.cgroup.filter((line) => !line.endsWith(':/')),
    [],
  );
  check.same(
    'processes',
    seen.processes,
    [1, seen.self].toSorted((a, b) => a - b),
  );
  check.same('/sys', seen.sys, []);
  check.same(
    'entries of /',
    seen.root.filter((name) => !ROOT_ENTRIES_OF_SOME_HOSTS.includes(name)),
    ROOT_ENTRIES,
  );
  check.same('writable directories', seen.writable.toSorted(), [...WRITABLE].toSorted());
  check.same('session and process group', seen.session, [seen.self, seen.self]);
  check.same('umask', seen.umask, '022');
  check.same('oom_score_adj', seen.oom_score_adj, '1000');
  for (const [name, found] of Object.entries(seen.limits)) {
    const expected = LIMITS[name];
    if (expected !== undefined) check.same(`limit ${name}`, found, expected);
  }
  for (const [name, found] of Object.entries(seen.proc)) {
    if (PROC_EMPTY.includes(name))
      check.that(`/proc/${name} is masked`, found.length === 0 || /^errno/.test(String(found)), found);
  }
}

function checkEffective(check: Violations, seen: Observed, effective: Effective, lane: Lane): void {
  const first = seen.threads[0];
  check.same('effective.init', effective.init, lane === 'user-one-id' ? 'same-user' : 'own');
  check.same(
    'effective ids',
    [effective.user.uid, effective.user.gid, effective.user.groups],
    [1001, 1001, first?.status.Groups.length],
  );
  for (const [name, set] of [
    ['inheritable', 'CapInh'],
    ['permitted', 'CapPrm'],
    ['effective', 'CapEff'],
    ['bounding', 'CapBnd'],
    ['ambient', 'CapAmb'],
  ] as const) {
    check.same(`effective capabilities ${name}`, effective.capabilities[name], first?.status[set][0]);
  }
  check.same('effective no_new_privs', effective.no_new_privs, first?.status.NoNewPrivs[0] === '1');
  check.same('effective seccomp', effective.seccomp, first?.status.Seccomp[0] === '2' ? 'filter' : 'none');
  check.same('effective filters', effective.seccomp_filters, Number(first?.status.Seccomp_filters[0]));
  check.same('effective descriptors', effective.descriptors, [0, 1, 2]);
  check.same('effective network', effective.network, 'none');
  for (const layer of [
    'seccomp',
    'read_only_root',
    'landlock',
    'network',
    'proc_masks',
    'devices',
    'other_processes',
  ] as const) {
    check.same(`effective layer ${layer}`, effective.layers[layer], true);
  }
}

/** Everything in which a command's posture differs from the lane's expected value; empty if all is well. */
export function postureViolations(seen: Observed, effective: Effective, lane: Lane): readonly string[] {
  const check = new Violations();
  check.that(
    'threads before, beside, after forks',
    ['before', 'threads', 'fork', 'setsid grandchild', 'after'].every((where) =>
      seen.threads.some((thread) => thread.where === where),
    ),
    seen.threads.map((thread) => thread.where),
  );
  check.that('at least 15 threads were read', seen.threads.length >= 15, seen.threads.length);
  seen.threads.forEach((thread, index) => checkThread(check, `${thread.where} ${index}`, thread.status, lane));
  checkInit(check, seen, lane);
  checkNamespaces(check, seen, effective);
  checkMounts(check, seen);
  checkSurroundings(check, seen);
  checkEffective(check, seen, effective, lane);
  return check.list;
}
