//! The runner's loop: holds sandboxes as sets of kernel namespaces for clients on Unix sockets.
//!
//! It parses fixed binary frames, holds no credential beyond the frame that carries it, and never opens a path that a
//! sandbox controls. The isolation itself is in the crate `boxkite-envelope`.

#![cfg(target_os = "linux")]

pub mod server;
