//! Over real sockets, in pieces of every size.

use super::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

struct Pair {
    node: UnixStream,
    control: Control,
    store: Store,
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], &[kind, 0, 0, 0], payload].concat()
}

fn put(key: u8, blob: &[u8]) -> Vec<u8> {
    frame(kind::PUT, &[&[key; KEY], blob].concat())
}

impl Pair {
    fn new() -> Self {
        let (ours, node) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        node.set_nonblocking(true).unwrap();
        Self { node, control: Control::new(ours.into()), store: Store::default() }
    }

    /// Sends in pieces, serving after each, and gives all that was answered as (type, payload).
    fn exchange(&mut self, bytes: &[u8], piece: usize) -> Vec<(u8, Vec<u8>)> {
        let mut answers = Vec::new();
        let mut sent = 0;
        loop {
            let most = piece.min(bytes.len() - sent);
            sent += self.node.write(&bytes[sent..sent + most]).unwrap_or(0);
            self.control.serve(&mut self.store).unwrap();
            let mut buffer = vec![0; 1 << 20];
            match self.node.read(&mut buffer) {
                Ok(count) => answers.extend_from_slice(&buffer[..count]),
                Err(_) if sent == bytes.len() && !self.control.is_sending() => return split(&answers),
                Err(_) => {}
            }
        }
    }
}

fn split(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        assert_eq!(bytes[5..8], [0; 3]);
        out.push((bytes[4], bytes[8..8 + length].to_vec()));
        bytes = &bytes[8 + length..];
    }
    out
}

fn kinds(answers: &[(u8, Vec<u8>)]) -> Vec<u8> {
    answers.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn frames_are_answered_in_order_however_they_are_cut() {
    let all = [
        put(2, b"two"),
        put(1, b""),
        put(2, b"again"),
        put(3, b"three"),
        frame(kind::DELETE, &[3; KEY]),
        frame(kind::LIST, b""),
        frame(kind::READY, b""),
    ]
    .concat();
    for piece in [1, 2, 7, 8, 9, 24, 1000] {
        let mut pair = Pair::new();
        let answers = pair.exchange(&all, piece);
        let blobs = [(kind::BLOB, [1; KEY].to_vec()), (kind::BLOB, [&[2; KEY][..], b"again"].concat())];
        assert_eq!(kinds(&answers[..5]), [kind::DONE; 5]);
        assert_eq!(answers[5..7], blobs);
        assert_eq!(kinds(&answers[7..]), [kind::DONE; 2]);
        assert!(pair.control.ready);
    }
}

#[test]
fn what_is_refused_changes_nothing_and_the_connection_goes_on() {
    let mut pair = Pair::new();
    let bad = [
        put(1, &vec![0; MOST_BLOB + 1]),
        frame(kind::PUT, &[0; KEY - 1]),
        frame(kind::DELETE, &[0; KEY + 1]),
        frame(kind::LIST, b"x"),
        frame(kind::READY, b"x"),
        frame(9, &[1; 100_000]),
        vec![0, 0, 0, 0, kind::LIST, 0, 1, 0],
    ];
    for frame in &bad {
        let answers = pair.exchange(frame, 1 << 16);
        assert_eq!(kinds(&answers), [kind::REFUSED]);
        assert!(!answers[0].1.is_empty());
    }
    assert!(!pair.control.ready);
    assert_eq!(kinds(&pair.exchange(&frame(kind::LIST, b""), 8)), [kind::DONE]);
    assert_eq!(kinds(&pair.exchange(&put(1, &vec![5; MOST_BLOB]), 1 << 16)), [kind::DONE]);
}

#[test]
fn a_list_larger_than_the_socket_comes_whole_and_stops_the_reading() {
    let mut pair = Pair::new();
    for key in 0..8 {
        pair.store.put([key; KEY], Secret(vec![key; MOST_BLOB])).unwrap();
    }
    pair.node.write_all(&[frame(kind::LIST, b""), put(9, b"later")].concat()).unwrap();
    pair.control.serve(&mut pair.store).unwrap();
    assert!(pair.control.is_sending());
    assert!(pair.store.next(Some(&[7; KEY])).is_none());
    let answers = pair.exchange(b"", 1);
    assert_eq!(kinds(&answers), [&[kind::BLOB; 8][..], &[kind::DONE; 2]].concat());
    for (key, (_, blob)) in answers[..8].iter().enumerate() {
        assert!(blob[..KEY] == [key as u8; KEY] && blob[KEY..] == vec![key as u8; MOST_BLOB]);
    }
    assert!(pair.store.next(Some(&[7; KEY])).is_some());
}

#[test]
fn the_whole_frames_of_a_node_that_has_ended_are_served() {
    let mut pair = Pair::new();
    let cut = put(2, b"this one is cut");
    let all = [put(1, b"one"), frame(kind::LIST, b""), put(3, b"three"), cut[..30].to_vec()].concat();
    pair.node.write_all(&all).unwrap();
    drop(pair.node);
    pair.control.drain(&mut pair.store);
    assert_eq!(pair.store.next(None), Some((&[1; KEY], &b"one"[..])));
    assert_eq!(pair.store.next(Some(&[1; KEY])), Some((&[3; KEY], &b"three"[..])));
    assert_eq!(pair.store.next(Some(&[3; KEY])), None);
}

#[test]
fn the_end_of_the_stream_is_an_error() {
    let mut pair = Pair::new();
    drop(pair.node);
    assert!(pair.control.serve(&mut pair.store).is_err());
}
