//! The first line of a script.

use std::fs::File;

use crate::files;

/// Bytes of a first line that the kernel reads.
const LINE: usize = 256;

/// What a file that is no ELF file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// Its interpreter, and where that is `env` the name that it looks for.
    Of { interpreter: Vec<u8>, name: Option<Vec<u8>> },
    /// Text without a first line of that kind, which shells read themselves.
    Plain,
}

/// Reads the beginning of a file; `None` where it is no text.
pub fn read(file: &File) -> Option<Script> {
    parse(&files::beginning(file, LINE)?)
}

fn parse(head: &[u8]) -> Option<Script> {
    let Some(line) = head.strip_prefix(b"#!") else {
        return (!head.is_empty() && !head.contains(&0)).then_some(Script::Plain);
    };
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let interpreter = words.next().filter(|path| path.starts_with(b"/") && !path.contains(&0))?.to_vec();
    let is_env = interpreter.rsplit(|byte| *byte == b'/').next() == Some(b"env");
    let is_name = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    Some(Script::Of { name: words.find(is_name).filter(|_| is_env).map(<[u8]>::to_vec), interpreter })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(interpreter: &str, name: Option<&str>) -> Option<Script> {
        Some(Script::Of { interpreter: interpreter.into(), name: name.map(|name| name.as_bytes().to_vec()) })
    }

    #[test]
    fn first_lines() {
        assert_eq!(parse(b"#!/bin/sh\necho"), of("/bin/sh", None));
        assert_eq!(parse(b"#! /usr/bin/perl -w\n"), of("/usr/bin/perl", None));
        assert_eq!(parse(b"#!/usr/bin/env python3"), of("/usr/bin/env", Some("python3")));
        assert_eq!(parse(b"#!/usr/bin/env -S A=1 node --x\n"), of("/usr/bin/env", Some("node")));
        assert_eq!(parse(b"echo hello\n"), Some(Script::Plain));
        assert_eq!(parse(b"#!sh\n"), None);
        assert_eq!(parse(b"#!\n"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"\x7f\0\0"), None);
    }
}
