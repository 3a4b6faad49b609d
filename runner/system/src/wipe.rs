//! Forgetting what may have been secret.

use std::sync::atomic::{Ordering, compiler_fence};

/// Bytes that are wiped when they go.
pub struct Wiped(pub Vec<u8>);

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites bytes in a way that the compiler keeps.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // Both keep the writes above from being optimised away.
    compiler_fence(Ordering::SeqCst);
    std::hint::black_box(bytes);
}
