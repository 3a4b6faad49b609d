/** What every command of a host-rooted sandbox finds around it, in every lane. Each list is complete: nothing else may be there. */

/** The whole environment of a command to which none was given. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  HOME: '/workspace',
  LANG: 'C.UTF-8',
  LOGNAME: 'sandbox',
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  SHELL: '/bin/sh',
  TMPDIR: '/tmp',
  USER: 'sandbox',
};

/** Parts of the host's `/etc` that are directories there, and so mounts here; a host has some of them. */
const HOST_ETC = String.raw`/etc/(ld\.so\.conf\.d|alternatives|ssl/certs|ca-certificates|fonts|terminfo|python3|python3\.\d+|java-\d+-openjdk)`;

/** A mount that must be there, as `MOUNT-POINT TYPE FLAGS` of the flags ro, nosuid, nodev and noexec. */
export const MOUNTS_REQUIRED: readonly RegExp[] = [
  /^\/ tmpfs ro,nosuid,nodev$/,
  /^\/usr \w+ ro,nosuid,nodev$/,
  /^\/proc proc rw,nosuid,nodev,noexec$/,
  /^\/proc\/sys proc ro,nosuid,nodev,noexec$/,
  /^\/dev\/pts devpts rw,nosuid,noexec$/,
  /^\/dev\/shm tmpfs rw,nosuid,nodev$/,
  /^\/dev\/null \w+ ro,nosuid,noexec$/,
  /^\/dev\/zero \w+ ro,nosuid,noexec$/,
  /^\/dev\/full \w+ ro,nosuid,noexec$/,
  /^\/dev\/random \w+ ro,nosuid,noexec$/,
  /^\/dev\/urandom \w+ ro,nosuid,noexec$/,
  /^\/dev\/tty \w+ ro,nosuid,noexec$/,
  /^\/workspace tmpfs rw,nosuid,nodev$/,
  /^\/tmp tmpfs rw,nosuid,nodev$/,
  /^\/mnt\/user-data\/outputs tmpfs rw,nosuid,nodev$/,
  /^\/mnt\/user-data\/uploads tmpfs ro,nosuid,nodev$/,
  /^\/mnt\/skills tmpfs ro,nosuid,nodev$/,
];

/** A mount that is there where the host's kernel or `/usr` has the thing. */
export const MOUNTS_ALLOWED: readonly RegExp[] = [
  // The host's, which every fresh one covers: a user namespace may mount a proc only where it sees a whole one.
  /^\/proc proc \w+,nosuid,nodev,noexec$/,
  /^\/usr\/(local|src) tmpfs ro,nosuid,nodev$/,
  /^\/(bin|sbin|lib|lib32|lib64|libx32) \w+ ro,nosuid,nodev$/,
  new RegExp(String.raw`^${HOST_ETC} \w+ ro,nosuid,nodev$`),
  /^\/proc\/(acpi|scsi|irq|bus|asound) tmpfs ro,nosuid,nodev,noexec$/,
  /^\/proc\/fs proc ro,nosuid,nodev,noexec$/,
  /^\/proc\/(kcore|kmsg|kallsyms|keys|key-users|timer_list|sched_debug|sysrq-trigger|modules|config\.gz|latency_stats|interrupts|cmdline|kpagecount|kpageflags|kpagecgroup|vmallocinfo|slabinfo) \w+ ro,nosuid,noexec$/,
];

/** Everything below /dev: the usual seven nodes, the terminal's among them, and the links. */
export const DEVICES: Readonly<Record<string, string>> = {
  '/dev/fd': 'link /proc/self/fd',
  '/dev/full': 'char 1:7',
  '/dev/null': 'char 1:3',
  '/dev/ptmx': 'link pts/ptmx',
  '/dev/pts': 'directory',
  '/dev/pts/ptmx': 'char 5:2',
  '/dev/random': 'char 1:8',
  '/dev/shm': 'directory',
  '/dev/stderr': 'link /proc/self/fd/2',
  '/dev/stdin': 'link /proc/self/fd/0',
  '/dev/stdout': 'link /proc/self/fd/1',
  '/dev/tty': 'char 5:0',
  '/dev/urandom': 'char 1:9',
  '/dev/zero': 'char 1:5',
};

/** Entries of the root directory, apart from those that only some hosts have. */
export const ROOT_ENTRIES: readonly string[] = [
  'bin',
  'dev',
  'etc',
  'home',
  'lib',
  'lib64',
  'mnt',
  'proc',
  'root',
  'run',
  'sbin',
  'tmp',
  'usr',
  'var',
  'workspace',
];
export const ROOT_ENTRIES_OF_SOME_HOSTS: readonly string[] = ['lib32', 'libx32'];

/** Directories in which a command can make a file. */
export const WRITABLE: readonly string[] = ['/dev/shm', '/mnt/user-data/outputs', '/tmp', '/workspace'];

/** Limits whose value is fixed: [soft, hard], -1 for none. */
export const LIMITS: Readonly<Record<string, readonly [number, number]>> = {
  RLIMIT_CORE: [1, 1],
  RLIMIT_MSGQUEUE: [0, 0],
  RLIMIT_RTPRIO: [0, 0],
  RLIMIT_NICE: [0, 0],
};

/** Entries of /proc that tell nothing: they are empty or can't be read. */
export const PROC_EMPTY: readonly string[] = [
  'kcore',
  'kmsg',
  'kallsyms',
  'keys',
  'timer_list',
  'sched_debug',
  'sysrq-trigger',
  'modules',
  'config.gz',
  'acpi',
  'scsi',
  'irq',
  'bus',
  'kpagecount',
  'vmallocinfo',
  'slabinfo',
];
