//! The operations. Each module parses its own request and answers it.

mod archive_in;
mod archive_out;
pub mod descent;
mod hash;
mod list;
pub mod merge;
mod read;
mod remove;
pub mod rules;
mod search;
mod simple;
pub mod tar_format;
pub mod target;
mod walk;
mod walker;
mod watch;
mod write;

use crate::call::Call;
use crate::executor::Weight;
use crate::fail::{Code, Fail};
use crate::frames::{self, Header, kind};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The rest of a call: ends with the payload of its END frame.
pub type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, Fail>> + Send>>;

/// What starting a call led to.
pub enum Started {
    /// It is over; these are its frames, the END or ERROR included.
    Answered(Vec<u8>),
    /// It goes on as a task.
    Task(Weight, Work),
}

/// Starts the call that a request frame describes. A failure with `Code::Protocol` ends the connection.
pub fn start(call: &Arc<Call>, header: Header, payload: &[u8]) -> Result<Started, Fail> {
    let flags = Flags(header.flags);
    let answered = |result: Vec<u8>| Ok(Started::Answered(frames::frame(kind::END, call.id, &result)));
    match header.kind {
        kind::STAT => answered(simple::stat(flags, payload)?),
        kind::MKDIR => answered(simple::mkdir(flags, payload)?),
        kind::RENAME => answered(simple::rename(flags, payload)?),
        kind::CHMOD => answered(simple::chmod(flags, payload)?),
        kind::SYMLINK => answered(simple::symlink(flags, payload)?),
        kind::READ => read::start(call, flags, payload),
        kind::WRITE => write::start(call, flags, payload),
        kind::LIST => list::start(call, flags, payload),
        kind::REMOVE => remove::start(call, flags, payload),
        kind::WALK => walk::start(call, flags, payload),
        kind::SEARCH => search::start(call, flags, payload),
        kind::WATCH => watch::start(call, flags, payload),
        kind::ARCHIVE_IN => archive_in::start(call, flags, payload),
        kind::ARCHIVE_OUT => archive_out::start(call, flags, payload),
        kind::HASH => hash::start(call, flags, payload),
        _ => Err(Fail::protocol("unknown request")),
    }
}

/// The flag bits of a request.
#[derive(Clone, Copy)]
pub struct Flags(u16);

impl Flags {
    /// Refuses bits that the operation does not know: no option is accepted and ignored.
    pub fn only(self, known: u16) -> Result<Flags, Fail> {
        if self.0 & !known == 0 {
            Ok(self)
        } else {
            Err(Fail::new(Code::Invalid, "a flag that this operation does not know"))
        }
    }

    pub fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// Refuses modes with more than the nine permission bits: setuid, setgid and sticky are never set.
pub fn plain_mode(mode: u32) -> Result<u32, Fail> {
    if mode & !0o777 == 0 { Ok(mode) } else { Err(Fail::invalid("the mode has more than rwxrwxrwx")) }
}
