//! The runner: holds sandboxes as sets of kernel namespaces for a client on a Unix socket.
//!
//! It parses fixed binary frames, holds no credential beyond the frame that carries it, and never opens a path that a
//! sandbox controls. `start` sets up, `server` is the loop; the isolation itself is in the crate `boxkite-envelope`.

#![cfg(target_os = "linux")]

mod server;
mod start;

pub use boxkite_envelope::weakening::Weakening;

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
