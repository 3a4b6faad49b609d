//! Frames: the 12-byte header and the numbers of the protocol.

use crate::fail::Fail;

/// The only version of the protocol.
pub const VERSION: u8 = 1;
/// Bytes of a frame header.
pub const HEADER: usize = 12;
/// The largest payload of any frame, in bytes.
pub const MAX_PAYLOAD: usize = (1 << 20) + (64 << 10);
/// The largest payload of a DATA frame that the agent sends, in bytes.
pub const DATA_CHUNK: usize = 256 << 10;
/// Stream bytes that the agent may send on a call before the first CREDIT.
pub const INITIAL_WINDOW: u64 = 4 << 20;
/// Stream bytes that the client may send on a call before the first GRANT.
pub const INITIAL_GRANT: u64 = 1 << 20;
/// No call's unspent credit may exceed this, in bytes.
pub const MAX_WINDOW: u64 = 64 << 20;
/// Open calls of one connection.
pub const MAX_CALLS: usize = 256;

/// Frame types. Below 0x40: requests. 0x40 to 0x7f: from the client on an open call. From 0x80: answers.
pub mod kind {
    pub const STAT: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const WRITE: u8 = 0x03;
    pub const LIST: u8 = 0x04;
    pub const MKDIR: u8 = 0x05;
    pub const REMOVE: u8 = 0x06;
    pub const RENAME: u8 = 0x07;
    pub const CHMOD: u8 = 0x08;
    pub const SYMLINK: u8 = 0x09;
    pub const WALK: u8 = 0x0a;
    pub const SEARCH: u8 = 0x0b;
    pub const WATCH: u8 = 0x0c;
    pub const ARCHIVE_IN: u8 = 0x0d;
    pub const ARCHIVE_OUT: u8 = 0x0e;
    pub const HASH: u8 = 0x0f;
    pub const LAST_REQUEST: u8 = HASH;
    pub const SENT: u8 = 0x40;
    pub const COMMIT: u8 = 0x41;
    pub const CREDIT: u8 = 0x42;
    pub const CANCEL: u8 = 0x43;
    pub const META: u8 = 0x80;
    pub const DATA: u8 = 0x81;
    pub const BATCH: u8 = 0x82;
    pub const GRANT: u8 = 0x83;
    pub const END: u8 = 0x84;
    pub const ERROR: u8 = 0x85;
}

/// The header of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub length: usize,
    pub kind: u8,
    pub flags: u16,
    pub id: u32,
}

impl Header {
    /// Reads a header; a wrong version or a length above the limit is a broken protocol.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Header, Fail> {
        let [a, b, c, d, version, kind, e, f, g, h, i, j] = *bytes;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if version != VERSION {
            return Err(Fail::protocol("unknown protocol version"));
        }
        if length > MAX_PAYLOAD {
            return Err(Fail::protocol("the frame is too long"));
        }
        Ok(Header { length, kind, flags: u16::from_le_bytes([e, f]), id: u32::from_le_bytes([g, h, i, j]) })
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0u8; HEADER];
        out[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        out[4] = VERSION;
        out[5] = self.kind;
        out[6..8].copy_from_slice(&self.flags.to_le_bytes());
        out[8..].copy_from_slice(&self.id.to_le_bytes());
        out
    }
}

/// Appends one whole frame to `out`.
pub fn append(out: &mut Vec<u8>, kind: u8, id: u32, payload: &[u8]) {
    let header = Header { length: payload.len(), kind, flags: 0, id };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
}

/// One whole frame.
pub fn frame(kind: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    append(&mut out, kind, id, payload);
    out
}

/// The ERROR frame of a failure: code, number, words.
pub fn error(id: u32, fail: &Fail) -> Vec<u8> {
    let mut payload = Vec::with_capacity(10 + fail.message.len());
    payload.extend_from_slice(&(fail.code as u16).to_le_bytes());
    payload.extend_from_slice(&fail.errno.to_le_bytes());
    crate::payload::put_bytes(&mut payload, fail.message.as_bytes());
    frame(kind::ERROR, id, &payload)
}
