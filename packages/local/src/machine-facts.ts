/** What this machine says about itself, to choose the remedy that fits. */
import { existsSync, readFileSync } from 'node:fs';
import { release, userInfo } from 'node:os';

/** Facts of the host that the remedies depend on. */
export interface MachineFacts {
  readonly uid: number;
  readonly user: string;
  readonly kernel: string;
  /** Runs inside a container, so that its options decide rather than the host's settings. */
  readonly container: boolean;
  readonly systemd: boolean;
  readonly newuidmap: boolean;
  /** The user has a range in both `/etc/subuid` and `/etc/subgid`. */
  readonly subordinateIds: boolean;
  /** Values of the system's settings, `null` where the kernel hasn't got one. */
  readonly sysctl: Readonly<
    Record<'unprivileged_userns_clone' | 'apparmor_restrict_unprivileged_userns' | 'max_user_namespaces', string | null>
  >;
}

/** The text of a small file, or `null` where it can't be read. */
function text(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    // Which files there are differs from kernel to kernel; a missing one is a fact, not a fault.
    return null;
  }
}

function hasRange(path: string, user: string, uid: number): boolean {
  const lines = (text(path) ?? '').split('\n');
  return lines.some((line) => line.startsWith(`${user}:`) || line.startsWith(`${uid}:`));
}

/** The user's name; a user id without an entry has none, as in many containers, and stands for itself. */
export function userName(uid: number, lookUp: () => { readonly username: string }): string {
  try {
    return lookUp().username;
  } catch {
    // What depends on the name knows entries by id too.
    return String(uid);
  }
}

/** Looks at this machine; changes nothing. */
export function machineFacts(): MachineFacts {
  const uid = process.geteuid?.() ?? 0;
  const user = userName(uid, userInfo);
  return {
    uid,
    user,
    kernel: release(),
    container:
      existsSync('/.dockerenv') ||
      existsSync('/run/.containerenv') ||
      /docker|kubepods|containerd|libpod/.test(text('/proc/1/cgroup') ?? ''),
    systemd: existsSync('/run/systemd/system'),
    newuidmap: ['/usr/bin/newuidmap', '/bin/newuidmap', '/usr/local/bin/newuidmap'].some((path) => existsSync(path)),
    subordinateIds: hasRange('/etc/subuid', user, uid) && hasRange('/etc/subgid', user, uid),
    sysctl: {
      unprivileged_userns_clone: text('/proc/sys/kernel/unprivileged_userns_clone'),
      apparmor_restrict_unprivileged_userns: text('/proc/sys/kernel/apparmor_restrict_unprivileged_userns'),
      max_user_namespaces: text('/proc/sys/user/max_user_namespaces'),
    },
  };
}
