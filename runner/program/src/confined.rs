//! `boxkite-runner confined`: becomes a program that has no network, no other process, no privilege, and, where the
//! kernel has Landlock, no file but those that are named, to read. It asks for no privilege, and executes nothing unless
//! all of that is in force.

use std::ffi::{CString, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use boxkite_confine::landlock::{self, Access, Rule, Step};
use boxkite_confine::seccomp::solitary;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;

/// Of what could not be confined or executed, as of `env` and its like.
const REFUSED: u8 = 125;
const DATA_BYTES: u64 = 2 << 30;
const CPU_SECONDS: u64 = 30;
const DESCRIPTORS: u64 = 512;

struct Arguments {
    /// What may be read, and what may be executed too. The first is the program.
    paths: Vec<(CString, Access)>,
    command: Vec<CString>,
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Arguments, &'static str> {
    let text = |word: OsString| CString::new(word.into_vec()).map_err(|_| "a word with a zero byte");
    let mut paths = Vec::new();
    loop {
        let word = arguments.next().ok_or("-- is missing")?;
        let access = match word.to_str() {
            Some("--") => break,
            Some("--read") => Access::Read,
            Some("--execute") => Access::ReadExecute,
            _ => return Err("--read PATH, --execute PATH or --"),
        };
        paths.push((text(arguments.next().ok_or("a path is missing")?)?, access));
    }
    let command = arguments.map(text).collect::<Result<Vec<_>, _>>()?;
    let program = command.first().ok_or("the program is missing")?;
    paths.insert(0, (program.clone(), Access::ReadExecute));
    if paths.iter().any(|(path, _)| !path.to_bytes().starts_with(b"/")) {
        return Err("a path that is not absolute");
    }
    Ok(Arguments { paths, command })
}

/// Does not return unless something failed.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let refusal = match parse(arguments) {
        Err(message) => format!("arguments: {message}"),
        Ok(arguments) => {
            let Err(broken) = confine(&arguments.paths).and_then(|()| execute(&arguments.command));
            format!("{}: {}", broken.step, std::io::Error::from_raw_os_error(broken.errno))
        }
    };
    // Standard error may be a file, which has no room under the limit: the status says it too.
    let _ = writeln!(std::io::stderr(), "boxkite-runner: confined: {refusal}");
    ExitCode::from(REFUSED)
}

fn confine(paths: &[(CString, Access)]) -> Result<(), Broken> {
    sys::close_range(3, u32::MAX, true).at("descriptors")?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at("no new privileges")?;
    drop_capabilities().at("capabilities")?;
    // Of all processes of this user the kernel is to take it first; a machine that has no such file takes what it likes.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    for (resource, most) in [
        // 1, not 0: a core_pattern that is a program ignores a limit of 0.
        (libc::RLIMIT_CORE, 1),
        (libc::RLIMIT_FSIZE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_CPU, CPU_SECONDS),
        (libc::RLIMIT_NOFILE, DESCRIPTORS),
        (libc::RLIMIT_DATA, DATA_BYTES),
    ] {
        sys::lower_limit(resource as _, most, most).at("limits")?;
    }
    fence(paths)?;
    // SAFETY: no effect but on this process. What Rust ignores the program may not want to; a file that can't grow is an
    // error where it is met.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    solitary::filter().load().at("filter of system calls")
}

/// Root would have all of them again in its next program, but for the bounding set.
fn drop_capabilities() -> Result<(), i32> {
    for capability in 0..64 {
        match sys::prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            // The kernel knows no more of them, or this process has none.
            Err(libc::EINVAL | libc::EPERM) => break,
            Err(errno) => return Err(errno),
        }
    }
    sys::set_capabilities(0)
}

/// A kernel without Landlock leaves files to their modes; nothing is written to them under the filter.
fn fence(paths: &[(CString, Access)]) -> Result<(), Broken> {
    if landlock::abi() == 0 {
        return Ok(());
    }
    let rules: Vec<_> = paths.iter().map(|(path, access)| Rule { path, access: *access }).collect();
    landlock::restrict(&rules).map_err(|(step, errno)| Broken {
        step: match step {
            Step::OpenPath(_) | Step::AddRule(_) => "Landlock: a path",
            _ => "Landlock",
        },
        errno,
    })
}

/// With no environment.
fn execute(command: &[CString]) -> Result<std::convert::Infallible, Broken> {
    let arguments: Vec<_> = command.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let environment = [std::ptr::null()];
    // SAFETY: both lists end with a null pointer, and their words are live.
    unsafe { libc::execve(arguments[0], arguments.as_ptr(), environment.as_ptr()) };
    Err(sys::errno()).at("program")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, &'static str> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_program_is_the_first_of_its_paths() {
        let arguments = parsed("--read /a --execute /b -- /c --read d").unwrap();
        let paths: Vec<_> = arguments.paths.iter().map(|(path, access)| (path.to_str().unwrap(), *access)).collect();
        assert_eq!(paths, [("/c", Access::ReadExecute), ("/a", Access::Read), ("/b", Access::ReadExecute)]);
        assert_eq!(arguments.command, [c"/c".into(), c"--read".into(), CString::from(c"d")]);
    }

    #[test]
    fn half_a_line_is_refused() {
        for line in
            ["", "--", "/c", "--read", "--read -- /c", "--read /a", "--write /a -- /c", "-- c", "--read a -- /c"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
