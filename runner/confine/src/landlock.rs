//! Landlock: a second fence around the files of an envelope, beneath the mounts. What the kernel's version
//! does not know is left out by masking; the caller puts `abi()` into `effective`.

use std::ffi::CStr;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// The rights that a rule on something other than a directory may have.
const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// How many rights, from bit 0, each version handles (version 1 first; later ones add none to files).
const RIGHTS: [u32; 5] = [13, 14, 15, 15, 16];
/// Abstract unix sockets and signals, since version 6.
const SCOPES: u64 = 0b11;
const SCOPES_SINCE: u32 = 6;

/// `struct landlock_ruleset_attr`. A kernel that knows fewer fields takes it while the rest is zero.
#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

/// What a rule lets a command do beneath its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read files, list directories.
    Read,
    /// The same, and execute.
    ReadExecute,
    /// Everything but device nodes; files may move between all roots with this access.
    Full,
    /// Write to files that exist, and nothing else: /proc/self/comm and its like.
    WriteExisting,
    /// Write to and control device nodes that exist.
    Device,
}

impl Access {
    const fn bits(self) -> u64 {
        match self {
            Access::Read => READ_FILE | READ_DIR,
            Access::ReadExecute => READ_FILE | READ_DIR | EXECUTE,
            Access::Full => !(MAKE_CHAR | MAKE_BLOCK),
            Access::WriteExisting => WRITE_FILE | TRUNCATE,
            Access::Device => WRITE_FILE | IOCTL_DEV,
        }
    }
}

/// A path inside the envelope and the access beneath it; the accesses of nested rules add up.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    pub path: &'a CStr,
    pub access: Access,
}

const fn rule(path: &'static CStr, access: Access) -> Rule<'static> {
    Rule { path, access }
}

/// The rules of an ordinary command.
pub const STANDARD: &[Rule<'static>] = &[
    rule(c"/", Access::ReadExecute),
    rule(c"/workspace", Access::Full),
    rule(c"/tmp", Access::Full),
    rule(c"/mnt/user-data/outputs", Access::Full),
    rule(c"/dev/shm", Access::Full),
    rule(c"/dev/null", Access::Device),
    rule(c"/dev/zero", Access::Device),
    rule(c"/dev/full", Access::Device),
    rule(c"/dev/tty", Access::Device),
    rule(c"/dev/pts", Access::Device),
    rule(c"/proc", Access::WriteExisting),
];

/// The step of `restrict` that failed; `OpenPath` and `AddRule` with the index of their rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Version,
    CreateRuleset,
    OpenPath(usize),
    AddRule(usize),
    RestrictSelf,
}

fn errno() -> i32 {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

/// The kernel's Landlock version, 0 where there is none (not built, or not enabled at boot).
pub fn abi() -> u32 {
    // SAFETY: with this flag the kernel takes no attributes.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, CREATE_RULESET_VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Confines the calling thread and its future children to `rules`, for ever. The caller has set
/// `no_new_privs` and made all mounts: a confined thread can make none.
/// A rule whose path does not exist is skipped. For use after fork: it neither allocates nor locks.
pub fn restrict(rules: &[Rule<'_>]) -> Result<(), (Step, i32)> {
    let abi = abi();
    if abi == 0 {
        return Err((Step::Version, libc::EOPNOTSUPP));
    }
    let rights = RIGHTS[(abi as usize).min(RIGHTS.len()) - 1];
    enter(rules, (1u64 << rights) - 1, if abi >= SCOPES_SINCE { SCOPES } else { 0 })
}

/// Confines it further: of all files only those of `rules` can be executed. Whatever else it may do stays as it is.
pub fn restrict_execution(rules: &[Rule<'_>]) -> Result<(), (Step, i32)> {
    enter(rules, EXECUTE, 0)
}

fn enter(rules: &[Rule<'_>], handled: u64, scoped: u64) -> Result<(), (Step, i32)> {
    let attr = RulesetAttr { handled_access_fs: handled, handled_access_net: 0, scoped };
    // SAFETY: `attr` is a live struct of the size that is passed.
    let ruleset =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size_of::<RulesetAttr>(), 0u32) };
    if ruleset < 0 {
        return Err((Step::CreateRuleset, errno()));
    }
    let ruleset = ruleset as i32;
    let result = add_all(ruleset, rules, handled).and_then(|()| {
        // SAFETY: takes a descriptor and flags only.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0u32) };
        if done == 0 { Ok(()) } else { Err((Step::RestrictSelf, errno())) }
    });
    // SAFETY: `ruleset` is open and owned by this function.
    unsafe { libc::close(ruleset) };
    result
}

fn add_all(ruleset: i32, rules: &[Rule<'_>], handled: u64) -> Result<(), (Step, i32)> {
    for (index, rule) in rules.iter().enumerate() {
        // SAFETY: `path` is a NUL-terminated string.
        let fd = unsafe { libc::open(rule.path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        if fd < 0 {
            match errno() {
                libc::ENOENT => continue,
                error => return Err((Step::OpenPath(index), error)),
            }
        }
        let added = add(ruleset, fd, rule.access.bits() & handled);
        // SAFETY: `fd` was opened above and is used no more.
        unsafe { libc::close(fd) };
        added.map_err(|error| (Step::AddRule(index), error))?;
    }
    Ok(())
}

fn add(ruleset: i32, fd: i32, access: u64) -> Result<(), i32> {
    // SAFETY: all-zero bytes are a valid `stat`, which the call fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `fd` is open and `stat` is writable.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
        return Err(errno());
    }
    let directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let access = if directory { access } else { access & OF_A_FILE };
    if access == 0 {
        return Ok(());
    }
    let attr = PathBeneathAttr { allowed_access: access, parent_fd: fd };
    // SAFETY: `attr` is a live struct of the type that the rule type asks for.
    let done = unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &raw const attr, 0u32) };
    if done == 0 { Ok(()) } else { Err(errno()) }
}

#[cfg(test)]
mod tests;
