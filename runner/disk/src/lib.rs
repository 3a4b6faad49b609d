//! Workspaces on disk: ext4 images, or directories with a project quota, and the child of the runner that makes, mounts and
//! removes them.

#![cfg(target_os = "linux")]

mod image;
pub mod keeper;
mod quota;
pub mod store;
mod wipe;
pub mod work;
