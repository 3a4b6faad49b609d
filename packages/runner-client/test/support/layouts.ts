/** The tables of `docs/reference/runner-protocol.md`, written down a second time: a codec that shares nothing with `src`. */
import { Buffer } from 'node:buffer';

type Scalar =
  | 'u8'
  | 'u16'
  | 'u32'
  | 'i32'
  | 'u64'
  | 'bytes'
  | 'rest'
  | 'id'
  | 'zeros1'
  | 'zeros2'
  | 'zeros4'
  | 'zeros7';
export type Field = readonly [name: string, type: Scalar] | { readonly list: string; readonly of: readonly Field[] };
/** Numbers as decimal strings, bytes as hexadecimal ones; the members of list `x` are `x_0_name`, their number `x_count`. */
export type Fields = Readonly<Record<string, string>>;

const u8s = (...names: string[]): Field[] => names.map((name) => [name, 'u8']);
const u32s = (...names: string[]): Field[] => names.map((name) => [name, 'u32']);
const u64s = (...names: string[]): Field[] => names.map((name) => [name, 'u64']);

const effective: readonly Field[] = [
  ...u8s('init', 'user_namespace', 'no_new_privs', 'seccomp', 'landlock', 'memory_via', 'pids_via', 'cpu_via'),
  ...u32s('uid', 'gid', 'host_uid', 'groups'),
  ...u64s('cap_inheritable', 'cap_permitted', 'cap_effective', 'cap_bounding', 'cap_ambient'),
  ...u32s('ns_user', 'ns_pid', 'ns_mnt', 'ns_net', 'ns_ipc', 'ns_uts', 'ns_cgroup'),
  ...u32s('seccomp_filters', 'tried', 'held'),
  ...u64s('memory_bytes', 'workspace_bytes', 'workspace_inodes'),
  ...u32s('cpu_millis', 'pids'),
  ...u8s('workspace_via', 'descriptors'),
  ['', 'zeros2'],
  ...u8s('programs_via'),
  ['', 'zeros1'],
  ['programs', 'u16'],
];

const event = (...rest: Field[]): Field[] => [['exec', 'u64'], ['stream', 'u8'], ['', 'zeros7'], ...rest];

export interface Layout {
  readonly type: number;
  readonly fields: readonly Field[];
}

export const layouts = {
  open_sandbox: {
    type: 0x01,
    fields: [
      ...u64s('memory_bytes', 'workspace_bytes'),
      ...u32s('pids', 'cpu_millis', 'inodes'),
      ['root', 'u16'],
      ['flags', 'u16'],
      ['workspace', 'u8'],
      ['', 'zeros7'],
      ['workspace_id', 'id'],
    ],
  },
  close_sandbox: {
    type: 0x02,
    fields: [
      ['sandbox', 'u64'],
      ['keep', 'u8'],
      ['', 'zeros7'],
      ['workspace_id', 'id'],
    ],
  },
  exec: {
    type: 0x03,
    fields: [
      ...u64s('sandbox', 'timeout_ms', 'memory_bytes', 'cpu_ms'),
      ['pids', 'u32'],
      ['columns', 'u16'],
      ['rows', 'u16'],
      ...u8s('stdin', 'terminal', 'overflow', 'flags'),
      ['cwd', 'bytes'],
      { list: 'argument', of: [['value', 'bytes']] },
      { list: 'environment', of: [['value', 'bytes']] },
      ['inline', 'bytes'],
    ],
  },
  attach: {
    type: 0x04,
    fields: [
      ['exec', 'u64'],
      ['what', 'u8'],
    ],
  },
  signal: {
    type: 0x05,
    fields: [
      ['exec', 'u64'],
      ['signal', 'u8'],
      ['target', 'u8'],
    ],
  },
  resize: {
    type: 0x06,
    fields: [
      ['exec', 'u64'],
      ['columns', 'u16'],
      ['rows', 'u16'],
    ],
  },
  file: {
    type: 0x07,
    fields: [
      ['sandbox', 'u64'],
      ['instance', 'u8'],
    ],
  },
  list: { type: 0x09, fields: u8s('flags') },
  probe: { type: 0x0a, fields: [] },
  commit: { type: 0x0b, fields: [...u64s('exec', 'stdout', 'stderr'), ['end', 'u8']] },
  programs: {
    type: 0x0c,
    fields: [['sandbox', 'u64'], ['enforce', 'u8'], ['', 'zeros7'], { list: 'program', of: [['name', 'bytes']] }],
  },
  done: { type: 0x80, fields: [] },
  opened: { type: 0x81, fields: [['sandbox', 'u64'], ...effective] },
  started: { type: 0x83, fields: [['exec', 'u64'], ...effective] },
  attached: { type: 0x84, fields: [...u64s('exec', 'stdout_from', 'stderr_from'), ...effective] },
  listing: {
    type: 0x89,
    fields: [
      {
        list: 'sandbox',
        of: [
          ['id', 'u64'],
          ['envelopes', 'u32'],
          ['idle', 'u32'],
          ['closing', 'u8'],
          ['workspace_id', 'id'],
          ...u64s('memory_bytes', 'cpu_us'),
          ['processes', 'u32'],
        ],
      },
      {
        list: 'exec',
        of: [
          ...u64s('id', 'sandbox'),
          ...u8s('state', 'attached'),
          ...u64s('stdout_committed', 'stdout_produced', 'stderr_committed', 'stderr_produced'),
        ],
      },
      { list: 'workspace', of: [['id', 'id']] },
    ],
  },
  probed: {
    type: 0x8a,
    fields: [
      ['mode', 'u8'],
      {
        list: 'layer',
        of: [
          ['name', 'bytes'],
          ['status', 'u8'],
          ['detail', 'bytes'],
        ],
      },
    ],
  },
  programs_set: { type: 0x8c, fields: [...effective, { list: 'missing', of: [['name', 'bytes']] }] },
  output: { type: 0xc1, fields: event(['offset', 'u64'], ['data', 'rest']) },
  gap: { type: 0xc2, fields: event(['from', 'u64'], ['to', 'u64']) },
  ended: {
    type: 0xc3,
    fields: [
      ['exec', 'u64'],
      ...u8s('end', 'cause', 'envelope'),
      ['', 'zeros1'],
      ['exit_code', 'i32'],
      ['signal', 'u32'],
      ['', 'zeros4'],
      ...u64s('stdout_bytes', 'stderr_bytes', 'duration_us', 'cpu_us', 'memory_peak'),
    ],
  },
  error: {
    type: 0xff,
    fields: [
      ['code', 'u16'],
      ['', 'zeros2'],
      ['errno', 'i32'],
      ['step', 'bytes'],
      ['detail', 'bytes'],
    ],
  },
} as const satisfies Readonly<Record<string, Layout>>;

export type LayoutName = keyof typeof layouts;

/** The layout of a frame type. */
export function layoutOfType(type: number): [LayoutName, Layout] {
  for (const [name, layout] of Object.entries(layouts)) {
    if (layout.type === type) return [name as LayoutName, layout];
  }
  throw new Error(`no layout of type ${type}`);
}

const SIZES: Readonly<Record<string, number>> = { u8: 1, u16: 2, u32: 4, i32: 4, u64: 8 };

function integer(value: bigint, bytes: number): Buffer {
  const out = Buffer.alloc(bytes);
  let rest = BigInt.asUintN(bytes * 8, value);
  for (let at = 0; at < bytes; at += 1) {
    out[at] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return out;
}

function encodeField(field: Field, prefix: string, values: Fields, parts: Buffer[]): void {
  if ('list' in field) {
    const count = Number(values[`${prefix}${field.list}_count`] ?? '0');
    parts.push(integer(BigInt(count), 4));
    for (let index = 0; index < count; index += 1) {
      for (const inner of field.of) encodeField(inner, `${prefix}${field.list}_${index}_`, values, parts);
    }
    return;
  }
  const [name, type] = field;
  if (type.startsWith('zeros')) {
    parts.push(Buffer.alloc(Number(type.slice(5))));
    return;
  }
  const text = values[prefix + name];
  if (text === undefined) throw new Error(`field ${prefix}${name} is missing`);
  const size = SIZES[type];
  if (size !== undefined) {
    parts.push(integer(BigInt(text), size));
    return;
  }
  const bytes = Buffer.from(text, 'hex');
  if (type === 'id' && bytes.length !== 16) throw new Error(`field ${prefix}${name} is no id`);
  if (type === 'bytes') parts.push(integer(BigInt(bytes.length), 4));
  parts.push(bytes);
}

/** A payload from its fields. */
export function encodePayload(name: LayoutName, values: Fields): Buffer {
  const parts: Buffer[] = [];
  for (const field of layouts[name].fields) encodeField(field, '', values, parts);
  return Buffer.concat(parts);
}

class Reader {
  readonly #from: Buffer;
  at = 0;

  constructor(from: Buffer) {
    this.#from = from;
  }

  take(bytes: number): Buffer {
    if (this.at + bytes > this.#from.length) throw new Error('payload ends early');
    this.at += bytes;
    return this.#from.subarray(this.at - bytes, this.at);
  }

  integer(bytes: number, signed: boolean): bigint {
    let value = 0n;
    for (const byte of Buffer.from(this.take(bytes)).reverse()) value = (value << 8n) | BigInt(byte);
    return signed ? BigInt.asIntN(bytes * 8, value) : value;
  }

  rest(): Buffer {
    return this.take(this.#from.length - this.at);
  }
}

function decodeField(field: Field, prefix: string, reader: Reader, into: Record<string, string>): void {
  if ('list' in field) {
    const count = Number(reader.integer(4, false));
    into[`${prefix}${field.list}_count`] = String(count);
    for (let index = 0; index < count; index += 1) {
      for (const inner of field.of) decodeField(inner, `${prefix}${field.list}_${index}_`, reader, into);
    }
    return;
  }
  const [name, type] = field;
  const size = SIZES[type];
  if (type.startsWith('zeros')) {
    if (reader.take(Number(type.slice(5))).some((byte) => byte !== 0)) throw new Error('reserved bytes are set');
  } else if (size !== undefined) into[prefix + name] = reader.integer(size, type === 'i32').toString();
  else if (type === 'bytes') into[prefix + name] = reader.take(Number(reader.integer(4, false))).toString('hex');
  else if (type === 'id') into[prefix + name] = reader.take(16).toString('hex');
  else into[prefix + name] = reader.rest().toString('hex');
}

/** The fields of a payload. */
export function decodePayload(name: LayoutName, payload: Buffer): Fields {
  const reader = new Reader(payload);
  const into: Record<string, string> = {};
  for (const field of layouts[name].fields) decodeField(field, '', reader, into);
  if (reader.at !== payload.length) throw new Error('payload is too long');
  return into;
}

/** A whole frame. */
export function encodeFrame(name: LayoutName, request: number, values: Fields = {}): Buffer {
  return rawFrame(layouts[name].type, request, encodePayload(name, values));
}

/** A whole frame around any payload. */
export function rawFrame(type: number, request: number, payload: Buffer): Buffer {
  const header = Buffer.concat([
    integer(BigInt(payload.length), 4),
    Buffer.from([1, type, 0, 0]),
    integer(BigInt(request), 4),
  ]);
  return Buffer.concat([header, payload]);
}

const hex = (text: string): string => Buffer.from(text).toString('hex');

/** `Effective` of a sandbox as root makes it. */
export const sampleEffective: Fields = {
  init: '1',
  user_namespace: '1',
  no_new_privs: '1',
  seccomp: '2',
  landlock: '4',
  memory_via: '2',
  pids_via: '2',
  cpu_via: '0',
  uid: '1001',
  gid: '1001',
  host_uid: '1878983657',
  groups: '0',
  cap_inheritable: '0',
  cap_permitted: '0',
  cap_effective: '0',
  cap_bounding: '0',
  cap_ambient: '0',
  ns_user: '4026532201',
  ns_pid: '4026532202',
  ns_mnt: '4026532203',
  ns_net: '4026532204',
  ns_ipc: '4026532205',
  ns_uts: '4026532206',
  ns_cgroup: '4026532207',
  seccomp_filters: '1',
  tried: '127',
  held: '127',
  memory_bytes: '1073741824',
  workspace_bytes: '1073741824',
  workspace_inodes: '262144',
  cpu_millis: '0',
  pids: '256',
  workspace_via: '1',
  descriptors: '3',
  programs_via: '0',
  programs: '0',
};

/** `Ended` of a command that exited with 0. */
export function sampleEnded(exec: bigint | string, stdoutBytes = 0, stderrBytes = 0): Record<string, string> {
  return {
    exec: exec.toString(),
    end: '1',
    cause: '0',
    envelope: '0',
    exit_code: '0',
    signal: '0',
    stdout_bytes: String(stdoutBytes),
    stderr_bytes: String(stderrBytes),
    duration_us: '1234',
    cpu_us: '1000',
    memory_peak: '18446744073709551615',
  };
}

/** Fields of an ERROR. */
export function sampleError(code: number, step = '', errno = 0, detail = ''): Fields {
  return { code: String(code), errno: String(errno), step: hex(step), detail: hex(detail) };
}

/** An output event. */
export function outputFrame(exec: bigint | string, stream: 1 | 2, offset: number, data: Uint8Array): Buffer {
  const payload = Buffer.alloc(24 + data.length);
  payload.writeBigUInt64LE(BigInt(exec), 0);
  payload[8] = stream;
  payload.writeBigUInt64LE(BigInt(offset), 16);
  payload.set(data, 24);
  return rawFrame(0xc1, 0, payload);
}
