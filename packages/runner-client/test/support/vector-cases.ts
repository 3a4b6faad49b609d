import { Buffer } from 'node:buffer';
import { type Fields, type LayoutName, sampleEffective, sampleEnded } from './layouts.ts';

export interface VectorCase {
  readonly name: string;
  readonly layout: LayoutName;
  readonly request: number;
  readonly fields: Fields;
}

const hex = (text: string): string => Buffer.from(text).toString('hex');
const MAX_U64 = '18446744073709551615';
const MAX_COUNT = '9007199254740991';
const MAX_U32 = '4294967295';
const NO_ID = '0'.repeat(32);
const ID = '0190f5e28c3b7a4d9e1f00112233aabb';

const list = (name: string, field: string, values: readonly string[]): Fields => {
  const entries = values.map((value, index) => [`${name}_${index}_${field}`, value] as const);
  return { [`${name}_count`]: String(values.length), ...Object.fromEntries(entries) };
};

const noEffective: Fields = Object.fromEntries(Object.keys(sampleEffective).map((key) => [key, '0']));
const userEffective: Fields = {
  ...noEffective,
  init: '2',
  no_new_privs: '1',
  seccomp: '2',
  pids_via: '4',
  pids: '64',
  uid: '1001',
  gid: '1001',
  host_uid: '1000',
  tried: '127',
  held: '95',
  workspace_bytes: '1',
  workspace_inodes: '2',
  memory_bytes: MAX_U64,
  workspace_via: '2',
  descriptors: '3',
};
const listEffective: Fields = { ...sampleEffective, tried: '255', held: '255', programs_via: '15', programs: '7' };
const edgeEffective: Fields = {
  init: '1',
  user_namespace: '1',
  no_new_privs: '1',
  seccomp: '2',
  landlock: '255',
  memory_via: '3',
  pids_via: '1',
  cpu_via: '1',
  uid: MAX_U32,
  gid: MAX_U32,
  host_uid: MAX_U32,
  groups: MAX_U32,
  cap_inheritable: MAX_U64,
  cap_permitted: MAX_U64,
  cap_effective: MAX_U64,
  cap_bounding: MAX_U64,
  cap_ambient: MAX_U64,
  ns_user: MAX_U32,
  ns_pid: MAX_U32,
  ns_mnt: MAX_U32,
  ns_net: MAX_U32,
  ns_ipc: MAX_U32,
  ns_uts: MAX_U32,
  ns_cgroup: MAX_U32,
  seccomp_filters: MAX_U32,
  tried: '85',
  held: '0',
  memory_bytes: MAX_COUNT,
  workspace_bytes: MAX_COUNT,
  workspace_inodes: MAX_COUNT,
  cpu_millis: MAX_U32,
  pids: MAX_U32,
  workspace_via: '3',
  descriptors: '4',
  programs_via: '9',
  programs: '65535',
};

const plainExec: Fields = {
  sandbox: '1',
  timeout_ms: '0',
  memory_bytes: '0',
  cpu_ms: '0',
  pids: '0',
  columns: '0',
  rows: '0',
  stdin: '0',
  terminal: '0',
  overflow: '0',
  flags: '0',
  cwd: hex('/workspace'),
  ...list('argument', 'value', [hex('true')]),
  ...list('environment', 'value', []),
  inline: '',
};

const open = (fields: Fields): Fields => ({
  memory_bytes: '1073741824',
  workspace_bytes: '1073741824',
  pids: '256',
  cpu_millis: '0',
  inodes: '262144',
  root: '0',
  flags: '0',
  workspace: '0',
  workspace_id: NO_ID,
  ...fields,
});

const operations: readonly VectorCase[] = [
  { name: 'open_sandbox.defaults', layout: 'open_sandbox', request: 1, fields: open({}) },
  {
    name: 'open_sandbox.flags',
    layout: 'open_sandbox',
    request: 2,
    fields: open({ flags: '7', cpu_millis: '1500', root: '3' }),
  },
  {
    name: 'open_sandbox.edges',
    layout: 'open_sandbox',
    request: 4294967295,
    fields: {
      memory_bytes: MAX_COUNT,
      workspace_bytes: MAX_COUNT,
      pids: MAX_U32,
      cpu_millis: MAX_U32,
      inodes: MAX_U32,
      root: '65535',
      flags: '5',
      workspace: '2',
      workspace_id: 'f'.repeat(32),
    },
  },
  {
    name: 'open_sandbox.disk',
    layout: 'open_sandbox',
    request: 2,
    fields: open({ workspace: '1', workspace_id: ID }),
  },
  {
    name: 'close_sandbox',
    layout: 'close_sandbox',
    request: 3,
    fields: { sandbox: '1', keep: '0', workspace_id: NO_ID },
  },
  {
    name: 'close_sandbox.edge',
    layout: 'close_sandbox',
    request: 3,
    fields: { sandbox: MAX_U64, keep: '1', workspace_id: NO_ID },
  },
  {
    name: 'close_sandbox.remove',
    layout: 'close_sandbox',
    request: 3,
    fields: { sandbox: '0', keep: '0', workspace_id: ID },
  },
  { name: 'exec.plain', layout: 'exec', request: 4, fields: plainExec },
  {
    name: 'exec.inline',
    layout: 'exec',
    request: 5,
    fields: {
      ...plainExec,
      stdin: '1',
      inline: '00ff0a',
      cwd: hex('/tmp/größe'),
      ...list('argument', 'value', [hex('sh'), hex('-c'), '', hex('cat 🎉')]),
      ...list('environment', 'value', [hex('PATH=/usr/bin:/bin'), hex('EMPTY='), hex('A=b=c')]),
    },
  },
  {
    name: 'exec.terminal',
    layout: 'exec',
    request: 6,
    fields: { ...plainExec, stdin: '2', terminal: '1', columns: '80', rows: '24', overflow: '1', flags: '1' },
  },
  { name: 'exec.channel', layout: 'exec', request: 7, fields: { ...plainExec, stdin: '3' } },
  {
    name: 'exec.edges',
    layout: 'exec',
    request: 7,
    fields: {
      ...plainExec,
      sandbox: MAX_U64,
      timeout_ms: MAX_COUNT,
      memory_bytes: '4503599626321920',
      cpu_ms: MAX_COUNT,
      pids: MAX_U32,
      columns: '65535',
      rows: '65535',
      terminal: '1',
    },
  },
  { name: 'attach.output', layout: 'attach', request: 8, fields: { exec: '9', what: '0' } },
  { name: 'attach.stdin', layout: 'attach', request: 1, fields: { exec: MAX_U64, what: '1' } },
  { name: 'signal.group', layout: 'signal', request: 9, fields: { exec: '9', signal: '15', target: '0' } },
  { name: 'signal.envelope', layout: 'signal', request: 10, fields: { exec: '9', signal: '9', target: '1' } },
  { name: 'signal.edge', layout: 'signal', request: 10, fields: { exec: '0', signal: '64', target: '0' } },
  { name: 'resize', layout: 'resize', request: 11, fields: { exec: '9', columns: '120', rows: '40' } },
  { name: 'resize.edge', layout: 'resize', request: 11, fields: { exec: '9', columns: '65535', rows: '1' } },
  { name: 'file.commands', layout: 'file', request: 1, fields: { sandbox: '1', instance: '0' } },
  { name: 'file.provision', layout: 'file', request: 1, fields: { sandbox: '1', instance: '1' } },
  { name: 'list', layout: 'list', request: 12, fields: { flags: '0' } },
  { name: 'list.usage', layout: 'list', request: 12, fields: { flags: '1' } },
  { name: 'probe', layout: 'probe', request: 13, fields: {} },
  {
    name: 'commit',
    layout: 'commit',
    request: 4294967295,
    fields: { exec: '9', stdout: '262144', stderr: '0', end: '0' },
  },
  {
    name: 'commit.end',
    layout: 'commit',
    request: 4294967295,
    fields: { exec: MAX_U64, stdout: MAX_COUNT, stderr: '4294967296', end: '1' },
  },
  {
    name: 'programs',
    layout: 'programs',
    request: 14,
    fields: { sandbox: '1', enforce: '1', ...list('program', 'name', [hex('ls'), hex('/usr/bin/größe')]) },
  },
  {
    name: 'programs.empty',
    layout: 'programs',
    request: 14,
    fields: { sandbox: '1', enforce: '1', program_count: '0' },
  },
  {
    name: 'programs.none',
    layout: 'programs',
    request: 14,
    fields: { sandbox: MAX_U64, enforce: '0', program_count: '0' },
  },
];

const answers: readonly VectorCase[] = [
  { name: 'done', layout: 'done', request: 3, fields: {} },
  { name: 'opened.root', layout: 'opened', request: 1, fields: { sandbox: '1', ...sampleEffective } },
  { name: 'opened.one_id', layout: 'opened', request: 1, fields: { sandbox: '2', ...userEffective } },
  { name: 'started.root', layout: 'started', request: 4, fields: { exec: '9', ...sampleEffective } },
  { name: 'started.edges', layout: 'started', request: 4, fields: { exec: MAX_U64, ...edgeEffective } },
  {
    name: 'attached',
    layout: 'attached',
    request: 8,
    fields: { exec: '9', stdout_from: '1048576', stderr_from: '0', ...sampleEffective },
  },
  {
    name: 'attached.edges',
    layout: 'attached',
    request: 8,
    fields: { exec: '9', stdout_from: MAX_COUNT, stderr_from: '1', ...userEffective },
  },
  {
    name: 'listing.empty',
    layout: 'listing',
    request: 12,
    fields: { sandbox_count: '0', exec_count: '0', workspace_count: '0' },
  },
  {
    name: 'listing',
    layout: 'listing',
    request: 12,
    fields: {
      sandbox_count: '2',
      sandbox_0_id: '1',
      sandbox_0_envelopes: '4',
      sandbox_0_idle: '3',
      sandbox_0_closing: '0',
      sandbox_0_workspace_id: NO_ID,
      sandbox_0_memory_bytes: MAX_U64,
      sandbox_0_cpu_us: MAX_U64,
      sandbox_0_processes: MAX_U32,
      sandbox_1_id: MAX_U64,
      sandbox_1_envelopes: '0',
      sandbox_1_idle: '0',
      sandbox_1_closing: '1',
      sandbox_1_workspace_id: ID,
      sandbox_1_memory_bytes: MAX_COUNT,
      sandbox_1_cpu_us: '0',
      sandbox_1_processes: '4294967294',
      exec_count: '2',
      exec_0_id: '9',
      exec_0_sandbox: '1',
      exec_0_state: '1',
      exec_0_attached: '1',
      exec_0_stdout_committed: '10',
      exec_0_stdout_produced: '4294967306',
      exec_0_stderr_committed: '0',
      exec_0_stderr_produced: '0',
      exec_1_id: MAX_U64,
      exec_1_sandbox: '1',
      exec_1_state: '2',
      exec_1_attached: '0',
      exec_1_stdout_committed: MAX_COUNT,
      exec_1_stdout_produced: MAX_COUNT,
      exec_1_stderr_committed: '1',
      exec_1_stderr_produced: '2',
      workspace_count: '2',
      workspace_0_id: ID,
      workspace_1_id: 'f'.repeat(32),
    },
  },
  {
    name: 'probed',
    layout: 'probed',
    request: 13,
    fields: {
      mode: '1',
      layer_count: '2',
      layer_0_name: hex('landlock'),
      layer_0_status: '1',
      layer_0_detail: hex('ABI 4'),
      layer_1_name: hex('cgroup'),
      layer_1_status: '0',
      layer_1_detail: hex('nicht beschreibbar: /sys/fs/cgroup'),
    },
  },
  {
    name: 'programs_set',
    layout: 'programs_set',
    request: 14,
    fields: { ...listEffective, ...list('missing', 'name', [hex('cd'), hex('größe')]) },
  },
  {
    name: 'programs_set.none',
    layout: 'programs_set',
    request: 14,
    fields: { ...sampleEffective, missing_count: '0' },
  },
  { name: 'probed.empty', layout: 'probed', request: 13, fields: { mode: '3', layer_count: '0' } },
  {
    name: 'error.plain',
    layout: 'error',
    request: 4,
    fields: { code: '9', errno: '2', step: hex('execve'), detail: hex('nosuch') },
  },
  { name: 'error.bad_frame', layout: 'error', request: 0, fields: { code: '1', errno: '0', step: '', detail: '' } },
  {
    name: 'error.program',
    layout: 'error',
    request: 14,
    fields: { code: '19', errno: '0', step: hex('interpreter_not_listed'), detail: hex('ldd\0/bin/bash') },
  },
  {
    name: 'error.edges',
    layout: 'error',
    request: 4,
    fields: { code: '13', errno: '-2147483648', step: hex('ü'), detail: hex('x'.repeat(300)) },
  },
];

const events: readonly VectorCase[] = [
  {
    name: 'output.stdout',
    layout: 'output',
    request: 0,
    fields: { exec: '9', stream: '1', offset: '0', data: hex('hello\n') },
  },
  {
    name: 'output.stderr',
    layout: 'output',
    request: 0,
    fields: { exec: MAX_U64, stream: '2', offset: '4294967296', data: '00ff' },
  },
  {
    name: 'output.empty',
    layout: 'output',
    request: 0,
    fields: { exec: '9', stream: '1', offset: MAX_COUNT, data: '' },
  },
  { name: 'gap', layout: 'gap', request: 0, fields: { exec: '9', stream: '1', from: '0', to: '1048576' } },
  {
    name: 'gap.edges',
    layout: 'gap',
    request: 0,
    fields: { exec: MAX_U64, stream: '2', from: '4294967295', to: MAX_COUNT },
  },
  { name: 'ended.exited', layout: 'ended', request: 0, fields: sampleEnded('9', 6, 0) },
  ...[2, 3, 4, 5, 6].map(
    (end): VectorCase => ({
      name: `ended.${end}`,
      layout: 'ended',
      request: 0,
      fields: {
        ...sampleEnded('9'),
        end: String(end),
        cause: String(end - 2),
        envelope: '1',
        exit_code: '-1',
        signal: end === 2 ? '11' : '9',
        cpu_us: MAX_U64,
        memory_peak: '4096',
      },
    }),
  ),
  {
    name: 'ended.edges',
    layout: 'ended',
    request: 0,
    fields: {
      ...sampleEnded(MAX_U64),
      exit_code: '255',
      stdout_bytes: MAX_COUNT,
      stderr_bytes: MAX_COUNT,
      duration_us: MAX_COUNT,
      cpu_us: MAX_COUNT,
      memory_peak: MAX_COUNT,
    },
  },
];

/** Every frame type in both directions, with the edges of its fields. */
export const vectorCases: readonly VectorCase[] = [...operations, ...answers, ...events];
