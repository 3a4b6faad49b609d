//! The program `boxkite-runner`: what its command line makes of a process, and a runner's way from there to its loop.

#![cfg(target_os = "linux")]

mod arguments;
mod confined;
mod start;

pub use boxkite_envelope::weakening::Weakening;

use std::process::ExitCode;

/// The whole life of a process with these arguments: a runner, or what their first word makes of it.
pub fn run(arguments: impl Iterator<Item = std::ffi::OsString>, weakening: Weakening) -> ExitCode {
    let mut arguments = arguments.peekable();
    match arguments.peek().and_then(|word| word.to_str()) {
        Some(boxkite_supervise::WORD) => return boxkite_supervise::run(arguments.skip(1)),
        Some("confined") => return confined::run(arguments.skip(1)),
        Some("service-id") => return service_id(),
        _ => {}
    }
    match arguments::Arguments::parse(arguments) {
        Err(message) => {
            eprintln!("boxkite-runner: arguments: {message} (errno {})", libc::EINVAL);
            ExitCode::from(2)
        }
        Ok(arguments) => match start::serve(&arguments, weakening) {
            Ok(status) => ExitCode::from(status),
            Err(failure) => {
                eprintln!("boxkite-runner: {}: {} (errno {})", failure.step, failure.detail, failure.errno);
                ExitCode::FAILURE
            }
        },
    }
}

/// Prints an id that a daemon of root can have.
fn service_id() -> ExitCode {
    match boxkite_host::service_ids::choose() {
        Ok(id) => {
            println!("{id}");
            ExitCode::SUCCESS
        }
        Err(broken) => {
            let words = std::io::Error::from_raw_os_error(broken.errno);
            eprintln!("boxkite-runner: {}: {words}", broken.step);
            ExitCode::FAILURE
        }
    }
}
