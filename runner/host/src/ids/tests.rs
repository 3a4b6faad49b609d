//! Locks are tried between real processes: a forked child claims and reports by a pipe.

use super::*;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("boxkite-ids-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Folder(path)
    }
    fn root(&self) -> IdSource {
        IdSource::Root { dir: self.0.join("locks") }
    }
    fn sub(&self, count: u32) -> IdSource {
        IdSource::SubRange { first: 1, start: 100_000, count, dir: self.0.join("locks") }
    }
    fn files(&self) -> usize {
        fs::read_dir(self.0.join("locks")).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The lock of a name that nobody holds any more, as soon as the children that other tests fork meanwhile have let go of
/// their copy of it.
fn freed(dir: &Path, name: &str) -> OwnedFd {
    let folder = open_folder(dir).unwrap();
    for _ in 0..1000 {
        if let Some(lock) = lock(folder.as_raw_fd(), name).unwrap() {
            return lock;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{name} is still locked");
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn root_ranges_are_apart() {
    let folder = Folder::new("root");
    let source = folder.root();
    // Each holds a descriptor, of which a process has 1,024 by default, shared with the tests beside this one.
    let ranges: Vec<IdRange> = (0..500).map(|_| source.claim().unwrap()).collect();
    let bases: HashSet<u32> = ranges.iter().map(|range| range.init.unwrap()).collect();
    assert_eq!(bases.len(), 500);
    for range in &ranges {
        let base = range.init.unwrap();
        assert!((0x7000_0000..0x7ff0_0000).contains(&base) && base % 16 == 0);
        assert_eq!(range.command, base + 1);
    }
    for range in ranges {
        source.release(range).unwrap();
    }
    assert_eq!(folder.files(), 0);
}

#[test]
fn sub_ranges_run_out_and_come_back() {
    let folder = Folder::new("sub");
    let source = folder.sub(9);
    let mut ranges: Vec<IdRange> = (0..4).map(|_| source.claim().unwrap()).collect();
    let mut ids: Vec<u32> = ranges.iter().flat_map(|range| [range.init.unwrap(), range.command]).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(errno(source.claim()), Some(libc::EAGAIN));
    let freed = ranges.pop().unwrap();
    let number = freed.number;
    source.release(freed).unwrap();
    assert_eq!(source.claim().unwrap().number, number);
    assert_eq!(errno(folder.sub(1).claim()), Some(libc::EAGAIN));
    let one = IdSource::OneId.claim().unwrap();
    assert_eq!((one.init, one.command, one.lock.is_none()), (None, 0, true));
}

/// Forks a child that runs `body` with the write end of a pipe and then sleeps until it is killed.
fn child(body: impl FnOnce(&mut fs::File)) -> (i32, fs::File) {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for both descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: both are new and owned by nothing else.
    let (read, mut write) = unsafe { (fs::File::from_raw_fd(ends[0]), fs::File::from_raw_fd(ends[1])) };
    // SAFETY: glibc's allocator works in a forked child; the child ends by a signal.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(read);
        body(&mut write);
        drop(write);
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    (pid, read)
}

fn end(pid: i32) {
    // SAFETY: a child of this test, and its status.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

#[test]
fn two_processes_never_get_the_same_and_a_kill_frees() {
    let folder = Folder::new("two");
    let source = folder.sub(800);
    let claim = |count: usize| {
        child(|out| {
            let ranges: Vec<IdRange> = (0..count).filter_map(|_| source.claim().ok()).collect();
            let text: Vec<String> = ranges.iter().map(|range| range.number.to_string()).collect();
            out.write_all(text.join(" ").as_bytes()).unwrap();
            std::mem::forget(ranges);
        })
    };
    let children = [claim(100), claim(100), claim(100), claim(100)];
    let mut numbers = HashSet::new();
    for (_, read) in &children {
        let mut text = String::new();
        let mut read = read;
        read.read_to_string(&mut text).unwrap();
        let before = numbers.len();
        numbers.extend(text.split(' ').map(|word| word.parse::<u32>().unwrap()));
        assert_eq!(numbers.len(), before + 100);
    }
    assert_eq!(errno(source.claim()), Some(libc::EAGAIN), "all 400 are taken");
    end(children[0].0);
    let again: Vec<IdRange> = (0..100).map(|_| source.claim().unwrap()).collect();
    assert_eq!(again.len(), 100);
    assert_eq!(errno(source.claim()), Some(libc::EAGAIN));
    children[1..].iter().for_each(|(pid, _)| end(*pid));
}

#[test]
fn claims_and_releases_in_parallel_never_overlap() {
    let folder = Folder::new("race");
    let source = folder.sub(4);
    let held = folder.0.join("held");
    fs::create_dir(&held).unwrap();
    let children: Vec<_> = (0..4)
        .map(|_| {
            child(|out| {
                let mut bad = 0;
                for _ in 0..2000 {
                    let Ok(range) = source.claim() else { continue };
                    let mark = held.join(range.number.to_string());
                    bad += u32::from(fs::create_dir(&mark).is_err());
                    fs::remove_dir(&mark).unwrap_or_default();
                    bad += u32::from(source.release(range).is_err());
                }
                write!(out, "{bad}").unwrap();
            })
        })
        .collect();
    for (pid, mut read) in children {
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "0");
        end(pid);
    }
}

#[test]
fn hostile_folders_and_files_are_refused() {
    let folder = Folder::new("hostile");
    let source = folder.sub(2);
    let locks = folder.0.join("locks");
    let victim = folder.0.join("victim");
    fs::write(&victim, "x").unwrap();
    fs::DirBuilder::new().mode(0o700).create(&locks).unwrap();
    symlink(&victim, locks.join("100000-0")).unwrap();
    assert_eq!(errno(source.claim()), Some(libc::ELOOP), "a lock file that is a link");
    fs::remove_file(locks.join("100000-0")).unwrap();
    fs::hard_link(&victim, locks.join("100000-0")).unwrap();
    assert_eq!(errno(source.claim()), Some(libc::EPERM), "a lock file with a second name");
    fs::remove_file(locks.join("100000-0")).unwrap();
    for mode in [0o720, 0o702, 0o777] {
        fs::set_permissions(&locks, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(errno(source.claim()), Some(libc::EPERM), "a folder of mode {mode:o}");
    }
    fs::remove_dir(&locks).unwrap();
    let elsewhere = folder.0.join("elsewhere");
    fs::DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
    symlink(&elsewhere, &locks).unwrap();
    assert!(source.claim().is_err(), "a folder that is a link");
    fs::remove_file(&locks).unwrap();
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } == 0 {
        fs::DirBuilder::new().mode(0o700).create(&locks).unwrap();
        std::os::unix::fs::chown(&locks, Some(1234), None).unwrap();
        assert_eq!(errno(source.claim()), Some(libc::EPERM), "a folder of another user");
    }
}

#[test]
fn entries_of_the_machine_are_avoided() {
    let subuid = "a:100000:65536\nb:1879048192:32\ngarbage\nc:x:y\nd:2000000000:0\ne:4294967290:65536\n";
    let covered = [(100_000, 165_535), (1_879_048_192, 1_879_048_223), (4_294_967_290, u32::MAX)];
    assert_eq!(ranges(subuid, Some(2)), covered);
    // A container's sandboxes have ids among which its nobody is.
    let passwd = "nobody:x:65534:65534::/:/bin/sh\nhigh:x:1879048200:1879048201:::\n";
    let ids = [65_534, 65_534, 1_879_048_200, 1_879_048_201];
    assert_eq!(ranges(passwd, None), ids.map(|id| (id, id)));
}

#[test]
fn sub_ids_are_found() {
    let both = "# x\nother:1:2\n::\nann:oops:3\nann:100000:1\nann:165536:65536\nann:9:9\n";
    let found = SubIds { uid_start: 165_536, gid_start: 165_536, count: 65_536 };
    assert_eq!(sub_range_for("ann", 1000, both, both), Some(found));
    let by_number = "1000:200000:10\n";
    let mixed = SubIds { uid_start: 200_000, gid_start: 165_536, count: 10 };
    assert_eq!(sub_range_for("ann", 1000, by_number, both), Some(mixed));
    assert_eq!(sub_range_for("ann", 1000, both, ""), None);
    assert_eq!(sub_range_for("", 7, "::\n:5:6\n", ":5:6\n"), None);
    assert_eq!(sub_range_for("ann", 1, "ann:4294967295:65536\n", both), None);
    assert_eq!(sub_range_for("ann", 1, "ann:0:65536\n", both), None);
}

#[test]
fn the_sweep_takes_the_locks_of_the_dead_alone() {
    let dir = std::env::temp_dir().join(format!("boxkite-ids-sweep-{}", std::process::id()));
    let source = IdSource::SubRange { first: 1, start: 100_000, count: 1000, dir: dir.clone() };
    let living = source.claim().unwrap();
    let dead = source.claim().unwrap();
    // What the end of its process would do.
    drop(dead.lock);
    for name in ["alien", "service-5", "service-7"] {
        fs::write(dir.join(name), "").unwrap();
    }
    let _daemon = lock(open_folder(&dir).unwrap().as_raw_fd(), "service-7").unwrap().unwrap();
    drop(freed(&dir, &source.lock_name(dead.number)));
    source.sweep();
    let mut left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [source.lock_name(living.number).as_str(), "alien", "service-7"]);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_range_with_files_left_is_given_to_nobody_until_they_are_gone() {
    let folder = Folder::new("kept");
    let source = folder.root();
    let owner = folder.0.join("image");
    fs::write(&owner, "").unwrap();
    let range = source.claim().unwrap();
    let (number, command) = (range.number, range.command);
    source.mark(&range, &owner).unwrap();
    assert_eq!(errno(source.claim_number(number)), Some(libc::EAGAIN));
    // Its holder is killed: the lock is free, the mark stays.
    drop(range);
    source.sweep();
    assert_eq!(folder.files(), 1);
    let lock = freed(&folder.0.join("locks"), &number.to_string());
    assert!(is_kept(&lock));
    drop(lock);
    drop(freed(&folder.0.join("locks"), &number.to_string()));
    let again = source.claim_number(number).unwrap();
    assert_eq!((again.number, again.command, again.init), (number, command, Some(command - 1)));
    drop(again);
    fs::remove_file(&owner).unwrap();
    drop(freed(&folder.0.join("locks"), &number.to_string()));
    source.sweep();
    assert_eq!(folder.files(), 0);
    assert_eq!(errno(source.claim_number(u32::MAX)), Some(libc::EINVAL));
    assert_eq!(errno(folder.sub(8).claim_number(0)), Some(libc::EPERM));
}
