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
  /** Without it no sandbox can be made. */
  readonly needed: boolean;
  readonly remedies: readonly Remedy[];
}

const ROOTLESS_CONTAINER: Remedy = {
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
  ROOTLESS_CONTAINER,
  { text: 'Use a kernel built with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS.' },
];

const CGROUP: readonly Remedy[] = [
  {
    when: (facts) => facts.container,
    text: 'Start the container with a writable cgroup: docker run --cgroupns=private --privileged, or Podman with --cgroups=enabled.',
  },
  {
    when: (facts) => facts.uid !== 0 && facts.systemd,
    text: 'Let systemd delegate the controllers: a service with `Delegate=yes`, or systemd-run --user --scope -p Delegate=yes boxkite ...',
  },
  {
    when: (facts) => facts.uid !== 0,
    text: 'Ask the administrator for a cgroup directory that you own, or run boxkite as root.',
  },
  { text: 'Mount the control groups writable: mount -t cgroup2 none /sys/fs/cgroup' },
];

const KERNEL = (feature: string): readonly Remedy[] => [{ text: `Use a kernel with ${feature}.` }];

/** By the names that the runner's probe uses. */
export const ADVICE: Readonly<Record<string, Advice>> = {
  user_namespace: {
    title: 'user namespaces',
    means: 'Root inside a sandbox is nobody outside.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: NAMESPACES,
  },
  namespaces: {
    title: 'namespaces',
    means: 'A sandbox has processes, mounts, network and host name of its own.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: NAMESPACES,
  },
  id_range: {
    title: 'a range of user ids',
    means: 'The process that watches over a command has another id than the command, which can not touch it.',
    without: 'Sandboxes work with one id: `effective.init` says `same-user`.',
    needed: false,
    remedies: [
      { when: (facts) => !facts.newuidmap, text: 'Install newuidmap: apt-get install uidmap' },
      {
        when: (facts) => !facts.subordinateIds,
        text: 'Give yourself a range: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER',
      },
      ROOTLESS_CONTAINER,
      { text: 'See that newuidmap and newgidmap are set-uid root or have their file capabilities.' },
    ],
  },
  seccomp: {
    title: 'system call filter',
    means: 'Commands reach only the system calls on a list.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: KERNEL('CONFIG_SECCOMP_FILTER'),
  },
  landlock: {
    title: 'Landlock',
    means: 'A second fence around files, should a mount be wrong.',
    without: 'Sandboxes work; files are fenced by mounts alone, and `effective.landlock` is 0.',
    needed: false,
    remedies: KERNEL('CONFIG_SECURITY_LANDLOCK and `landlock` in its lsm= list (5.13 or newer)'),
  },
  proc: {
    title: 'a fresh /proc',
    means: "Commands see their own sandbox's processes only.",
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: [
      {
        when: (facts) => facts.container,
        text: 'The container masks parts of /proc, so the kernel refuses a fresh one: start it with --security-opt systempaths=unconfined (Docker) or --security-opt unmask=ALL (Podman).',
      },
      { text: 'Unmount what is mounted below /proc.' },
    ],
  },
  memory: {
    title: 'memory limit',
    means: 'A command that takes too much memory ends, and nothing else does.',
    without: 'Memory of commands is not limited: `effective.memory.via` is `none`, and asking for a limit is refused.',
    needed: false,
    remedies: CGROUP,
  },
  cpu: {
    title: 'CPU limit',
    means: 'A command gets no more than its share of the processors.',
    without: 'CPU is not limited: `effective.cpu.via` is `none`, and asking for a rate is refused.',
    needed: false,
    remedies: CGROUP,
  },
  pids: {
    title: 'process limit',
    means: 'A command that forks without end fills its own sandbox only.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: CGROUP,
  },
  mounts: {
    title: 'mounts',
    means: 'Commands see a read-only system and nothing of your files.',
    without: 'No sandbox can be made here.',
    needed: true,
    remedies: NAMESPACES,
  },
};
