//! The tar format: reading and writing headers of 512 bytes (ustar, GNU and PAX).

use crate::fail::{Code, Fail};

/// Bytes of a block; headers are one, contents are padded to whole ones.
pub const BLOCK: usize = 512;
/// The largest extension (long name or PAX records) that is read, in bytes.
pub const MAX_EXTENSION: u64 = 1 << 20;

/// What a header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    File,
    Directory,
    HardLink,
    SymbolicLink,
    /// The name of the next member.
    LongName,
    /// The link target of the next member.
    LongLink,
    /// PAX records for the next member.
    Extended,
    /// PAX records for all members that follow.
    Global,
}

/// One header, its numbers decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarHeader {
    pub member: Member,
    pub name: Vec<u8>,
    pub link: Vec<u8>,
    pub mode: u32,
    pub size: u64,
    pub mtime: i64,
}

fn refused(message: impl Into<std::borrow::Cow<'static, str>>) -> Fail {
    Fail::new(Code::Refused, message)
}

impl TarHeader {
    /// Reads a header block; `None` for a block of zeros, which ends an archive.
    pub fn parse(block: &[u8; BLOCK]) -> Result<Option<TarHeader>, Fail> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let sum: u64 =
            (0..BLOCK).map(|at| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(block[at]) }).sum();
        if number(&block[148..156])? != sum as i128 {
            return Err(refused("not a tar archive, or a damaged one"));
        }
        let mut name = text(&block[..100]);
        let ustar = &block[257..265] == b"ustar\x0000";
        let prefix = text(&block[345..500]);
        if ustar && !prefix.is_empty() {
            name = [prefix.as_slice(), b"/", name.as_slice()].concat();
        }
        let member = match block[156] {
            b'0' | 0 | b'7' => Member::File,
            b'1' => Member::HardLink,
            b'2' => Member::SymbolicLink,
            b'5' => Member::Directory,
            b'L' => Member::LongName,
            b'K' => Member::LongLink,
            b'x' => Member::Extended,
            b'g' => Member::Global,
            b'3' | b'4' | b'6' => {
                return Err(refused("a device or pipe").at(&name));
            }
            _ => return Err(refused("a kind of member that is not supported").at(&name)),
        };
        let size =
            u64::try_from(number(&block[124..136])?).map_err(|_| refused("a negative or too large size").at(&name))?;
        let mode = (number(&block[100..108])? & 0o7777) as u32;
        let mtime = number(&block[136..148])?.clamp(0, i64::MAX.into()) as i64;
        Ok(Some(TarHeader { member, name, link: text(&block[157..257]), mode, size, mtime }))
    }
}

/// The bytes up to the first NUL.
fn text(field: &[u8]) -> Vec<u8> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    field[..end].to_vec()
}

/// A number: octal digits between blanks, or base 256 when the first bit is set.
fn number(field: &[u8]) -> Result<i128, Fail> {
    let first = field[0];
    if first & 0x80 != 0 {
        if field.len() > 12 || (first & 0x40 != 0) {
            return Err(refused("a number that is not valid"));
        }
        let start = i128::from(first & 0x3f);
        return Ok(field[1..].iter().fold(start, |sum, &byte| (sum << 8) | i128::from(byte)));
    }
    let digits = field.iter().copied().skip_while(|&byte| byte == b' ');
    let mut sum = 0i128;
    for byte in digits.take_while(|&byte| byte != 0 && byte != b' ') {
        if !(b'0'..=b'7').contains(&byte) {
            return Err(refused("a number that is not valid"));
        }
        sum = sum * 8 + i128::from(byte - b'0');
    }
    Ok(sum)
}

/// What PAX records say about a member; other records mean nothing to a file system like this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    pub name: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub mtime: Option<i64>,
}

impl Extension {
    /// Reads records of the form `LENGTH KEY=VALUE\n`.
    pub fn parse(mut bytes: &[u8]) -> Result<Extension, Fail> {
        let bad = || refused("a PAX record that is not valid");
        let mut out = Extension::default();
        while !bytes.is_empty() && bytes[0] != 0 {
            let blank = bytes.iter().position(|&byte| byte == b' ').ok_or_else(bad)?;
            let length: usize = parse_decimal(&bytes[..blank]).ok_or_else(bad)?;
            if length <= blank + 1 || length > bytes.len() || bytes[length - 1] != b'\n' {
                return Err(bad());
            }
            let record = &bytes[blank + 1..length - 1];
            let equal = record.iter().position(|&byte| byte == b'=').ok_or_else(bad)?;
            let (key, value) = (&record[..equal], &record[equal + 1..]);
            match key {
                b"path" => out.name = Some(value.to_vec()),
                b"linkpath" => out.link = Some(value.to_vec()),
                b"size" => out.size = Some(parse_decimal(value).ok_or_else(bad)?),
                b"mtime" => {
                    let whole = value.split(|&byte| byte == b'.').next().unwrap_or(b"");
                    out.mtime = parse_decimal(whole);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(refused("sparse members are not supported"));
                }
                _ => {}
            }
            bytes = &bytes[length..];
        }
        Ok(out)
    }
}

fn parse_decimal<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Appends the header of a member in GNU format, with long names before it where they are needed.
pub fn put_member(out: &mut Vec<u8>, header: &TarHeader) {
    for (field, letter) in [(&header.name, b'L'), (&header.link, b'K')] {
        if field.len() > 100 {
            let size = field.len() as u64 + 1;
            put_block(out, b"././@LongLink", b"", letter, 0, size, 0);
            out.extend_from_slice(field);
            out.push(0);
            pad(out, size);
        }
    }
    let letter = match header.member {
        Member::Directory => b'5',
        Member::SymbolicLink => b'2',
        Member::HardLink => b'1',
        _ => b'0',
    };
    let (mode, size, mtime) = (header.mode, header.size, header.mtime);
    put_block(out, &header.name, &header.link, letter, mode, size, mtime.max(0) as u64);
}

/// Appends the zeros that fill the last block of a content of `size` bytes.
pub fn pad(out: &mut Vec<u8>, size: u64) {
    out.resize(out.len() + padding(size), 0);
}

/// How many zeros fill the last block of a content of `size` bytes.
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

fn put_block(out: &mut Vec<u8>, name: &[u8], link: &[u8], letter: u8, mode: u32, size: u64, mtime: u64) {
    const OWNER: u64 = 1001;
    let mut block = [0u8; BLOCK];
    let put = |block: &mut [u8; BLOCK], at: usize, bytes: &[u8], most: usize| {
        let count = bytes.len().min(most);
        block[at..at + count].copy_from_slice(&bytes[..count]);
    };
    put(&mut block, 0, name, 100);
    put(&mut block, 157, link, 100);
    put_number(&mut block[100..108], u64::from(mode));
    put_number(&mut block[108..116], OWNER);
    put_number(&mut block[116..124], OWNER);
    put_number(&mut block[124..136], size);
    put_number(&mut block[136..148], mtime);
    block[156] = letter;
    put(&mut block, 257, b"ustar  \0", 8);
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    put(&mut block, 148, format!("{sum:06o}\0 ").as_bytes(), 8);
    out.extend_from_slice(&block);
}

fn put_number(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let octal = format!("{value:0digits$o}");
    if octal.len() <= digits {
        field[..digits].copy_from_slice(octal.as_bytes());
        return;
    }
    let bytes = value.to_be_bytes();
    let start = field.len() - bytes.len();
    field[0] = 0x80;
    field[start..].copy_from_slice(&bytes);
}
