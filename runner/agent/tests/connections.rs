//! Connections that come and go at every moment: each one's end is told, however its events fall.

use boxkite_agent::control::Control;
use boxkite_agent::executor::Pool;
use boxkite_system::sys;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// More than there are processors, so that one may stop between any two steps of another.
const POOL_THREADS: usize = 8;
const CLIENTS: u64 = 8;
const CONNECTIONS_OF_EACH: u64 = 2_500;
/// Those of the clients under way, with room to spare.
const MOST_DESCRIPTORS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a connection that has said something, part of a frame or none, and ends it just when it is taken.
fn visit(channel: BorrowedFd<'_>, number: u64) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let said: &[u8] = if number % 2 == 0 { &[0xff; 64] } else { &[1, 0, 0, 0] };
    ours.write_all(said).unwrap();
    while let Err(error) = sys::send(channel, b"C", &[theirs.as_raw_fd()]) {
        assert_eq!(error, libc::EAGAIN);
        thread::yield_now();
    }
    drop(theirs);
    // The end comes at any moment of the agent's own work: what was said is one event, this is the next.
    for _ in 0..number % 64 * 8 {
        std::hint::spin_loop();
    }
    // A connection that is refused may have been reset.
    ours.shutdown(Shutdown::Write).ok();
    ours.read_to_end(&mut Vec::new()).ok();
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn every_end_is_told() {
    let (ours, theirs) = sys::packet_pair().unwrap();
    let pool = Pool::new(POOL_THREADS).unwrap();
    Control::start(&pool, theirs).unwrap();
    for _ in 0..POOL_THREADS {
        let pool = pool.clone();
        thread::spawn(move || pool.work());
    }
    sys::set_nonblocking(ours.as_fd(), true).unwrap();
    // An agent ends its process once its channel closes, and that process is the test's: it stays open for ever.
    let kept: &'static OwnedFd = Box::leak(Box::new(ours));
    let channel = kept.as_fd();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| thread::spawn(move || (0..CONNECTIONS_OF_EACH).for_each(|number| visit(channel, number))))
        .collect();
    let deadline = Instant::now() + PATIENCE;
    let mut idle_after = 0;
    while idle_after < CLIENTS * CONNECTIONS_OF_EACH {
        assert!(Instant::now() < deadline, "nothing is told after {idle_after} ends");
        // Without descriptors the agent would end the process, and with it the test, as if all were well.
        assert!(open_descriptors() < MOST_DESCRIPTORS, "connections stay");
        let mut message = [0; 16];
        match sys::receive(channel, &mut message) {
            Ok((9, _)) if message[0] == b'I' => idle_after = u64::from_le_bytes(message[1..9].try_into().unwrap()),
            Ok((1, _)) => assert_eq!(message[0], b'R'),
            Ok(other) => panic!("{other:?} is no message of an agent"),
            Err(libc::EAGAIN) => drop(sys::wait_readable(channel, 100)),
            Err(error) => panic!("the channel fails: {error}"),
        }
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
}
