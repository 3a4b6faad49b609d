//! Names the step that failed, from the deepest call up to the client.

use crate::sys::Errno;
use boxkite_wire::frames::{Code, Failure};

/// A failed step of a set-up and its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    pub step: &'static str,
    pub errno: Errno,
}

impl Broken {
    /// The protocol's form, under `code`.
    pub fn failure(self, code: Code) -> Failure {
        Failure::with(code, self.step, self.errno)
    }
}

/// Gives a call's errno the name of its step.
pub trait At<T> {
    /// `Err` carries `step`.
    fn at(self, step: &'static str) -> Result<T, Broken>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, step: &'static str) -> Result<T, Broken> {
        self.map_err(|errno| Broken { step, errno })
    }
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, step: &'static str) -> Result<T, Broken> {
        self.map_err(|error| Broken { step, errno: error.raw_os_error().unwrap_or(libc::EIO) })
    }
}
