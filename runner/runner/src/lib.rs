//! The runner: holds sandboxes as sets of kernel namespaces for a client on a Unix socket.
//!
//! It parses fixed binary frames, holds no credential beyond the frame that carries it, and never opens a path that a
//! sandbox controls. `server` is its loop, `maker` clones, `init` is PID 1 of what is cloned.

#![cfg(target_os = "linux")]

pub mod cgroup;
pub mod effective;
pub mod frames;
pub mod ids;
pub mod init;
pub mod landlock;
pub mod maker;
mod private_directory;
pub mod probe;
mod root;
pub mod seccomp;
pub mod server;
mod start;
pub mod step;
pub mod sys;
mod user_namespace;
mod weakening;
mod wipe;
mod workspace;

pub use weakening::Weakening;

use std::process::ExitCode;

/// The whole life of a runner process with these arguments.
pub fn run(arguments: impl Iterator<Item = std::ffi::OsString>, weakening: Weakening) -> ExitCode {
    match start::Arguments::parse(arguments) {
        Err(message) => {
            eprintln!("boxkite-runner: arguments: {message} (errno {})", libc::EINVAL);
            ExitCode::from(2)
        }
        Ok(arguments) => match start::serve(&arguments, weakening) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("boxkite-runner: {}: {} (errno {})", failure.step, failure.detail, failure.errno);
                ExitCode::FAILURE
            }
        },
    }
}
