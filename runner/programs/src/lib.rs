//! Which files a list of programs needs as code: the programs, their interpreters and loaders, the libraries that these
//! load, and the shared objects of an interpreter's own module directories.
//!
//! It reads files of a root that nobody here vouches for, so it is run by a child without any privilege whose root
//! directory is that root. Nothing in it is `unsafe`, and every loop over what a file says is bounded.

#![forbid(unsafe_code)]

/// Debian's name of the architecture, in directories of libraries.
#[cfg(target_arch = "x86_64")]
macro_rules! triplet {
    () => {
        "x86_64-linux-gnu"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! triplet {
    () => {
        "aarch64-linux-gnu"
    };
}

mod elf;
mod files;
mod interpreters;
mod libraries;
mod loader_cache;
mod multi_call;
mod names;
mod plan;
mod script;

pub use plan::{Plan, plan};

use std::path::PathBuf;

/// Why a list can't be enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// One file that is many programs: whoever may execute it may execute them all.
    MultiCall = 1,
    /// It lies where an agent can put another file.
    WritableRoot = 2,
    /// No executable file, or one whose content can't be read or is no program.
    NotAProgram = 3,
    /// A script whose interpreter is not on the list.
    InterpreterNotListed = 4,
    /// A path that begins in the working directory.
    RelativePath = 5,
    /// More files than one list may need.
    TooMany = 6,
    /// A library that it is linked with is not there.
    LibraryMissing = 7,
}

impl Reason {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiCall => "multi_call",
            Self::WritableRoot => "writable_root",
            Self::NotAProgram => "not_a_program",
            Self::InterpreterNotListed => "interpreter_not_listed",
            Self::RelativePath => "relative_path",
            Self::TooMany => "too_many",
            Self::LibraryMissing => "library_missing",
        }
    }

    /// The reason of a number.
    pub fn of(number: u8) -> Option<Self> {
        use Reason::{
            InterpreterNotListed, LibraryMissing, MultiCall, NotAProgram, RelativePath, TooMany, WritableRoot,
        };
        [MultiCall, WritableRoot, NotAProgram, InterpreterNotListed, RelativePath, TooMany, LibraryMissing]
            .into_iter()
            .find(|reason| *reason as u8 == number)
    }
}

/// A list that can't be enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    /// The program, as the list names it.
    pub program: Vec<u8>,
    /// The interpreter or the library, where one is at fault.
    pub other: Vec<u8>,
}

impl Refusal {
    fn new(reason: Reason, program: &[u8]) -> Self {
        Self { reason, program: program.to_vec(), other: Vec::new() }
    }

    fn because_of(mut self, other: impl Into<Vec<u8>>) -> Self {
        self.other = other.into();
        self
    }
}

/// The most files that a list may need: each is a mount of every envelope.
const MOST_FILES: usize = 4096;

fn bytes_of(path: PathBuf) -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    path.into_os_string().into_vec()
}
