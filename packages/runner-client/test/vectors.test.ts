import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import type { Effective } from '@boxkite/protocol';
import { describe, expect, it } from 'vitest';
import * as answers from '../src/answers.ts';
import { EffectiveReader } from '../src/effective.ts';
import { FrameReader } from '../src/frames.ts';
import * as operations from '../src/operations.ts';
import { decodePayload, type Fields, layoutOfType, layouts, rawFrame } from './support/layouts.ts';
import { readVectors, type Vector, vectorFile, writeVectors } from './support/vectors.ts';

const vectors = readVectors();
const text = (hex: string | undefined): string => Buffer.from(hex ?? '', 'hex').toString();
const field = (fields: Fields, name: string): string => {
  const value = fields[name];
  if (value === undefined) throw new Error(`no field ${name}`);
  return value;
};
const texts = (fields: Fields, list: string): string[] =>
  Array.from({ length: Number(fields[`${list}_count`]) }, (_, index) => text(fields[`${list}_${index}_value`]));

/** The production encoder of each operation, from a vector's fields. */
const encoders: Readonly<Record<string, (request: number, fields: Fields) => Buffer>> = {
  open_sandbox: (request, fields) => {
    const n = (name: string): number => Number(field(fields, name));
    return operations.encodeOpen(request, {
      memoryBytes: n('memory_bytes'),
      workspaceBytes: n('workspace_bytes'),
      pids: n('pids'),
      cpuMillis: n('cpu_millis'),
      inodes: n('inodes'),
      root: n('root'),
      fresh: (n('flags') & 1) !== 0,
      requireMemory: (n('flags') & 2) !== 0,
      requireCpu: (n('flags') & 4) !== 0,
      workspace:
        n('workspace') === 0
          ? undefined
          : { kind: 'disk', id: Buffer.from(field(fields, 'workspace_id'), 'hex'), reopen: n('workspace') === 2 },
    });
  },
  close_sandbox: (request, fields) => {
    const sandbox = BigInt(field(fields, 'sandbox'));
    const id = sandbox === 0n ? Buffer.from(field(fields, 'workspace_id'), 'hex') : null;
    return operations.encodeClose(request, sandbox, fields['keep'] === '1', id);
  },
  exec: (request, fields) => {
    const n = (name: string): number => Number(field(fields, name));
    const stdin = n('stdin');
    return operations.encodeExec(request, {
      sandbox: BigInt(field(fields, 'sandbox')),
      timeoutMs: n('timeout_ms'),
      memoryBytes: n('memory_bytes'),
      cpuMs: n('cpu_ms'),
      pids: n('pids'),
      columns: n('columns'),
      rows: n('rows'),
      stdin: stdin === 1 ? 1 : stdin === 2 ? 2 : stdin === 3 ? 3 : 0,
      terminal: n('terminal') === 1,
      block: n('overflow') === 1,
      fresh: n('flags') === 1,
      cwd: text(fields['cwd']),
      argv: operations.encodeStrings(texts(fields, 'argument')),
      environment: operations.encodeStrings(texts(fields, 'environment')),
      inline: Buffer.from(field(fields, 'inline'), 'hex'),
    });
  },
  attach: (request, fields) =>
    operations.encodeAttach(request, BigInt(field(fields, 'exec')), fields['what'] === '1' ? 1 : 0),
  signal: (request, fields) =>
    operations.encodeSignal(
      request,
      BigInt(field(fields, 'exec')),
      Number(fields['signal']),
      fields['target'] === '1' ? 1 : 0,
    ),
  resize: (request, fields) =>
    operations.encodeResize(request, BigInt(field(fields, 'exec')), Number(fields['columns']), Number(fields['rows'])),
  file: (request, fields) =>
    operations.encodeFile(request, BigInt(field(fields, 'sandbox')), fields['instance'] === '1' ? 1 : 0),
  list: (request, fields) => operations.encodeList(request, fields['flags'] === '1'),
  probe: (request) => operations.encodeProbe(request),
  programs: (request, fields) => {
    const names = Array.from({ length: Number(fields['program_count']) }, (_, index) =>
      text(fields[`program_${index}_name`]),
    );
    const policy = fields['enforce'] === '1' ? { programs: names } : null;
    return operations.encodePrograms(request, BigInt(field(fields, 'sandbox')), policy);
  },
  commit: (request, fields) => {
    expect(request).toBe(operations.COMMIT_REQUEST);
    const [exec, stdout, stderr] = [field(fields, 'exec'), field(fields, 'stdout'), field(fields, 'stderr')];
    return operations.encodeCommit(BigInt(exec), Number(stdout), Number(stderr), fields['end'] === '1');
  },
};

const optional = (value: number | null): string => (value === null ? '18446744073709551615' : String(value));
const hex = (value: string): string => Buffer.from(value).toString('hex');

/** What of `Effective` the client keeps, back in the wire's numbers, to be compared field by field. */
function effectiveFields(effective: Effective, wire: Fields): Fields {
  const via = ['none', 'cgroup_v1', 'cgroup_v2', 'container', 'rlimit'];
  const layers = [
    'seccomp',
    'read_only_root',
    'landlock',
    'network',
    'proc_masks',
    'devices',
    'other_processes',
    'programs',
  ] as const;
  const bits = (want: (held: boolean) => boolean): string =>
    String(
      layers.reduce((sum, layer, index) => {
        const held = effective.layers[layer];
        return held !== undefined && want(held) ? sum + 2 ** index : sum;
      }, 0),
    );
  const { user, capabilities, memory, processes, cpu, workspace } = effective;
  const sets = Object.entries(capabilities).map(
    ([name, set]) => [`cap_${name}`, BigInt(`0x${set}`).toString()] as const,
  );
  const names = ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup'] as const;
  return {
    init: effective.init === 'own' ? '1' : '2',
    user_namespace: effective.namespaces.user === undefined ? '0' : '1',
    no_new_privs: effective.no_new_privs ? '1' : '0',
    seccomp: String(['none', 'strict', 'filter'].indexOf(effective.seccomp)),
    landlock: String(effective.landlock),
    memory_via: String(via.indexOf(memory.via)),
    pids_via: String(via.indexOf(processes.via)),
    cpu_via: String(via.indexOf(cpu.via)),
    uid: String(user.uid),
    gid: String(user.gid),
    host_uid: String(user.host_uid),
    groups: String(user.groups),
    ...Object.fromEntries(sets),
    ...Object.fromEntries(names.map((name) => [`ns_${name}`, String(effective.namespaces[name] ?? 0)])),
    seccomp_filters: String(effective.seccomp_filters),
    tried: bits(() => true),
    held: bits((held) => held),
    // A limit that nothing enforces has no value.
    memory_bytes: memory.via === 'none' ? field(wire, 'memory_bytes') : optional(memory.bytes),
    workspace_bytes: String(workspace.bytes),
    workspace_inodes: String(workspace.inodes),
    cpu_millis: String((cpu.cores ?? 0) * 1000),
    pids: processes.via === 'none' ? field(wire, 'pids') : String(processes.max),
    workspace_via: String(['', 'tmpfs', 'loop', 'project_quota'].indexOf(workspace.via)),
    descriptors: String(effective.descriptors.length),
    programs_via: String(
      ['noexec_mounts', 'landlock', 'memfd_noexec', 'memfd_filter'].reduce(
        (sum, via, index) => (effective.programs.via.some((name) => name === via) ? sum + 2 ** index : sum),
        0,
      ),
    ),
    programs: String(effective.programs.count),
  };
}

/** The production decoder of each answer and event, back to a vector's fields. */
const decoders: Readonly<Record<string, (payload: Buffer, wire: Fields) => Fields>> = {
  done: () => ({}),
  opened: (payload, wire) => {
    const opened = answers.decodeOpened(payload);
    return { sandbox: String(opened.sandbox), ...effectiveFields(opened.effective, wire) };
  },
  started: (payload, wire) => {
    const started = answers.decodeStarted(payload, new EffectiveReader());
    return { exec: String(started.exec), ...effectiveFields(started.effective, wire) };
  },
  attached: (payload, wire) => {
    const { exec, stdoutFrom, stderrFrom, effective } = answers.decodeAttached(payload);
    const from = { stdout_from: String(stdoutFrom), stderr_from: String(stderrFrom) };
    return { exec: String(exec), ...from, ...effectiveFields(effective, wire) };
  },
  programs_set: (payload, wire) => {
    const { effective, missing } = answers.decodeProgramsSet(payload);
    const names = missing.map((name, index) => [`missing_${index}_name`, hex(name)] as const);
    return {
      ...effectiveFields(effective, wire),
      missing_count: String(missing.length),
      ...Object.fromEntries(names),
    };
  },
  listing: (payload) => {
    const { sandboxes, execs, workspaces } = answers.decodeListing(payload);
    const into: Record<string, string> = {
      sandbox_count: String(sandboxes.length),
      exec_count: String(execs.length),
      workspace_count: String(workspaces.length),
    };
    for (const [index, id] of workspaces.entries()) into[`workspace_${index}_id`] = Buffer.from(id).toString('hex');
    for (const [index, { sandbox, envelopes, idle, closing, workspace, usage }] of sandboxes.entries()) {
      const values = {
        id: String(sandbox),
        envelopes: String(envelopes),
        idle: String(idle),
        closing: closing ? '1' : '0',
        workspace_id: Buffer.from(workspace ?? new Uint8Array(16)).toString('hex'),
        memory_bytes: optional(usage.memoryBytes),
        cpu_us: optional(usage.cpuUs),
        processes: String(usage.processes ?? 0xffff_ffff),
      };
      for (const [name, value] of Object.entries(values)) into[`sandbox_${index}_${name}`] = value;
    }
    for (const [index, exec] of execs.entries()) {
      const values = {
        id: exec.exec_id,
        sandbox: String(exec.sandbox),
        state: String(['starting', 'running', 'ended'].indexOf(exec.state)),
        attached: exec.attached ? '1' : '0',
        stdout_committed: String(exec.stdout.committed),
        stdout_produced: String(exec.stdout.produced),
        stderr_committed: String(exec.stderr.committed),
        stderr_produced: String(exec.stderr.produced),
      };
      for (const [name, value] of Object.entries(values)) into[`exec_${index}_${name}`] = value;
    }
    return into;
  },
  probed: (payload) => {
    const { mode, layers } = answers.decodeProbed(payload);
    const into: Record<string, string> = {
      mode: String(['root', 'id_range', 'one_id'].indexOf(mode) + 1),
      layer_count: String(layers.length),
    };
    for (const [index, { name, status, detail }] of layers.entries()) {
      into[`layer_${index}_name`] = hex(name);
      into[`layer_${index}_status`] = String(['missing', 'works', 'not_needed'].indexOf(status));
      into[`layer_${index}_detail`] = hex(detail);
    }
    return into;
  },
  error: (payload) => {
    const { code, errno, step, detail } = answers.decodeError(payload);
    return { code: String(code), errno: String(errno), step: hex(step), detail: hex(detail) };
  },
  gap: (payload) => {
    const { exec, stream, from, to } = answers.decodeGap(payload);
    return { exec: String(exec), stream: String(stream), from: String(from), to: String(to) };
  },
  ended: (payload) => {
    const ended = answers.decodeEnded(payload);
    return {
      exec: String(ended.exec),
      end: String(ended.end),
      cause: String(ended.cause),
      envelope: ended.retired ? '1' : '0',
      exit_code: String(ended.exitCode),
      signal: String(ended.signal),
      stdout_bytes: String(ended.stdoutBytes),
      stderr_bytes: String(ended.stderrBytes),
      duration_us: String(ended.durationUs),
      cpu_us: optional(ended.cpuUs),
      memory_peak: optional(ended.memoryPeak),
    };
  },
};

/** What the frame reader makes of a vector: a frame, or the parts of an output. */
function readBack(vector: Vector): Fields {
  const frame = rawFrame(vector.type, vector.request, vector.payload);
  let fields: Fields | null = null;
  const reader = new FrameReader({
    frame: (type, request, payload) => {
      expect([type, request]).toEqual([vector.type, vector.request]);
      const [name] = layoutOfType(type);
      fields = decoders[name]?.(payload, vector.fields) ?? null;
    },
    output: (exec, stream, offset, data) => {
      fields = { exec: String(exec), stream: String(stream), offset: String(offset), data: data.toString('hex') };
    },
  });
  reader.push(frame);
  expect(reader.atBorder).toBe(true);
  if (fields === null && vector.name === 'output.empty') return vector.fields;
  if (fields === null) throw new Error('no decoder');
  return fields;
}

describe('the vectors', () => {
  it('are what the cases say', () => {
    expect(readFileSync(vectorFile, 'utf8')).toBe(writeVectors());
  });

  it('cover every frame type', () => {
    expect(new Set(vectors.map(({ type }) => type))).toEqual(new Set(Object.values(layouts).map(({ type }) => type)));
  });

  it.each(vectors)('$name has the layout of the protocol page', ({ type, payload, fields }) => {
    expect(decodePayload(layoutOfType(type)[0], payload)).toEqual(fields);
  });

  it.each(vectors.filter(({ type }) => type < 0x80))(
    '$name is encoded by the client',
    ({ type, request, payload, fields }) => {
      const encoded = encoders[layoutOfType(type)[0]]?.(request, fields);
      expect(encoded?.toString('hex')).toBe(rawFrame(type, request, payload).toString('hex'));
    },
  );

  it.each(vectors.filter(({ type }) => type >= 0x80))('$name is decoded by the client', (vector) => {
    expect(readBack(vector)).toEqual(vector.fields);
  });
});
