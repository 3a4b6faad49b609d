import type { Effective, ExecRecord } from '../src/index.ts';

const capabilities = '0000000000000000';

/** What a sandbox of an ordinary machine measures. */
export const effective: Effective = {
  init: 'own',
  user: { uid: 1001, gid: 1001, host_uid: 1_878_983_657, groups: 0 },
  capabilities: {
    inheritable: capabilities,
    permitted: capabilities,
    effective: capabilities,
    bounding: capabilities,
    ambient: capabilities,
  },
  no_new_privs: true,
  seccomp: 'filter',
  seccomp_filters: 1,
  landlock: 4,
  namespaces: { user: 1, net: 2 },
  layers: { seccomp: true, landlock: true },
  memory: { via: 'cgroup_v2', bytes: 2 ** 30 },
  processes: { via: 'cgroup_v2', max: 256 },
  cpu: { via: 'none', cores: null },
  workspace: { bytes: 2 ** 30, inodes: 262_144, via: 'tmpfs' },
  network: 'none',
  programs: { enforced: 'none', count: 0, via: [] },
  descriptors: [0, 1, 2],
};

/** A command that went well. */
export const record: ExecRecord = {
  exec_id: 'e1',
  end: 'exited',
  exit_code: 0,
  signal: null,
  reason: null,
  stdout_bytes: 3,
  stderr_bytes: 0,
  duration_ms: 1.5,
  usage: { cpu_ms: 1, memory_peak_bytes: null },
  effective,
};
