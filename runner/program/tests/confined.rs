//! `boxkite-runner confined`, from inside: this test program runs itself under it.

use std::process::{Command, Output};

const RUNNER: &str = env!("CARGO_BIN_EXE_boxkite-runner");

fn confined(arguments: &[&str]) -> Output {
    Command::new(RUNNER).arg("confined").args(arguments).output().unwrap()
}

/// A word that no test has for its name; with it a test is under the confinement.
const INSIDE: &str = "inside-the-confinement";

fn is_inside() -> bool {
    std::env::args().any(|word| word == INSIDE)
}

/// Runs one test of this program under the confinement.
fn run_inside(name: &str, executed: &[&str]) -> Output {
    let itself = std::env::current_exe().unwrap();
    let mut arguments: Vec<_> = executed.iter().flat_map(|path| ["--execute", path]).collect();
    arguments.extend(["--", itself.to_str().unwrap(), "--exact", name, INSIDE, "--nocapture"]);
    confined(&arguments)
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

#[test]
fn it_is_alone() {
    if is_inside() {
        return inside();
    }
    let output = run_inside("it_is_alone", &["/lib", "/lib64", "/usr/lib"]);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

fn inside() {
    let call = |name: &str, number: i64, args: [i64; 4], expected: i32| {
        // SAFETY: every pointer that is passed is null or of a constant that lives as long as the program.
        let result = unsafe { libc::syscall(number, args[0], args[1], args[2], args[3]) };
        assert_eq!((result, errno()), (-1, expected), "{name}");
    };
    let shell = c"/bin/sh".as_ptr() as i64;
    let at = i64::from(libc::AT_FDCWD);
    // SAFETY: takes nothing.
    let parent = i64::from(unsafe { libc::getppid() });
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_VSOCK, libc::AF_ALG] {
        call("socket", libc::SYS_socket, [i64::from(family), 1, 0, 0], libc::EPERM);
    }
    call("sendmsg", libc::SYS_sendmsg, [0, 0, 0, 0], libc::EPERM);
    call("clone", libc::SYS_clone, [i64::from(libc::SIGCHLD), 0, 0, 0], libc::EPERM);
    call("clone3", libc::SYS_clone3, [0; 4], libc::ENOSYS);
    call("unshare", libc::SYS_unshare, [i64::from(libc::CLONE_NEWUSER), 0, 0, 0], libc::EPERM);
    call("setns", libc::SYS_setns, [0; 4], libc::EPERM);
    call("ptrace", libc::SYS_ptrace, [16, parent, 0, 0], libc::EPERM);
    call("kill", libc::SYS_kill, [parent, 9, 0, 0], libc::EPERM);
    call("prlimit64", libc::SYS_prlimit64, [parent, 7, 0, 0], libc::EPERM);
    call("fcntl F_SETOWN", libc::SYS_fcntl, [0, 8, parent, 0], libc::EPERM);
    call("mount", libc::SYS_mount, [0; 4], libc::EPERM);
    call("bpf", libc::SYS_bpf, [0; 4], libc::EPERM);
    call("io_uring_setup", libc::SYS_io_uring_setup, [0; 4], libc::EPERM);
    call("userfaultfd", libc::SYS_userfaultfd, [0; 4], libc::EPERM);
    call("keyctl", libc::SYS_keyctl, [0; 4], libc::EPERM);
    call("perf_event_open", libc::SYS_perf_event_open, [0; 4], libc::EPERM);
    call("execveat", libc::SYS_execveat, [at, shell, 0, 0], libc::EPERM);
    call("openat to write", libc::SYS_openat, [at, c"/dev/null".as_ptr() as i64, 1, 0], libc::EPERM);
    if boxkite_confine::landlock::abi() > 0 {
        call("execve", libc::SYS_execve, [shell, 0, 0, 0], libc::EACCES);
        call("openat", libc::SYS_openat, [at, c"/etc/passwd".as_ptr() as i64, 0, 0], libc::EACCES);
    }
    // SAFETY: as above.
    let own = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
    assert_eq!(own, 1);
    assert!(std::env::vars_os().next().is_none());
    std::thread::spawn(|| {}).join().unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_foreign_architecture_is_killed() {
    use std::os::unix::process::ExitStatusExt;
    if is_inside() {
        // SAFETY: getpid of x32 takes nothing.
        unsafe { libc::syscall(0x4000_0000 + libc::SYS_getpid) };
        return;
    }
    let output = run_inside("a_foreign_architecture_is_killed", &["/"]);
    assert_eq!(output.status.signal(), Some(libc::SIGSYS));
}

/// Under the limit of file sizes nothing can be said to a file.
#[test]
fn what_can_not_be_said_is_the_status() {
    let path = std::env::temp_dir().join(format!("boxkite-confined-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    let status = Command::new(RUNNER).args(["confined", "--", "/nowhere"]).stderr(file).status().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(status.code(), Some(125));
}

#[test]
fn what_can_not_be_done_is_said() {
    for (line, named) in [
        (&["--", "/nowhere"][..], "program: No such file"),
        (&["--", "relative"][..], "not absolute"),
        (&["--", "/etc/passwd"][..], "program: Permission denied"),
        (&["/bin/true"][..], "arguments"),
    ] {
        let output = confined(line);
        assert_eq!(output.status.code(), Some(125), "{line:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.starts_with("boxkite-runner: confined: ") && text.contains(named), "{line:?}: {text}");
    }
}
