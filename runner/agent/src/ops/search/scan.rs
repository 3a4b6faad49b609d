//! The search of one file, in steps whose memory is bounded: when enough is collected a step stops before the next match, and
//! the next one goes on at that line.

use super::Query;
use crate::call::Call;
use crate::payload::put_bytes;
use crate::sys::{self, Stat};
use grep_matcher::Matcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const MATCH: u8 = 1;
const CONTEXT: u8 = 2;
const BINARY: u8 = 3;
const UNSEARCHED: u8 = 4;

/// Bytes of a line that are sent; its whole length is sent too.
const MAX_LINE: usize = 16 << 10;
const MAX_SPANS: usize = 128;
/// Bytes of records after which a step, and a group that is searched ahead, ends.
pub const PAUSE_AT: usize = 256 << 10;
/// Memory for one line.
const LINE_MEMORY: usize = 16 << 20;
/// What a searcher reads into, until a longer line makes it grow.
const LINE_BUFFER: usize = 64 << 10;

/// A file of the tree, opened.
pub struct Candidate {
    pub file: OwnedFd,
    pub stat: Stat,
    /// Below where the search began.
    pub path: Vec<u8>,
}

/// What was found and read.
#[derive(Default)]
pub struct Totals {
    pub matches: u64,
    pub files: u64,
    pub files_matched: u64,
    pub bytes: u64,
    pub skipped: u64,
    /// Files with a NUL byte: what is behind it was not searched.
    pub binary: u64,
    pub truncated: bool,
}

impl Totals {
    /// Counts what was found elsewhere; that was not cut by a limit.
    pub fn add(&mut self, other: &Totals) {
        self.matches += other.matches;
        self.files += other.files;
        self.files_matched += other.files_matched;
        self.bytes += other.bytes;
        self.skipped += other.skipped;
        self.binary += other.binary;
    }
}

/// Where a search goes on.
#[derive(Clone, Copy)]
pub struct Place {
    offset: u64,
    line: u64,
}

impl Place {
    pub const BEGINNING: Place = Place { offset: 0, line: 1 };
}

/// Who may end a search before its time.
#[derive(Clone, Copy)]
pub struct Stop<'a> {
    pub call: &'a Call,
    /// Set once nobody waits for this search any more.
    pub left: &'a AtomicBool,
}

impl Stop<'_> {
    fn is_asked(self) -> bool {
        self.call.check().is_err() || self.left.load(Ordering::Relaxed)
    }
}

/// One step of the search of a file from a place: its records go to `out`, its numbers to `totals`, `found` counts the
/// matches of this file. Where the next step begins; `None` at the end. A search that was asked to stop is like one that
/// failed: whoever asked does not look at it. What is found depends on nothing that was searched or collected before.
pub fn step(
    (query, lines, stop): (&Query, &mut Searcher, Stop<'_>),
    candidate: &Candidate,
    from: Place,
    found: &mut u64,
    (out, totals): (&mut Vec<u8>, &mut Totals),
) -> Option<Place> {
    let before = *found;
    let path = &candidate.path;
    let full = out.len() + PAUSE_AT;
    let mut collector = Collector {
        query,
        path,
        out: &mut *out,
        full,
        from,
        found: &mut *found,
        room: room(query.max_matches, totals.matches).saturating_add(before),
        resume: None,
        truncated: false,
        binary: false,
    };
    let bytes_left = room(query.max_bytes, totals.bytes);
    let mut input =
        FileReader { stop, candidate, offset: from.offset, room: bytes_left, read: 0, spent: false, grown: false };
    let result = lines.search_reader(&query.matcher, &mut input, &mut collector);
    let (resume, truncated, binary) = (collector.resume, collector.truncated, collector.binary);
    if input.grown {
        // The next file would be read in larger pieces, and a NUL byte hides the whole piece that it is in.
        *lines = searcher(query);
    }
    totals.matches += *found - before;
    totals.files_matched += u64::from(before == 0 && *found > 0);
    totals.binary += u64::from(binary);
    totals.bytes += resume.map_or(input.read, |next| next.offset - from.offset);
    totals.truncated |= input.spent | truncated;
    if let (Err(error), false) = (result, input.spent) {
        put_record(out, UNSEARCHED, path, (0, 0), &[], error.to_string().as_bytes());
        totals.skipped += 1;
    }
    resume
}

/// What is left of a limit; 0: no limit.
pub fn room(limit: u64, used: u64) -> u64 {
    if limit == 0 { u64::MAX } else { limit.saturating_sub(used) }
}

/// A searcher for many files, one after the other.
pub fn searcher(query: &Query) -> Searcher {
    let binary = if query.binary_as_text { BinaryDetection::none() } else { BinaryDetection::quit(0) };
    SearcherBuilder::new()
        .line_number(true)
        .before_context(query.before)
        .after_context(query.after)
        .binary_detection(binary)
        .heap_limit(Some(LINE_MEMORY))
        .bom_sniffing(false)
        .build()
}

/// Puts records into the batch until there are enough.
struct Collector<'a> {
    query: &'a Query,
    path: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Length of `out` at which the step pauses.
    full: usize,
    from: Place,
    found: &'a mut u64,
    room: u64,
    resume: Option<Place>,
    truncated: bool,
    binary: bool,
}

impl Collector<'_> {
    fn place(&self, line: Option<u64>, offset: u64) -> (u64, u64) {
        (self.from.line + line.unwrap_or(1) - 1, self.from.offset + offset)
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let (line, offset) = self.place(found.line_number(), found.absolute_byte_offset());
        if self.query.max_per_file > 0 && *self.found >= self.query.max_per_file {
            return Ok(false);
        }
        if *self.found >= self.room {
            self.truncated = true;
            return Ok(false);
        }
        if self.out.len() >= self.full {
            self.resume = Some(Place { offset, line });
            return Ok(false);
        }
        let mut spans = Vec::new();
        // Beyond the part that is sent a span would lead nowhere.
        let text = &found.bytes()[..found.bytes().len().min(MAX_LINE)];
        self.query
            .matcher
            .find_iter(text, |span| {
                spans.push((span.start() as u32, span.end() as u32));
                spans.len() < MAX_SPANS
            })
            .map_err(|error| io::Error::other(error.to_string()))?;
        put_record(self.out, MATCH, self.path, (line, offset), &spans, found.bytes());
        *self.found += 1;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let place = self.place(context.line_number(), context.absolute_byte_offset());
        put_record(self.out, CONTEXT, self.path, place, &[], context.bytes());
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> Result<bool, io::Error> {
        self.binary = true;
        if *self.found > 0 {
            let place = (0, self.from.offset + offset);
            put_record(self.out, BINARY, self.path, place, &[], b"");
        }
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), io::Error> {
        Ok(())
    }
}

/// Appends one record: kind, path, line number, byte offset, spans, whole length, bytes.
fn put_record(
    out: &mut Vec<u8>,
    record: u8,
    path: &[u8],
    (line, offset): (u64, u64),
    spans: &[(u32, u32)],
    bytes: &[u8],
) {
    out.push(record);
    put_bytes(out, path);
    out.extend_from_slice(&line.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&(spans.len() as u32).to_le_bytes());
    for (start, end) in spans {
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
    }
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    put_bytes(out, &bytes[..bytes.len().min(MAX_LINE)]);
}

/// Reads the file from an offset; fails once it is asked to stop, which ends the search.
struct FileReader<'a> {
    stop: Stop<'a>,
    candidate: &'a Candidate,
    offset: u64,
    /// Bytes that may still be read; beyond it is a failure, so that no half line is taken for a whole one.
    room: u64,
    read: u64,
    spent: bool,
    /// Whether a long line has made the buffer grow.
    grown: bool,
}

impl io::Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.grown |= buffer.len() > LINE_BUFFER;
        if self.stop.is_asked() {
            return Err(io::Error::other("cancelled"));
        }
        // Its end as it was when it was opened spares the call that would only say so; a size of nought says nothing.
        let size = self.candidate.stat.size();
        if size > 0 && self.offset >= size {
            return Ok(0);
        }
        let count = sys::pread(self.candidate.file.as_raw_fd(), buffer, self.offset)
            .map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        if count as u64 > self.room {
            self.spent = true;
            return Err(io::Error::other("enough was read"));
        }
        self.room -= count as u64;
        self.read += count as u64;
        self.offset += count as u64;
        Ok(count)
    }
}
