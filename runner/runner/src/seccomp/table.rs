//! Every system call that kernel 6.18 knows on x86_64 and aarch64, with what becomes of it and why.
//! A call that a newer kernel adds is not in the list and gets ENOSYS.

use super::rules::*;
use Action::{Allow, Refuse, Rule};
use libc::{ENOSYS, EPERM};

/// What becomes of a call. A refusal is ENOSYS where programs then use something else, otherwise EPERM.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Allow,
    Refuse(i32),
    Rule(&'static super::rules::Rule),
}

/// A call: name, number on x86_64, number on aarch64.
pub type Call = (&'static str, u16, u16);

/// The calls that share an action and its reason.
#[derive(Debug)]
pub struct Group {
    pub action: Action,
    pub reason: &'static str,
    pub calls: &'static [Call],
}

/// Stands for the number of a call that an architecture does not have.
pub const NO: u16 = u16::MAX;

const fn group(action: Action, reason: &'static str, calls: &'static [Call]) -> Group {
    Group { action, reason, calls }
}

/// The whole table.
#[rustfmt::skip]
pub static GROUPS: &[Group] = &[
    group(Allow, "data in and out of open descriptors", &[
        ("read", 0, 63), ("write", 1, 64), ("readv", 19, 65), ("writev", 20, 66), ("pread64", 17, 67),
        ("pwrite64", 18, 68), ("preadv", 295, 69), ("pwritev", 296, 70), ("preadv2", 327, 286),
        ("pwritev2", 328, 287), ("lseek", 8, 62), ("close", 3, 57), ("close_range", 436, 436), ("dup", 32, 23),
        ("dup2", 33, NO), ("dup3", 292, 24), ("fcntl", 72, 25), ("sendfile", 40, 71), ("splice", 275, 76),
        ("tee", 276, 77), ("copy_file_range", 326, 285), ("fsync", 74, 82), ("fdatasync", 75, 83),
        ("sync_file_range", 277, 84), ("sync", 162, 81), ("syncfs", 306, 267), ("truncate", 76, 45),
        ("ftruncate", 77, 46), ("fallocate", 285, 47), ("fadvise64", 221, 223), ("readahead", 187, 213),
        ("flock", 73, 32), ("pipe", 22, NO), ("pipe2", 293, 59),
    ]),
    group(Allow, "names, types and attributes of files; mounts, permissions and Landlock decide which", &[
        ("open", 2, NO), ("openat", 257, 56), ("openat2", 437, 437), ("creat", 85, NO), ("stat", 4, NO),
        ("lstat", 6, NO), ("newfstatat", 262, 79), ("fstat", 5, 80), ("statx", 332, 291), ("access", 21, NO),
        ("faccessat", 269, 48), ("faccessat2", 439, 439), ("readlink", 89, NO), ("readlinkat", 267, 78),
        ("getdents", 78, NO), ("getdents64", 217, 61), ("getcwd", 79, 17), ("chdir", 80, 49), ("fchdir", 81, 50),
        ("rename", 82, NO), ("renameat", 264, 38), ("renameat2", 316, 276), ("mkdir", 83, NO), ("mkdirat", 258, 34),
        ("rmdir", 84, NO), ("link", 86, NO), ("linkat", 265, 37), ("symlink", 88, NO), ("symlinkat", 266, 36),
        ("unlink", 87, NO), ("unlinkat", 263, 35), ("chmod", 90, NO), ("fchmod", 91, 52), ("fchmodat", 268, 53),
        ("fchmodat2", 452, 452), ("chown", 92, NO), ("fchown", 93, 55), ("lchown", 94, NO), ("fchownat", 260, 54),
        ("umask", 95, 166), ("utime", 132, NO), ("utimes", 235, NO), ("utimensat", 280, 88), ("futimesat", 261, NO),
        ("statfs", 137, 43), ("fstatfs", 138, 44), ("file_getattr", 468, 468), ("inotify_init", 253, NO),
        ("inotify_init1", 294, 26), ("inotify_add_watch", 254, 27), ("inotify_rm_watch", 255, 28),
    ]),
    group(Allow, "extended attributes of files that the caller may write", &[
        ("setxattr", 188, 5), ("lsetxattr", 189, 6), ("fsetxattr", 190, 7), ("getxattr", 191, 8),
        ("lgetxattr", 192, 9), ("fgetxattr", 193, 10), ("listxattr", 194, 11), ("llistxattr", 195, 12),
        ("flistxattr", 196, 13), ("removexattr", 197, 14), ("lremovexattr", 198, 15), ("fremovexattr", 199, 16),
        ("setxattrat", 463, 463), ("getxattrat", 464, 464), ("listxattrat", 465, 465), ("removexattrat", 466, 466),
    ]),
    group(Allow, "the caller's own memory, charged to its cgroup", &[
        ("mmap", 9, 222), ("munmap", 11, 215), ("mprotect", 10, 226), ("mremap", 25, 216), ("brk", 12, 214),
        ("madvise", 28, 233), ("mincore", 27, 232), ("msync", 26, 227), ("mlock", 149, 228), ("mlock2", 325, 284),
        ("munlock", 150, 229), ("mlockall", 151, 230), ("munlockall", 152, 231), ("remap_file_pages", 216, 234),
        ("pkey_alloc", 330, 289), ("pkey_free", 331, 290), ("pkey_mprotect", 329, 288), ("membarrier", 324, 283),
        ("mseal", 462, 462), ("map_shadow_stack", 453, 453), ("get_mempolicy", 239, 236),
    ]),
    group(Allow, "processes and threads of the own pid namespace", &[
        ("fork", 57, NO), ("vfork", 58, NO), ("execve", 59, 221), ("execveat", 322, 281), ("exit", 60, 93),
        ("exit_group", 231, 94), ("wait4", 61, 260), ("waitid", 247, 95), ("getpid", 39, 172),
        ("getppid", 110, 173), ("gettid", 186, 178), ("getpgid", 121, 155), ("getpgrp", 111, NO),
        ("getsid", 124, 156), ("setsid", 112, 157), ("setpgid", 109, 154), ("set_tid_address", 218, 96),
        ("set_robust_list", 273, 99), ("get_robust_list", 274, 100), ("rseq", 334, 293), ("arch_prctl", 158, NO),
        ("getcpu", 309, 168), ("restart_syscall", 219, 128), ("pidfd_open", 434, 434),
        ("pidfd_send_signal", 424, 424), ("kill", 62, 129), ("tkill", 200, 130), ("tgkill", 234, 131),
    ]),
    group(Allow, "debuggers and profilers; no process outside the envelope is visible", &[
        ("ptrace", 101, 117), ("process_vm_readv", 310, 270), ("process_vm_writev", 311, 271), ("kcmp", 312, 272),
        ("pidfd_getfd", 438, 438), ("process_madvise", 440, 440), ("process_mrelease", 448, 448),
    ]),
    group(Allow, "called by the kernel's own probe trampoline, which a refusal would crash", &[
        ("uretprobe", 335, NO), ("uprobe", 336, NO),
    ]),
    group(Allow, "identities; without capabilities the kernel lets a caller keep its own only", &[
        ("getuid", 102, 174), ("geteuid", 107, 175), ("getgid", 104, 176), ("getegid", 108, 177),
        ("getresuid", 118, 148), ("getresgid", 120, 150), ("setuid", 105, 146), ("setgid", 106, 144),
        ("setreuid", 113, 145), ("setregid", 114, 143), ("setresuid", 117, 147), ("setresgid", 119, 149),
        ("setfsuid", 122, 151), ("setfsgid", 123, 152), ("getgroups", 115, 158), ("setgroups", 116, 159),
        ("capget", 125, 90), ("capset", 126, 91),
    ]),
    group(Allow, "limits, priorities and scheduling within what the caller was given", &[
        ("getrlimit", 97, 163), ("setrlimit", 160, 164), ("prlimit64", 302, 261), ("getrusage", 98, 165),
        ("times", 100, 153), ("sysinfo", 99, 179), ("uname", 63, 160), ("getpriority", 140, 141),
        ("setpriority", 141, 140), ("ioprio_get", 252, 31), ("ioprio_set", 251, 30), ("sched_yield", 24, 124),
        ("sched_getaffinity", 204, 123), ("sched_setaffinity", 203, 122), ("sched_getscheduler", 145, 120),
        ("sched_setscheduler", 144, 119), ("sched_getparam", 143, 121), ("sched_setparam", 142, 118),
        ("sched_getattr", 315, 275), ("sched_setattr", 314, 274), ("sched_get_priority_max", 146, 125),
        ("sched_get_priority_min", 147, 126), ("sched_rr_get_interval", 148, 127),
    ]),
    group(Allow, "signals within the own pid namespace", &[
        ("rt_sigaction", 13, 134), ("rt_sigprocmask", 14, 135), ("rt_sigreturn", 15, 139),
        ("rt_sigpending", 127, 136), ("rt_sigsuspend", 130, 133), ("rt_sigtimedwait", 128, 137),
        ("rt_sigqueueinfo", 129, 138), ("rt_tgsigqueueinfo", 297, 240), ("sigaltstack", 131, 132),
        ("signalfd", 282, NO), ("signalfd4", 289, 74), ("pause", 34, NO),
    ]),
    group(Allow, "clocks that are read, timers of the caller", &[
        ("clock_gettime", 228, 113), ("clock_getres", 229, 114), ("clock_nanosleep", 230, 115),
        ("nanosleep", 35, 101), ("gettimeofday", 96, 169), ("time", 201, NO), ("alarm", 37, NO),
        ("getitimer", 36, 102), ("setitimer", 38, 103), ("timer_create", 222, 107), ("timer_settime", 223, 110),
        ("timer_gettime", 224, 108), ("timer_getoverrun", 225, 109), ("timer_delete", 226, 111),
        ("timerfd_create", 283, 85), ("timerfd_settime", 286, 86), ("timerfd_gettime", 287, 87),
    ]),
    group(Allow, "waiting for events and locks", &[
        ("poll", 7, NO), ("ppoll", 271, 73), ("select", 23, NO), ("pselect6", 270, 72), ("epoll_create", 213, NO),
        ("epoll_create1", 291, 20), ("epoll_ctl", 233, 21), ("epoll_wait", 232, NO), ("epoll_pwait", 281, 22),
        ("epoll_pwait2", 441, 441), ("eventfd", 284, NO), ("eventfd2", 290, 19), ("futex", 202, 98),
        ("futex_waitv", 449, 449), ("futex_wake", 454, 454), ("futex_wait", 455, 455), ("futex_requeue", 456, 456),
    ]),
    group(Allow, "System V IPC of the own ipc namespace, looked at after each command", &[
        ("shmget", 29, 194), ("shmat", 30, 196), ("shmdt", 67, 197), ("shmctl", 31, 195), ("semget", 64, 190),
        ("semop", 65, 193), ("semtimedop", 220, 192), ("semctl", 66, 191), ("msgget", 68, 186), ("msgsnd", 69, 189),
        ("msgrcv", 70, 188), ("msgctl", 71, 187),
    ]),
    group(Allow, "sockets that the socket rule let through", &[
        ("bind", 49, 200), ("connect", 42, 203), ("listen", 50, 201), ("accept", 43, 202), ("accept4", 288, 242),
        ("getsockname", 51, 204), ("getpeername", 52, 205), ("sendto", 44, 206), ("recvfrom", 45, 207),
        ("sendmsg", 46, 211), ("recvmsg", 47, 212), ("sendmmsg", 307, 269), ("recvmmsg", 299, 243),
        ("setsockopt", 54, 208), ("getsockopt", 55, 209), ("shutdown", 48, 210),
    ]),
    group(Allow, "random numbers", &[
        ("getrandom", 318, 278),
    ]),
    group(Allow, "a program may confine itself further", &[
        ("landlock_create_ruleset", 444, 444), ("landlock_add_rule", 445, 445),
        ("landlock_restrict_self", 446, 446),
    ]),
    group(Rule(&CLONE), "no new namespaces", &[
        ("clone", 56, 220),
    ]),
    group(Rule(&UNSHARE), "no new namespaces; sharing of files, directory and semaphores may end", &[
        ("unshare", 272, 97),
    ]),
    group(Rule(&SOCKET), "socket families and protocols that a network namespace confines", &[
        ("socket", 41, 198), ("socketpair", 53, 199),
    ]),
    group(Rule(&IOCTL), "no input pushed into terminals, no line disciplines, no change of project quota", &[
        ("ioctl", 16, 29),
    ]),
    group(Rule(&PERSONALITY), "personalities that keep executable protection", &[
        ("personality", 135, 92),
    ]),
    group(Rule(&PRCTL), "options of the caller itself that are known", &[
        ("prctl", 157, 167),
    ]),
    group(Rule(&SECCOMP), "a program may confine itself further, but not supervise others by notification", &[
        ("seccomp", 317, 277),
    ]),
    group(Rule(&MKNOD), "no device nodes", &[
        ("mknod", 133, NO),
    ]),
    group(Rule(&MKNODAT), "no device nodes", &[
        ("mknodat", 259, 33),
    ]),
    group(Rule(&MEMFD_CREATE), "memory files; with the kernel allowlist only ones that can never be executed", &[
        ("memfd_create", 319, 279),
    ]),
    group(Refuse(ENOSYS), "its flags lie in memory where a filter cannot see them; C libraries fall back to clone", &[
        ("clone3", 435, 435),
    ]),
    group(Refuse(ENOSYS), "takes memory out of the kernel's direct map, at the cost of the whole machine", &[
        ("memfd_secret", 447, 447),
    ]),
    group(Refuse(ENOSYS), "draws on a limit of the whole machine (fs.aio-max-nr); programs fall back to threads", &[
        ("io_setup", 206, 0), ("io_destroy", 207, 1), ("io_submit", 209, 2), ("io_cancel", 210, 3),
        ("io_getevents", 208, 4), ("io_pgetevents", 333, 292),
    ]),
    group(Refuse(ENOSYS), "a queue outlives its command and is visible in no file that the envelope mounts", &[
        ("mq_open", 240, 180), ("mq_unlink", 241, 181), ("mq_timedsend", 242, 182), ("mq_timedreceive", 243, 183),
        ("mq_notify", 244, 184), ("mq_getsetattr", 245, 185),
    ]),
    group(Refuse(ENOSYS), "tells which pages of shared system files others have read", &[
        ("cachestat", 451, 451),
    ]),
    group(Refuse(ENOSYS), "tells of mounts, namespaces and security modules; programs fall back to /proc", &[
        ("statmount", 457, 457), ("listmount", 458, 458), ("listns", 470, 470), ("lsm_get_self_attr", 459, 459),
        ("lsm_set_self_attr", 460, 460), ("lsm_list_modules", 461, 461),
    ]),
    group(Refuse(ENOSYS), "segments for 32-bit code, which is killed", &[
        ("modify_ldt", 154, NO), ("set_thread_area", 205, NO), ("get_thread_area", 211, NO),
    ]),
    group(Refuse(ENOSYS), "no kernel or no present kernel implements it", &[
        ("_sysctl", 156, NO), ("create_module", 174, NO), ("get_kernel_syms", 177, NO), ("query_module", 178, NO),
        ("nfsservctl", 180, 42), ("getpmsg", 181, NO), ("putpmsg", 182, NO), ("afs_syscall", 183, NO),
        ("tuxcall", 184, NO), ("security", 185, NO), ("vserver", 236, NO), ("epoll_ctl_old", 214, NO),
        ("epoll_wait_old", 215, NO), ("uselib", 134, NO), ("ustat", 136, NO), ("sysfs", 139, NO),
        ("lookup_dcookie", 212, 18),
    ]),
    group(Refuse(EPERM), "changes what is mounted or the root", &[
        ("mount", 165, 40), ("umount2", 166, 39), ("move_mount", 429, 429), ("open_tree", 428, 428),
        ("open_tree_attr", 467, 467), ("fsopen", 430, 430), ("fsconfig", 431, 431), ("fsmount", 432, 432),
        ("fspick", 433, 433), ("mount_setattr", 442, 442), ("pivot_root", 155, 41), ("chroot", 161, 51),
    ]),
    group(Refuse(EPERM), "enters another namespace", &[
        ("setns", 308, 268),
    ]),
    group(Refuse(EPERM), "runs programs in the kernel or reads its events", &[
        ("bpf", 321, 280), ("perf_event_open", 298, 241),
    ]),
    group(Refuse(EPERM), "works past this filter", &[
        ("io_uring_setup", 425, 425), ("io_uring_enter", 426, 426), ("io_uring_register", 427, 427),
    ]),
    group(Refuse(EPERM), "lets a program stop the kernel inside a copy, the usual aid of exploits", &[
        ("userfaultfd", 323, 282),
    ]),
    group(Refuse(EPERM), "gifts pages to pipes, with a long record of faults", &[
        ("vmsplice", 278, 75),
    ]),
    group(Refuse(EPERM), "key rings are not separated by namespaces", &[
        ("keyctl", 250, 219), ("add_key", 248, 217), ("request_key", 249, 218),
    ]),
    group(Refuse(EPERM), "opens files past directories and mounts", &[
        ("name_to_handle_at", 303, 264), ("open_by_handle_at", 304, 265),
    ]),
    group(Refuse(EPERM), "watches files of others", &[
        ("fanotify_init", 300, 262), ("fanotify_mark", 301, 263),
    ]),
    group(Refuse(EPERM), "leaves the project quota of the workspace", &[
        ("file_setattr", 469, 469), ("quotactl", 179, 60), ("quotactl_fd", 443, 443),
    ]),
    group(Refuse(EPERM), "places memory of the machine", &[
        ("mbind", 237, 235), ("set_mempolicy", 238, 237), ("set_mempolicy_home_node", 450, 450),
        ("migrate_pages", 256, 238), ("move_pages", 279, 239),
    ]),
    group(Refuse(EPERM), "sets or steers the clock of the machine", &[
        ("clock_settime", 227, 112), ("settimeofday", 164, 170), ("clock_adjtime", 305, 266),
        ("adjtimex", 159, 171),
    ]),
    group(Refuse(EPERM), "administers the machine", &[
        ("init_module", 175, 105), ("finit_module", 313, 273), ("delete_module", 176, 106),
        ("kexec_load", 246, 104), ("kexec_file_load", 320, 294), ("reboot", 169, 142), ("swapon", 167, 224),
        ("swapoff", 168, 225), ("acct", 163, 89), ("syslog", 103, 116), ("iopl", 172, NO), ("ioperm", 173, NO),
        ("vhangup", 153, 58), ("sethostname", 170, 161), ("setdomainname", 171, 162),
    ]),
];
