//! ARCHIVE_IN: a tar stream becomes files, all of them or none.
//!
//! Everything is made in a fresh directory with a name nobody can guess, each path walked name by
//! name without following links; then the directory is renamed or merged into place.

use super::merge::Merge;
use super::remove::remove_tree;
use super::rules::{self, Limits, Used};
use super::tar_format::{BLOCK, Extension, MAX_EXTENSION, Member, TarHeader, padding};
use super::target::Target;
use super::write::hidden_name;
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::Weight;
use crate::fail::{Code, Errno, Fail};
use crate::payload::Reader;
use crate::sys;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

const CREATE_PARENTS: u16 = 1;
const KEEP_EXISTING: u16 = 2;

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(CREATE_PARENTS | KEEP_EXISTING)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let limits = Limits::new(reader.u64()?, reader.u64()?, reader.u32()?)?;
    reader.finish()?;
    let place = Place::open(&path, flags.has(CREATE_PARENTS))?;
    let call = call.clone();
    let work = async move {
        let result = take_in(&call, &place, limits, flags.has(KEEP_EXISTING)).await;
        // What was not moved out is refused, or what it replaced: either way it goes.
        let cleaned = remove_tree(None, &place.dir, &place.hidden).await;
        let used = match (result, cleaned) {
            (Ok(used), Ok(_) | Err(Fail { code: Code::NotFound, .. })) => used,
            (Ok(_), Err(fail)) | (Err(fail), _) => return Err(fail),
        };
        let mut end = used.entries.to_le_bytes().to_vec();
        end.extend_from_slice(&used.bytes.to_le_bytes());
        Ok(end)
    };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}

/// Where the archive goes and where it is made first, on the same file system.
struct Place {
    /// Holds the hidden directory: the destination itself, or its parent when it does not exist.
    dir: OwnedFd,
    hidden: CString,
    /// The destination's name in `dir`, when it is to be made.
    new_name: Option<CString>,
}

impl Place {
    fn open(path: &CStr, parents: bool) -> Result<Place, Fail> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let (dir, new_name) = match sys::openat(sys::CWD, path, flags, 0) {
            Ok(dir) => (dir, None),
            Err(Errno(libc::ENOENT)) => {
                let bytes = path.to_bytes();
                let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
                let path = super::target::c_string(&bytes[..end])?;
                let target = Target::resolve(&path, false, parents)?;
                if target.existing.is_some() {
                    return Err(Errno(libc::EEXIST).into());
                }
                let dir = sys::openat(target.dir.as_raw_fd(), c".", flags, 0)?;
                (dir, Some(target.name))
            }
            Err(errno) => return Err(errno.into()),
        };
        let hidden = hidden_name()?;
        sys::mkdirat(dir.as_raw_fd(), &hidden, 0o755)?;
        Ok(Place { dir, hidden, new_name })
    }
}

async fn take_in(call: &Call, place: &Place, limits: Limits, keep: bool) -> Result<Used, Fail> {
    let root = sys::open_dir_at(place.dir.as_raw_fd(), &place.hidden)?;
    let mut extraction =
        Extraction { source: Source { call, chunk: Vec::new(), at: 0 }, root, limits, used: Used::default() };
    extraction.run().await?;
    call.check()?;
    let dir = place.dir.as_raw_fd();
    match &place.new_name {
        Some(name) => sys::rename((dir, &place.hidden), (dir, name), libc::RENAME_NOREPLACE)?,
        None => Merge::new(&extraction.root, &place.dir, keep).run()?,
    }
    Ok(extraction.used)
}

/// The client's stream, cut as the format needs it.
struct Source<'a> {
    call: &'a Call,
    chunk: Vec<u8>,
    at: usize,
}

impl Source<'_> {
    /// Up to `most` bytes, at least one; `None` at the end of the stream.
    async fn piece(&mut self, most: u64) -> Result<Option<&[u8]>, Fail> {
        while self.at == self.chunk.len() {
            let Some(chunk) = self.call.next_chunk().await? else { return Ok(None) };
            (self.chunk, self.at) = (chunk, 0);
        }
        let from = self.at;
        let count = most.min((self.chunk.len() - from) as u64) as usize;
        self.at += count;
        Ok(Some(&self.chunk[from..from + count]))
    }

    async fn exactly(&mut self, size: u64) -> Result<Vec<u8>, Fail> {
        let mut out = Vec::new();
        while (out.len() as u64) < size {
            let missing = size - out.len() as u64;
            let piece = self.piece(missing).await?;
            out.extend_from_slice(piece.ok_or_else(cut_off)?);
        }
        Ok(out)
    }

    async fn block(&mut self) -> Result<[u8; BLOCK], Fail> {
        let bytes = self.exactly(BLOCK as u64).await?;
        bytes.try_into().map_err(|_| cut_off())
    }
}

fn cut_off() -> Fail {
    Fail::new(Code::Refused, "the archive is cut off")
}

struct Extraction<'a> {
    source: Source<'a>,
    root: OwnedFd,
    limits: Limits,
    used: Used,
}

impl Extraction<'_> {
    async fn run(&mut self) -> Result<(), Fail> {
        let mut extension = Extension::default();
        let mut global = Extension::default();
        loop {
            let block = self.source.block().await?;
            let Some(mut header) = TarHeader::parse(&block)? else { break };
            match header.member {
                Member::LongName => extension.name = Some(self.long_text(header.size).await?),
                Member::LongLink => extension.link = Some(self.long_text(header.size).await?),
                Member::Extended | Member::Global => {
                    let bytes = self.extension_bytes(header.size).await?;
                    let read = Extension::parse(&bytes)?;
                    if header.member == Member::Global { global = read } else { extension = read }
                }
                _ => {
                    apply(&mut header, &global);
                    apply(&mut header, &std::mem::take(&mut extension));
                    settle(&mut header);
                    self.member(&header).await?;
                }
            }
        }
        // Behind the end may be anything; it is taken from the client and dropped.
        while self.source.piece(u64::MAX).await?.is_some() {}
        Ok(())
    }

    async fn long_text(&mut self, size: u64) -> Result<Vec<u8>, Fail> {
        let mut bytes = self.extension_bytes(size).await?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Ok(bytes)
    }

    async fn extension_bytes(&mut self, size: u64) -> Result<Vec<u8>, Fail> {
        if size > MAX_EXTENSION {
            return Err(Fail::new(Code::TooLarge, "a name or record that is too long"));
        }
        // Extensions count as entries, so that a stream of nothing else ends.
        self.used.add(0, &self.limits)?;
        let bytes = self.source.exactly(size).await?;
        self.source.exactly(padding(size) as u64).await?;
        Ok(bytes)
    }

    async fn member(&mut self, header: &TarHeader) -> Result<(), Fail> {
        let size = if header.member == Member::File { header.size } else { 0 };
        self.used.add(size, &self.limits)?;
        let names = rules::names(&header.name, &self.limits)?;
        let place = |fail: Fail| fail.at(&header.name);
        let Some((name, parents)) = names.split_last() else {
            return if header.member == Member::Directory {
                Ok(())
            } else {
                Err(Fail::new(Code::Refused, "a member without a name"))
            };
        };
        let dir = self.open_parents(parents).map_err(place)?;
        let dir = dir.as_raw_fd();
        match header.member {
            Member::Directory => make_directory(dir, name, header.mode).map_err(place),
            Member::SymbolicLink => {
                clear(dir, name).map_err(place)?;
                let target = super::target::c_string(&header.link)?;
                sys::symlinkat(&target, dir, name).map_err(|errno| place(errno.into()))
            }
            Member::HardLink => self.hard_link(&header.link, dir, name).map_err(place),
            _ => self.file(header, dir, name).await,
        }
    }

    async fn file(&mut self, header: &TarHeader, dir: RawFd, name: &CStr) -> Result<(), Fail> {
        clear(dir, name).map_err(|fail| fail.at(&header.name))?;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_NOFOLLOW;
        let file = sys::openat(dir, name, flags, rules::file_mode(header.mode))?;
        let mut left = header.size;
        while left > 0 {
            let piece = self.source.piece(left).await?.ok_or_else(cut_off)?;
            sys::write_all(file.as_raw_fd(), piece)?;
            left -= piece.len() as u64;
        }
        self.source.exactly(padding(header.size) as u64).await?;
        Ok(sys::set_mtime(file.as_raw_fd(), header.mtime)?)
    }

    /// A second name for a file that came earlier in the same archive, and for nothing else.
    fn hard_link(&self, link: &[u8], dir: RawFd, name: &CStr) -> Result<(), Fail> {
        let names = rules::names(link, &self.limits)?;
        let refused = || Fail::new(Code::Refused, "a hard link to what is not in the archive");
        let (target, parents) = names.split_last().ok_or_else(refused)?;
        let from = self.open_parents(parents)?;
        let stat = sys::fstatat(from.as_raw_fd(), target, false).map_err(|_| refused())?;
        if !stat.is_file() {
            return Err(refused());
        }
        match sys::linkat((from.as_raw_fd(), target), (dir, name), 0) {
            Err(Errno(libc::EEXIST)) => Err(Fail::new(Code::Refused, "a hard link over an earlier member")),
            other => Ok(other?),
        }
    }

    /// Opens the directory of a member, making what is missing; a link on the way is refused.
    fn open_parents(&self, names: &[CString]) -> Result<OwnedFd, Fail> {
        use std::os::fd::AsFd;
        let mut dir = sys::duplicate(self.root.as_fd())?;
        for name in names {
            dir = match sys::open_dir_at(dir.as_raw_fd(), name) {
                Err(Errno(libc::ENOENT)) => {
                    sys::mkdirat(dir.as_raw_fd(), name, 0o755)?;
                    sys::open_dir_at(dir.as_raw_fd(), name)?
                }
                Err(Errno(libc::ENOTDIR | libc::ELOOP)) => {
                    let message = "it would be written through a link or a file";
                    return Err(Fail::new(Code::Refused, message));
                }
                other => other?,
            };
        }
        Ok(dir)
    }
}

fn apply(header: &mut TarHeader, extension: &Extension) {
    if let Some(name) = &extension.name {
        header.name.clone_from(name);
    }
    if let Some(link) = &extension.link {
        header.link.clone_from(link);
    }
    header.size = extension.size.unwrap_or(header.size);
    header.mtime = extension.mtime.unwrap_or(header.mtime);
}

/// Old archives tell directories by the slash alone. That of the header may be where a longer name was cut.
fn settle(header: &mut TarHeader) {
    if header.member == Member::File && header.name.ends_with(b"/") {
        header.member = Member::Directory;
    }
}

fn make_directory(dir: RawFd, name: &CStr, mode: u32) -> Result<(), Fail> {
    let mode = rules::directory_mode(mode);
    match sys::mkdirat(dir, name, mode) {
        Err(Errno(libc::EEXIST)) => {}
        other => return Ok(other?),
    }
    match sys::open_dir_at(dir, name) {
        Ok(made) => Ok(sys::fchmod(made.as_raw_fd(), mode)?),
        Err(_) => Err(Fail::new(Code::Refused, "a directory over an earlier member")),
    }
}

/// Removes an earlier member of the same name; a directory is no earlier version of a file.
fn clear(dir: RawFd, name: &CStr) -> Result<(), Fail> {
    match sys::unlinkat(dir, name, false) {
        Ok(()) | Err(Errno(libc::ENOENT)) => Ok(()),
        Err(_) => Err(Fail::new(Code::Refused, "a file over an earlier directory")),
    }
}
