use super::{Maker, Plan, Role};
use boxkite_system::sys;
use std::os::fd::AsFd;

/// Whoever ordered it has been told that it was not: nobody would take what is made.
#[test]
fn a_plan_that_could_not_be_sent_is_not_sent_later() {
    let (ours, theirs) = sys::packet_pair().unwrap();
    sys::set_nonblocking(ours.as_fd(), true).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut maker = Maker::new(ours, null.into());
    let plan = Plan { id: 1, role: Role::Command, init_id: None, command_id: 1001, mounts: 0 };
    drop(theirs);
    assert_eq!(maker.request(plan, Vec::new()), Err(libc::EPIPE));
    assert_eq!(maker.waiting.len(), 0);
}
