//! The shipped runner: no layer can be left out.

fn main() -> std::process::ExitCode {
    boxkite_program::run(std::env::args_os().skip(1), boxkite_program::Weakening::none())
}
