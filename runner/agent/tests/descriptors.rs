//! A connection that comes when the agent has no descriptor left is lost; the agent and its other connections are not.

use boxkite_agent::control::Control;
use boxkite_agent::executor::Pool;
use boxkite_system::sys;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;

/// Set in the environment of the process that serves.
const OWN_PROCESS: &str = "BOXKITE_TEST_SERVES";
const TOLD: &str = "the end of both is told";

fn hand_on(channel: BorrowedFd<'_>) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    sys::send(channel, b"C", &[theirs.as_raw_fd()]).unwrap();
    ours
}

fn next(channel: BorrowedFd<'_>) -> Vec<u8> {
    let mut message = [0; 16];
    let (count, _) = sys::receive(channel, &mut message).unwrap();
    message[..count].to_vec()
}

fn serves_on() {
    let (ours, theirs) = sys::packet_pair().unwrap();
    let kept: &'static OwnedFd = Box::leak(Box::new(ours));
    let channel = kept.as_fd();
    let pool = Pool::new(1).unwrap();
    Control::start(&pool, theirs).unwrap();
    thread::spawn(move || pool.work());
    assert_eq!(next(channel), b"R");
    let mut first = hand_on(channel);
    // An answer, here to a frame that is none, shows that it has been taken.
    first.write_all(&[0xff; 64]).unwrap();
    first.read_exact(&mut [0; 1]).unwrap();
    let (mut lost, given) = UnixStream::pair().unwrap();
    let (soft, hard) = sys::limit(libc::RLIMIT_NOFILE as _).unwrap();
    sys::set_limit(libc::RLIMIT_NOFILE as _, 0, hard).unwrap();
    sys::send(channel, b"C", &[given.as_raw_fd()]).unwrap();
    drop(given);
    // Once the agent has received the message, nobody has the other end.
    assert_eq!(lost.read(&mut [0; 1]).unwrap_or(0), 0);
    sys::set_limit(libc::RLIMIT_NOFILE as _, soft, hard).unwrap();
    let third = hand_on(channel);
    third.shutdown(Shutdown::Both).unwrap();
    drop((first, third));
    while next(channel) != [&b"I"[..], &3u64.to_le_bytes()].concat() {}
    println!("{TOLD}");
}

/// In a process of its own: an agent ends the process that it is in, and the limit is the whole process's.
#[test]
fn a_lost_connection_is_counted() {
    if std::env::var_os(OWN_PROCESS).is_some() {
        return serves_on();
    }
    let test = std::env::current_exe().unwrap();
    let output = Command::new(test).arg("--nocapture").env(OWN_PROCESS, "1").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(TOLD), "{output:?}");
}
