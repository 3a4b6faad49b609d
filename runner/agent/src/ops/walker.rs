//! Walking a tree in byte order, without following a link, with ignore files and globs.

use super::descent::Descent;
use super::list::smallest_after;
use super::read::open_file;
use super::target::c_string;
use crate::fail::{Code, Errno, Fail};
use crate::payload::Reader;
use crate::sys::{self, FileKind, Stat};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const MAX_GLOBS: usize = 256;
/// Memory for the names of one directory level.
const LEVEL_BYTES: usize = 4 << 20;
const MAX_IGNORE_FILE: u64 = 256 << 10;
/// Patterns of one ignore file, and of all that are in force at one place. Each costs far more memory than its text.
const MAX_PATTERNS: usize = 4096;
const MAX_PATTERNS_IN_FORCE: usize = 16_384;
const IGNORE_FILES: [&std::ffi::CStr; 2] = [c".gitignore", c".ignore"];

/// What a walk passes over.
#[derive(Default)]
pub struct Filter {
    pub hidden: bool,
    pub respect_ignore: bool,
    /// 0: no limit.
    pub max_depth: u32,
    pub include: Option<GlobSet>,
    pub exclude: Option<GlobSet>,
    /// Include globs are a shell's: `*` crosses directories, and the name alone or the whole path, which begins so, may
    /// match as well.
    pub shell_base: Option<Vec<u8>>,
}

impl Filter {
    /// Reads depth, include globs and exclude globs of a request.
    pub fn read(
        reader: &mut Reader<'_>,
        hidden: bool,
        respect_ignore: bool,
        shell_base: Option<&[u8]>,
    ) -> Result<Filter, Fail> {
        let max_depth = reader.u32()?;
        let include = globs(&reader.list(MAX_GLOBS)?, shell_base.is_none())?;
        let exclude = globs(&reader.list(MAX_GLOBS)?, true)?;
        let shell_base = shell_base.map(|base| [base.strip_prefix(b"/").unwrap_or(base), b"/"].concat());
        Ok(Filter { hidden, respect_ignore, max_depth, include, exclude, shell_base })
    }

    /// Whether the include globs, if any, name this path.
    pub fn includes(&self, path: &[u8]) -> bool {
        let Some(globs) = &self.include else { return true };
        if globs.is_match(as_path(path)) {
            return true;
        }
        let Some(base) = &self.shell_base else { return false };
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        globs.is_match(as_path(name)) || globs.is_match(as_path(&[base, path].concat()))
    }

    fn excludes(&self, path: &[u8], name: &[u8]) -> bool {
        (!self.hidden && name.first() == Some(&b'.'))
            || (self.respect_ignore && name == b".git")
            || self.exclude.as_ref().is_some_and(|globs| globs.is_match(as_path(path)))
    }
}

fn globs(patterns: &[&[u8]], by_names: bool) -> Result<Option<GlobSet>, Fail> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let bad = |message: String| Fail::new(Code::Pattern, message);
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let text = std::str::from_utf8(pattern).map_err(|_| bad("a glob is not UTF-8".into()))?;
        let glob = GlobBuilder::new(text).literal_separator(by_names).backslash_escape(by_names).build();
        set.add(glob.map_err(|error| bad(error.to_string()))?);
    }
    set.build().map(Some).map_err(|error| bad(error.to_string()))
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Names of one level that were not yet visited.
#[derive(Default)]
struct Pending {
    names: VecDeque<(CString, FileKind)>,
    cursor: Vec<u8>,
    complete: bool,
}

/// The rules of one level and where paths below it begin.
struct Rules {
    matchers: Vec<Gitignore>,
    path_start: usize,
}

/// An entry of the tree.
pub struct Item {
    /// The directory it is in; valid until the walk goes on.
    pub dir: RawFd,
    pub name: CString,
    /// As it was when the walk came by.
    pub kind: FileKind,
}

impl Item {
    /// Its attributes; `None` where it has gone.
    pub fn stat(&self) -> Result<Option<Stat>, Errno> {
        match sys::fstatat(self.dir, &self.name, false) {
            Err(Errno(libc::ENOENT)) => Ok(None),
            other => other.map(Some),
        }
    }
}

/// A walk in progress: directories before what they contain, names in byte order.
pub struct Walker {
    descent: Descent<Pending>,
    filter: Filter,
    rules: Vec<Rules>,
    path: Vec<u8>,
    /// The directory that was yielded last and is entered next.
    enter: Option<CString>,
    /// Names of the path after which the walk goes on, while it is still on that path.
    resume: Option<Vec<Vec<u8>>>,
    /// Directories and ignore files that could not be read.
    pub skipped: u64,
}

impl Walker {
    /// Begins below an open directory, after the relative path `cursor` if that is not empty.
    pub fn new(root: OwnedFd, filter: Filter, cursor: &[u8]) -> Result<Walker, Fail> {
        let resume = (!cursor.is_empty()).then(|| cursor.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect());
        let mut walker = Walker {
            descent: Descent::new(root, CString::default())?,
            filter,
            rules: Vec::new(),
            path: Vec::new(),
            enter: None,
            resume,
            skipped: 0,
        };
        walker.load_rules()?;
        Ok(walker)
    }

    /// The relative path of the item that was yielded last.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The next entry, `None` at the end. Work per call is bounded by one directory's size.
    pub fn next(&mut self) -> Result<Option<Item>, Fail> {
        self.go_on()?;
        loop {
            let (dir, pending) = self.descent.top()?;
            let Some((name, kind)) = pending.names.pop_front() else {
                if !pending.complete {
                    let page = smallest_after(dir, &pending.cursor, usize::MAX, LEVEL_BYTES)?;
                    pending.complete = !page.more;
                    if let Some((last, _)) = page.names.last() {
                        pending.cursor = last.to_bytes().to_vec();
                    }
                    pending.names = page.names.into();
                    continue;
                }
                if !self.leave()? {
                    return Ok(None);
                }
                continue;
            };
            let parent_length = self.path.len();
            if parent_length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            match self.visit(Item { dir, name, kind })? {
                Some(item) => return Ok(Some(item)),
                None if self.enter.is_some() => self.go_on()?,
                None => self.path.truncate(parent_length),
            }
        }
    }

    /// Enters the directory that was yielded last, or forgets the entry's name.
    fn go_on(&mut self) -> Result<(), Fail> {
        let Some(name) = self.enter.take() else {
            self.drop_name(self.descent.depth());
            return Ok(());
        };
        let (dir, _) = self.descent.top()?;
        match sys::open_dir_at(dir, &name) {
            Ok(child) => {
                self.descent.enter(name, child)?;
                self.load_rules()
            }
            Err(Errno(libc::EACCES | libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => {
                self.skipped += 1;
                self.drop_name(self.descent.depth());
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Cuts the path back to the directory that the walk is in, `depth` names long.
    fn drop_name(&mut self, depth: usize) {
        let names = if self.path.is_empty() { 0 } else { self.path.iter().filter(|&&byte| byte == b'/').count() + 1 };
        for _ in depth..names {
            let cut = self.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            self.path.truncate(cut);
        }
    }

    fn leave(&mut self) -> Result<bool, Fail> {
        self.rules.pop();
        let Some(left) = self.descent.leave()? else { return Ok(false) };
        self.drop_name(self.descent.depth());
        let (_, pending) = self.descent.top()?;
        if pending.cursor.is_empty() {
            // The level was opened again: it goes on behind the directory that was just left.
            pending.cursor = left.into_bytes();
        }
        Ok(true)
    }

    fn visit(&mut self, mut item: Item) -> Result<Option<Item>, Fail> {
        let again = match self.position(item.name.to_bytes()) {
            Position::Before => return Ok(None),
            Position::At => true,
            Position::After => false,
        };
        // Most file systems say the kind beside the name.
        if item.kind == FileKind::Unknown {
            let Some(stat) = item.stat()? else { return Ok(None) };
            item.kind = stat.kind();
        }
        let is_directory = item.kind == FileKind::Directory;
        if self.filter.excludes(&self.path, item.name.to_bytes()) || self.ignored(is_directory) {
            return Ok(None);
        }
        let deeper = self.filter.max_depth == 0 || self.descent.depth() + 1 < self.filter.max_depth as usize;
        if is_directory && deeper {
            self.enter = Some(item.name.clone());
        }
        Ok((!again).then_some(item))
    }

    /// Where a name of this level is, seen from the path after which the walk goes on.
    fn position(&mut self, name: &[u8]) -> Position {
        let depth = self.descent.depth();
        let Some(names) = &self.resume else { return Position::After };
        let Some(wanted) = names.get(depth) else {
            self.resume = None;
            return Position::After;
        };
        match name.cmp(wanted) {
            std::cmp::Ordering::Less => Position::Before,
            std::cmp::Ordering::Equal => Position::At,
            std::cmp::Ordering::Greater => {
                self.resume = None;
                Position::After
            }
        }
    }

    fn ignored(&self, directory: bool) -> bool {
        for rules in self.rules.iter().rev() {
            let below = &self.path[rules.path_start.min(self.path.len())..];
            for matcher in &rules.matchers {
                match matcher.matched(as_path(below), directory) {
                    Match::None => {}
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
        }
        false
    }

    /// Reads the ignore files of the directory that the walk is in.
    fn load_rules(&mut self) -> Result<(), Fail> {
        let path_start = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
        let mut matchers: Vec<Gitignore> = Vec::new();
        let mut in_force: usize = self.rules.iter().flat_map(|rules| &rules.matchers).map(Gitignore::len).sum();
        if self.filter.respect_ignore {
            let (dir, _) = self.descent.top()?;
            for file in IGNORE_FILES {
                match read_rules(dir, file) {
                    Ok(Some(matcher)) if in_force + matcher.len() <= MAX_PATTERNS_IN_FORCE => {
                        in_force += matcher.len();
                        matchers.push(matcher);
                    }
                    Ok(Some(_)) => self.skipped += 1,
                    Ok(None) => {}
                    Err(fail) if fail.code == Code::Limit => return Err(fail),
                    Err(_) => self.skipped += 1,
                }
            }
            // What `.ignore` says goes before what `.gitignore` says.
            matchers.reverse();
        }
        self.rules.push(Rules { matchers, path_start });
        Ok(())
    }
}

enum Position {
    Before,
    At,
    After,
}

/// The rules of one ignore file; never waits for a pipe, never reads without bound.
fn read_rules(dir: RawFd, name: &std::ffi::CStr) -> Result<Option<Gitignore>, Fail> {
    use std::os::fd::AsRawFd;
    let (file, stat) = match open_file(dir, name, libc::O_NOFOLLOW) {
        Err(fail) if fail.code == Code::NotFound => return Ok(None),
        other => other?,
    };
    if stat.size() > MAX_IGNORE_FILE {
        return Err(Fail::new(Code::TooLarge, "the ignore file is too large"));
    }
    let mut bytes = vec![0u8; stat.size() as usize];
    let count = sys::pread(file.as_raw_fd(), &mut bytes, 0)?;
    bytes.truncate(count);
    let text = String::from_utf8_lossy(&bytes);
    if text.lines().count() > MAX_PATTERNS {
        return Err(Fail::new(Code::TooLarge, "the ignore file has too many patterns"));
    }
    let mut builder = GitignoreBuilder::new("");
    for line in text.lines() {
        // A line that is no pattern is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().map(Some).map_err(|error| Fail::new(Code::Pattern, error.to_string()))
}

/// Splits a path into its directory, opened, and its last name, for calls that take a file or a tree.
pub fn open_tree(path: &std::ffi::CStr) -> Result<Tree, Fail> {
    let stat = sys::fstatat(sys::CWD, path, true)?;
    if stat.is_dir() {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        return Ok(Tree::Directory(sys::openat(sys::CWD, path, flags, 0)?));
    }
    let (file, stat) = open_file(sys::CWD, path, 0)?;
    let bytes = path.to_bytes();
    let from = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    Ok(Tree::File(file, stat, c_string(&bytes[from..])?))
}

/// What a path leads to.
pub enum Tree {
    Directory(OwnedFd),
    File(OwnedFd, Stat, CString),
}
