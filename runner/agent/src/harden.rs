//! What the agent takes from itself before it touches a client or a file.

use crate::fail::Errno;
use crate::sys::check;

/// Descriptors that the agent may hold.
const MAX_DESCRIPTORS: u64 = 1024;

/// Blocks up to this size are reused instead of being mapped, and faulted in, anew each time.
const REUSED_BYTES: i32 = 2 << 20;

/// Before the first thread: not dumpable, no new privileges, bounded descriptors, exact file modes.
pub fn prepare() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 0)?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    check(|| unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } as i64)?;
    limit.rlim_max = limit.rlim_max.min(MAX_DESCRIPTORS);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is readable.
    check(|| unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } as i64)?;
    // SAFETY: neither call takes memory. Each mode that the agent sets is meant exactly; a file
    // that grows beyond a limit is an error of its call, no signal.
    unsafe {
        libc::umask(0);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, REUSED_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 * REUSED_BYTES);
    }
    Ok(())
}

fn prctl(option: i32, value: libc::c_ulong) -> Result<(), Errno> {
    let none: libc::c_ulong = 0;
    // SAFETY: these options take no memory.
    check(|| unsafe { libc::prctl(option, value, none, none, none) } as i64).map(drop)
}

/// Every system call that the agent makes once its threads run, by what needs it.
const ALLOWED: &[libc::c_long] = &[
    // memory of the allocator
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // locks, threads that wait, time
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    // an abort after a broken invariant
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // the epoll set and the sockets that the runner passes
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    // descriptors
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_ftruncate,
    // files and directories
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_flistxattr,
    libc::SYS_fremovexattr,
    libc::SYS_utimensat,
    // names that nobody can guess
    libc::SYS_getrandom,
    // watching
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];

const FCHMODAT2: libc::c_long = 452;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

// Offsets in `struct seccomp_data`: the number, the architecture, the low half of argument 2.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const PROTECTION_AT: u32 = 32;

/// After the last thread was started: an allow-list for all of them. Nothing can be executed, made
/// executable, connected, traced or forked from here on; what is not listed fails with EPERM.
pub fn lock_down() -> Result<(), Errno> {
    let mut program = filter();
    let header = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: `header` and the program it points to live through the call.
    let answer = check(|| unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const header) })?;
    // With TSYNC a positive answer is the thread that could not take the filter.
    if answer == 0 { Ok(()) } else { Err(Errno(libc::ESRCH)) }
}

fn filter() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut out = vec![
        op(LOAD, ARCHITECTURE_AT, 0, 0),
        op(EQUAL, ARCHITECTURE, 1, 0),
        op(ANSWER, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        op(LOAD, NUMBER_AT, 0, 0),
    ];
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        out.push(op(EQUAL, number as u32, 0, 4));
        out.push(op(LOAD, PROTECTION_AT, 0, 0));
        out.push(op(ANY_BIT, libc::PROT_EXEC as u32, 0, 1));
        out.push(op(ANSWER, deny, 0, 0));
        out.push(op(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    for &number in ALLOWED {
        out.push(op(EQUAL, number as u32, 0, 1));
        out.push(op(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    out.push(op(ANSWER, deny, 0, 0));
    out
}
