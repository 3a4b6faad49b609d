/** The effective isolation in words, for people; pure. */
import type { Effective, LimitVia } from '@boxkite/protocol';

/** What enforces a limit, in words. */
export const VIA: Readonly<Record<LimitVia, string>> = {
  cgroup_v1: 'cgroup v1',
  cgroup_v2: 'cgroup v2',
  container: "the container's own limit",
  rlimit: 'RLIMIT_NPROC in an own user namespace',
  none: 'nothing',
};

/** Pairs of a name and what was measured to be in force. */
export function effectiveLines(effective: Effective): readonly (readonly [name: string, value: string])[] {
  const { user, capabilities } = effective;
  const sets = Object.entries(capabilities).filter(([, value]) => !/^0*$/.test(value));
  const held = Object.entries(effective.layers).filter(([, refused]) => refused);
  const open = Object.entries(effective.layers).filter(([, refused]) => !refused);
  return [
    [
      'user',
      `${user.uid} inside, ${user.host_uid} on the host, ${user.groups} groups; PID 1: ${effective.init === 'own' ? 'an id of its own' : 'the same user'}`,
    ],
    [
      'capabilities',
      sets.length === 0 ? 'none, in all five sets' : sets.map(([name, value]) => `${name} ${value}`).join(', '),
    ],
    ['no_new_privs', effective.no_new_privs ? 'on' : 'OFF'],
    ['seccomp', effective.seccomp === 'filter' ? `filter (${effective.seccomp_filters})` : effective.seccomp],
    ['Landlock', effective.landlock === 0 ? 'none' : `ABI ${effective.landlock}`],
    ['namespaces', Object.keys(effective.namespaces).join(' ') || 'none'],
    ['network', effective.network],
    ['processes', `${effective.processes.max ?? 'no limit'}, by ${VIA[effective.processes.via]}`],
    ['memory', amount(effective.memory)],
    [
      'cpu',
      effective.cpu.cores === null ? 'no rate set' : `${effective.cpu.cores} cores, by ${VIA[effective.cpu.via]}`,
    ],
    ['workspace', `${mebibytes(effective.workspace.bytes)}, ${effective.workspace.inodes} inodes`],
    ['descriptors', effective.descriptors.join(' ')],
    ['tried, refused', held.map(([name]) => words(name)).join(', ') || 'nothing'],
    ...(open.length === 0 ? [] : [['tried, NOT refused', open.map(([name]) => words(name)).join(', ')] as const]),
  ];
}

function amount(limit: { readonly via: LimitVia; readonly bytes: number | null }): string {
  if (limit.via === 'none') return 'no limit: this machine gives no cgroup to write';
  return `${limit.bytes === null ? 'a limit' : mebibytes(limit.bytes)}, by ${VIA[limit.via]}`;
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / (1024 * 1024))} MiB`;
}

function words(name: string): string {
  return name.replaceAll('_', ' ');
}
