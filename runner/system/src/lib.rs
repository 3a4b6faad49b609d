//! The kernel as the runner's crates see it: thin forms of system calls, the step that failed, forgetting.

pub mod step;
pub mod sys;
pub mod wipe;
