//! The isolation around a command: the root that it sees, the namespaces that it is in, the filter and the fence, and
//! the PID 1 that runs it. `maker` clones; `init` is what it clones.

pub mod init;
pub mod maker;
pub mod program_maker;
pub mod programs;
mod root;
pub mod weakening;
pub mod workspace;

pub use root::RootSource;
