//! The unprivileged parent of the daemon's Node process: it starts Node and starts it again, and holds what must outlive
//! it, listening sockets and opaque blobs.
//!
//! `service` is the runner's side: it forks this process and takes every privilege from it. All else is this process's
//! own: `arguments`, `listeners`, `node` (the child), `store` and `control` (the blobs), `daemon` (the loop).

#![cfg(target_os = "linux")]

mod arguments;
mod control;
mod daemon;
mod listeners;
mod node;
pub mod service;
mod store;

pub use listeners::Listener;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The first word of the command line that makes the program this process.
pub const WORD: &str = "supervise";

/// Never served: a wrong command line, an address that can't be had, a program that can't be executed.
const NEVER_SERVED: u8 = 2;

/// A line for people. A standard error that is gone is no reason to end.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "boxkite-runner supervise: {line}");
}

/// The whole life of a supervise process with these arguments, the word itself left out.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let ended = arguments::Arguments::parse(arguments)
        .map_err(|message| format!("arguments: {message}"))
        .and_then(|arguments| daemon::serve(&arguments));
    ExitCode::from(ended.unwrap_or_else(|message| {
        say(&message);
        NEVER_SERVED
    }))
}
