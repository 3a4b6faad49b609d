//! The weakened twin: shows that the tests notice a missing layer. Never bundled or installed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let mut layers = String::new();
    if let Some(at) = args.iter().position(|arg| arg == "--weaken").filter(|at| at + 1 < args.len()) {
        layers = args[at + 1].to_string_lossy().into_owned();
        args.drain(at..at + 2);
    }
    match boxkite_program::Weakening::parse(&layers) {
        Ok(weakening) => boxkite_program::run(args.into_iter(), weakening),
        Err(unknown) => {
            eprintln!("runner-weakened: unknown layer {unknown}");
            ExitCode::from(2)
        }
    }
}
