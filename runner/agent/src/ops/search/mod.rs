//! SEARCH: lines that a regular expression matches, in a file or a tree, streamed in the order of the walk.

mod ahead;
mod scan;

use super::list::BATCH_BYTES;
use super::walker::{Filter, Tree, Walker, open_tree};
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Weight, yield_now};
use crate::fail::{Code, Fail};
use crate::frames::kind;
use crate::payload::Reader;
use ahead::{Ahead, GROUP_BYTES, GROUP_FILES, Group};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::Searcher;
use scan::{Candidate, Place, Stop, Totals, searcher, step};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const IGNORE_CASE: u16 = 1;
const FIXED: u16 = 2;
const WORD: u16 = 4;
const HIDDEN: u16 = 8;
const RESPECT_IGNORE: u16 = 16;
const BINARY_AS_TEXT: u16 = 32;
const SHELL_GLOBS: u16 = 64;
const ALL_FLAGS: u16 = 127;

const MAX_CONTEXT: u32 = 1000;
/// Memory for one compiled pattern.
const PATTERN_MEMORY: usize = 16 << 20;

struct Query {
    matcher: RegexMatcher,
    before: usize,
    after: usize,
    /// 0: no limit.
    max_matches: u64,
    max_per_file: u64,
    max_file_bytes: u64,
    max_bytes: u64,
    binary_as_text: bool,
}

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(ALL_FLAGS)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let pattern = reader.bytes()?;
    let (before, after) = (reader.u32()?, reader.u32()?);
    let (max_matches, max_per_file, max_file_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let max_bytes = reader.u64()?;
    let shell_base = flags.has(SHELL_GLOBS).then(|| path.to_bytes());
    let filter = Filter::read(&mut reader, flags.has(HIDDEN), flags.has(RESPECT_IGNORE), shell_base)?;
    reader.finish()?;
    if before > MAX_CONTEXT || after > MAX_CONTEXT {
        return Err(Fail::invalid("too many lines of context"));
    }
    let query = Arc::new(Query {
        matcher: compile(flags, pattern)?,
        before: before as usize,
        after: after as usize,
        max_matches,
        max_per_file,
        max_file_bytes,
        max_bytes,
        binary_as_text: flags.has(BINARY_AS_TEXT),
    });
    let tree = open_tree(&path)?;
    let call = call.clone();
    let work = async move { search(call, query, tree, filter).await };
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

async fn search(call: Arc<Call>, query: Arc<Query>, tree: Tree, filter: Filter) -> Result<Vec<u8>, Fail> {
    let mut turn = Turn::new(&call, &query);
    match tree {
        Tree::File(file, stat, name) => {
            let whole = Candidate { file, stat, path: name.to_bytes().to_vec() };
            turn.group(&Group::of_one(whole, &query)).await?;
        }
        Tree::Directory(dir) => {
            let mut ahead = Ahead::new(&call, &query, Walker::new(dir, filter, b"")?);
            let mut since = (0, 0);
            while let Some((group, found)) = ahead.next().await? {
                match found {
                    Some((records, totals)) if turn.has_room_for(&totals) => turn.add(&records, &totals).await?,
                    _ => turn.group(&group).await?,
                }
                if turn.totals.truncated {
                    break;
                }
                // Groups of one file go by so many as another search has in one: it has no more than its part of the threads.
                let (files, bytes) = (turn.totals.files + turn.totals.skipped, turn.totals.bytes);
                if files - since.0 >= GROUP_FILES as u64 || bytes - since.1 >= GROUP_BYTES {
                    since = (files, bytes);
                    yield_now().await;
                }
            }
            turn.totals.skipped += ahead.directories_skipped();
        }
    }
    turn.end().await
}

/// What is sent, in the order of the walk and within all limits.
struct Turn<'a> {
    call: &'a Call,
    query: &'a Query,
    searcher: Searcher,
    out: Vec<u8>,
    totals: Totals,
}

impl<'a> Turn<'a> {
    fn new(call: &'a Call, query: &'a Query) -> Turn<'a> {
        Turn { call, query, searcher: searcher(query), out: Vec::new(), totals: Totals::default() }
    }

    /// Whether what was found ahead is what would be found now: no limit ends within it.
    fn has_room_for(&self, found: &Totals) -> bool {
        found.matches <= scan::room(self.query.max_matches, self.totals.matches)
            && found.bytes <= scan::room(self.query.max_bytes, self.totals.bytes)
    }

    async fn add(&mut self, records: &[u8], found: &Totals) -> Result<(), Fail> {
        self.call.check()?;
        self.out.extend_from_slice(records);
        self.totals.add(found);
        self.send(BATCH_BYTES).await
    }

    /// Searches files until a limit is reached.
    async fn group(&mut self, group: &Group) -> Result<(), Fail> {
        let stop = Stop { call: self.call, left: &AtomicBool::new(false) };
        for candidate in group.candidates() {
            let Some(candidate) = candidate else {
                self.totals.skipped += 1;
                continue;
            };
            self.totals.files += 1;
            let (mut from, mut found) = (Some(Place::BEGINNING), 0);
            while let Some(place) = from {
                let to = (&mut self.out, &mut self.totals);
                from = step((self.query, &mut self.searcher, stop), candidate, place, &mut found, to);
                self.call.check()?;
                self.send(BATCH_BYTES).await?;
            }
            if self.totals.truncated {
                break;
            }
        }
        Ok(())
    }

    /// Sends what is collected, once it is `least` bytes.
    async fn send(&mut self, least: usize) -> Result<(), Fail> {
        if self.out.len() >= least {
            self.call.send_stream(kind::BATCH, &self.out).await?;
            self.out.clear();
        }
        Ok(())
    }

    async fn end(mut self) -> Result<Vec<u8>, Fail> {
        self.send(1).await?;
        let mut end = Vec::new();
        let Totals { matches, files, files_matched, skipped, binary, truncated, .. } = self.totals;
        for number in [matches, files, files_matched, skipped, binary] {
            end.extend_from_slice(&number.to_le_bytes());
        }
        end.push(u8::from(truncated));
        Ok(end)
    }
}
