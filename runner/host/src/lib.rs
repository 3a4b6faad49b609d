//! What a runner takes of the machine that it runs on, and gives back: control groups, ids, its user namespace, its
//! directory and workspaces on disk.

pub mod ceilings;
pub mod cgroup;
pub mod disk;
pub mod ids;
pub mod private_directory;
pub mod probe;
pub mod process;
pub mod service_ids;
pub mod state_directory;
pub mod user_namespace;
