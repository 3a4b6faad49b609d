//! The few fields of an ELF file that say what it loads. Offsets and counts of the file are checked, never trusted.

use std::fs::File;

use crate::files;

/// What an ELF file asks its loader for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    pub machine: Machine,
    /// The loader that the kernel starts.
    pub interpreter: Option<Vec<u8>>,
    pub needed: Vec<Vec<u8>>,
    /// Its directories, separated by colons; only the second where a file has both.
    pub rpath: Option<Vec<u8>>,
    pub runpath: Option<Vec<u8>>,
}

/// Class and machine: a loader takes libraries of its own kind only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    wide: bool,
    number: u16,
}

const MOST_HEADERS: usize = 512;
const MOST_DYNAMIC: u64 = 1 << 16;
const MOST_STRINGS: u64 = 64 << 20;
const LONGEST_STRING: usize = 4096;
const MOST_NEEDED: usize = 1024;

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERP: u64 = 3;

const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;
const STRING_SIZE: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// Numbers of either class, little-endian: both architectures that the runner is built for are.
#[derive(Clone, Copy)]
struct Layout {
    wide: bool,
}

impl Layout {
    fn word(self, bytes: &[u8], at: usize) -> Option<u64> {
        if self.wide { number(bytes, at, 8) } else { number(bytes, at, 4) }
    }

    const fn size(self) -> usize {
        if self.wide { 8 } else { 4 }
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    file_size: u64,
}

/// Reads a file that begins with the ELF magic; `None` where it is broken or not of a kind that is known here.
pub fn read(file: &File) -> Option<Elf> {
    let head = files::beginning(file, 64)?;
    if !is_elf(&head) || head.get(5) != Some(&1) {
        return None;
    }
    let layout = Layout {
        wide: match head.get(4)? {
            1 => false,
            2 => true,
            _ => return None,
        },
    };
    let kind = number(&head, 16, 2)?;
    if kind != 2 && kind != 3 {
        return None;
    }
    let machine = Machine { wide: layout.wide, number: number(&head, 18, 2)? as u16 };
    let segments = segments(file, &head, layout)?;
    let mut elf = Elf { machine, ..Elf::default() };
    for segment in &segments {
        match segment.kind {
            INTERP => elf.interpreter = Some(interpreter(file, segment)?),
            DYNAMIC => dynamic(file, layout, segment, &segments, &mut elf)?,
            _ => {}
        }
    }
    Some(elf)
}

/// Whether a file begins as ELF files do.
pub fn is_elf(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF")
}

fn segments(file: &File, head: &[u8], layout: Layout) -> Option<Vec<Segment>> {
    let (table, sizes) = if layout.wide { (0x20, 0x36) } else { (0x1c, 0x2a) };
    let offset = layout.word(head, table)?;
    let (size, count) = (number(head, sizes, 2)? as usize, number(head, sizes + 2, 2)? as usize);
    let least = if layout.wide { 56 } else { 32 };
    if !(least..=1024).contains(&size) || count > MOST_HEADERS {
        return None;
    }
    let bytes = files::bytes(file, offset, size * count)?;
    let fields = if layout.wide { [8, 16, 32] } else { [4, 8, 16] };
    bytes
        .chunks_exact(size)
        .map(|header| {
            Some(Segment {
                kind: number(header, 0, 4)?,
                offset: layout.word(header, fields[0])?,
                address: layout.word(header, fields[1])?,
                file_size: layout.word(header, fields[2])?,
            })
        })
        .collect()
}

fn interpreter(file: &File, segment: &Segment) -> Option<Vec<u8>> {
    let length = usize::try_from(segment.file_size).ok().filter(|length| *length <= LONGEST_STRING)?;
    let bytes = files::bytes(file, segment.offset, length)?;
    let path = bytes.split(|byte| *byte == 0).next()?.to_vec();
    path.starts_with(b"/").then_some(path)
}

/// Where the byte of an address lies in the file.
fn offset_of(address: u64, segments: &[Segment]) -> Option<u64> {
    let holds = |segment: &&Segment| {
        segment.kind == LOAD && address.checked_sub(segment.address).is_some_and(|inside| inside < segment.file_size)
    };
    let segment = segments.iter().find(holds)?;
    segment.offset.checked_add(address - segment.address)
}

fn dynamic(file: &File, layout: Layout, segment: &Segment, segments: &[Segment], elf: &mut Elf) -> Option<()> {
    if segment.file_size > MOST_DYNAMIC {
        return None;
    }
    let bytes = files::bytes(file, segment.offset, segment.file_size as usize)?;
    let size = layout.size();
    let mut entries = Vec::new();
    for entry in bytes.chunks_exact(2 * size) {
        match layout.word(entry, 0)? {
            0 => break,
            tag => entries.push((tag, layout.word(entry, size)?)),
        }
    }
    let value = |wanted: u64| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let Some(table) = value(STRING_TABLE) else { return Some(()) };
    let length = value(STRING_SIZE).filter(|length| *length <= MOST_STRINGS)?;
    let start = offset_of(table, segments)?;
    let string = |at: u64| text(file, start, length, at);
    for (tag, at) in &entries {
        match *tag {
            NEEDED => elf.needed.push(string(*at)?),
            RPATH => elf.rpath = Some(string(*at)?),
            RUNPATH => elf.runpath = Some(string(*at)?),
            _ => {}
        }
    }
    (elf.needed.len() <= MOST_NEEDED).then_some(())
}

/// The string at `at` of the table.
fn text(file: &File, start: u64, length: u64, at: u64) -> Option<Vec<u8>> {
    let room = length.checked_sub(at)?.min(LONGEST_STRING as u64) as usize;
    let bytes = files::bytes(file, start.checked_add(at)?, room)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(bytes[..end].to_vec())
}

#[cfg(test)]
mod tests;
