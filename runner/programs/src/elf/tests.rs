use super::*;
use std::path::{Path, PathBuf};

fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("boxkite-elf-{name}-{}", std::process::id()))
}

fn read_bytes(name: &str, bytes: &[u8]) -> Option<Elf> {
    let place = place(name);
    std::fs::write(&place, bytes).unwrap();
    let elf = read(&File::open(&place).unwrap());
    std::fs::remove_file(&place).unwrap();
    elf
}

fn shell() -> Vec<u8> {
    std::fs::read(std::fs::canonicalize("/bin/sh").unwrap()).unwrap()
}

#[test]
fn the_shell_is_read() {
    let elf = read(&File::open("/bin/sh").unwrap()).unwrap();
    assert!(elf.machine.wide);
    assert!(Path::new(std::str::from_utf8(&elf.interpreter.unwrap()).unwrap()).exists());
    assert!(elf.needed.iter().any(|name| name.starts_with(b"libc.")));
}

#[test]
fn a_cut_file_is_read_or_refused() {
    let bytes = shell();
    let step = bytes.len() / 300 + 1;
    for cut in (0..200).chain((200..bytes.len()).step_by(step)) {
        let _ = read_bytes("cut", &bytes[..cut]);
    }
    assert_eq!(read_bytes("empty", b""), None);
    assert_eq!(read_bytes("magic", b"\x7fELF"), None);
}

/// Whatever a byte of the headers says, reading ends, and takes no more than the bounds.
#[test]
fn a_damaged_file_is_read_or_refused() {
    let bytes = shell();
    let head = 64 + 56 * 16;
    for at in 0..head.min(bytes.len()) {
        for value in [0, 0x7f, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let _ = read_bytes("damaged", &damaged);
        }
    }
}

#[test]
fn offsets_that_overflow_are_refused() {
    let segment = |address, file_size| Segment { kind: LOAD, offset: u64::MAX, address, file_size };
    assert_eq!(offset_of(5, &[segment(0, 10)]), None);
    assert_eq!(offset_of(5, &[segment(6, 10)]), None);
    assert_eq!(offset_of(u64::MAX, &[segment(0, u64::MAX)]), None);
    assert_eq!(number(&[1, 2], usize::MAX, 2), None);
}
