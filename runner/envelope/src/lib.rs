//! The isolation around a command: the root that it sees, the namespaces that it is in, the filter and the fence, and
//! the PID 1 that runs it. `maker` clones; `init` is what it clones.

pub mod init;
pub mod landlock;
pub mod maker;
mod root;
pub mod seccomp;
pub mod weakening;
pub mod workspace;

pub use root::RootSource;
