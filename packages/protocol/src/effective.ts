/** What was measured to be in force for one exec or sandbox; never what was asked for. */
export interface Effective {
  /** `own`: PID 1 has an id of its own; `same-user`: command and PID 1 share one. */
  readonly init: 'own' | 'same-user';
  readonly user: { readonly uid: number; readonly gid: number; readonly host_uid: number; readonly groups: number };
  /** Hexadecimal capability sets, as in `/proc/PID/status`. */
  readonly capabilities: {
    readonly inheritable: string;
    readonly permitted: string;
    readonly effective: string;
    readonly bounding: string;
    readonly ambient: string;
  };
  readonly no_new_privs: boolean;
  readonly seccomp: 'filter' | 'strict' | 'none';
  readonly seccomp_filters: number;
  /** Landlock ABI in force, 0 for none. */
  readonly landlock: number;
  /** Namespace inodes; a namespace that is not the sandbox's own is absent. */
  readonly namespaces: Readonly<Partial<Record<NamespaceName, number>>>;
  /** Layers on which a forbidden act was tried in this envelope: `true` where it was refused. */
  readonly layers: Readonly<Partial<Record<LayerName, boolean>>>;
  readonly memory: { readonly via: LimitVia; readonly bytes: number | null };
  readonly processes: { readonly via: LimitVia; readonly max: number | null };
  readonly cpu: { readonly via: LimitVia; readonly cores: number | null };
  readonly workspace: { readonly bytes: number; readonly inodes: number; readonly via: WorkspaceVia };
  readonly network: 'none' | 'session' | 'host';
  readonly programs: EffectivePrograms;
  /** Descriptors that a command starts with. */
  readonly descriptors: readonly number[];
}

/** What of the sandbox's files can be code. */
export interface EffectivePrograms {
  /** `kernel`: a list is in force, and an unlisted program was refused when it was tried. */
  readonly enforced: 'none' | 'kernel';
  /** Programs that can be executed, `sh` among them; 0 without a list. */
  readonly count: number;
  readonly via: readonly ProgramsVia[];
}

/** What keeps everything that is not listed from being code. */
export type ProgramsVia = 'noexec_mounts' | 'landlock' | 'memfd_noexec' | 'memfd_filter';
/** A kind of kernel namespace. */
export type NamespaceName = 'user' | 'pid' | 'mnt' | 'net' | 'ipc' | 'uts' | 'cgroup';
/** A layer of isolation that is tried when an envelope is made. */
export type LayerName =
  | 'seccomp'
  | 'read_only_root'
  | 'landlock'
  | 'network'
  | 'proc_masks'
  | 'devices'
  | 'other_processes'
  | 'programs';
/** What holds the five roots and bounds their size: memory, an image on disk, or a quota of the host's file system. */
export type WorkspaceVia = 'tmpfs' | 'loop' | 'project_quota';
/** What enforces a limit. */
export type LimitVia = 'cgroup_v1' | 'cgroup_v2' | 'container' | 'rlimit' | 'none';
