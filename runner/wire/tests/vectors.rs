//! The protocol's vectors, which the TypeScript client tests too: requests are decoded, answers encoded.

use std::collections::HashMap;
use std::fmt::Write as _;

use boxkite_wire::effective::{Effective, Limits, Made, Status};
use boxkite_wire::frames::{
    Cause, Close, Code, End, Ended, Exec, Failure, HEADER, NONE, Open, Programs, Reader, Strings, WorkspaceKind,
    Writer, attached, done, error, header, kind, list_flags, measured, programs_set,
};

struct Vector {
    name: String,
    kind: u8,
    request: u32,
    payload: Vec<u8>,
    fields: HashMap<String, String>,
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn vectors() -> Vec<Vector> {
    let text = include_str!("../../../docs/reference/runner-protocol-vectors.tsv");
    let read = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        // The fields are one flat object of strings without escapes.
        let inner = columns[4].trim_start_matches('{').trim_end_matches('}');
        let pairs = inner.split("\",\"").filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once("\":\"").unwrap();
            (name.trim_matches('"').to_owned(), value.trim_matches('"').to_owned())
        });
        Vector {
            name: columns[0].to_owned(),
            kind: u8::from_str_radix(columns[1], 16).unwrap(),
            request: columns[2].parse().unwrap(),
            payload: unhex(columns[3]),
            fields: pairs.collect(),
        }
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(read).collect()
}

impl Vector {
    fn text(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("{}: no field {name}", self.name))
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("{}: {name}", self.name))
    }

    fn expect(&self, name: &str, value: u64) {
        assert_eq!(self.number(name), value, "{}: {name}", self.name);
    }

    fn frame(&self) -> Vec<u8> {
        Writer::new(self.kind, self.request).raw(&self.payload).finish()
    }

    fn effective(&self) -> Effective {
        let n = |name: &str| self.number(name);
        let sets = ["inheritable", "permitted", "effective", "bounding", "ambient"];
        let spaces = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];
        let status = Status {
            uid: n("uid") as u32,
            gid: n("gid") as u32,
            groups: n("groups") as u32,
            no_new_privs: n("no_new_privs") as u8,
            seccomp: n("seccomp") as u8,
            seccomp_filters: n("seccomp_filters") as u32,
            capabilities: sets.map(|set| n(&format!("cap_{set}"))),
        };
        Effective {
            same_user: n("init") == 2,
            own_user_namespace: n("user_namespace") == 1,
            host_uid: n("host_uid") as u32,
            status,
            made: Made {
                landlock: n("landlock") as u8,
                tried: n("tried") as u32,
                held: n("held") as u32,
                programs_via: n("programs_via") as u8,
                namespaces: spaces.map(|space| n(&format!("ns_{space}")) as u32),
                status,
            },
            limits: Limits {
                memory_via: n("memory_via") as u8,
                pids_via: n("pids_via") as u8,
                cpu_via: n("cpu_via") as u8,
                memory_bytes: n("memory_bytes"),
                workspace_bytes: n("workspace_bytes"),
                workspace_inodes: n("workspace_inodes"),
                cpu_millis: n("cpu_millis") as u32,
                pids: n("pids") as u32,
                workspace_via: n("workspace_via") as u8,
            },
            descriptors: n("descriptors") as u8,
            programs: n("programs") as u16,
        }
    }
}

fn check_exec(vector: &Vector) {
    let exec = Exec::read(&vector.payload).unwrap();
    let head = exec.head;
    for (name, value) in [
        ("sandbox", head.sandbox),
        ("timeout_ms", head.timeout_ms),
        ("memory_bytes", head.memory_bytes),
        ("cpu_ms", head.cpu_ms),
        ("pids", head.pids.into()),
        ("columns", head.columns.into()),
        ("rows", head.rows.into()),
        ("stdin", head.stdin.into()),
        ("terminal", head.terminal.into()),
        ("overflow", head.block.into()),
        ("flags", head.fresh.into()),
    ] {
        vector.expect(name, value);
    }
    let strings = Strings::read(&mut Reader::new(exec.strings)).unwrap();
    assert_eq!(hex(strings.cwd), vector.text("cwd"));
    assert_eq!(hex(exec.inline), vector.text("inline"));
    for (kind, list) in [("argument", &strings.arguments), ("environment", &strings.environment)] {
        vector.expect(&format!("{kind}_count"), list.len() as u64);
        for (index, text) in list.iter().enumerate() {
            assert_eq!(hex(text), vector.text(&format!("{kind}_{index}_value")), "{}", vector.name);
        }
    }
}

fn check_open(vector: &Vector) {
    let open = Open::read(&vector.payload).unwrap();
    vector.expect("memory_bytes", open.memory_bytes);
    vector.expect("workspace_bytes", open.workspace_bytes);
    vector.expect("pids", open.pids.into());
    vector.expect("cpu_millis", open.cpu_millis.into());
    vector.expect("inodes", open.inodes.into());
    vector.expect("root", open.root.into());
    let bit = |on: bool, place: u32| u64::from(on) << place;
    let flags = bit(open.fresh, 0) | bit(open.memory_required, 1) | bit(open.cpu_required, 2);
    vector.expect("flags", flags);
    let (kind, id) = match open.workspace {
        WorkspaceKind::Tmpfs => (0, [0; 16]),
        WorkspaceKind::NewDisk(id) => (1, id),
        WorkspaceKind::KeptDisk(id) => (2, id),
    };
    vector.expect("workspace", kind);
    assert_eq!(hex(&id), vector.text("workspace_id"));
}

fn names(vector: &Vector, list: &str) -> Vec<Vec<u8>> {
    let count = vector.number(&format!("{list}_count"));
    (0..count).map(|index| unhex(vector.text(&format!("{list}_{index}_name")))).collect()
}

fn check_programs(vector: &Vector) {
    let programs = Programs::read(&vector.payload).unwrap();
    vector.expect("sandbox", programs.sandbox);
    vector.expect("enforce", programs.list.is_some().into());
    let read = programs.list.map(|list| Programs::names(list).unwrap()).unwrap_or_default();
    assert_eq!(read, names(vector, "program"));
}

fn check_close(vector: &Vector) {
    let (sandbox, kept, id) = match Close::read(&vector.payload).unwrap() {
        Close::Sandbox { id, keep } => (id, keep, [0; 16]),
        Close::Workspace(id) => (0, false, id),
    };
    vector.expect("sandbox", sandbox);
    vector.expect("keep", kept.into());
    assert_eq!(hex(&id), vector.text("workspace_id"));
}

fn codes() -> Vec<Code> {
    use Code::*;
    let codes = [
        BadFrame,
        Unsupported,
        UnknownSandbox,
        UnknownExec,
        IsolationUnavailable,
        LimitReached,
        InvalidArgument,
        StartFailed,
        CommandNotFound,
        NotExecutable,
        ArgumentListTooLong,
        Closing,
        Internal,
        Ended,
        BadDirectory,
        NoWorkspace,
        WorkspaceExists,
        WorkspaceInUse,
        ProgramRefused,
        SandboxInUse,
    ];
    codes.into()
}

fn ended(vector: &Vector) -> Vec<u8> {
    let (ends, causes) = (
        [End::Exited, End::Signaled, End::TimedOut, End::OutOfMemory, End::Killed, End::Lost],
        [Cause::None, Cause::CpuLimit, Cause::Asked, Cause::SandboxClosed, Cause::InitDied],
    );
    Ended {
        exec: vector.number("exec"),
        end: *ends.iter().find(|end| **end as u64 == vector.number("end")).unwrap(),
        cause: *causes.iter().find(|cause| **cause as u64 == vector.number("cause")).unwrap(),
        retired: vector.number("envelope") == 1,
        exit_code: vector.text("exit_code").parse().unwrap(),
        signal: vector.number("signal") as u32,
        stdout_bytes: vector.number("stdout_bytes"),
        stderr_bytes: vector.number("stderr_bytes"),
        duration_us: vector.number("duration_us"),
        cpu_us: vector.number("cpu_us"),
        memory_peak: vector.number("memory_peak"),
    }
    .frame()
}

/// Checks one vector; `false` where this side has nothing of its own to compare.
fn check(vector: &Vector) -> bool {
    let request = vector.request;
    let encoded = match vector.kind {
        kind::OPEN => {
            check_open(vector);
            return true;
        }
        kind::CLOSE => {
            check_close(vector);
            return true;
        }
        kind::LIST => {
            vector.expect("flags", list_flags(&vector.payload).unwrap().into());
            return true;
        }
        kind::EXEC => {
            check_exec(vector);
            return true;
        }
        kind::PROGRAMS => {
            check_programs(vector);
            return true;
        }
        kind::PROGRAMS_SET => {
            let missing = names(vector, "missing");
            let writer = Writer::new(0, 0).u32(missing.len() as u32);
            let list = missing.iter().fold(writer, |writer, name| writer.bytes(name)).finish();
            programs_set(request, &vector.effective(), &list[HEADER..])
        }
        kind::DONE => done(request),
        kind::OPENED => measured(kind::OPENED, request, vector.number("sandbox"), &vector.effective()),
        kind::STARTED => measured(kind::STARTED, request, vector.number("exec"), &vector.effective()),
        kind::ATTACHED => {
            let from = [vector.number("stdout_from"), vector.number("stderr_from")];
            attached(request, vector.number("exec"), from, &vector.effective())
        }
        kind::ENDED => ended(vector),
        kind::ERROR => {
            let code = codes().into_iter().find(|code| *code as u64 == vector.number("code")).unwrap();
            let text = |name| String::from_utf8(unhex(vector.text(name))).unwrap();
            let errno = vector.text("errno").parse().unwrap();
            error(request, &Failure { code, errno, step: text("step"), detail: text("detail") })
        }
        _ => return false,
    };
    assert_eq!(hex(&encoded), hex(&vector.frame()), "{}", vector.name);
    true
}

#[test]
fn every_vector_is_read_or_written_the_same() {
    let vectors = vectors();
    let checked = vectors.iter().filter(|vector| check(vector)).count();
    assert!(checked >= 30, "{checked} of {}", vectors.len());
    assert_eq!(NONE, u64::MAX);
}

#[test]
fn headers_of_requests_are_accepted() {
    for vector in vectors().iter().filter(|vector| vector.request != 0) {
        let frame = vector.frame();
        let read = header(frame.first_chunk::<HEADER>().unwrap()).unwrap();
        assert_eq!((read.kind, read.request, read.length), (vector.kind, vector.request, vector.payload.len()));
    }
}

#[test]
fn broken_headers_are_refused() {
    let good = Writer::new(kind::LIST, 1).finish();
    for (at, value) in [(4, 2), (6, 1), (7, 1), (8, 0), (3, 255)] {
        let mut bytes: [u8; HEADER] = *good.first_chunk().unwrap();
        bytes[at] = value;
        assert_eq!(header(&bytes).unwrap_err().code, Code::BadFrame, "byte {at}");
    }
}

/// No cut and no flipped byte of a request makes the reader do anything but answer or refuse.
#[test]
fn damaged_requests_are_refused_or_read() {
    for vector in vectors() {
        for cut in 0..vector.payload.len() {
            let _ = Exec::read(&vector.payload[..cut]);
            let _ = Open::read(&vector.payload[..cut]);
            let _ = Close::read(&vector.payload[..cut]);
            let _ = list_flags(&vector.payload[..cut]);
            let _ = Programs::read(&vector.payload[..cut]);
            let mut flipped = vector.payload.clone();
            flipped[cut] ^= 0xff;
            let _ = Exec::read(&flipped);
            let _ = Open::read(&flipped);
            let _ = Close::read(&flipped);
            let _ = list_flags(&flipped);
            let _ = Programs::read(&flipped);
        }
    }
}

/// What contradicts itself is refused.
#[test]
fn workspaces_that_make_no_sense_are_refused() {
    let vector = |name: &str| vectors().into_iter().find(|vector| vector.name == name).unwrap().payload;
    let open = vector("open_sandbox.disk");
    assert!(Open::read(&open).is_ok());
    for (at, value) in [(32, 0), (32, 3), (33, 1), (39, 1)] {
        let mut bytes = open.clone();
        bytes[at] = value;
        assert_eq!(Open::read(&bytes).unwrap_err().code, Code::BadFrame, "byte {at}");
    }
    let without_id = [&open[..40], &[0; 16][..]].concat();
    assert_eq!(Open::read(&without_id).unwrap_err().code, Code::BadFrame);
    let close = vector("close_sandbox.remove");
    for (at, value) in [(0, 1), (8, 1), (8, 2), (9, 1)] {
        let mut bytes = close.clone();
        bytes[at] = value;
        assert_eq!(Close::read(&bytes).unwrap_err().code, Code::BadFrame, "byte {at}");
    }
}

#[test]
fn lists_of_programs_are_bounded() {
    let list = |names: &[Vec<u8>]| {
        let writer = Writer::new(0, 0).u64(1).u8(1).raw(&[0; 7]).u32(names.len() as u32);
        names.iter().fold(writer, |writer, name| writer.bytes(name)).finish()[HEADER..].to_vec()
    };
    let refused = |names: &[Vec<u8>]| Programs::read(&list(names)).unwrap_err().code;
    assert!(Programs::read(&list(&vec![b"ls".to_vec(); 1024])).is_ok());
    assert_eq!(refused(&vec![b"ls".to_vec(); 1025]), Code::InvalidArgument);
    assert_eq!(refused(&vec![vec![b'x'; 4096]; 17]), Code::InvalidArgument);
    assert_eq!(refused(&[Vec::new()]), Code::InvalidArgument);
    assert_eq!(refused(&[b"a\0b".to_vec()]), Code::InvalidArgument);
    let mut off = list(&[b"ls".to_vec()]);
    off[8] = 0;
    assert_eq!(Programs::read(&off).unwrap_err().code, Code::BadFrame);
}
