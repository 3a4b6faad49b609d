//! What a runner takes of the machine that it runs on, and gives back: control groups, ids, its user namespace and its
//! directory.

pub mod cgroup;
pub mod ids;
pub mod private_directory;
pub mod probe;
pub mod user_namespace;
