/** What each thing that the runner tries is good for, and what to do where it is missing. Data, with a reason per entry. */
import type { MachineFacts } from './machine-facts.ts';

/** One thing to do, where it applies. */
export interface Remedy {
  /** Absent: always. The first one that applies is given. */
  readonly when?: (facts: MachineFacts) => boolean;
  readonly text: string;
}

/** What is known of one probe. */
export interface Advice {
  readonly title: string;
  /** What it keeps from happening. */
  readonly means: string;
  /** What follows where it is missing. */
  readonly without: string;
  /** What there is in its place, where the runner didn't need to try it. Absent: `means`. */
  readonly unneeded?: (facts: MachineFacts) => string;
  /** Without it no sandbox can be made. */
  readonly needed: boolean;
  readonly remedies: readonly Remedy[];
}

const CONTAINER: Remedy = {
  when: (facts) => facts.container,
  text: 'Start the container with --privileged, or run boxkite on the host. The default profiles of Docker and Podman forbid it.',
};

const NAMESPACES: readonly Remedy[] = [
  {
    when: (facts) => facts.sysctl.unprivileged_userns_clone === '0',
    text: 'Allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    when: (facts) => facts.sysctl.apparmor_restrict_unprivileged_userns === '1',
    text: 'Allow user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give the runner an AppArmor profile with `userns`.',
  },
  {
    when: (facts) => facts.sysctl.max_user_namespaces === '0',
    text: 'Allow user namespaces: sysctl -w user.max_user_namespaces=15000',
  },
  CONTAINER,
  { text: 'Use a kernel built with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS.' },
];

/** Steps that fail below the runner's own start, which root passes in a chroot too. */
const CHROOT: Omit<Advice, 'title'> = {
  means: 'A sandbox has processes, mounts and a network of its own.',
  without: 'No sandbox can be made here.',
  needed: true,
  remedies: [
    ...NAMESPACES.filter(({ when }) => when !== undefined),
    {
      text: 'In a chroot the kernel gives nobody a user namespace: enter its directory by pivot_root instead, as systemd-nspawn and containers do. Elsewhere use a kernel built with CONFIG_USER_NS.',
    },
  ],
};

const CGROUP: readonly Remedy[] = [
  {
    when: (facts) => facts.container,
    // Version 2 lets no group with processes limit its children, and those of a container are in its topmost one.
    text: 'Start the container with a writable cgroup (docker run --cgroupns=private --privileged, or Podman with --cgroups=enabled); on cgroup v2 then move its processes into a group of their own: mkdir /sys/fs/cgroup/init && for p in $(cat /sys/fs/cgroup/cgroup.procs); do echo $p > /sys/fs/cgroup/init/cgroup.procs; done',
  },
  {
    when: (facts) => facts.uid !== 0 && facts.systemd,
    text: 'Let systemd delegate the controllers: systemd-run --user --scope -p Delegate=yes boxkite ..., or a service with `Delegate=yes`.',
  },
  {
    when: (facts) => facts.uid !== 0,
    text: 'Ask the administrator for a cgroup directory that you own, or run boxkite as root.',
  },
  { text: 'Mount the control groups writable: mount -t cgroup2 none /sys/fs/cgroup' },
];

function diskWorkspaces({ uid }: MachineFacts): string {
  return uid === 0
    ? 'Tried by the daemon in its data directory: `boxkite status` names it where it is missing.'
    : "Only root's daemon can mount them: `--workspace disk` is refused to an ordinary user.";
}

/** By the names that the runner's probe uses, and by the steps at which it may give up. */
export const ADVICE: Readonly<Record<string, Advice>> = {
  root_file_system: {
    title: 'namespaces and root file system',
    means: 'A sandbox has processes, mounts and a network of its own, over a read-only system.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: NAMESPACES,
  },
  id_range: {
    title: 'a range of user ids',
    means: 'The process that watches over a command has another id than the command, which can not touch it.',
    without: 'Sandboxes work with one id: `effective.init` says `same-user`.',
    unneeded: () => 'Root gives every sandbox ids that no user has, and needs no range of its own.',
    needed: false,
    remedies: [
      { when: (facts) => !facts.newuidmap, text: 'Install newuidmap: apt-get install uidmap' },
      {
        when: (facts) => !facts.subordinateIds,
        text: 'Give yourself a range: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER',
      },
      CONTAINER,
      { text: 'See that newuidmap and newgidmap are set-uid root or have their file capabilities.' },
    ],
  },
  landlock: {
    title: 'Landlock',
    means: 'A second fence around files, should a mount be wrong.',
    without: 'Sandboxes work; files are fenced by mounts alone, and `effective.landlock` is 0.',
    needed: false,
    remedies: [
      { text: 'Use a kernel with CONFIG_SECURITY_LANDLOCK, 5.13 or newer, and with landlock in its lsm= list.' },
    ],
  },
  seccomp: {
    title: 'system call filter',
    means: 'Commands reach only the system calls on a list.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: [{ text: 'Use a kernel with CONFIG_SECCOMP_FILTER.' }],
  },
  memory_limit: {
    title: 'memory limit',
    means: 'A command that takes too much memory ends, and nothing else does.',
    without: 'Memory is not limited: `effective.memory.via` is `none`, and asking for a limit is refused.',
    needed: false,
    remedies: CGROUP,
  },
  process_limit: {
    title: 'process limit by control group',
    means: 'A command that forks without end fills its own sandbox only.',
    without: 'Processes are limited by RLIMIT_NPROC in a user namespace of their own instead.',
    needed: false,
    remedies: CGROUP,
  },
  cpu_limit: {
    title: 'CPU rate',
    means: 'A command gets no more than its share of the processors.',
    without: 'The CPU rate is not limited: `effective.cpu.via` is `none`, and asking for one is refused.',
    needed: false,
    remedies: CGROUP,
  },
  cpu_time_limit: {
    title: 'CPU time',
    means: 'The CPU time of all processes of a command is measured, and can be limited.',
    without: '`usage.cpu_ms` is null, and asking for `limits.cpu_ms` is refused.',
    needed: false,
    remedies: CGROUP,
  },
  memfd_noexec: {
    title: 'no programs from memory',
    means: 'An allow-list of programs can also keep a command from running one out of its memory.',
    without: 'Sandboxes work; an allow-list that the kernel enforces falls back to a filter.',
    needed: false,
    remedies: [{ text: 'Use a kernel of 6.3 or newer.' }],
  },
  loop_workspaces: {
    title: 'disk workspaces as images',
    means: 'Files of a sandbox can outlive its daemon: `boxkite create --workspace disk`.',
    without: 'Disk workspaces need a project quota instead, or are refused.',
    unneeded: diskWorkspaces,
    needed: false,
    remedies: [CONTAINER, { text: 'Install e2fsprogs, and use a kernel with loop devices.' }],
  },
  project_quota: {
    title: 'disk workspaces under a quota',
    means: 'As the images, without the cost of one.',
    without: 'Disk workspaces are images.',
    unneeded: diskWorkspaces,
    needed: false,
    remedies: [{ text: 'Put the data directory on ext4 with the features quota and project, mounted with prjquota.' }],
  },
  'user namespace': {
    title: 'user namespaces',
    means: 'Root inside a sandbox is nobody outside.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: NAMESPACES,
  },
  'private mounts': { ...CHROOT, title: 'mounts of its own' },
  clone: { ...CHROOT, title: 'the namespaces of a sandbox' },
  'mount proc': {
    title: 'a fresh /proc',
    means: "Commands see their own sandbox's processes only.",
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: [
      {
        when: (facts) => facts.container,
        text: 'The container masks parts of /proc, so that the kernel refuses a fresh one: start it with --security-opt systempaths=unconfined (Docker) or --security-opt unmask=ALL (Podman).',
      },
      { text: 'Unmount what is mounted below /proc.' },
    ],
  },
};
