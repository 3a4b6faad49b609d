//! The system calls that a command may make: an allow-list (`system-calls.tsv`, `rules`) compiled to a seccomp
//! filter (`bpf`). Numbers that the list does not know get ENOSYS; foreign architectures and x32 are killed.

pub mod bpf;
pub mod rules;
pub mod solitary;
#[cfg(test)]
mod tests;

pub use bpf::{Arch, Program};
use rules::Rule;

/// What differs from one filter to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// `memfd_create` passes only with MFD_NOEXEC_SEAL: for an allowlist that the kernel enforces where
    /// `vm.memfd_noexec` can't be written.
    pub memfd_noexec_only: bool,
}

/// The filter of commands for the architecture that this program is built for.
pub fn command_filter(options: FilterOptions) -> Program {
    Program::assemble(Arch::NATIVE, options)
}

/// What becomes of a call. A refusal is ENOSYS where programs then use something else, EOPNOTSUPP where they go without it,
/// otherwise EPERM.
#[derive(Clone, Copy, Debug)]
enum Action {
    Allow,
    Refuse(i32),
    Rule(&'static Rule),
}

/// Every system call of kernel 6.18, a line each: name, number on x86_64 and on aarch64 (`-`: it has none),
/// action (`allow`, an errno, `rule:NAME`), reason. A newer kernel's calls are not in it and get ENOSYS.
const TABLE: &str = include_str!("system-calls.tsv");

/// One line of the table. A line that can't be read is no entry, so that its call is refused; a test
/// keeps the table free of such lines.
struct Call {
    name: &'static str,
    numbers: [Option<u32>; 2],
    action: Action,
}

impl Call {
    fn number(&self, arch: Arch) -> Option<u32> {
        self.numbers[arch as usize]
    }
}

fn calls() -> impl Iterator<Item = Call> {
    TABLE.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        let name = fields.next()?;
        let numbers = [fields.next()?.parse().ok(), fields.next()?.parse().ok()];
        let action = match fields.next()? {
            "allow" => Action::Allow,
            "ENOSYS" => Action::Refuse(libc::ENOSYS),
            "EOPNOTSUPP" => Action::Refuse(libc::EOPNOTSUPP),
            "EPERM" => Action::Refuse(libc::EPERM),
            rule => {
                let rule = rule.strip_prefix("rule:")?;
                Action::Rule(rules::ALL.iter().find(|known| known.name == rule)?)
            }
        };
        Some(Call { name, numbers, action })
    })
}
