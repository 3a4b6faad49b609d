//! Against the real hierarchies of this machine where there are any that can be written (root lane), and
//! against fixtures: parsing, and the files of version 2 as plain files in a folder.

use super::detect::{Hierarchy, hierarchies};
use super::envelope::EnvelopeGroup;
use super::*;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

fn instance(name: &str) -> String {
    format!("test_{name}_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn proc_file(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/self").join(name)).unwrap()
}

fn real(name: &str) -> Cgroups {
    Cgroups::detect(&instance(name), &proc_file("cgroup"), &proc_file("mountinfo"))
}

/// Whether this machine gives this test what it needs; the security suites require it of the root lane.
fn usable(groups: &Cgroups) -> bool {
    let have = groups.available();
    let usable = have.memory.is_some() && have.pids.is_some() && have.cpu_time.is_some();
    if !usable {
        // SAFETY: takes nothing.
        assert_ne!(unsafe { libc::geteuid() }, 0, "root finds no groups: {have:?}");
    }
    usable
}

fn fds(group: &EnvelopeGroup) -> Vec<RawFd> {
    group.procs().iter().map(AsRawFd::as_raw_fd).collect()
}

/// Forks a child that joins `group` and runs `body` (raw system calls only); its exit status or signal.
fn inside(group: &EnvelopeGroup, body: impl FnOnce() -> i32) -> i32 {
    let fds = fds(group);
    // SAFETY: the child keeps to raw system calls and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = if join(&fds).is_ok() { body() } else { 99 };
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) }
    }
    child
}

fn wait(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this test.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// A process that has been reaped can count for some milliseconds more.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn left(instance: &str) -> Vec<PathBuf> {
    let (found, _) = hierarchies(&proc_file("cgroup"), &proc_file("mountinfo"));
    let dirs = found.iter().flat_map(|place| place.own.ancestors().take_while(|dir| dir.starts_with(&place.mount)));
    dirs.map(|dir| dir.join(format!("boxkite-{instance}"))).filter(|path| path.exists()).collect()
}

fn touch_memory(megabytes: usize) -> i32 {
    let length = megabytes << 20;
    // SAFETY: a new private mapping, written within its bounds.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return 3;
        }
        for offset in (0..length).step_by(4096) {
            at.cast::<u8>().add(offset).write_volatile(1);
        }
    }
    0
}

#[test]
fn processes_are_limited_and_counted() {
    let mut groups = real("pids");
    if usable(&groups) {
        let sandbox = groups.sandbox(1).unwrap();
        let envelope = sandbox.envelope(1).unwrap();
        envelope.set(&EnvelopeLimits { pids: Some(3), ..Default::default() }).unwrap();
        let child = inside(&envelope, || {
            let mut made = 0;
            for _ in 0..10 {
                // SAFETY: the grandchildren wait for a signal.
                match unsafe { libc::fork() } {
                    0 => loop {
                        // SAFETY: as above.
                        unsafe { libc::pause() };
                    },
                    pid if pid > 0 => made += 1,
                    _ => break,
                }
            }
            // SAFETY: ends the grandchildren: the child leads its own group.
            unsafe {
                libc::signal(libc::SIGTERM, libc::SIG_IGN);
                libc::setpgid(0, 0);
            }
            made
        });
        assert_eq!(wait(child) >> 8, 2, "three with the first");
        assert_eq!(envelope.pids_current(), Some(2));
        assert_eq!(envelope.remove().unwrap_err().errno, libc::EBUSY);
        for pid in pids_in(&envelope_dir(&envelope)).unwrap() {
            // SAFETY: processes of this test.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        until("the group empties", || envelope.remove().is_ok());
        until("the sandbox goes", || sandbox.remove().is_ok());
    }
    groups.remove().unwrap();
    assert_eq!(left(&groups.instance), Vec::<PathBuf>::new());
}

fn envelope_dir(envelope: &EnvelopeGroup) -> PathBuf {
    envelope.dirs.iter().find(|(serves, _)| serves.pids).unwrap().1.clone()
}

#[test]
fn memory_is_limited_and_the_event_seen() {
    let mut groups = real("memory");
    if usable(&groups) {
        let sandbox = groups.sandbox(7).unwrap();
        sandbox.set(&SandboxLimits { memory_bytes: Some(256 << 20), pids: Some(100), cpu_millis: None }).unwrap();
        let envelope = sandbox.envelope(1).unwrap();
        let limit = |bytes| envelope.set(&EnvelopeLimits { memory_bytes: bytes, pids: Some(50) }).unwrap();
        // Up and down again, from and to no limit.
        for bytes in [Some(32 << 20), Some(64 << 20), None, Some(16 << 20), Some(24 << 20)] {
            limit(bytes);
        }
        let event = envelope.oom_event_fd();
        // Version 2 ends the whole group, so that nobody needs an event.
        assert_eq!(event.is_some(), groups.available().memory == Some(Via::V1));
        let readable = |wait| {
            let Some(event) = &event else { return wait > 0 };
            let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live entry.
            unsafe { libc::poll(&raw mut poll, 1, wait) == 1 }
        };
        assert_eq!(envelope.oom_kills(), Some(0));
        assert!(!readable(0));
        assert_eq!(wait(inside(&envelope, || touch_memory(8))), 0, "8 of 24 MiB fit");
        assert!(envelope.cpu_usec().unwrap() > 0);
        if envelope.memory_peak().is_some() {
            assert!(envelope.memory_peak() > Some(8 << 20));
            assert!(envelope.reset_memory_peak());
            assert!(envelope.memory_peak() < Some(8 << 20));
        }
        assert_eq!(wait(inside(&envelope, || touch_memory(48))), libc::SIGKILL);
        assert!(readable(2000));
        until("the kill is counted", || envelope.oom_kills() > Some(0));
        until("the charge goes back", || envelope.memory_current() < Some(4 << 20));
        until("the group empties", || envelope.remove().is_ok());
        until("the sandbox goes", || sandbox.remove().is_ok());
    }
    groups.remove().unwrap();
    assert_eq!(left(&groups.instance), Vec::<PathBuf>::new());
}

#[test]
fn the_sandbox_limit_binds_all_its_envelopes() {
    let mut groups = real("both");
    if usable(&groups) {
        let sandbox = groups.sandbox(1).unwrap();
        let memory_bytes = Some(24 << 20);
        sandbox.set(&SandboxLimits { memory_bytes, pids: None, cpu_millis: None }).unwrap();
        let (envelope, agent) = (sandbox.envelope(1).unwrap(), sandbox.envelope(2).unwrap());
        assert_eq!(wait(inside(&envelope, || touch_memory(48))), libc::SIGKILL);
        assert!(envelope.oom_kills() > Some(0));
        assert_eq!(agent.oom_kills(), Some(0));
        for group in [envelope, agent] {
            until("the group empties", || group.remove().is_ok());
        }
        until("the sandbox goes", || sandbox.remove().is_ok());
    }
    groups.remove().unwrap();
}

#[test]
fn a_rate_of_cpu_holds() {
    let mut groups = real("cpu");
    if usable(&groups) && groups.available().cpu.is_some() {
        let sandbox = groups.sandbox(1).unwrap();
        sandbox.set(&SandboxLimits { cpu_millis: Some(100), ..Default::default() }).unwrap();
        let envelope = sandbox.envelope(1).unwrap();
        let begin = Instant::now();
        let child = inside(&envelope, || {
            loop {
                std::hint::spin_loop();
            }
        });
        std::thread::sleep(Duration::from_millis(600));
        // SAFETY: a child of this test.
        unsafe { libc::kill(child, libc::SIGKILL) };
        wait(child);
        let used = u128::from(envelope.cpu_usec().unwrap());
        assert!(used > 1000 && used * 4 < begin.elapsed().as_micros(), "{used} us of CPU");
        until("the group empties", || envelope.remove().is_ok());
        until("the sandbox goes", || sandbox.remove().is_ok());
    }
    groups.remove().unwrap();
}

#[test]
fn the_sweep_takes_the_dead_and_leaves_the_living() {
    let (mut groups, mut dead, mut living) = (real("sweeper"), real("dead"), real("living"));
    // What the end of its process would do.
    dead._locks.clear();
    if usable(&groups) {
        let sandbox = dead.sandbox(3).unwrap();
        let envelopes = [sandbox.envelope(1).unwrap(), sandbox.envelope(2).unwrap()];
        let children = [0, 1].map(|index| {
            inside(&envelopes[index], || {
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            })
        });
        until("both have joined", || envelopes.iter().all(|group| group.pids_current() == Some(1) && settled(group)));
        let alien = dead.trees[0].dir.join("alien");
        fs::create_dir(&alien).unwrap();
        // A zombie keeps its group busy, so the children are reaped while the sweep waits.
        let reaper = std::thread::spawn(move || children.map(wait));
        let errors = groups.sweep();
        assert_eq!(reaper.join().unwrap(), [libc::SIGKILL, libc::SIGKILL]);
        assert!(errors.iter().all(|error| error.path == dead.trees[0].dir), "{errors:?}");
        assert!(alien.exists() && left(&dead.instance).len() == 1 && !left(&living.instance).is_empty());
        fs::remove_dir(&alien).unwrap();
        assert_eq!(groups.sweep(), []);
        assert_eq!(left(&dead.instance), Vec::<PathBuf>::new());
    }
    groups.remove().unwrap();
    living.remove().unwrap();
}

/// Whether every hierarchy lists the process that is joining.
fn settled(group: &EnvelopeGroup) -> bool {
    group.dirs.iter().all(|(_, dir)| pids_in(dir).is_ok_and(|pids| !pids.is_empty()))
}

/// A tree of version 2 without controllers, as beside version 1: kill, counters of CPU, CLONE_INTO_CGROUP.
#[test]
fn version_2_kills_at_once() {
    let (found, _) = hierarchies(&proc_file("cgroup"), &proc_file("mountinfo"));
    let Some(tree) = found.into_iter().find(|tree| tree.via == Via::V2) else { return };
    let dir = tree.own.join(format!("boxkite-{}", instance("unified")));
    if make_dir(&dir).is_err() {
        return;
    }
    // Another test's sweep leaves it alone.
    let _lock = lock::Lock::now(&dir);
    let serves = Serves { via: Via::V2, memory: false, pids: false, cpu: false, cpu_time: true };
    let mut group = EnvelopeGroup::make(&[(serves, dir.clone())], "e1").unwrap();
    let children = [0, 1].map(|_| {
        inside(&group, || {
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        })
    });
    until("both have joined", || pids_in(&group.dirs[0].1).unwrap().len() == 2);
    assert!(group.dir_fd().is_some());
    assert_eq!(group.remove().unwrap_err().errno, libc::EBUSY);
    assert!(group.kill().unwrap());
    assert_eq!(children.map(wait), [libc::SIGKILL, libc::SIGKILL]);
    assert!(group.cpu_usec().is_some());
    group.release_procs();
    assert!(group.procs().is_empty() && group.dir_fd().is_none());
    until("the group empties", || group.remove().is_ok());
    remove_dirs([dir].iter()).unwrap();
}

/// A group of version 2 with a limit and processes, as a service has it: only where its processes are ours to move is
/// there a place in it, and its end puts everything back. Needs controllers of version 2 that can be handed down.
#[test]
fn a_delegated_group_gets_a_leaf_for_its_processes() {
    let (found, _) = hierarchies(&proc_file("cgroup"), &proc_file("mountinfo"));
    let Some(tree) = found.into_iter().find(|tree| tree.via == Via::V2) else { return };
    let name = instance("delegated");
    let Ok(around) = place::find(&tree.own, &tree.mount, &format!("boxkite-{name}")) else { return };
    // Another test's sweep leaves it alone.
    let _lock = lock::Lock::now(&around.dir);
    if around.controllers.contains(&"memory") {
        let unit = around.dir.join("unit");
        make_dir(&unit).unwrap();
        write(&unit.join("memory.max"), "limit memory", "268435456").unwrap();
        let procs = File::options().write(true).open(unit.join("cgroup.procs")).unwrap();
        // SAFETY: the child keeps to raw system calls and ends by a signal; its own child would be nobody's to reap.
        let [first, second] = [0, 1].map(|_| match unsafe { libc::fork() } {
            0 => loop {
                let _ = join(&[procs.as_raw_fd()]);
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            },
            child => child,
        });
        until("both have joined", || pids_in(&unit).unwrap().len() == 2);
        // Children of this process alone: ours.
        let ours = place::find(&unit, &around.dir, "boxkite-a").map_err(|reasons| reasons.join("; ")).unwrap();
        assert_eq!(ours.dir, unit.join("boxkite-a"));
        let leaf = unit.join("boxkite.processes");
        assert_eq!((pids_in(&unit).unwrap().len(), pids_in(&leaf).unwrap().len()), (0, 2));
        // From the leaf the place is one level up, and it keeps the leaf from being undone.
        let second_place = place::find(&leaf, &around.dir, "boxkite-b").map_err(|reasons| reasons.join("; ")).unwrap();
        assert!(second_place.dir == unit.join("boxkite-b") && second_place.moved.is_none());
        fs::remove_dir(&ours.dir).unwrap();
        ours.moved.unwrap().undo().unwrap();
        assert_eq!(pids_in(&leaf).unwrap().len(), 2);
        fs::remove_dir(&second_place.dir).unwrap();
        for controller in ["memory", "pids", "cpu"] {
            let _ = write(&unit.join("cgroup.subtree_control"), "disable", &format!("-{controller}"));
        }
        write(&unit.join("cgroup.procs"), "move", &first.to_string()).unwrap();
        // Somebody else's process, here PID 1's like a daemon's.
        let other = orphan(&procs);
        until("it has joined", || pids_in(&unit).unwrap().contains(&other));
        // An ordinary user's own group with a limit is taken without a sign: systemd leaves none there.
        // SAFETY: takes nothing.
        if unsafe { libc::geteuid() } == 0 {
            let refused = place::find(&unit, &around.dir, "boxkite-c").err().expect("a group of others").join("; ");
            assert!(refused.contains("Delegate=yes") && !unit.join("boxkite-c").exists(), "{refused}");
        }
        let path = std::ffi::CString::new(unit.to_str().unwrap()).unwrap();
        // SAFETY: two NUL-terminated strings and one byte.
        assert_eq!(unsafe { libc::setxattr(path.as_ptr(), c"user.delegate".as_ptr(), c"1".as_ptr().cast(), 1, 0) }, 0);
        let given = place::find(&unit, &around.dir, "boxkite-c").map_err(|reasons| reasons.join("; ")).unwrap();
        assert_eq!(pids_in(&leaf).unwrap().len(), 3);
        fs::remove_dir(&given.dir).unwrap();
        given.moved.unwrap().undo().unwrap();
        assert!(!leaf.exists() && pids_in(&unit).unwrap().len() == 3);
        assert!(v2::kill(&unit).unwrap());
        assert_eq!([first, second].map(wait), [libc::SIGKILL, libc::SIGKILL]);
        until("the unit empties", || fs::remove_dir(&unit).is_ok());
    }
    let removed = remove_dirs([around.dir].iter());
    removed.and(around.moved.map_or(Ok(()), place::Moved::undo)).unwrap();
}

/// systemd hands a rate of CPU down only where somebody asked for one. Needs what the test above needs.
#[test]
fn a_place_with_all_controllers_comes_before_one_that_lacks_some() {
    let (found, _) = hierarchies(&proc_file("cgroup"), &proc_file("mountinfo"));
    let Some(tree) = found.into_iter().find(|tree| tree.via == Via::V2) else { return };
    let Ok(around) = place::find(&tree.own, &tree.mount, &format!("boxkite-{}", instance("lacking"))) else { return };
    // Another test's sweep leaves it alone.
    let _lock = lock::Lock::now(&around.dir);
    if around.controllers.len() == 3 {
        let (middle, own) = (around.dir.join("middle"), around.dir.join("middle/own"));
        for dir in [&middle, &own] {
            make_dir(dir).unwrap();
        }
        v2::enable(&middle, "memory").and_then(|()| v2::enable(&middle, "pids")).unwrap();
        let find = || place::find(&own, &around.dir, "boxkite-a").map_err(|reasons| reasons.join("; ")).unwrap();
        let place = find();
        assert_eq!((place.dir, place.controllers), (middle.join("boxkite-a"), vec!["memory", "pids", "cpu"]));
        fs::remove_dir(middle.join("boxkite-a")).unwrap();
        write(&middle.join("cgroup.subtree_control"), "disable", "-cpu").unwrap();
        // A group that was handed over without it is not left for it.
        let path = std::ffi::CString::new(own.to_str().unwrap()).unwrap();
        // SAFETY: two NUL-terminated strings and one byte.
        assert_eq!(unsafe { libc::setxattr(path.as_ptr(), c"user.delegate".as_ptr(), c"1".as_ptr().cast(), 1, 0) }, 0);
        let place = find();
        assert_eq!((place.dir, place.controllers), (own.join("boxkite-a"), vec!["memory", "pids"]));
        remove_dirs([own.join("boxkite-a"), own, middle].iter()).unwrap();
    }
    let removed = remove_dirs([around.dir].iter());
    removed.and(around.moved.map_or(Ok(()), place::Moved::undo)).unwrap();
}

/// A process in the group of `procs` whose parent has ended.
fn orphan(procs: &File) -> i32 {
    let mut ends = [0; 2];
    // SAFETY: two new descriptors; the children keep to raw system calls.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let parent = libc::fork();
        if parent == 0 {
            let child = libc::fork();
            if child == 0 {
                let _ = join(&[procs.as_raw_fd()]);
                loop {
                    libc::pause();
                }
            }
            libc::write(ends[1], (&raw const child).cast(), 4);
            libc::_exit(0);
        }
        let mut child = 0i32;
        assert_eq!(libc::read(ends[0], (&raw mut child).cast(), 4), 4);
        libc::close(ends[0]);
        libc::close(ends[1]);
        wait(parent);
        child
    }
}

/// The files of version 2, with the contents that the kernel documents.
#[test]
fn version_2_files_are_read_and_written() {
    let folder = std::env::temp_dir().join(format!("boxkite-{}", instance("files")));
    let dir = folder.join("e1");
    fs::create_dir_all(&dir).unwrap();
    let events = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\nsock_throttled 0\n";
    for (name, text) in [
        ("memory.max", ""),
        ("memory.swap.max", ""),
        ("memory.oom.group", ""),
        ("pids.max", ""),
        ("memory.current", "1048576\n"),
        ("memory.events", events),
        ("cpu.stat", "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n"),
        ("pids.current", "5\n"),
        ("cgroup.procs", ""),
        ("cpu.max", ""),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    let serves = Serves { via: Via::V2, memory: true, pids: true, cpu: true, cpu_time: true };
    // `make` makes the directory itself, so the group is put together in one that exists.
    let mut group = EnvelopeGroup::empty();
    group.open(serves, &dir).unwrap();
    group.dirs.push((serves, dir.clone()));
    assert_eq!(group.memory_current(), Some(1_048_576));
    assert_eq!((group.oom_kills(), group.cpu_usec(), group.pids_current()), (Some(2), Some(1234), Some(5)));
    assert_eq!(group.memory_peak(), None);
    assert_eq!(group.kill(), Ok(false));
    group.set(&EnvelopeLimits { memory_bytes: Some(4096), pids: Some(9) }).unwrap();
    let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!([text("memory.max"), text("memory.swap.max"), text("pids.max")], ["4096", "0", "9"]);
    assert_eq!(text("memory.oom.group"), "1");
    v2::set_cpu(&dir, Some(1500)).unwrap();
    assert_eq!(text("cpu.max"), "150000 100000");
    assert!(group.oom_event_fd().is_none());
    fs::write(dir.join("memory.events"), "oom_kill 3\n").unwrap();
    assert_eq!(group.oom_kills(), Some(3));
    fs::remove_file(dir.join("memory.swap.max")).unwrap();
    group.set(&EnvelopeLimits { memory_bytes: Some(8192), pids: None }).unwrap();
    fs::remove_file(dir.join("pids.max")).unwrap();
    let failed = group.set(&EnvelopeLimits { memory_bytes: None, pids: Some(1) }).unwrap_err();
    assert_eq!((failed.step, failed.errno), ("limit processes", libc::ENOENT));
    assert_eq!(failed.path, dir.join("pids.max"));
    fs::remove_dir_all(&folder).unwrap();
}

fn hierarchy(via: Via, controllers: &[&str], mount: &str, own: &str) -> Hierarchy {
    let controllers = controllers.iter().map(|name| (*name).to_string()).collect();
    Hierarchy { via, controllers, mount: mount.into(), own: own.into() }
}

#[test]
fn hierarchies_are_found_in_the_texts() {
    let pure = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    let session = "0::/user.slice/user-1000.slice/session-2.scope\n";
    let own = "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope";
    assert_eq!(hierarchies(session, pure), (vec![hierarchy(Via::V2, &[], "/sys/fs/cgroup", own)], vec![]));
    // A container's own namespace, and a container that sees a part of the host's tree.
    assert_eq!(hierarchies("0::/\n", pure).0, [hierarchy(Via::V2, &[], "/sys/fs/cgroup", "/sys/fs/cgroup")]);
    let part = "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
    let found = hierarchies("0::/docker/abc/leaf\n", part).0;
    assert_eq!(found, [hierarchy(Via::V2, &[], "/sys/fs/cgroup", "/sys/fs/cgroup/leaf")]);
    for outside in ["0::/docker/abcd\n", "0::/../x\n", "0::/other\n"] {
        let (found, reasons) = hierarchies(outside, part);
        assert!(found.is_empty() && reasons.len() == 1, "{outside}");
    }
    let hybrid = "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                  2 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n\
                  3 0 0:3 / /cg/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                  4 0 0:4 / /cg/unified rw - cgroup2 cgroup2 rw\n\
                  5 0 0:2 / /second/memory rw - cgroup cgroup rw,memory\n\
                  6 0 0:9 / /tmp rw - tmpfs tmpfs rw\nnonsense\n7 0 - cgroup2\n";
    let lines = "4:memory:/a\n3:cpu,cpuacct:/b\n2:pids:/\n1:name=systemd:/c\n0::/d\n";
    let (found, reasons) = hierarchies(lines, hybrid);
    assert!(reasons.is_empty());
    assert_eq!(
        found,
        [
            hierarchy(Via::V1, &["rw", "cpu", "cpuacct"], "/cg/cpu", "/cg/cpu/b"),
            hierarchy(Via::V1, &["rw", "memory"], "/cg/memory", "/cg/memory/a"),
            hierarchy(Via::V1, &["rw", "xattr", "name=systemd"], "/cg/systemd", "/cg/systemd/c"),
            hierarchy(Via::V2, &[], "/cg/unified", "/cg/unified/d"),
        ]
    );
}

#[test]
fn what_is_missing_is_said_and_refused() {
    let mut groups = Cgroups::detect("nothing", "0::/\n", "");
    let have = groups.available();
    assert_eq!((have.memory, have.pids, have.cpu, have.cpu_time), (None, None, None, None));
    assert_eq!(have.reasons.len(), 4, "{:?}", have.reasons);
    let sandbox = groups.sandbox(1).unwrap();
    sandbox.set(&SandboxLimits::default()).unwrap();
    for limits in [
        SandboxLimits { memory_bytes: Some(1), ..Default::default() },
        SandboxLimits { pids: Some(1), ..Default::default() },
        SandboxLimits { cpu_millis: Some(1), ..Default::default() },
    ] {
        assert_eq!(sandbox.set(&limits).unwrap_err().errno, libc::EOPNOTSUPP);
    }
    let envelope = sandbox.envelope(1).unwrap();
    assert_eq!(envelope.memory_current().or(envelope.oom_kills()).or(envelope.cpu_usec()), None);
    groups.remove().unwrap();
    for name in ["", "a/b", "..", "a b"] {
        assert!(!Cgroups::detect(name, "0::/\n", "").available().reasons.is_empty());
    }
}
