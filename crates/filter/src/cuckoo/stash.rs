//! The stash of a region: a line for entries that find no room in their buckets.
//!
//! A stash is exact and bounded: it has room for four entries.
//!
//! This module does not depend on buckets.

use crate::buckets::{BUCKET_BYTES, BucketShape, CacheLine, REGION_BUCKETS};
use crate::unit_number::UnitNumber;

const ENTRY_BYTES: usize = 16;
/// Number of entries in a stash.
pub(crate) const STASH_ENTRIES: usize = BUCKET_BYTES / ENTRY_BYTES;

/// Entry of a stash. Its bucket is one of the two buckets of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stashed {
    pub(crate) bucket: usize,
    pub(crate) print: u32,
    /// Unit at which the entry expires. It is never the first unit.
    pub(crate) expiry: UnitNumber,
}

/// Returns the entry at `place`. The entry is stored as its expiry, fingerprint and bucket, in little-endian numbers of
/// 8, 4 and 2 bytes. A place with an expiry of 0 is empty.
pub(crate) fn stashed_at(line: &CacheLine, place: usize) -> Option<Stashed> {
    let bytes = line.as_chunks::<ENTRY_BYTES>().0[place];
    let [expiry @ .., _, _, _, _, _, _, _, _] = bytes;
    let [_, _, _, _, _, _, _, _, p0, p1, p2, p3, b0, b1, _, _] = bytes;
    let expiry = UnitNumber(u64::from_le_bytes(expiry));
    let bucket = usize::from(u16::from_le_bytes([b0, b1]));
    (expiry > UnitNumber::FIRST).then_some(Stashed { bucket, print: u32::from_le_bytes([p0, p1, p2, p3]), expiry })
}

/// Replaces the entry at `place`.
pub(crate) fn set_stashed(line: &mut CacheLine, place: usize, entry: Option<Stashed>) {
    let mut bytes = [0; ENTRY_BYTES];
    if let Some(Stashed { bucket, print, expiry }) = entry {
        bytes[..8].copy_from_slice(&expiry.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&print.to_le_bytes());
        bytes[12..14].copy_from_slice(&(bucket as u16).to_le_bytes());
    }
    line.as_chunks_mut::<ENTRY_BYTES>().0[place] = bytes;
}

/// Returns all entries with their places.
pub(crate) fn stashed(line: &CacheLine) -> impl Iterator<Item = (usize, Stashed)> {
    (0..STASH_ENTRIES).filter_map(|place| Some((place, stashed_at(line, place)?)))
}

/// Returns the number of entries, including expired ones.
pub(crate) fn stashed_count(line: &CacheLine) -> u64 {
    stashed(line).count() as u64
}

/// Returns whether `line` is a valid stash: a filter of the given shape can have written it, and none of its entries
/// expires after `latest`. An entry with a later expiry is rejected because a filter would find it, and keep its place
/// occupied, for longer than any valid event.
pub(crate) fn is_stash(line: &CacheLine, shape: BucketShape, latest: UnitNumber) -> bool {
    let bytes = line.as_chunks::<ENTRY_BYTES>().0;
    bytes.iter().enumerate().all(|(place, bytes)| match stashed_at(line, place) {
        Some(Stashed { bucket, print, expiry }) => {
            bucket < REGION_BUCKETS && u64::from(print) <= shape.print_mask() && expiry <= latest
        }
        None => bytes.iter().all(|byte| *byte == 0),
    })
}
