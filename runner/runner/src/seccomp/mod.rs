//! The system calls that a command may make: an allow-list (`table`, `rules`) compiled to a seccomp
//! filter (`bpf`). Numbers that the table does not know get ENOSYS; foreign architectures and x32 are killed.

pub mod bpf;
pub mod rules;
pub mod table;
#[cfg(test)]
mod tests;

use std::fmt::Write;

pub use bpf::{Arch, Program};
use table::{Action, GROUPS, NO};

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

fn action_name(action: &Action) -> String {
    match action {
        Action::Allow => "allow".into(),
        Action::Refuse(errno) => bpf::errno_name(*errno).into(),
        Action::Rule(rule) => format!("rule:{}", rule.name),
    }
}

fn number_text(number: u16) -> String {
    if number == NO { "-".into() } else { number.to_string() }
}

/// The table as tab-separated text, sorted by name: name, number on x86_64 and aarch64 (`-`: there is none),
/// action (`allow`, an errno's name, or `rule:NAME`), reason. The security suite tries every line.
pub fn table_tsv() -> String {
    let mut lines: Vec<String> = Vec::new();
    for group in GROUPS {
        for &(name, x86_64, aarch64) in group.calls {
            let (x86_64, aarch64) = (number_text(x86_64), number_text(aarch64));
            lines.push(format!("{name}\t{x86_64}\t{aarch64}\t{}\t{}\n", action_name(&group.action), group.reason));
        }
    }
    lines.sort();
    format!("name\tx86_64\taarch64\taction\treason\n{}", lines.concat())
}

/// The table as the page `docs/reference/system-calls.md`.
pub fn table_markdown() -> String {
    let mut page = String::from(
        "# System calls of a command\n\n\
         A command may make the calls below that say *allow*; those with a *rule* depend on their arguments. \
         Every number that is not in this list gets `ENOSYS`. A call of a foreign architecture or of x32 kills the \
         process. This page is printed by `boxkite-runner system-calls`; `system-calls.tsv` has the numbers.\n\n\
         | action | system calls | reason |\n|---|---|---|\n",
    );
    for group in GROUPS {
        let names: Vec<&str> = group.calls.iter().map(|call| call.0).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {} | {} | {} |", action_name(&group.action), names.join(", "), group.reason);
    }
    page.push_str("\n## Rules\n\nThe first line that applies decides. Arguments count from 0; \
         only the lower 32 bits count, as in the kernel.\n");
    for rule in rules::ALL {
        let _ = writeln!(page, "\n### {}\n", rule.name);
        if rule.strict_only {
            page.push_str("Only where an allowlist is enforced by the kernel; otherwise allowed.\n\n");
        }
        for clause in rule.clauses {
            let _ = writeln!(page, "- {}: {}", clause.why, clause.verdict.name());
        }
        let _ = writeln!(page, "- otherwise: {}", rule.otherwise.name());
    }
    page
}
