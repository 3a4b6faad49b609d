//! The filter of a program that computes and nothing else: it reads files and the descriptors that it was given. It has
//! the calls of a command without those that reach a network, another process, or a file's contents, name or mode.

use super::bpf::{Arch, Program};
use super::rules::Condition::{AnyOf, Masked, NoneOf};
use super::rules::Verdict::{Allow, Errno};
use super::rules::{ALL_BITS, NEW_NAMESPACES, Rule, clause, rule};
use super::{Action, calls};
use libc::EPERM;

/// Refused with EPERM, by what they reach.
const REFUSED: &[&str] = &[
    // a network, and descriptors of another process; what is inherited is read and written as a file
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "accept",
    "accept4",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "setsockopt",
    "pidfd_getfd",
    // another process, which may be of the same user
    "fork",
    "vfork",
    "execveat",
    "unshare",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_open",
    "pidfd_send_signal",
    "kill",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "setpriority",
    "ioprio_set",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "setpgid",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    // files
    "openat2",
    "creat",
    "truncate",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "mknod",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "fchownat",
    "lchown",
    "utime",
    "utimes",
    "utimensat",
    "futimesat",
    "setxattr",
    "setxattrat",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "removexattrat",
    "lremovexattr",
    "fremovexattr",
    "memfd_create",
    "flock",
    "sync",
    "syncfs",
];

const ACCESS_MODE: u32 = libc::O_ACCMODE as u32;
const WRITES: u32 = ACCESS_MODE | (libc::O_CREAT | libc::O_TRUNC) as u32;
const THREAD: u32 = libc::CLONE_THREAD as u32;

static CLONE: Rule = rule(
    "clone",
    &[
        clause(&[AnyOf(0, NEW_NAMESPACES)], Errno(EPERM), "flags ask for a namespace"),
        clause(&[Masked(0, THREAD, 0)], Errno(EPERM), "a process, not a thread"),
    ],
    Allow,
);

static OPEN: Rule = rule("open", &[clause(&[AnyOf(1, WRITES)], Errno(EPERM), "not for reading alone")], Allow);
static OPENAT: Rule = rule("openat", &[clause(&[AnyOf(2, WRITES)], Errno(EPERM), "not for reading alone")], Allow);

static PRLIMIT64: Rule =
    rule("prlimit64", &[clause(&[NoneOf(0, ALL_BITS, &[0])], Errno(EPERM), "limits of another process")], Allow);

/// The kernel sends a descriptor's signal, which can be any, to its owner, which can be any process of the user.
static FCNTL: Rule = rule(
    "fcntl",
    &[
        clause(&[Masked(1, ALL_BITS, 8)], Errno(EPERM), "F_SETOWN"),
        clause(&[Masked(1, ALL_BITS, 10)], Errno(EPERM), "F_SETSIG"),
        clause(&[Masked(1, ALL_BITS, 15)], Errno(EPERM), "F_SETOWN_EX"),
    ],
    Allow,
);

static IOCTL: Rule = rule(
    "ioctl",
    &[clause(
        &[NoneOf(1, ALL_BITS, &[0x5401, 0x802c_542a, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451])],
        Errno(EPERM),
        "not TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX or FIOCLEX",
    )],
    Allow,
);

static RULES: &[&Rule] = &[&CLONE, &OPEN, &OPENAT, &PRLIMIT64, &FCNTL, &IOCTL];

fn action(name: &str, of_commands: Action) -> Action {
    if REFUSED.contains(&name) {
        return Action::Refuse(EPERM);
    }
    RULES.iter().find(|rule| rule.name == name).map_or(of_commands, |rule| Action::Rule(rule))
}

fn assemble(arch: Arch) -> Program {
    let outcomes = calls().filter_map(|call| Some((call.number(arch)?, action(call.name, call.action))));
    Program::of(arch, outcomes.collect())
}

/// The filter for the architecture that this program is built for. It lets the caller execute its program.
pub fn filter() -> Program {
    assemble(Arch::NATIVE)
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use std::collections::BTreeMap;

    const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    fn numbers(arch: Arch) -> BTreeMap<&'static str, u32> {
        calls().filter_map(|call| Some((call.name, call.number(arch)?))).collect()
    }

    #[test]
    fn every_name_is_a_call() {
        let known: Vec<_> = calls().map(|call| call.name).collect();
        for name in REFUSED.iter().copied().chain(RULES.iter().map(|rule| rule.name)) {
            assert!(known.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_a_command_is_refused_is_refused_here() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let program = assemble(arch);
            for call in calls() {
                let (Some(number), Action::Refuse(errno)) = (call.number(arch), call.action) else { continue };
                let expected = if REFUSED.contains(&call.name) { libc::EPERM } else { errno };
                let (got, _) = run(&program, arch.audit(), number, [0; 6]);
                assert_eq!(got, libc::SECCOMP_RET_ERRNO | expected as u32, "{arch:?} {}", call.name);
            }
        }
    }

    #[test]
    fn it_reaches_no_network_process_or_file() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let (program, numbers) = (assemble(arch), numbers(arch));
            let is = |name: &str, args: [u64; 3], expected: u32| {
                let Some(&number) = numbers.get(name) else { return };
                let args = [args[0], args[1], args[2], 0, 0, 0];
                assert_eq!(run(&program, arch.audit(), number, args).0, expected, "{arch:?} {name} {args:x?}");
            };
            for name in REFUSED {
                is(name, [0; 3], EPERM);
                is(name, [u64::MAX; 3], EPERM);
            }
            is("clone", [0x11, 0, 0], EPERM);
            is("clone", [0x4111, 0, 0], EPERM);
            is("clone", [0x003d_0f00, 0, 0], ALLOW);
            is("clone", [0x403d_0f00, 0, 0], EPERM);
            for (name, at) in [("open", 1), ("openat", 2)] {
                for (flags, expected) in [(0, ALLOW), (0o2_000_000, ALLOW), (1, EPERM), (2, EPERM), (0o100, EPERM)] {
                    let mut args = [0; 3];
                    args[at] = flags;
                    is(name, args, expected);
                }
            }
            is("prlimit64", [0, 7, 0], ALLOW);
            is("prlimit64", [1, 7, 0], EPERM);
            for (command, expected) in [(3, ALLOW), (4, ALLOW), (8, EPERM), (10, EPERM), (15, EPERM)] {
                is("fcntl", [0, command, 0], expected);
            }
            is("ioctl", [0, 0x5421, 0], ALLOW);
            is("ioctl", [0, 0x8901, 0], EPERM);
            for name in ["read", "write", "execve", "mmap", "exit_group", "futex", "getrandom", "epoll_pwait"] {
                is(name, [0; 3], ALLOW);
            }
            let foreign = if arch == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 };
            let (killed, _) = run(&program, foreign.audit(), numbers["read"], [0; 6]);
            assert_eq!(killed, libc::SECCOMP_RET_KILL_PROCESS);
        }
    }
}
