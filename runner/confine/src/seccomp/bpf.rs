//! Compiles the table to a seccomp program: a binary search over ranges of numbers with one outcome, so that
//! both the load (the kernel tries each number once for its cache) and every call cost few instructions.

use super::rules::{Condition, Rule, Verdict};
use super::{Action, Call, FilterOptions, calls};
use libc::sock_filter;

/// An architecture that a program can be assembled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// The one that this program is built for.
    pub const NATIVE: Arch = if cfg!(target_arch = "x86_64") {
        Arch::X86_64
    } else if cfg!(target_arch = "aarch64") {
        Arch::Aarch64
    } else {
        panic!("boxkite runs on x86_64 and aarch64")
    };

    /// Its AUDIT_ARCH_* value.
    pub const fn audit(self) -> u32 {
        match self {
            Arch::X86_64 => 0xc000_003e,
            Arch::Aarch64 => 0xc000_00b7,
        }
    }
}

/// A seccomp program, ready to be loaded any number of times.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<sock_filter>);

const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGS_AT: u32 = 16;

/// Set in the number of every x32 call.
const X32_BIT: u32 = 0x4000_0000;
/// A tracer that cancels a call sets its number to this one, which must not count as x32.
const CANCELLED: u32 = u32::MAX;

const fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn branch(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

const fn finish(verdict: Verdict) -> sock_filter {
    match verdict {
        Verdict::Allow => step(RETURN, libc::SECCOMP_RET_ALLOW),
        Verdict::Errno(errno) => step(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32),
    }
}

/// The outcome of all numbers from `first` to the next segment's `first`.
struct Segment {
    first: u32,
    action: Action,
}

fn same(left: &Action, right: &Action) -> bool {
    match (left, right) {
        (Action::Allow, Action::Allow) => true,
        (Action::Refuse(left), Action::Refuse(right)) => left == right,
        (Action::Rule(left), Action::Rule(right)) => std::ptr::eq(*left, *right),
        _ => false,
    }
}

/// What the table says of each number of `arch`.
fn outcomes(arch: Arch, options: FilterOptions) -> Vec<(u32, Action)> {
    let outcome = |call: Call| match (call.number(arch)?, call.action) {
        (number, Action::Rule(rule)) if rule.strict_only && !options.memfd_noexec_only => Some((number, Action::Allow)),
        known => Some(known),
    };
    calls().filter_map(outcome).collect()
}

fn segments(mut calls: Vec<(u32, Action)>) -> Vec<Segment> {
    calls.sort_by_key(|call| call.0);
    let unknown = Action::Refuse(libc::ENOSYS);
    let mut out = vec![Segment { first: 0, action: unknown }];
    let mut push = |first: u32, action: Action| match out.last_mut() {
        Some(last) if last.first == first => last.action = action,
        Some(last) if same(&last.action, &action) => {}
        _ => out.push(Segment { first, action }),
    };
    let mut next = 0;
    for (number, action) in calls {
        if number > next {
            push(next, unknown);
        }
        push(number, action);
        next = number + 1;
    }
    push(next, unknown);
    out
}

/// Appends the test of one condition; where it fails, the jump goes `rest` instructions past the test.
fn condition(out: &mut Vec<sock_filter>, condition: &Condition, rest: usize) {
    let load = |arg: u8| step(LOAD_WORD, ARGS_AT + 8 * u32::from(arg));
    let rest = jump_length(rest);
    match *condition {
        Condition::Masked(arg, mask, value) => {
            out.extend([load(arg), step(AND, mask), branch(IF_EQUAL, value, 0, rest)]);
        }
        Condition::AnyOf(arg, mask) => out.extend([load(arg), branch(IF_ANY_BIT, mask, 0, rest)]),
        Condition::UpTo(arg, value) => out.extend([load(arg), branch(IF_GREATER, value, rest, 0)]),
        Condition::NoneOf(arg, mask, values) => {
            out.extend([load(arg), step(AND, mask)]);
            for (index, value) in values.iter().enumerate() {
                let left = jump_length(values.len() - 1 - index);
                out.push(branch(IF_EQUAL, *value, rest + left, 0));
            }
        }
    }
}

/// Rules are constants of a few dozen instructions; one that outgrew a jump fails every test of this module.
fn jump_length(distance: usize) -> u8 {
    u8::try_from(distance).expect("a rule of the table is too long for a conditional jump")
}

fn condition_length(condition: &Condition) -> usize {
    match condition {
        Condition::Masked(..) => 3,
        Condition::AnyOf(..) | Condition::UpTo(..) => 2,
        Condition::NoneOf(_, _, values) => 2 + values.len(),
    }
}

fn rule_code(rule: &Rule) -> Vec<sock_filter> {
    let mut out = Vec::new();
    for clause in rule.clauses {
        for (index, test) in clause.when.iter().enumerate() {
            let following: usize = clause.when[index + 1..].iter().map(condition_length).sum();
            condition(&mut out, test, following + 1);
        }
        out.push(finish(clause.verdict));
    }
    out.push(finish(rule.otherwise));
    out
}

/// The search among `segments`; every path through it ends in a return.
fn search(segments: &[Segment]) -> Vec<sock_filter> {
    if let [only] = segments {
        return match only.action {
            Action::Allow => vec![finish(Verdict::Allow)],
            Action::Refuse(errno) => vec![finish(Verdict::Errno(errno))],
            Action::Rule(rule) => rule_code(rule),
        };
    }
    let (low, high) = segments.split_at(segments.len() / 2);
    let (below, above) = (search(low), search(high));
    let mut out = match u8::try_from(below.len()) {
        Ok(length) => vec![branch(IF_AT_LEAST, high[0].first, length, 0)],
        Err(_) => vec![branch(IF_AT_LEAST, high[0].first, 0, 1), step(JUMP, below.len() as u32)],
    };
    out.extend(below);
    out.extend(above);
    out
}

impl Program {
    /// The table as a program for `arch`.
    pub fn assemble(arch: Arch, options: FilterOptions) -> Program {
        Program::of(arch, outcomes(arch, options))
    }

    /// These outcomes of numbers of `arch` as a program; any other number gets ENOSYS.
    pub(super) fn of(arch: Arch, outcomes: Vec<(u32, Action)>) -> Program {
        let kill = step(RETURN, libc::SECCOMP_RET_KILL_PROCESS);
        let mut out =
            vec![step(LOAD_WORD, ARCH_AT), branch(IF_EQUAL, arch.audit(), 1, 0), kill, step(LOAD_WORD, NUMBER_AT)];
        if arch == Arch::X86_64 {
            out.extend([branch(IF_AT_LEAST, X32_BIT, 0, 2), branch(IF_EQUAL, CANCELLED, 1, 0), kill]);
        }
        out.extend(search(&segments(outcomes)));
        Program(out)
    }

    /// Puts the calling thread under the filter, for ever. The caller has set `no_new_privs`.
    /// For use after fork: it neither allocates nor locks. The error is an errno.
    pub fn load(&self) -> Result<(), i32> {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: `program` points to `len` instructions that outlive the call; the kernel only reads them.
        let done =
            unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0usize, &raw const program) };
        // SAFETY: errno of this thread, right after the failed call.
        if done == 0 { Ok(()) } else { Err(unsafe { *libc::__errno_location() }) }
    }
}
