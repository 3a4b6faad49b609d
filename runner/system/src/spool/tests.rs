use std::os::fd::AsFd;

use super::{CAPACITY, Spool};
use crate::sys;

fn take(spool: &Spool, mut offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let count = spool.piece(offset, 1000);
        if count == 0 {
            return out;
        }
        spool.copy_to(offset, count, &mut out);
        offset += count as u64;
    }
}

/// Every byte that goes in comes out at its offset, through the change from small to file and round the ring.
#[test]
fn bytes_stay_at_their_offsets() {
    let (from, to) = sys::pipe(libc::O_NONBLOCK).unwrap();
    let mut spool = Spool::default();
    let byte = |offset: u64| (offset.wrapping_mul(2_654_435_761) >> 13) as u8;
    let (mut written, mut committed) = (0u64, 0u64);
    for round in 0..4000u64 {
        let size = 1 + (round * 7919) % 3000;
        let piece: Vec<u8> = (written..written + size).map(byte).collect();
        let count = sys::write(to.as_fd(), &piece).unwrap_or(0);
        written += count as u64;
        while !spool.is_full() && matches!(spool.read(from.as_fd()), Ok(count) if count > 0) {}
        if spool.end() - committed > 300_000 {
            let expected: Vec<u8> = (committed..spool.end()).map(byte).collect();
            assert!(take(&spool, committed) == expected, "round {round}");
            committed = spool.end() - 1000;
            spool.commit(committed);
        }
    }
    assert!(spool.end() > 3 * CAPACITY as u64 && spool.is_file());
    assert_eq!(spool.piece(spool.end(), 10), 0);
    assert_eq!(spool.piece(spool.start() - 1, 10), 0);
}

#[test]
fn a_full_spool_drops_its_older_half() {
    let (from, to) = sys::pipe(libc::O_NONBLOCK).unwrap();
    let mut spool = Spool::default();
    let block = vec![7u8; 32 << 10];
    while !spool.is_full() {
        sys::write(to.as_fd(), &block).unwrap();
        spool.read(from.as_fd()).unwrap();
    }
    spool.drop_oldest();
    assert_eq!((spool.start(), spool.end()), (CAPACITY as u64 / 2, CAPACITY as u64));
    assert!(spool.has_room() && !spool.is_full());
}
