//! The file agent: the unprivileged program that does all file work of one sandbox.
//!
//! It trusts nobody: not the client, not the files. What keeps its work inside the sandbox is the
//! mount namespace it runs in; no check on a string in this crate is a security boundary.
//! `docs/reference/file-agent-protocol.md` describes what it speaks.

pub mod call;
pub mod connection;
pub mod control;
pub mod executor;
pub mod fail;
pub mod frames;
pub mod harden;
pub mod ops;
pub mod outbox;
pub mod payload;
pub mod sys;
