//! Segment of a journal: a file of fixed size that consists of a header, frames and zeros.
//!
//! ```text
//! header: magic "FSEENJNL" | version u32 | bytes of the file u32 | cluster 16 bytes | node u64 | number u64 |
//!         end of the segment before u64, 0 where there is none | XXH3-64 of all that u64
//! frame:  length u32, above 0 | synced u32 | XXH3-64 of both under seed = number << 32 | offset u64 | XXH3-64 of the bytes
//!         under seed = that sum u64 | the bytes, and zeros up to a multiple of 8
//! ```
//!
//! All numbers are little-endian. A length of 0 marks the end of the frames.
//!
//! The field `synced` of a frame contains the offset up to which the segment had been synced when the frame was
//! written. A reader uses this offset to judge a broken frame, which is a frame whose checksum does not match. If the
//! broken frame lies before the offset, it was synced and has been damaged since, so the journal has lost data.
//!
//! If the broken frame lies after the offset, a crash may have interrupted its write. The loss of such a frame is
//! harmless, because a reply is sent only after the records that it depends on have been synced.
//!
//! The checksums of a segment ensure that a frame is returned only if it was written exactly like this at the same
//! place of the same segment. A frame that was damaged, or left over from another file, is not returned.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Size of a segment in the journal of a node, in bytes.
pub const SEGMENT_BYTES: u32 = 32 << 20;

/// Maximum size of a segment that can be read, in bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 256 << 20;

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const FRAME_HEADER_BYTES: usize = 24;
pub(crate) const ALIGNMENT: usize = 8;
const MAGIC: &[u8; 8] = b"FSEENJNL";
pub(crate) const VERSION: u32 = 1;
const SUMMED_BYTES: usize = HEADER_BYTES - 8;

/// Identity of the node that a journal belongs to, and of its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMark {
    /// Identifier of the cluster.
    pub cluster: [u8; 16],
    /// Number of the node.
    pub node: u64,
}

/// Header at the beginning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) of: NodeMark,
    pub(crate) segment_bytes: u32,
    pub(crate) number: u64,
    pub(crate) previous_end: u64,
}

/// Error returned when bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The header was written by another release, with this format version.
    Version(u32),
    /// The header is damaged, or the file is not a segment.
    Damaged,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.of.cluster);
        bytes[32..40].copy_from_slice(&self.of.node.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.number.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.previous_end.to_le_bytes());
        let sum = xxh3_64(&bytes[..SUMMED_BYTES]);
        bytes[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(segment: &[u8]) -> Result<Self, HeaderError> {
        let bytes = segment.get(..HEADER_BYTES).ok_or(HeaderError::Damaged)?;
        if &bytes[..8] != MAGIC || xxh3_64(&bytes[..SUMMED_BYTES]) != number_at(bytes, SUMMED_BYTES) {
            return Err(HeaderError::Damaged);
        }
        let version = length_at(bytes, 8);
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let mut cluster = [0; 16];
        cluster.copy_from_slice(&bytes[16..32]);
        let of = NodeMark { cluster, node: number_at(bytes, 32) };
        Ok(Self {
            of,
            segment_bytes: length_at(bytes, 12),
            number: number_at(bytes, 40),
            previous_end: number_at(bytes, 48),
        })
    }
}

/// Frame in the bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) synced: u32,
    pub(crate) payload: &'a [u8],
    /// Offset at which the next frame starts.
    pub(crate) end: usize,
}

/// Returns the number of bytes that a frame takes.
pub(crate) fn frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

/// Appends a frame that will be written at `offset` of segment `number`.
pub(crate) fn push_frame(bytes: &mut Vec<u8>, number: u64, offset: u64, synced: u32, payload: &[u8]) {
    let length = payload.len() as u32;
    let head_sum = head_sum(number, offset, length, synced);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&synced.to_le_bytes());
    bytes.extend_from_slice(&head_sum.to_le_bytes());
    bytes.extend_from_slice(&xxh3_64_with_seed(payload, head_sum).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + frame_bytes(payload.len()) - FRAME_HEADER_BYTES - payload.len(), 0);
}

/// Returns the frame at `offset` of segment `number`, or `None` if there is no intact frame.
pub(crate) fn frame_at(segment: &[u8], number: u64, offset: usize) -> Option<Frame<'_>> {
    let header = segment.get(offset..offset + FRAME_HEADER_BYTES)?;
    let length = length_at(header, 0);
    let synced = length_at(header, 4);
    // The checksum covers the length, so it is checked before the length is used.
    let head_sum = number_at(header, 8);
    if length == 0 || head_sum != self::head_sum(number, offset as u64, length, synced) {
        return None;
    }
    let start = offset + FRAME_HEADER_BYTES;
    let payload = segment.get(start..start + length as usize)?;
    let end = offset + frame_bytes(payload.len());
    let padding = segment.get(start + payload.len()..end)?;
    let is_whole =
        xxh3_64_with_seed(payload, head_sum) == number_at(header, 16) && padding.iter().all(|byte| *byte == 0);
    is_whole.then_some(Frame { synced, payload, end })
}

fn head_sum(number: u64, offset: u64, length: u32, synced: u32) -> u64 {
    let head = (u64::from(length) << 32 | u64::from(synced)).to_le_bytes();
    xxh3_64_with_seed(&head, number << 32 | offset)
}

fn length_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
