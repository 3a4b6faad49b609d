//! The calls whose arguments decide. A rule is a list of clauses, the first whose conditions all hold decides.
//! The kernel reads each of these arguments as a 32-bit (or shorter) value, so the lower word is all there is.

use libc::{EACCES, EAFNOSUPPORT, EINVAL, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT};

/// A condition on the lower 32 bits of an argument (first field: its index).
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    /// `arg & mask == value`
    Masked(u8, u32, u32),
    /// `arg & mask != 0`
    AnyOf(u8, u32),
    /// `arg <= value`
    UpTo(u8, u32),
    /// `arg & mask` equals none of the values
    NoneOf(u8, u32, &'static [u32]),
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Errno(i32),
}

/// One line of a rule.
#[derive(Debug)]
pub struct Clause {
    pub when: &'static [Condition],
    pub verdict: Verdict,
    /// As the reference page words the conditions.
    #[cfg_attr(not(test), allow(dead_code))]
    pub why: &'static str,
}

/// The rule of one or two system calls.
#[derive(Debug)]
pub struct Rule {
    pub name: &'static str,
    pub clauses: &'static [Clause],
    pub otherwise: Verdict,
    /// In force only under `FilterOptions::memfd_noexec_only`; allowed otherwise.
    pub strict_only: bool,
}

use Condition::{AnyOf, Masked, NoneOf, UpTo};
use Verdict::{Allow, Errno};

pub(super) const ALL_BITS: u32 = u32::MAX;

const fn is(arg: u8, value: u32) -> Condition {
    Masked(arg, ALL_BITS, value)
}

pub(super) const fn clause(when: &'static [Condition], verdict: Verdict, why: &'static str) -> Clause {
    Clause { when, verdict, why }
}

pub(super) const fn rule(name: &'static str, clauses: &'static [Clause], otherwise: Verdict) -> Rule {
    Rule { name, clauses, otherwise, strict_only: false }
}

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
pub(super) const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// A flag of `unshare` only; in `clone` the bit belongs to the exit signal.
const CLONE_NEWTIME: u32 = 0x80;
const SOCKET_TYPE: u32 = 0xf;
const UNIX: u32 = libc::AF_UNIX as u32;
const INET: u32 = libc::AF_INET as u32;
const INET6: u32 = libc::AF_INET6 as u32;
const NETLINK: u32 = libc::AF_NETLINK as u32;

pub static CLONE: Rule =
    rule("clone", &[clause(&[AnyOf(0, NEW_NAMESPACES)], Errno(EPERM), "flags ask for a namespace")], Allow);

pub static UNSHARE: Rule = rule(
    "unshare",
    &[clause(&[AnyOf(0, NEW_NAMESPACES | CLONE_NEWTIME)], Errno(EPERM), "flags ask for a namespace")],
    Allow,
);

/// A protocol that is not listed can make the kernel load a module (SCTP, DCCP, L2TP, SMC, MPTCP).
pub static SOCKET: Rule = rule(
    "socket",
    &[
        clause(&[is(0, NETLINK), is(2, 0)], Allow, "NETLINK with protocol NETLINK_ROUTE"),
        clause(&[NoneOf(0, ALL_BITS, &[UNIX, INET, INET6])], Errno(EAFNOSUPPORT), "family is not UNIX, INET or INET6"),
        clause(&[Masked(1, SOCKET_TYPE, 3)], Errno(EPERM), "type RAW"),
        clause(&[Masked(1, SOCKET_TYPE, 10)], Errno(EPERM), "type PACKET"),
        clause(&[is(0, UNIX)], Allow, "UNIX"),
        clause(
            &[NoneOf(1, SOCKET_TYPE, &[1, 2])],
            Errno(ESOCKTNOSUPPORT),
            "INET or INET6 of a type that is not STREAM or DGRAM",
        ),
        clause(
            &[NoneOf(2, ALL_BITS, &[0, 1, 6, 17, 58])],
            Errno(EPROTONOSUPPORT),
            "a protocol that is not 0, ICMP, TCP, UDP or ICMPv6",
        ),
    ],
    Allow,
);

/// FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR can take a file out of the project quota of the workspace.
pub static IOCTL: Rule = rule(
    "ioctl",
    &[
        clause(&[is(1, 0x5412)], Errno(EPERM), "TIOCSTI pushes input into a terminal"),
        clause(&[is(1, 0x541c)], Errno(EPERM), "TIOCLINUX pastes into a console"),
        clause(&[is(1, 0x541d)], Errno(EPERM), "TIOCCONS redirects the console"),
        clause(&[is(1, 0x5423)], Errno(EPERM), "TIOCSETD loads line disciplines"),
        clause(&[is(1, 0x4008_6602)], Errno(EPERM), "FS_IOC_SETFLAGS"),
        clause(&[is(1, 0x401c_5820)], Errno(EPERM), "FS_IOC_FSSETXATTR"),
    ],
    Allow,
);

/// READ_IMPLIES_EXEC and the like would weaken the caller's own protections; debuggers need the bit
/// ADDR_NO_RANDOMIZE.
pub static PERSONALITY: Rule = rule(
    "personality",
    &[clause(
        &[NoneOf(0, ALL_BITS, &[0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0x4_0008, 0x6_0000, 0x6_0008, ALL_BITS])],
        Errno(EPERM),
        "not PER_LINUX or PER_LINUX32 with UNAME26, ADDR_NO_RANDOMIZE or neither, nor a query",
    )],
    Allow,
);

/// Options above 78 are not known to this table.
pub static PRCTL: Rule = rule(
    "prctl",
    &[
        clause(&[is(0, 35)], Errno(EPERM), "PR_SET_MM disguises a process"),
        clause(&[is(0, 57)], Errno(EPERM), "PR_SET_IO_FLUSHER takes memory reserves"),
        clause(&[is(0, 62)], Errno(EPERM), "PR_SCHED_CORE keeps processors idle"),
        clause(&[is(0, 67)], Errno(EPERM), "PR_SET_MEMORY_MERGE shares pages with others"),
        clause(&[UpTo(0, 78)], Allow, "other options up to 78 (PR_FUTEX_HASH)"),
        clause(
            &[NoneOf(0, ALL_BITS, &[0x5961_6d61, 0x5356_4d41, 0x4155_5856])],
            Errno(EINVAL),
            "not PR_SET_PTRACER, PR_SET_VMA or PR_GET_AUXV",
        ),
    ],
    Allow,
);

pub static SECCOMP: Rule = rule(
    "seccomp",
    &[
        clause(&[AnyOf(1, 0x8)], Errno(EPERM), "SECCOMP_FILTER_FLAG_NEW_LISTENER"),
        clause(&[UpTo(0, 3)], Allow, "operations up to SECCOMP_GET_NOTIF_SIZES"),
    ],
    Errno(EINVAL),
);

const FILE_TYPE: u32 = 0xf000;
/// Without a type, regular, FIFO, socket.
const HARMLESS_TYPES: &[u32] = &[0, 0x8000, 0x1000, 0xc000];

pub static MKNOD: Rule = rule(
    "mknod",
    &[clause(&[NoneOf(1, FILE_TYPE, HARMLESS_TYPES)], Errno(EPERM), "type is not regular, FIFO or socket")],
    Allow,
);

pub static MKNODAT: Rule = rule(
    "mknodat",
    &[clause(&[NoneOf(2, FILE_TYPE, HARMLESS_TYPES)], Errno(EPERM), "type is not regular, FIFO or socket")],
    Allow,
);

/// EACCES is what the kernel answers under `vm.memfd_noexec=2`.
pub static MEMFD_CREATE: Rule = Rule {
    name: "memfd_create",
    clauses: &[clause(&[AnyOf(1, 0x8)], Allow, "with MFD_NOEXEC_SEAL")],
    otherwise: Errno(EACCES),
    strict_only: true,
};

/// Every rule, in the order of the reference page.
pub static ALL: &[&Rule] =
    &[&CLONE, &UNSHARE, &SOCKET, &IOCTL, &PERSONALITY, &PRCTL, &SECCOMP, &MKNOD, &MKNODAT, &MEMFD_CREATE];
