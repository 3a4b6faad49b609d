//! The blobs: opaque bytes by key, in memory only, wiped when they go.

use std::collections::BTreeMap;

use boxkite_system::wipe::wipe;

/// Bytes of one blob.
pub const MOST_BLOB: usize = 1 << 20;
const MOST_BLOBS: usize = 8192;
/// Bytes of all blobs.
const MOST_BYTES: usize = 512 << 20;

/// What Node names a blob by.
pub type Key = [u8; 16];

/// Bytes that are wiped when they are dropped.
pub struct Secret(pub Vec<u8>);

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// All blobs of all sandboxes.
#[derive(Default)]
pub struct Store {
    blobs: BTreeMap<Key, Secret>,
    bytes: usize,
}

impl Store {
    /// Keeps a blob in the place of the key's earlier one. An error, for people, changes nothing.
    pub fn put(&mut self, key: Key, blob: Secret) -> Result<(), &'static str> {
        let earlier = self.blobs.get(&key).map(|blob| blob.0.len());
        let bytes = self.bytes - earlier.unwrap_or(0) + blob.0.len();
        match () {
            () if earlier.is_none() && self.blobs.len() >= MOST_BLOBS => Err("there are 8192 blobs already"),
            () if bytes > MOST_BYTES => Err("the blobs would be larger than 512 MiB in all"),
            () => {
                self.bytes = bytes;
                self.blobs.insert(key, blob);
                Ok(())
            }
        }
    }

    /// Wipes a blob, if there is one.
    pub fn delete(&mut self, key: &Key) {
        if let Some(blob) = self.blobs.remove(key) {
            self.bytes -= blob.0.len();
        }
    }

    /// The blob with the lowest key, or the lowest above `after`.
    pub fn next(&self, after: Option<&Key>) -> Option<(&Key, &[u8])> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.blobs.range::<Key, _>((from, Unbounded)).next().map(|(key, blob)| (key, &blob.0[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn all(store: &Store) -> Vec<(Key, usize)> {
        let mut found = Vec::new();
        let mut after = None;
        while let Some((key, blob)) = store.next(after.as_ref()) {
            found.push((*key, blob.len()));
            after = Some(*key);
        }
        found
    }

    #[test]
    fn blobs_are_replaced_deleted_and_listed_in_order() {
        let mut store = Store::default();
        for (number, size) in [(3, 1), (1, 2), (2, 3), (1, 4)] {
            store.put(key(number), Secret(vec![7; size])).unwrap();
        }
        assert_eq!(all(&store), [(key(1), 4), (key(2), 3), (key(3), 1)]);
        assert_eq!(store.bytes, 8);
        store.delete(&key(2));
        store.delete(&key(2));
        assert_eq!(all(&store), [(key(1), 4), (key(3), 1)]);
        assert_eq!(store.bytes, 5);
    }

    #[test]
    fn their_number_and_their_bytes_are_bounded() {
        let mut store = Store::default();
        for number in 0..MOST_BLOBS as u32 {
            store.put(key(number), Secret(Vec::new())).unwrap();
        }
        assert!(store.put(key(u32::MAX), Secret(Vec::new())).is_err());
        // Zeros of a fresh allocation take no memory until they are written, so that this costs nothing.
        for number in 0..512 {
            store.put(key(number), Secret(vec![0; MOST_BLOB])).unwrap();
        }
        assert!(store.put(key(512), Secret(vec![1])).is_err());
        assert_eq!(all(&store)[512], (key(512), 0));
        store.put(key(0), Secret(vec![1])).unwrap();
        store.put(key(512), Secret(vec![1])).unwrap();
        // Forgotten, not dropped: wiping would write all of it.
        std::mem::forget(store);
    }
}
