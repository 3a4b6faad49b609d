//! What the runner and its clients say to each other. Pure: no system call, no `unsafe`.

#![forbid(unsafe_code)]

pub mod effective;
pub mod frames;
