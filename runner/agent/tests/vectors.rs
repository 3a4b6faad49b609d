//! The vectors that the TypeScript client tests too, and properties of frames and archives.

use boxkite_agent::fail::{Code, Fail};
use boxkite_agent::frames::{self, HEADER, Header, MAX_PAYLOAD};
use boxkite_agent::ops::rules::{Limits, Used, directory_mode, file_mode, names};
use boxkite_agent::ops::tar_format::{BLOCK, Extension, Member, TarHeader, put_member};
use boxkite_agent::payload::Reader;
use proptest::prelude::*;

const VECTORS: &str = include_str!("../../../docs/reference/file-agent-vectors.json");

/// The values of `"key": ...` inside each object of the array `section`, for this flat file.
fn objects(section: &str) -> Vec<String> {
    let from = VECTORS.find(&format!("\"{section}\": [")).expect("the section is there");
    let rest = &VECTORS[from..];
    let end = rest.find("\n  ]").expect("the section ends");
    rest[..end].split('{').skip(1).map(str::to_owned).collect()
}

fn field<'a>(object: &'a str, key: &str) -> &'a str {
    let from = object.find(&format!("\"{key}\": ")).expect("the field is there") + key.len() + 4;
    let rest = object[from..].lines().next().expect("a line");
    rest.trim().trim_end_matches(',').trim_matches('"')
}

fn number<T: std::str::FromStr>(object: &str, key: &str) -> T {
    field(object, key).parse().ok().expect("a number")
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn header_of(bytes: &[u8]) -> Result<Header, Fail> {
    Header::parse(bytes[..HEADER].try_into().unwrap())
}

#[test]
fn frames_are_those_of_the_vectors() {
    let all = objects("frames");
    assert!(all.len() > 4);
    for object in all {
        let (bytes, payload) = (hex(field(&object, "bytes")), hex(field(&object, "payload")));
        let header = header_of(&bytes).unwrap();
        assert_eq!(header.kind, number::<u8>(&object, "type"));
        assert_eq!(header.flags, number::<u16>(&object, "flags"));
        assert_eq!(header.id, number::<u32>(&object, "id"));
        assert_eq!([header.encode().as_slice(), &payload].concat(), bytes);
    }
}

#[test]
fn bad_headers_are_refused() {
    let all = objects("refused");
    assert_eq!(all.len(), 2);
    for object in all {
        assert_eq!(header_of(&hex(field(&object, "bytes"))).unwrap_err().code, Code::Protocol);
    }
}

#[test]
fn errors_are_those_of_the_vectors() {
    for (object, code) in objects("errors").iter().zip([Code::NotFound, Code::NoSpace, Code::Protocol]) {
        assert_eq!(number::<u16>(object, "code"), code as u16);
        let message = field(object, "message").to_owned();
        let fail = Fail { code, errno: number(object, "errno"), message: message.into() };
        assert_eq!(frames::error(number(object, "id"), &fail), hex(field(object, "bytes")));
    }
}

#[test]
fn archive_limits_hold() {
    let limits = Limits::new(2, 10, 3).unwrap();
    let mut used = Used::default();
    used.add(10, &limits).unwrap();
    assert_eq!(used.add(1, &limits).unwrap_err().code, Code::TooLarge);
    assert_eq!(Limits::new(1_000_001, 0, 0).unwrap_err().code, Code::Invalid);
    assert!(names(b"./a//b/", &limits).unwrap().len() == 2);
    for bad in [&b"/a"[..], b"a/../b", b"..", b"a/b/c/d", b"a\0b"] {
        assert_eq!(names(bad, &limits).unwrap_err().code, Code::Refused, "{bad:?}");
    }
    assert_eq!((file_mode(0o6755), directory_mode(0o7044)), (0o755, 0o744));
}

proptest! {
    #[test]
    fn any_header_survives(length in 0..=MAX_PAYLOAD, kind: u8, flags: u16, id: u32) {
        let header = Header { length, kind, flags, id };
        prop_assert_eq!(Header::parse(&header.encode()).unwrap(), header);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut reader = Reader::new(&bytes);
        while reader.path().is_ok() && reader.list(8).is_ok() {}
        let _ = Extension::parse(&bytes);
        let mut block = [0u8; BLOCK];
        for (to, from) in block.iter_mut().zip(&bytes) {
            *to = *from;
        }
        // With a sum that fits, so that the fields are read at all.
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let _ = TarHeader::parse(&block);
    }

    #[test]
    fn no_path_leads_out(path in "[a./]{0,12}") {
        if let Ok(names) = names(path.as_bytes(), &Limits::new(0, 0, 0).unwrap()) {
            prop_assert!(!path.starts_with('/'));
            for name in names {
                prop_assert!(!matches!(name.as_bytes(), b"" | b"." | b".."));
                prop_assert!(!name.as_bytes().contains(&b'/'));
            }
        }
    }

    #[test]
    fn what_is_put_is_parsed(name in "[a-z]{1,100}", size in 0..u64::MAX / 2, mode in 0u32..0o1000, mtime in 0..1i64 << 40) {
        let header = TarHeader {
            member: Member::File, name: name.into_bytes(), link: Vec::new(), mode, size, mtime,
        };
        let mut out = Vec::new();
        put_member(&mut out, &header);
        prop_assert_eq!(TarHeader::parse(out[..].try_into().unwrap()).unwrap(), Some(header));
    }
}
