import { Buffer } from 'node:buffer';
import type {
  Effective,
  EffectivePrograms,
  LayerName,
  LimitVia,
  NamespaceName,
  ProgramsVia,
  WorkspaceVia,
} from '@boxkite/protocol';
import { FrameError, readCount, readOptionalCount } from './frames.ts';

/** Bytes of `Effective` on the wire. */
export const EFFECTIVE_BYTES = 144;

const NAMESPACES: readonly NamespaceName[] = ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup'];
/** In the order of the bits of `tried` and `held`; bit 3 is the network's. */
const LAYERS: readonly (readonly [number, LayerName])[] = [
  [1, 'seccomp'],
  [2, 'read_only_root'],
  [4, 'landlock'],
  [8, 'network'],
  [16, 'proc_masks'],
  [32, 'devices'],
  [64, 'other_processes'],
  [128, 'programs'],
];
const PROGRAMS_VIA: readonly (readonly [number, ProgramsVia])[] = [
  [1, 'noexec_mounts'],
  [2, 'landlock'],
  [4, 'memfd_noexec'],
  [8, 'memfd_filter'],
];
const VIA: Readonly<Record<number, LimitVia>> = {
  0: 'none',
  1: 'cgroup_v1',
  2: 'cgroup_v2',
  3: 'container',
  4: 'rlimit',
};
const WORKSPACE: Readonly<Record<number, WorkspaceVia>> = { 1: 'tmpfs', 2: 'loop', 3: 'project_quota' };
const SECCOMP: Readonly<Record<number, Effective['seccomp']>> = { 0: 'none', 1: 'strict', 2: 'filter' };
/** More than any command starts with. */
const DESCRIPTORS: readonly number[] = Array.from({ length: 256 }, (_, number) => number);
const INIT: Readonly<Record<number, Effective['init']>> = { 1: 'own', 2: 'same-user' };

function named<T>(names: Readonly<Record<number, T>>, value: number): T {
  const name = names[value];
  if (name === undefined) throw new FrameError('an effective value that the protocol does not know');
  return name;
}

function capabilities(from: Buffer, at: number): string {
  return from.readBigUInt64LE(at).toString(16).padStart(16, '0');
}

function namespaces(from: Buffer, at: number, ownUser: boolean): Effective['namespaces'] {
  const found: Partial<Record<NamespaceName, number>> = {};
  for (const [index, name] of NAMESPACES.entries()) {
    const inode = from.readUInt32LE(at + 4 * index);
    if (inode !== 0 && (name !== 'user' || ownUser)) found[name] = inode;
  }
  return found;
}

function layers(tried: number, held: number): Effective['layers'] {
  const found: Partial<Record<LayerName, boolean>> = {};
  for (const [bit, name] of LAYERS) {
    if ((tried & bit) !== 0) found[name] = (held & bit) !== 0;
  }
  return found;
}

function programs(from: Buffer, at: number, held: boolean): EffectivePrograms {
  const bits = from.readUInt8(at);
  return {
    enforced: held ? 'kernel' : 'none',
    count: from.readUInt16LE(at + 2),
    via: PROGRAMS_VIA.filter(([bit]) => (bits & bit) !== 0).map(([, name]) => name),
  };
}

/** Reads `Effective` at `at`; the caller has checked that it lies within the payload. */
export function readEffective(from: Buffer, at: number): Effective {
  const memoryVia = named(VIA, from.readUInt8(at + 5));
  const pidsVia = named(VIA, from.readUInt8(at + 6));
  const cpuVia = named(VIA, from.readUInt8(at + 7));
  const held = layers(from.readUInt32LE(at + 96), from.readUInt32LE(at + 100));
  return {
    init: named(INIT, from.readUInt8(at)),
    user: {
      uid: from.readUInt32LE(at + 8),
      gid: from.readUInt32LE(at + 12),
      host_uid: from.readUInt32LE(at + 16),
      groups: from.readUInt32LE(at + 20),
    },
    capabilities: {
      inheritable: capabilities(from, at + 24),
      permitted: capabilities(from, at + 32),
      effective: capabilities(from, at + 40),
      bounding: capabilities(from, at + 48),
      ambient: capabilities(from, at + 56),
    },
    no_new_privs: from.readUInt8(at + 2) !== 0,
    seccomp: named(SECCOMP, from.readUInt8(at + 3)),
    seccomp_filters: from.readUInt32LE(at + 92),
    landlock: from.readUInt8(at + 4),
    namespaces: namespaces(from, at + 64, from.readUInt8(at + 1) !== 0),
    layers: held,
    memory: { via: memoryVia, bytes: memoryVia === 'none' ? null : readOptionalCount(from, at + 104) },
    processes: { via: pidsVia, max: pidsVia === 'none' ? null : from.readUInt32LE(at + 132) },
    cpu: { via: cpuVia, cores: cpuVia === 'none' ? null : cores(from.readUInt32LE(at + 128)) },
    workspace: {
      bytes: readCount(from, at + 112),
      inodes: readCount(from, at + 120),
      via: named(WORKSPACE, from.readUInt8(at + 136)),
    },
    // A namespace may be the host's own: only the trial says that nothing can be reached.
    network: held.network === true ? 'none' : 'host',
    programs: programs(from, at + 140, held.programs === true),
    descriptors: DESCRIPTORS.slice(0, from.readUInt8(at + 137)),
  };
}

/** 0 millis means that no rate was set. */
function cores(millis: number): number | null {
  return millis === 0 ? null : millis / 1000;
}

/** Execs of one kept envelope repeat the same bytes: the last object is used again, which spares each of them the decoding. */
export class EffectiveReader {
  #bytes: Buffer | null = null;
  #last: Effective | null = null;

  /** As `readEffective`; the answer may be shared and is never changed. */
  read(from: Buffer, at: number): Effective {
    if (
      this.#last !== null &&
      this.#bytes !== null &&
      from.compare(this.#bytes, 0, EFFECTIVE_BYTES, at, at + EFFECTIVE_BYTES) === 0
    ) {
      return this.#last;
    }
    const effective = readEffective(from, at);
    this.#bytes = Buffer.from(from.subarray(at, at + EFFECTIVE_BYTES));
    this.#last = effective;
    return effective;
  }
}
