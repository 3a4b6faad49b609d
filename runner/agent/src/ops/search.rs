//! SEARCH: lines that a regular expression matches, in a file or a tree, streamed.
//!
//! What one file yields is bounded in memory: when enough is collected, its search stops before the
//! next match, the records are sent, and the search goes on at that line.

use super::list::BATCH_BYTES;
use super::read::open_file;
use super::walker::{Filter, Tree, Walker, open_tree};
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Weight, yield_now};
use crate::fail::{Code, Fail};
use crate::frames::kind;
use crate::payload::{Reader, put_bytes};
use crate::sys::{self, Stat};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

const IGNORE_CASE: u16 = 1;
const FIXED: u16 = 2;
const WORD: u16 = 4;
const HIDDEN: u16 = 8;
const RESPECT_IGNORE: u16 = 16;
const BINARY_AS_TEXT: u16 = 32;
const ALL_FLAGS: u16 = 63;

const MATCH: u8 = 1;
const CONTEXT: u8 = 2;
const BINARY: u8 = 3;
const UNSEARCHED: u8 = 4;

/// Bytes of a line that are sent; its whole length is sent too.
const MAX_LINE: usize = 16 << 10;
const MAX_SPANS: usize = 128;
const MAX_CONTEXT: u32 = 1000;
/// Collected bytes of one file after which its search pauses.
const PAUSE_AT: usize = 256 << 10;
/// Memory for one line and for one compiled pattern.
const LINE_MEMORY: usize = 16 << 20;
const PATTERN_MEMORY: usize = 16 << 20;

struct Query {
    matcher: RegexMatcher,
    before: usize,
    after: usize,
    /// 0: no limit.
    max_matches: u64,
    max_per_file: u64,
    max_file_bytes: u64,
    binary_as_text: bool,
}

#[derive(Default)]
struct Totals {
    matches: u64,
    files: u64,
    files_matched: u64,
    skipped: u64,
    /// Files with a NUL byte: what is behind it was not searched.
    binary: u64,
    truncated: bool,
}

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(ALL_FLAGS)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let pattern = reader.bytes()?;
    let (before, after) = (reader.u32()?, reader.u32()?);
    let (max_matches, max_per_file, max_file_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let filter = Filter::read(&mut reader, flags.has(HIDDEN), flags.has(RESPECT_IGNORE))?;
    reader.finish()?;
    if before > MAX_CONTEXT || after > MAX_CONTEXT {
        return Err(Fail::invalid("too many lines of context"));
    }
    let query = Query {
        matcher: compile(flags, pattern)?,
        before: before as usize,
        after: after as usize,
        max_matches,
        max_per_file,
        max_file_bytes,
        binary_as_text: flags.has(BINARY_AS_TEXT),
    };
    let tree = open_tree(&path)?;
    let call = call.clone();
    let work = async move { search(&call, &query, tree, filter).await };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}

fn compile(flags: Flags, pattern: &[u8]) -> Result<RegexMatcher, Fail> {
    let bad = |message: String| Fail::new(Code::Pattern, message);
    let text = std::str::from_utf8(pattern).map_err(|_| bad("the pattern is not UTF-8".into()))?;
    RegexMatcherBuilder::new()
        .case_insensitive(flags.has(IGNORE_CASE))
        .fixed_strings(flags.has(FIXED))
        .word(flags.has(WORD))
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .build(text)
        .map_err(|error| bad(error.to_string()))
}

async fn search(call: &Call, query: &Query, tree: Tree, filter: Filter) -> Result<Vec<u8>, Fail> {
    let mut totals = Totals::default();
    let mut out = Vec::new();
    match tree {
        Tree::File(file, stat, name) => {
            search_file(call, query, (&file, &stat), name.to_bytes(), &mut out, &mut totals).await?;
        }
        Tree::Directory(dir) => {
            let mut walker = Walker::new(dir, filter, b"")?;
            while let Some(item) = walker.next()? {
                call.check()?;
                if totals.truncated {
                    break;
                }
                if !item.stat.is_file() || !walker.filter().includes(walker.path()) {
                    continue;
                }
                let Ok((file, stat)) = open_file(item.dir, &item.name, libc::O_NOFOLLOW) else {
                    totals.skipped += 1;
                    continue;
                };
                let file = (&file, &stat);
                search_file(call, query, file, walker.path(), &mut out, &mut totals).await?;
                if totals.files % 32 == 0 {
                    yield_now().await;
                }
            }
            totals.skipped += walker.skipped;
        }
    }
    if !out.is_empty() {
        call.send_stream(kind::BATCH, &out).await?;
    }
    let mut end = Vec::new();
    let Totals { matches, files, files_matched, skipped, binary, truncated } = totals;
    for number in [matches, files, files_matched, skipped, binary] {
        end.extend_from_slice(&number.to_le_bytes());
    }
    end.push(u8::from(truncated));
    Ok(end)
}

async fn search_file(
    call: &Call,
    query: &Query,
    (file, stat): (&OwnedFd, &Stat),
    path: &[u8],
    out: &mut Vec<u8>,
    totals: &mut Totals,
) -> Result<(), Fail> {
    if query.max_file_bytes > 0 && stat.size() > query.max_file_bytes {
        totals.skipped += 1;
        return Ok(());
    }
    totals.files += 1;
    let mut from = Resume { offset: 0, line: 1 };
    let mut found = 0u64;
    loop {
        let mut collector = Collector {
            query,
            path,
            out,
            from,
            found: &mut found,
            room: room(query.max_matches, totals.matches),
            resume: None,
            truncated: false,
            binary: false,
        };
        let input = FileReader { call, file, offset: from.offset };
        let result = searcher(query).search_reader(&query.matcher, input, &mut collector);
        let (resume, truncated) = (collector.resume, collector.truncated);
        totals.binary += u64::from(collector.binary);
        if let Err(error) = result {
            call.check()?;
            put_record(out, UNSEARCHED, path, (0, 0), &[], error.to_string().as_bytes());
            totals.skipped += 1;
        }
        totals.truncated |= truncated;
        if out.len() >= BATCH_BYTES {
            call.send_stream(kind::BATCH, out).await?;
            out.clear();
        }
        match resume {
            Some(next) => from = next,
            None => break,
        }
    }
    totals.matches += found;
    totals.files_matched += u64::from(found > 0);
    Ok(())
}

fn room(limit: u64, used: u64) -> u64 {
    if limit == 0 { u64::MAX } else { limit.saturating_sub(used) }
}

fn searcher(query: &Query) -> Searcher {
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

#[derive(Clone, Copy)]
struct Resume {
    offset: u64,
    line: u64,
}

/// Puts records into the batch until there are enough.
struct Collector<'a> {
    query: &'a Query,
    path: &'a [u8],
    out: &'a mut Vec<u8>,
    from: Resume,
    found: &'a mut u64,
    room: u64,
    resume: Option<Resume>,
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
        if self.out.len() >= PAUSE_AT {
            self.resume = Some(Resume { offset, line });
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

/// Reads the file from an offset; fails once the call is cancelled, which ends the search.
struct FileReader<'a> {
    call: &'a Call,
    file: &'a OwnedFd,
    offset: u64,
}

impl io::Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.call.check().map_err(|_| io::Error::other("cancelled"))?;
        let count = sys::pread(self.file.as_raw_fd(), buffer, self.offset)
            .map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        self.offset += count as u64;
        Ok(count)
    }
}
