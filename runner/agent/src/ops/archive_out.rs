//! ARCHIVE_OUT: a tree as a tar stream in GNU format.

use super::read::open_file;
use super::tar_format::{BLOCK, Member, TarHeader, pad, put_member};
use super::walker::{Filter, Item, Tree, Walker, open_tree};
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::Weight;
use crate::fail::{Code, Errno, Fail};
use crate::frames::{DATA_CHUNK, kind};
use crate::payload::Reader;
use crate::sys::{self, FileKind, Stat};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

const PIECE: usize = 64 << 10;

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    flags.only(0)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let filter = Filter::read(&mut reader, true, false, None)?;
    reader.finish()?;
    let tree = open_tree(&path)?;
    let call = call.clone();
    let work = async move {
        let mut archive = Archive { call: &call, out: Vec::new(), counts: Counts::default() };
        archive.run(tree, filter).await?;
        let Counts { entries, bytes, skipped, changed } = archive.counts;
        Ok([entries, bytes, skipped, changed].iter().flat_map(|n| n.to_le_bytes()).collect())
    };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}

#[derive(Default)]
struct Counts {
    entries: u64,
    bytes: u64,
    /// What could not be read, and what no archive carries: pipes, sockets, devices.
    skipped: u64,
    /// Files that became shorter while they were read; the rest of each is zeros.
    changed: u64,
}

struct Archive<'a> {
    call: &'a Call,
    out: Vec<u8>,
    counts: Counts,
}

impl Archive<'_> {
    async fn run(&mut self, tree: Tree, filter: Filter) -> Result<(), Fail> {
        match tree {
            Tree::File(file, stat, name) => self.file(&file, &stat, name.to_bytes()).await?,
            Tree::Directory(dir) => {
                let mut walker = Walker::new(dir, filter, b"")?;
                while let Some(item) = walker.next()? {
                    self.call.check()?;
                    if walker.filter().includes(walker.path()) {
                        self.item(&item, walker.path()).await?;
                    }
                }
                self.counts.skipped += walker.skipped;
            }
        }
        self.out.resize(self.out.len() + 2 * BLOCK, 0);
        self.flush(0).await
    }

    async fn item(&mut self, item: &Item, path: &[u8]) -> Result<(), Fail> {
        match item.kind {
            FileKind::File => match open_file(item.dir, &item.name, libc::O_NOFOLLOW) {
                Ok((file, stat)) => self.file(&file, &stat, path).await?,
                Err(fail) if fail.code == Code::Limit => return Err(fail),
                Err(_) => self.counts.skipped += 1,
            },
            FileKind::Directory => {
                let Some(stat) = item.stat()? else { return Ok(()) };
                self.member(Member::Directory, &stat, [path, b"/"].concat(), Vec::new(), 0);
            }
            FileKind::Link => match sys::readlinkat(item.dir, &item.name) {
                Ok(target) => {
                    let Some(stat) = item.stat()? else { return Ok(()) };
                    let target = target.into_bytes();
                    self.member(Member::SymbolicLink, &stat, path.to_vec(), target, 0);
                }
                Err(Errno(libc::ENOENT | libc::EINVAL)) => {}
                Err(errno) => return Err(errno.into()),
            },
            _ => self.counts.skipped += 1,
        }
        self.flush(DATA_CHUNK).await
    }

    fn member(&mut self, member: Member, stat: &Stat, name: Vec<u8>, link: Vec<u8>, size: u64) {
        self.counts.entries += 1;
        let mode = stat.permissions() & 0o777;
        let header = TarHeader { member, name, link, mode, size, mtime: stat.mtime_seconds() };
        put_member(&mut self.out, &header);
    }

    async fn file(&mut self, file: &OwnedFd, stat: &Stat, path: &[u8]) -> Result<(), Fail> {
        let size = stat.size();
        self.member(Member::File, stat, path.to_vec(), Vec::new(), size);
        let mut at = 0u64;
        while at < size {
            let from = self.out.len();
            let want = (size - at).min(PIECE as u64) as usize;
            self.out.resize(from + want, 0);
            let count = sys::pread(file.as_raw_fd(), &mut self.out[from..], at)?;
            self.out.truncate(from + count);
            if count == 0 {
                self.counts.changed += 1;
                self.fill(size - at).await?;
                break;
            }
            at += count as u64;
            self.flush(DATA_CHUNK).await?;
        }
        self.counts.bytes += size;
        pad(&mut self.out, size);
        Ok(())
    }

    /// The header promised more than the file still has.
    async fn fill(&mut self, mut missing: u64) -> Result<(), Fail> {
        while missing > 0 {
            let count = missing.min(PIECE as u64) as usize;
            self.out.resize(self.out.len() + count, 0);
            missing -= count as u64;
            self.flush(DATA_CHUNK).await?;
        }
        Ok(())
    }

    /// Sends what is collected, once it is `least` bytes.
    async fn flush(&mut self, least: usize) -> Result<(), Fail> {
        if self.out.len() < least.max(1) {
            return Ok(());
        }
        for piece in self.out.chunks(DATA_CHUNK) {
            self.call.send_stream(kind::DATA, piece).await?;
        }
        self.out.clear();
        Ok(())
    }
}
