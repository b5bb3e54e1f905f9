//! Encodes the positions of events as a stream of bits.
//!
//! Each event takes exactly as many bits as the plan of its filter shows. Decoding returns an error if a position is
//! outside the shape of the filter. There are three encodings of positions:
//!
//! - Spread positions take k fields of `ceil(log2 cells)` bits, at most 63 bits each.
//! - Blocked positions take `ceil(log2 blocks)` bits for the block, and then k fields of `offset_bits` bits.
//! - Lists take 4 bits for each count less one, followed by all positions of `ceil(log2 range)` bits each.
//!
//! Each byte of an encoded stream is filled from its lowest bit upwards. If the stream ends within a byte, the rest of
//! that byte is filled with zeros.

use std::ops::Range;

use firstseen_filter::{BlockProbe, HASHES_MAX, ProbeError, ProbeShape, Probes};
use firstseen_routing::PositionLists;

use crate::bits::{BitReader, BitWriter, NARROW_BITS_MAX, WIDE_BITS_MAX, bits_below, mask};
use crate::error::{WireError, check_length};

/// Name of the field with packed positions, for errors.
const PROBES_FIELD: &str = "probes";

/// Returns the number of bits that one event of this shape takes.
///
/// ```
/// use firstseen_filter::ProbeShape;
/// use firstseen_wire::packing::event_bits;
/// assert_eq!(event_bits(ProbeShape::Spread { cells: 1_000_000, hashes: 7 }), 7 * 20);
/// assert_eq!(event_bits(ProbeShape::Blocked { blocks: 1 << 16, offset_bits: 9, hashes: 7 }), 16 + 7 * 9);
/// ```
pub fn event_bits(shape: ProbeShape) -> usize {
    match shape {
        ProbeShape::Spread { cells, hashes } => bits_below(cells) as usize * hashes as usize,
        ProbeShape::Blocked { blocks, offset_bits, hashes } => BlockWidths::of(blocks, offset_bits, hashes).sum(),
    }
}

/// Returns the number of bytes that `events` events of this shape take.
pub fn packed_bytes(shape: ProbeShape, events: usize) -> usize {
    (event_bits(shape) * events).div_ceil(8)
}

/// Widths of the three parts of a blocked event: the block, and two words that contain as many whole offsets as fit.
#[derive(Clone, Copy)]
struct BlockWidths {
    block: u32,
    words: [u32; 2],
}

impl BlockWidths {
    fn of(blocks: u64, offset_bits: u32, hashes: u32) -> Self {
        let first = hashes.min(u64::BITS / offset_bits.max(1));
        let second = ((hashes - first) * offset_bits).min(u64::BITS);
        Self { block: bits_below(blocks), words: [first * offset_bits, second] }
    }

    fn sum(self) -> usize {
        (self.block + self.words[0] + self.words[1]) as usize
    }

    /// Returns whether all three parts fit into one wide field, so that the event can be copied in one step.
    #[inline(always)]
    fn is_one_field(self) -> bool {
        self.block + self.words[0] + self.words[1] <= WIDE_BITS_MAX
    }
}

/// Appends the events in `range` to `out`, starting at a new byte.
///
/// # Panics
/// Panics if `range` is not within the events.
pub fn pack_probes(probes: &Probes, range: Range<usize>, out: &mut Vec<u8>) {
    assert!(range.end <= probes.len(), "events {range:?} of {}", probes.len());
    let mut writer = BitWriter::new(out, event_bits(probes.shape()) * range.len());
    match probes.shape() {
        ProbeShape::Spread { cells, .. } => {
            let bits = bits_below(cells);
            range.for_each(|index| put_positions(&mut writer, probes.positions(index), bits));
        }
        ProbeShape::Blocked { blocks, offset_bits, hashes } => {
            let widths = BlockWidths::of(blocks, offset_bits, hashes);
            let masks = widths.words.map(mask);
            let head_bits = widths.block + widths.words[0];
            for probe in range.filter_map(|index| probes.block(index)) {
                let [first, second] = [0, 1].map(|word: usize| u128::from(probe.words[word] & masks[word]));
                let head = u128::from(probe.block) | first << widths.block;
                if widths.is_one_field() {
                    writer.put_wide(head | second << head_bits, head_bits + widths.words[1]);
                } else {
                    writer.put_wide(head, head_bits);
                    writer.put_wide(second, widths.words[1]);
                }
            }
        }
    }
    writer.finish();
}

/// Returns the error for positions of a message that do not fit into a batch.
fn misplaced(error: ProbeError) -> WireError {
    let (found, range) = match error {
        ProbeError::Outside { at, range } => (at, range),
        // The caller derives the number of positions and the shape from the batch, so these cases cannot occur.
        ProbeError::Count { given, hashes } => (given as u64, u64::from(hashes) + 1),
        ProbeError::Shape(_) => (0, 0),
    };
    WireError::TooGreat { field: PROBES_FIELD, found, max: range.saturating_sub(1) }
}

/// Decodes the cell positions of `events` events from `bytes`, and appends them to `probes`. The shape of `probes`
/// determines how many positions each event has. `bytes` must contain the positions of these events and nothing else.
///
/// # Errors
/// Returns [`WireError`] if the length does not match, or if a position is outside the shape. After an error the
/// contents of `probes` are unspecified.
pub fn unpack_probes(bytes: &[u8], events: usize, probes: &mut Probes) -> Result<(), WireError> {
    check_length(PROBES_FIELD, bytes.len(), packed_bytes(probes.shape(), events))?;
    let mut reader = BitReader::new(bytes);
    match probes.shape() {
        ProbeShape::Spread { cells, hashes } => {
            let bits = bits_below(cells);
            let mut buffer = [0; HASHES_MAX as usize];
            let positions = &mut buffer[..hashes.min(HASHES_MAX) as usize];
            for _ in 0..events {
                positions.iter_mut().for_each(|position| *position = take_position(&mut reader, bits));
                probes.push_positions(positions).map_err(misplaced)?;
            }
        }
        ProbeShape::Blocked { blocks, offset_bits, hashes } => {
            let widths = BlockWidths::of(blocks, offset_bits, hashes);
            let masks = widths.words.map(mask);
            let head_bits = widths.block + widths.words[0];
            for _ in 0..events {
                let (head, second) = if widths.is_one_field() {
                    let whole = reader.take_wide(head_bits + widths.words[1]);
                    (whole, whole >> head_bits)
                } else {
                    (reader.take_wide(head_bits), reader.take_wide(widths.words[1]))
                };
                let block = head as u64 & mask(widths.block);
                let words = [(head >> widths.block) as u64 & masks[0], second as u64 & masks[1]];
                probes.push_block(BlockProbe { block, words }).map_err(misplaced)?;
            }
        }
    }
    check_padding(PROBES_FIELD, &reader)
}

/// Encodes lists of positions below `range` as two streams, one with the counts and one with the positions.
///
/// # Errors
/// Returns [`WireError`] if a list is empty or has more than 16 positions, or if a position is not below `range`.
pub fn pack_lists(lists: &PositionLists, range: u64) -> Result<(Vec<u8>, Vec<u8>), WireError> {
    let total: usize = lists.counts.iter().map(|count| usize::from(*count)).sum();
    check_length("positions", lists.positions.len(), total)?;
    let mut counts = Vec::new();
    let mut writer = BitWriter::new(&mut counts, lists.len() * 4);
    for count in lists.counts.iter().map(|count| u64::from(*count)) {
        if !(1..=u64::from(HASHES_MAX)).contains(&count) {
            return Err(WireError::Invalid { field: "counts", value: count });
        }
        writer.put(count - 1, 4);
    }
    writer.finish();
    let bits = bits_below(range);
    let mut positions = Vec::new();
    let mut writer = BitWriter::new(&mut positions, total * bits as usize);
    for position in &lists.positions {
        check_position(*position, range)?;
        put_positions(&mut writer, &[*position], bits);
    }
    writer.finish();
    Ok((counts, positions))
}

/// Appends positions of `bits` bits each. Positions of cells always fit into narrow fields. Fingerprints in many
/// buckets may need wide fields.
#[inline(always)]
fn put_positions(writer: &mut BitWriter<'_>, positions: &[u64], bits: u32) {
    if bits <= NARROW_BITS_MAX {
        positions.iter().for_each(|position| writer.put(*position, bits));
    } else {
        positions.iter().for_each(|position| writer.put_wide(u128::from(*position), bits));
    }
}

/// Reads the next position of `bits` bits.
#[inline(always)]
fn take_position(reader: &mut BitReader<'_>, bits: u32) -> u64 {
    if bits <= NARROW_BITS_MAX { reader.take(bits) } else { reader.take_wide(bits) as u64 & mask(bits) }
}

/// Decodes `events` lists from two streams, with positions below `range`.
///
/// # Errors
/// Returns [`WireError`] if a stream has the wrong length, or if a position is not below `range`.
pub fn unpack_lists(counts: &[u8], positions: &[u8], events: usize, range: u64) -> Result<PositionLists, WireError> {
    check_length("counts", counts.len(), events.div_ceil(2))?;
    let mut reader = BitReader::new(counts);
    let counts: Vec<u8> = (0..events).map(|_| reader.take(4) as u8 + 1).collect();
    check_padding("counts", &reader)?;
    let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
    let bits = bits_below(range);
    check_length("positions", positions.len(), (total * bits as usize).div_ceil(8))?;
    let mut reader = BitReader::new(positions);
    let mut unpacked = Vec::with_capacity(total);
    for _ in 0..total {
        let position = take_position(&mut reader, bits);
        check_position(position, range)?;
        unpacked.push(position);
    }
    check_padding("positions", &reader)?;
    Ok(PositionLists { counts, positions: unpacked })
}

#[inline(always)]
fn check_position(position: u64, range: u64) -> Result<(), WireError> {
    if position < range {
        Ok(())
    } else {
        Err(WireError::TooGreat { field: "positions", found: position, max: range.saturating_sub(1) })
    }
}

fn check_padding(field: &'static str, reader: &BitReader<'_>) -> Result<(), WireError> {
    if reader.is_padding() { Ok(()) } else { Err(WireError::Damaged { field }) }
}
