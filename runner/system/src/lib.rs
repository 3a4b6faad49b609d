//! The kernel as the runner's crates see it: thin forms of system calls, the ring that keeps output, the step that
//! failed, forgetting.

pub mod connection;
pub mod inherit;
pub mod input;
pub mod poll;
pub mod spool;
pub mod step;
pub mod stream;
pub mod sys;
pub mod timers;
pub mod wipe;
