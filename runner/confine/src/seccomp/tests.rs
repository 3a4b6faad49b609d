//! Proves by evaluation that the assembled programs equal the table, for both architectures.

use super::bpf::{Arch, Program};
use super::rules::{self, Condition, Rule, Verdict};
use super::{Action, FilterOptions, TABLE, calls, command_filter};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const OPTIONS: [FilterOptions; 2] =
    [FilterOptions { memfd_noexec_only: false }, FilterOptions { memfd_noexec_only: true }];
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

fn refuse(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// Runs a program as the kernel does; panics on anything that the kernel's checker would refuse.
/// Answers the returned value and the number of instructions that ran.
pub(super) fn run(program: &Program, arch: u32, number: u32, args: [u64; 6]) -> (u32, usize) {
    let word = |at: u32| match at {
        0 => number,
        4 => arch,
        16.. if at < 64 && (at - 16) % 8 == 0 => args[((at - 16) / 8) as usize] as u32,
        _ => panic!("load from {at}"),
    };
    let (mut accumulator, mut at, mut ran) = (0u32, 0usize, 0usize);
    loop {
        let now = program.0[at];
        ran += 1;
        at += 1;
        let jump = |yes: bool| usize::from(if yes { now.jt } else { now.jf });
        match now.code {
            0x20 => accumulator = word(now.k),
            0x54 => accumulator &= now.k,
            0x05 => at += now.k as usize,
            0x15 => at += jump(accumulator == now.k),
            0x25 => at += jump(accumulator > now.k),
            0x35 => at += jump(accumulator >= now.k),
            0x45 => at += jump(accumulator & now.k != 0),
            0x06 => return (now.k, ran),
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn holds(condition: &Condition, args: [u64; 6]) -> bool {
    match *condition {
        Condition::Masked(arg, mask, value) => args[arg as usize] as u32 & mask == value,
        Condition::AnyOf(arg, mask) => args[arg as usize] as u32 & mask != 0,
        Condition::UpTo(arg, value) => args[arg as usize] as u32 <= value,
        Condition::NoneOf(arg, mask, values) => !values.contains(&(args[arg as usize] as u32 & mask)),
    }
}

fn rule_outcome(rule: &Rule, options: FilterOptions, args: [u64; 6]) -> u32 {
    if rule.strict_only && !options.memfd_noexec_only {
        return ALLOW;
    }
    let hit = rule.clauses.iter().find(|clause| clause.when.iter().all(|test| holds(test, args)));
    match hit.map_or(rule.otherwise, |clause| clause.verdict) {
        Verdict::Allow => ALLOW,
        Verdict::Errno(errno) => refuse(errno),
    }
}

fn by_number(arch: Arch) -> BTreeMap<u32, Action> {
    let mut out = BTreeMap::new();
    for call in calls() {
        if let Some(number) = call.number(arch) {
            assert!(out.insert(number, call.action).is_none(), "{} twice", call.name);
        }
    }
    out
}

/// Values at and around every constant of a rule, in the arguments that it reads.
fn samples(rule: &Rule) -> Vec<[u64; 6]> {
    let mut values: [BTreeSet<u64>; 6] = Default::default();
    for condition in rule.clauses.iter().flat_map(|clause| clause.when) {
        let mut add = |arg: u8, value: u32| {
            for near in [value.wrapping_sub(1), value, value.wrapping_add(1), value | 0x8_0800] {
                values[arg as usize].insert(u64::from(near));
            }
        };
        match *condition {
            Condition::Masked(arg, mask, value) => [value, mask, !mask].map(|v| add(arg, v)),
            Condition::AnyOf(arg, mask) => {
                (0..32).filter(|bit| (mask >> bit) & 1 == 1).for_each(|bit| add(arg, 1 << bit));
                [0, mask, !mask].map(|v| add(arg, v))
            }
            Condition::UpTo(arg, value) => [0, value, u32::MAX].map(|v| add(arg, v)),
            Condition::NoneOf(arg, _, list) => {
                list.iter().for_each(|value| add(arg, *value));
                let types = if rule.name.starts_with("mknod") { 16 } else { 0 };
                (0..types).for_each(|high| add(arg, high << 12));
                [0, 1, u32::MAX].map(|v| add(arg, v))
            }
        };
    }
    let mut out = vec![[0u64; 6]];
    for (index, set) in values.iter().enumerate().filter(|(_, set)| !set.is_empty()) {
        out = out
            .into_iter()
            .flat_map(|args| {
                set.iter().map(move |value| {
                    let mut next = args;
                    next[index] = *value;
                    next
                })
            })
            .collect();
    }
    out
}

#[test]
fn every_number_does_what_the_table_says() {
    for arch in ARCHES {
        let table = by_number(arch);
        for options in OPTIONS {
            let program = Program::assemble(arch, options);
            for number in (0..1024).chain([0x3fff_ffff]) {
                let outcomes = match table.get(&number) {
                    None => vec![([0; 6], refuse(libc::ENOSYS))],
                    Some(Action::Allow) => vec![([0; 6], ALLOW), ([u64::MAX; 6], ALLOW)],
                    Some(Action::Refuse(errno)) => vec![([0; 6], refuse(*errno))],
                    Some(Action::Rule(rule)) => {
                        samples(rule).into_iter().map(|args| (args, rule_outcome(rule, options, args))).collect()
                    }
                };
                for (args, expected) in outcomes {
                    let (got, _) = run(&program, arch.audit(), number, args);
                    assert_eq!(got, expected, "{arch:?} {options:?} number {number} args {args:x?}");
                    let upper = args.map(|arg| arg | 0xdead_0000_0000);
                    assert_eq!(run(&program, arch.audit(), number, upper).0, expected, "{number} {upper:x?}");
                }
            }
        }
    }
}

#[test]
fn foreign_architectures_and_x32_are_killed() {
    for arch in ARCHES {
        let program = Program::assemble(arch, FilterOptions::default());
        let others = [0u32, 0x4000_0003, 0x4000_0028, 0xc000_0016, 0x8000_003e, u32::MAX];
        let other = if arch == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 };
        for foreign in others.into_iter().chain([other.audit()]) {
            for number in 0..1024 {
                assert_eq!(run(&program, foreign, number, [0; 6]).0, KILL, "{foreign:#x} {number}");
            }
        }
    }
    let program = Program::assemble(Arch::X86_64, FilterOptions::default());
    for number in (0..1024).map(|n| n | 0x4000_0000).chain([0x8000_0000, 0xffff_fffe, 0x7fff_ffff]) {
        assert_eq!(run(&program, Arch::X86_64.audit(), number, [0; 6]).0, KILL, "{number:#x}");
    }
    for arch in ARCHES {
        let program = Program::assemble(arch, FilterOptions::default());
        assert_eq!(run(&program, arch.audit(), u32::MAX, [0; 6]).0, refuse(libc::ENOSYS));
    }
}

/// The rules say what the design says, in the values of the kernel's headers.
#[test]
fn the_rules_mean_what_they_should() {
    let none = FilterOptions::default();
    let is = |rule: &Rule, args: [i64; 3], expected: u32| {
        let args = [args[0] as u64, args[1] as u64, args[2] as u64, 0, 0, 0];
        assert_eq!(rule_outcome(rule, none, args), expected, "{} {args:x?}", rule.name);
    };
    use libc::*;
    let threads = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | SIGCHLD;
    is(&rules::CLONE, [threads.into(), 0, 0], ALLOW);
    for flag in [CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP] {
        is(&rules::CLONE, [(flag | SIGCHLD).into(), 0, 0], refuse(EPERM));
        is(&rules::UNSHARE, [flag.into(), 0, 0], refuse(EPERM));
    }
    is(&rules::UNSHARE, [0x80, 0, 0], refuse(EPERM));
    is(&rules::UNSHARE, [(CLONE_FS | CLONE_FILES).into(), 0, 0], ALLOW);
    for family in 0..64 {
        let expected =
            if [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK].contains(&family) { ALLOW } else { refuse(EAFNOSUPPORT) };
        is(&rules::SOCKET, [family.into(), (SOCK_DGRAM | SOCK_CLOEXEC).into(), 0], expected);
        if ![AF_NETLINK, AF_UNIX, AF_INET, AF_INET6].contains(&family) {
            is(&rules::SOCKET, [family.into(), SOCK_RAW.into(), 0], refuse(EAFNOSUPPORT));
        }
    }
    is(&rules::SOCKET, [AF_NETLINK.into(), SOCK_RAW.into(), NETLINK_ROUTE.into()], ALLOW);
    for protocol in 1..32 {
        is(&rules::SOCKET, [AF_NETLINK.into(), SOCK_RAW.into(), protocol], refuse(EAFNOSUPPORT));
    }
    for family in [AF_UNIX, AF_INET, AF_INET6] {
        for kind in [SOCK_RAW, 10] {
            is(&rules::SOCKET, [family.into(), (kind | SOCK_NONBLOCK).into(), 0], refuse(EPERM));
        }
    }
    is(&rules::SOCKET, [AF_INET.into(), SOCK_SEQPACKET.into(), 0], refuse(ESOCKTNOSUPPORT));
    for protocol in [IPPROTO_SCTP, IPPROTO_DCCP, IPPROTO_UDPLITE, 115, 256, 262] {
        is(&rules::SOCKET, [AF_INET.into(), SOCK_STREAM.into(), protocol.into()], refuse(EPROTONOSUPPORT));
    }
    is(&rules::SOCKET, [AF_INET.into(), SOCK_STREAM.into(), IPPROTO_TCP.into()], ALLOW);
    for request in [TIOCSTI, TIOCLINUX, TIOCCONS, 0x5423, 0x4008_6602, 0x401c_5820] {
        is(&rules::IOCTL, [0, request as i64, 0], refuse(EPERM));
        is(&rules::IOCTL, [0, request as i64 | 0x7_0000_0000, 0], refuse(EPERM));
    }
    for request in [TCGETS, TIOCGWINSZ, TIOCSWINSZ, FIONREAD, FIONBIO, FIONCLEX, TIOCSCTTY, TIOCGPTPEER] {
        is(&rules::IOCTL, [0, request as i64, 0], ALLOW);
    }
    for persona in [0, 8, 0x20000, 0x20008, 0xffff_ffff, ADDR_NO_RANDOMIZE.into()] {
        is(&rules::PERSONALITY, [persona, 0, 0], ALLOW);
    }
    for persona in [READ_IMPLIES_EXEC, ADDR_COMPAT_LAYOUT, MMAP_PAGE_ZERO, ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC] {
        is(&rules::PERSONALITY, [persona.into(), 0, 0], refuse(EPERM));
    }
    is(&rules::PRCTL, [PR_SET_MM.into(), 0, 0], refuse(EPERM));
    is(&rules::PRCTL, [PR_SET_NAME.into(), 0, 0], ALLOW);
    is(&rules::PRCTL, [PR_SET_PTRACER.into(), 0, 0], ALLOW);
    is(&rules::PRCTL, [1000, 0, 0], refuse(EINVAL));
    is(&rules::SECCOMP, [1, SECCOMP_FILTER_FLAG_TSYNC as i64, 0], ALLOW);
    is(&rules::SECCOMP, [1, SECCOMP_FILTER_FLAG_NEW_LISTENER as i64, 0], refuse(EPERM));
    for (kind, expected) in [
        (S_IFREG, ALLOW),
        (S_IFIFO, ALLOW),
        (S_IFSOCK, ALLOW),
        (0, ALLOW),
        (S_IFCHR, refuse(EPERM)),
        (S_IFBLK, refuse(EPERM)),
        (S_IFDIR, refuse(EPERM)),
    ] {
        is(&rules::MKNOD, [0, i64::from(kind | 0o644), 0], expected);
        is(&rules::MKNODAT, [0, 0, i64::from(kind | 0o644)], expected);
    }
    is(&rules::MEMFD_CREATE, [0, 0, 0], ALLOW);
    let strict = FilterOptions { memfd_noexec_only: true };
    let memfd = |flags| rule_outcome(&rules::MEMFD_CREATE, strict, [0, flags, 0, 0, 0, 0]);
    assert_eq!((memfd(1), memfd(8 | 1), memfd(0x10)), (refuse(EACCES), ALLOW, refuse(EACCES)));
}

#[test]
fn the_program_is_small_and_quick() {
    for arch in ARCHES {
        let program = Program::assemble(arch, FilterOptions::default());
        assert!(program.0.len() < 700, "{} instructions", program.0.len());
        let worst = (0..512).map(|number| run(&program, arch.audit(), number, [0; 6]).1).max();
        assert!(worst < Some(48), "{worst:?} instructions for one call");
    }
}

/// Numbers of the table against those of the C library, and no number of the library is missing.
#[test]
#[allow(deprecated)]
fn numbers_equal_those_of_the_library() {
    macro_rules! known {
        ($($name:ident),* $(,)?) => {
            [$((stringify!($name).trim_start_matches("SYS_"), libc::$name)),*]
        };
    }
    #[cfg(target_arch = "x86_64")]
    let known = known![
        SYS__sysctl,
        SYS_accept,
        SYS_accept4,
        SYS_access,
        SYS_acct,
        SYS_add_key,
        SYS_adjtimex,
        SYS_afs_syscall,
        SYS_alarm,
        SYS_arch_prctl,
        SYS_bind,
        SYS_bpf,
        SYS_brk,
        SYS_capget,
        SYS_capset,
        SYS_chdir,
        SYS_chmod,
        SYS_chown,
        SYS_chroot,
        SYS_clock_adjtime,
        SYS_clock_getres,
        SYS_clock_gettime,
        SYS_clock_nanosleep,
        SYS_clock_settime,
        SYS_clone,
        SYS_clone3,
        SYS_close,
        SYS_close_range,
        SYS_connect,
        SYS_copy_file_range,
        SYS_creat,
        SYS_create_module,
        SYS_delete_module,
        SYS_dup,
        SYS_dup2,
        SYS_dup3,
        SYS_epoll_create,
        SYS_epoll_create1,
        SYS_epoll_ctl,
        SYS_epoll_ctl_old,
        SYS_epoll_pwait,
        SYS_epoll_pwait2,
        SYS_epoll_wait,
        SYS_epoll_wait_old,
        SYS_eventfd,
        SYS_eventfd2,
        SYS_execve,
        SYS_execveat,
        SYS_exit,
        SYS_exit_group,
        SYS_faccessat,
        SYS_faccessat2,
        SYS_fadvise64,
        SYS_fallocate,
        SYS_fanotify_init,
        SYS_fanotify_mark,
        SYS_fchdir,
        SYS_fchmod,
        SYS_fchmodat,
        SYS_fchmodat2,
        SYS_fchown,
        SYS_fchownat,
        SYS_fcntl,
        SYS_fdatasync,
        SYS_fgetxattr,
        SYS_finit_module,
        SYS_flistxattr,
        SYS_flock,
        SYS_fork,
        SYS_fremovexattr,
        SYS_fsconfig,
        SYS_fsetxattr,
        SYS_fsmount,
        SYS_fsopen,
        SYS_fspick,
        SYS_fstat,
        SYS_fstatfs,
        SYS_fsync,
        SYS_ftruncate,
        SYS_futex,
        SYS_futex_waitv,
        SYS_futimesat,
        SYS_get_kernel_syms,
        SYS_get_mempolicy,
        SYS_get_robust_list,
        SYS_get_thread_area,
        SYS_getcpu,
        SYS_getcwd,
        SYS_getdents,
        SYS_getdents64,
        SYS_getegid,
        SYS_geteuid,
        SYS_getgid,
        SYS_getgroups,
        SYS_getitimer,
        SYS_getpeername,
        SYS_getpgid,
        SYS_getpgrp,
        SYS_getpid,
        SYS_getpmsg,
        SYS_getppid,
        SYS_getpriority,
        SYS_getrandom,
        SYS_getresgid,
        SYS_getresuid,
        SYS_getrlimit,
        SYS_getrusage,
        SYS_getsid,
        SYS_getsockname,
        SYS_getsockopt,
        SYS_gettid,
        SYS_gettimeofday,
        SYS_getuid,
        SYS_getxattr,
        SYS_init_module,
        SYS_inotify_add_watch,
        SYS_inotify_init,
        SYS_inotify_init1,
        SYS_inotify_rm_watch,
        SYS_io_cancel,
        SYS_io_destroy,
        SYS_io_getevents,
        SYS_io_setup,
        SYS_io_submit,
        SYS_io_uring_enter,
        SYS_io_uring_register,
        SYS_io_uring_setup,
        SYS_ioctl,
        SYS_ioperm,
        SYS_iopl,
        SYS_ioprio_get,
        SYS_ioprio_set,
        SYS_kcmp,
        SYS_kexec_file_load,
        SYS_kexec_load,
        SYS_keyctl,
        SYS_kill,
        SYS_landlock_add_rule,
        SYS_landlock_create_ruleset,
        SYS_landlock_restrict_self,
        SYS_lchown,
        SYS_lgetxattr,
        SYS_link,
        SYS_linkat,
        SYS_listen,
        SYS_listxattr,
        SYS_llistxattr,
        SYS_lookup_dcookie,
        SYS_lremovexattr,
        SYS_lseek,
        SYS_lsetxattr,
        SYS_lstat,
        SYS_madvise,
        SYS_mbind,
        SYS_membarrier,
        SYS_memfd_create,
        SYS_memfd_secret,
        SYS_migrate_pages,
        SYS_mincore,
        SYS_mkdir,
        SYS_mkdirat,
        SYS_mknod,
        SYS_mknodat,
        SYS_mlock,
        SYS_mlock2,
        SYS_mlockall,
        SYS_mmap,
        SYS_modify_ldt,
        SYS_mount,
        SYS_mount_setattr,
        SYS_move_mount,
        SYS_move_pages,
        SYS_mprotect,
        SYS_mq_getsetattr,
        SYS_mq_notify,
        SYS_mq_open,
        SYS_mq_timedreceive,
        SYS_mq_timedsend,
        SYS_mq_unlink,
        SYS_mremap,
        SYS_mseal,
        SYS_msgctl,
        SYS_msgget,
        SYS_msgrcv,
        SYS_msgsnd,
        SYS_msync,
        SYS_munlock,
        SYS_munlockall,
        SYS_munmap,
        SYS_name_to_handle_at,
        SYS_nanosleep,
        SYS_newfstatat,
        SYS_nfsservctl,
        SYS_open,
        SYS_open_by_handle_at,
        SYS_open_tree,
        SYS_openat,
        SYS_openat2,
        SYS_pause,
        SYS_perf_event_open,
        SYS_personality,
        SYS_pidfd_getfd,
        SYS_pidfd_open,
        SYS_pidfd_send_signal,
        SYS_pipe,
        SYS_pipe2,
        SYS_pivot_root,
        SYS_pkey_alloc,
        SYS_pkey_free,
        SYS_pkey_mprotect,
        SYS_poll,
        SYS_ppoll,
        SYS_prctl,
        SYS_pread64,
        SYS_preadv,
        SYS_preadv2,
        SYS_prlimit64,
        SYS_process_madvise,
        SYS_process_mrelease,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_pselect6,
        SYS_ptrace,
        SYS_putpmsg,
        SYS_pwrite64,
        SYS_pwritev,
        SYS_pwritev2,
        SYS_query_module,
        SYS_quotactl,
        SYS_quotactl_fd,
        SYS_read,
        SYS_readahead,
        SYS_readlink,
        SYS_readlinkat,
        SYS_readv,
        SYS_reboot,
        SYS_recvfrom,
        SYS_recvmmsg,
        SYS_recvmsg,
        SYS_remap_file_pages,
        SYS_removexattr,
        SYS_rename,
        SYS_renameat,
        SYS_renameat2,
        SYS_request_key,
        SYS_restart_syscall,
        SYS_rmdir,
        SYS_rseq,
        SYS_rt_sigaction,
        SYS_rt_sigpending,
        SYS_rt_sigprocmask,
        SYS_rt_sigqueueinfo,
        SYS_rt_sigreturn,
        SYS_rt_sigsuspend,
        SYS_rt_sigtimedwait,
        SYS_rt_tgsigqueueinfo,
        SYS_sched_get_priority_max,
        SYS_sched_get_priority_min,
        SYS_sched_getaffinity,
        SYS_sched_getattr,
        SYS_sched_getparam,
        SYS_sched_getscheduler,
        SYS_sched_rr_get_interval,
        SYS_sched_setaffinity,
        SYS_sched_setattr,
        SYS_sched_setparam,
        SYS_sched_setscheduler,
        SYS_sched_yield,
        SYS_seccomp,
        SYS_security,
        SYS_select,
        SYS_semctl,
        SYS_semget,
        SYS_semop,
        SYS_semtimedop,
        SYS_sendfile,
        SYS_sendmmsg,
        SYS_sendmsg,
        SYS_sendto,
        SYS_set_mempolicy,
        SYS_set_mempolicy_home_node,
        SYS_set_robust_list,
        SYS_set_thread_area,
        SYS_set_tid_address,
        SYS_setdomainname,
        SYS_setfsgid,
        SYS_setfsuid,
        SYS_setgid,
        SYS_setgroups,
        SYS_sethostname,
        SYS_setitimer,
        SYS_setns,
        SYS_setpgid,
        SYS_setpriority,
        SYS_setregid,
        SYS_setresgid,
        SYS_setresuid,
        SYS_setreuid,
        SYS_setrlimit,
        SYS_setsid,
        SYS_setsockopt,
        SYS_settimeofday,
        SYS_setuid,
        SYS_setxattr,
        SYS_shmat,
        SYS_shmctl,
        SYS_shmdt,
        SYS_shmget,
        SYS_shutdown,
        SYS_sigaltstack,
        SYS_signalfd,
        SYS_signalfd4,
        SYS_socket,
        SYS_socketpair,
        SYS_splice,
        SYS_stat,
        SYS_statfs,
        SYS_statx,
        SYS_swapoff,
        SYS_swapon,
        SYS_symlink,
        SYS_symlinkat,
        SYS_sync,
        SYS_sync_file_range,
        SYS_syncfs,
        SYS_sysfs,
        SYS_sysinfo,
        SYS_syslog,
        SYS_tee,
        SYS_tgkill,
        SYS_time,
        SYS_timer_create,
        SYS_timer_delete,
        SYS_timer_getoverrun,
        SYS_timer_gettime,
        SYS_timer_settime,
        SYS_timerfd_create,
        SYS_timerfd_gettime,
        SYS_timerfd_settime,
        SYS_times,
        SYS_tkill,
        SYS_truncate,
        SYS_tuxcall,
        SYS_umask,
        SYS_umount2,
        SYS_uname,
        SYS_unlink,
        SYS_unlinkat,
        SYS_unshare,
        SYS_uselib,
        SYS_userfaultfd,
        SYS_ustat,
        SYS_utime,
        SYS_utimensat,
        SYS_utimes,
        SYS_vfork,
        SYS_vhangup,
        SYS_vmsplice,
        SYS_vserver,
        SYS_wait4,
        SYS_waitid,
        SYS_write,
        SYS_writev
    ];
    #[cfg(target_arch = "aarch64")]
    let known = known![
        SYS_accept,
        SYS_accept4,
        SYS_acct,
        SYS_add_key,
        SYS_adjtimex,
        SYS_bind,
        SYS_bpf,
        SYS_brk,
        SYS_capget,
        SYS_capset,
        SYS_chdir,
        SYS_chroot,
        SYS_clock_adjtime,
        SYS_clock_getres,
        SYS_clock_gettime,
        SYS_clock_nanosleep,
        SYS_clock_settime,
        SYS_clone,
        SYS_clone3,
        SYS_close,
        SYS_close_range,
        SYS_connect,
        SYS_copy_file_range,
        SYS_delete_module,
        SYS_dup,
        SYS_dup3,
        SYS_epoll_create1,
        SYS_epoll_ctl,
        SYS_epoll_pwait,
        SYS_epoll_pwait2,
        SYS_eventfd2,
        SYS_execve,
        SYS_execveat,
        SYS_exit,
        SYS_exit_group,
        SYS_faccessat,
        SYS_faccessat2,
        SYS_fallocate,
        SYS_fanotify_init,
        SYS_fanotify_mark,
        SYS_fchdir,
        SYS_fchmod,
        SYS_fchmodat,
        SYS_fchown,
        SYS_fchownat,
        SYS_fcntl,
        SYS_fdatasync,
        SYS_fgetxattr,
        SYS_finit_module,
        SYS_flistxattr,
        SYS_flock,
        SYS_fremovexattr,
        SYS_fsconfig,
        SYS_fsetxattr,
        SYS_fsmount,
        SYS_fsopen,
        SYS_fspick,
        SYS_fstat,
        SYS_fstatfs,
        SYS_fsync,
        SYS_ftruncate,
        SYS_futex,
        SYS_futex_waitv,
        SYS_get_mempolicy,
        SYS_get_robust_list,
        SYS_getcpu,
        SYS_getcwd,
        SYS_getdents64,
        SYS_getegid,
        SYS_geteuid,
        SYS_getgid,
        SYS_getgroups,
        SYS_getitimer,
        SYS_getpeername,
        SYS_getpgid,
        SYS_getpid,
        SYS_getppid,
        SYS_getpriority,
        SYS_getrandom,
        SYS_getresgid,
        SYS_getresuid,
        SYS_getrusage,
        SYS_getsid,
        SYS_getsockname,
        SYS_getsockopt,
        SYS_gettid,
        SYS_gettimeofday,
        SYS_getuid,
        SYS_getxattr,
        SYS_init_module,
        SYS_inotify_add_watch,
        SYS_inotify_init1,
        SYS_inotify_rm_watch,
        SYS_io_cancel,
        SYS_io_destroy,
        SYS_io_getevents,
        SYS_io_setup,
        SYS_io_submit,
        SYS_io_uring_enter,
        SYS_io_uring_register,
        SYS_io_uring_setup,
        SYS_ioctl,
        SYS_ioprio_get,
        SYS_ioprio_set,
        SYS_kcmp,
        SYS_kexec_file_load,
        SYS_kexec_load,
        SYS_keyctl,
        SYS_kill,
        SYS_landlock_add_rule,
        SYS_landlock_create_ruleset,
        SYS_landlock_restrict_self,
        SYS_lgetxattr,
        SYS_linkat,
        SYS_listen,
        SYS_listxattr,
        SYS_llistxattr,
        SYS_lookup_dcookie,
        SYS_lremovexattr,
        SYS_lseek,
        SYS_lsetxattr,
        SYS_madvise,
        SYS_mbind,
        SYS_membarrier,
        SYS_memfd_create,
        SYS_memfd_secret,
        SYS_migrate_pages,
        SYS_mincore,
        SYS_mkdirat,
        SYS_mknodat,
        SYS_mlock,
        SYS_mlock2,
        SYS_mlockall,
        SYS_mmap,
        SYS_mount,
        SYS_mount_setattr,
        SYS_move_mount,
        SYS_move_pages,
        SYS_mprotect,
        SYS_mq_getsetattr,
        SYS_mq_notify,
        SYS_mq_open,
        SYS_mq_timedreceive,
        SYS_mq_timedsend,
        SYS_mq_unlink,
        SYS_mremap,
        SYS_mseal,
        SYS_msgctl,
        SYS_msgget,
        SYS_msgrcv,
        SYS_msgsnd,
        SYS_msync,
        SYS_munlock,
        SYS_munlockall,
        SYS_munmap,
        SYS_name_to_handle_at,
        SYS_nanosleep,
        SYS_newfstatat,
        SYS_nfsservctl,
        SYS_open_by_handle_at,
        SYS_open_tree,
        SYS_openat,
        SYS_openat2,
        SYS_perf_event_open,
        SYS_personality,
        SYS_pidfd_getfd,
        SYS_pidfd_open,
        SYS_pidfd_send_signal,
        SYS_pipe2,
        SYS_pivot_root,
        SYS_pkey_alloc,
        SYS_pkey_free,
        SYS_pkey_mprotect,
        SYS_ppoll,
        SYS_prctl,
        SYS_pread64,
        SYS_preadv,
        SYS_preadv2,
        SYS_prlimit64,
        SYS_process_madvise,
        SYS_process_mrelease,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_pselect6,
        SYS_ptrace,
        SYS_pwrite64,
        SYS_pwritev,
        SYS_pwritev2,
        SYS_quotactl,
        SYS_quotactl_fd,
        SYS_read,
        SYS_readahead,
        SYS_readlinkat,
        SYS_readv,
        SYS_reboot,
        SYS_recvfrom,
        SYS_recvmmsg,
        SYS_recvmsg,
        SYS_remap_file_pages,
        SYS_removexattr,
        SYS_renameat2,
        SYS_request_key,
        SYS_restart_syscall,
        SYS_rseq,
        SYS_rt_sigaction,
        SYS_rt_sigpending,
        SYS_rt_sigprocmask,
        SYS_rt_sigqueueinfo,
        SYS_rt_sigreturn,
        SYS_rt_sigsuspend,
        SYS_rt_sigtimedwait,
        SYS_rt_tgsigqueueinfo,
        SYS_sched_get_priority_max,
        SYS_sched_get_priority_min,
        SYS_sched_getaffinity,
        SYS_sched_getattr,
        SYS_sched_getparam,
        SYS_sched_getscheduler,
        SYS_sched_rr_get_interval,
        SYS_sched_setaffinity,
        SYS_sched_setattr,
        SYS_sched_setparam,
        SYS_sched_setscheduler,
        SYS_sched_yield,
        SYS_seccomp,
        SYS_semctl,
        SYS_semget,
        SYS_semop,
        SYS_semtimedop,
        SYS_sendmmsg,
        SYS_sendmsg,
        SYS_sendto,
        SYS_set_mempolicy,
        SYS_set_mempolicy_home_node,
        SYS_set_robust_list,
        SYS_set_tid_address,
        SYS_setdomainname,
        SYS_setfsgid,
        SYS_setfsuid,
        SYS_setgid,
        SYS_setgroups,
        SYS_sethostname,
        SYS_setitimer,
        SYS_setns,
        SYS_setpgid,
        SYS_setpriority,
        SYS_setregid,
        SYS_setresgid,
        SYS_setresuid,
        SYS_setreuid,
        SYS_setsid,
        SYS_setsockopt,
        SYS_settimeofday,
        SYS_setuid,
        SYS_setxattr,
        SYS_shmat,
        SYS_shmctl,
        SYS_shmdt,
        SYS_shmget,
        SYS_shutdown,
        SYS_sigaltstack,
        SYS_signalfd4,
        SYS_socket,
        SYS_socketpair,
        SYS_splice,
        SYS_statfs,
        SYS_statx,
        SYS_swapoff,
        SYS_swapon,
        SYS_symlinkat,
        SYS_sync,
        SYS_syncfs,
        SYS_sysinfo,
        SYS_syslog,
        SYS_tee,
        SYS_tgkill,
        SYS_timer_create,
        SYS_timer_delete,
        SYS_timer_getoverrun,
        SYS_timer_gettime,
        SYS_timer_settime,
        SYS_timerfd_create,
        SYS_timerfd_gettime,
        SYS_timerfd_settime,
        SYS_times,
        SYS_tkill,
        SYS_truncate,
        SYS_umask,
        SYS_umount2,
        SYS_uname,
        SYS_unlinkat,
        SYS_unshare,
        SYS_userfaultfd,
        SYS_utimensat,
        SYS_vhangup,
        SYS_vmsplice,
        SYS_wait4,
        SYS_waitid,
        SYS_write,
        SYS_writev
    ];
    let table: BTreeMap<&str, Option<u32>> = calls().map(|call| (call.name, call.number(Arch::NATIVE))).collect();
    for (name, number) in known {
        let own = table.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(own.map(libc::c_long::from), Some(number), "{name}");
    }
    let numbers = by_number(Arch::X86_64);
    let gaps: Vec<u32> = (0..=470).filter(|n| !numbers.contains_key(n)).collect();
    let expected: Vec<u32> = (337..=423).collect();
    assert_eq!(gaps, expected, "x86_64 numbers up to kernel 6.18 that the table does not name");
    let numbers = by_number(Arch::Aarch64);
    let gaps: Vec<u32> = (0..=470).filter(|n| !numbers.contains_key(n)).collect();
    let expected: Vec<u32> = (244..=259).chain(295..=423).collect();
    assert_eq!(gaps, expected, "aarch64 numbers up to kernel 6.18 that the table does not name");
}

/// Every line is an entry, in the order of names, with a reason.
#[test]
fn every_line_of_the_table_is_read() {
    let lines: Vec<&str> = TABLE.lines().skip(1).collect();
    assert_eq!(calls().count(), lines.len());
    assert!(lines.is_sorted());
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let numbers = fields[1..3].iter().all(|field| *field == "-" || field.parse::<u16>().is_ok());
        assert!(fields.len() == 5 && numbers && !fields[4].is_empty(), "{line}");
    }
}

fn errno_name(errno: i32) -> &'static str {
    match errno {
        libc::EPERM => "EPERM",
        libc::ENOSYS => "ENOSYS",
        libc::EACCES => "EACCES",
        libc::EINVAL => "EINVAL",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        _ => "unnamed",
    }
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Errno(errno) => errno_name(errno),
    }
}

/// The table as a page: lines with the same action and reason are one row.
fn page() -> String {
    let mut text = String::from(
        "# System calls of a command\n\n\
         A command may make the calls below that say `allow`; those with a `rule` depend on their arguments. \
         Every number that is not in this list gets `ENOSYS`. A call of a foreign architecture or of x32 kills \
         the process. `system-calls.tsv` has the numbers. After a change of the table, \
         `BOXKITE_WRITE_TABLE=1 cargo test -p boxkite-confine committed_pages` writes this page anew.\n\n\
         | action | system calls | reason |\n|---|---|---|\n",
    );
    let mut rows: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for line in TABLE.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        match rows.iter_mut().find(|row| (row.0, row.1) == (fields[3], fields[4])) {
            Some(row) => row.2.push(fields[0]),
            None => rows.push((fields[3], fields[4], vec![fields[0]])),
        }
    }
    let place = |action: &str| ["allow", "rule", "ENOSYS", "EOPNOTSUPP", "EPERM"].map(|word| action.starts_with(word));
    rows.sort_by_key(|row| std::cmp::Reverse(place(row.0)));
    for (action, reason, names) in rows {
        text += &format!("| {action} | {} | {reason} |\n", names.join(", "));
    }
    text += "\n## Rules\n\nThe first line that applies decides. Arguments count from 0; only the lower 32 bits \
             count, as in the kernel.\n";
    for rule in rules::ALL {
        text += &format!("\n### {}\n\n", rule.name);
        if rule.strict_only {
            text += "Only where an allowlist is enforced by the kernel; otherwise allowed.\n\n";
        }
        for clause in rule.clauses {
            text += &format!("- {}: `{}`\n", clause.why, verdict_name(clause.verdict));
        }
        text += &format!("- otherwise: `{}`\n", verdict_name(rule.otherwise));
    }
    text
}

/// The committed pages equal the table and the rules.
#[test]
fn committed_pages_equal_the_table() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, text) in [("system-calls.md", page()), ("system-calls.tsv", TABLE.to_string())] {
        let path = folder.join(name);
        if std::env::var_os("BOXKITE_WRITE_TABLE").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "{} is not what the table says", path.display());
    }
}

/// The kernel takes the native program, and it holds: in a forked child, so that this process stays free.
#[test]
fn the_kernel_takes_the_program() {
    let program = command_filter(FilterOptions::default());
    // SAFETY: the child makes raw system calls only and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; no pointer is passed that the kernel follows, but of `program`.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if program.load().is_err() {
                libc::_exit(1);
            }
            let errno = || *libc::__errno_location();
            if libc::syscall(libc::SYS_bpf, 0, 0, 0) != -1 || errno() != libc::EPERM {
                libc::_exit(2);
            }
            if libc::syscall(libc::SYS_clone3, 0, 0) != -1 || errno() != libc::ENOSYS {
                libc::_exit(3);
            }
            if libc::syscall(1000) != -1 || errno() != libc::ENOSYS {
                libc::_exit(4);
            }
            if libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0) != -1 || errno() != libc::EAFNOSUPPORT {
                libc::_exit(5);
            }
            if libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) < 0 {
                libc::_exit(6);
            }
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "wait status {status:#x}");
}
