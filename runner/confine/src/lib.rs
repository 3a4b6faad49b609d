//! What a process can put around itself for ever: the filter of system calls and the fence of files.

#![cfg(target_os = "linux")]

pub mod landlock;
pub mod seccomp;
