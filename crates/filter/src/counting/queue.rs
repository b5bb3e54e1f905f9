//! Queue of the last N arrivals of a counting filter. When an arrival leaves the window, the queue returns the
//! positions whose counters must be decremented.
//!
//! The queue returns exactly the positions that were added, so the filter decrements the same counters that it
//! incremented.
//!
//! A slot of the queue normally holds the 16-byte digest of its arrival, and the positions are calculated from the
//! digest when the arrival leaves. However, a caller may add an arrival whose digest is not known, but only its
//! positions. The queue then replaces all its digests with positions, and from then on its slots hold positions. Each
//! position takes as few whole bytes as the number of cells allows.
//!
//! This module does not depend on counters or on when an arrival leaves.

use std::io;

use crate::ahead::Positions;
use crate::body::{invalid, memory_bytes};
use crate::memory::CellMemory;
use crate::packed::PackedCells;
use crate::probe::Offsets;
use crate::{Digest, Geometry};

const DIGEST_BYTES: usize = 16;

/// Slots for arrivals. Many of them may be empty.
pub(super) struct Queue {
    geometry: Geometry,
    places: u64,
    /// One bit per slot, which tells whether the slot holds an arrival.
    taken: PackedCells,
    memory: CellMemory,
    /// Number of bytes per position. `None` while slots hold digests.
    position_bytes: Option<usize>,
}

impl Queue {
    pub(super) fn new(geometry: Geometry, places: u64) -> io::Result<Self> {
        let memory = Self::memory(places, DIGEST_BYTES)?;
        Ok(Self { geometry, places, taken: PackedCells::zeroed(places, 1)?, memory, position_bytes: None })
    }

    fn memory(places: u64, place_bytes: usize) -> io::Result<CellMemory> {
        let len_bytes = places.checked_mul(place_bytes as u64).ok_or(io::ErrorKind::OutOfMemory)?;
        CellMemory::zeroed(memory_bytes(len_bytes)?)
    }

    fn place_bytes(&self) -> usize {
        self.position_bytes.map_or(DIGEST_BYTES, |bytes| bytes * self.geometry.hashes() as usize)
    }

    /// Returns the positions of the arrival at `place`, or `None` if the slot is empty.
    #[inline(always)]
    pub(super) fn positions(&self, place: usize) -> Option<Positions> {
        if self.taken.get(place) == 0 {
            return None;
        }
        let start = place * self.place_bytes();
        let bytes = &self.memory.bytes()[start..start + self.place_bytes()];
        Some(match self.position_bytes {
            None => Positions::of_digest(digest_from(bytes), &self.geometry),
            Some(position_bytes) => Positions::from(Packed { bytes, position_bytes }),
        })
    }

    /// Clears the slot `place`, and returns the positions of its arrival.
    #[inline(always)]
    pub(super) fn take(&mut self, place: usize) -> Option<Positions> {
        let positions = self.positions(place)?;
        self.taken.set(place, 0);
        Some(positions)
    }

    /// Adds an arrival to the empty slot `place`. If slots hold digests, `digest` must be known.
    #[inline(always)]
    pub(super) fn put(&mut self, place: usize, digest: Option<Digest>, positions: &Positions) {
        self.taken.set(place, 1);
        let place_bytes = self.place_bytes();
        let bytes = &mut self.memory.bytes_mut()[place * place_bytes..][..place_bytes];
        match self.position_bytes {
            None => bytes.copy_from_slice(&digest_to(digest.unwrap_or_default())),
            Some(position_bytes) => pack(positions, position_bytes, bytes),
        }
    }

    /// Converts the queue to positions. From now on slots hold positions instead of digests.
    pub(super) fn keep_positions(&mut self) -> io::Result<()> {
        if self.position_bytes.is_some() {
            return Ok(());
        }
        let position_bytes = self.bytes_of_a_position();
        let place_bytes = position_bytes * self.geometry.hashes() as usize;
        let mut memory = Self::memory(self.places, place_bytes)?;
        if self.taken.occupied() > 0 {
            for place in 0..self.places as usize {
                if let Some(positions) = self.positions(place) {
                    pack(&positions, position_bytes, &mut memory.bytes_mut()[place * place_bytes..][..place_bytes]);
                }
            }
        }
        (self.memory, self.position_bytes) = (memory, Some(position_bytes));
        Ok(())
    }

    fn bytes_of_a_position(&self) -> usize {
        let bits = u64::BITS - (self.geometry.cells() - 1).leading_zeros();
        bits.div_ceil(8).max(1) as usize
    }

    /// Returns whether slots hold positions.
    pub(super) fn holds_positions(&self) -> bool {
        self.position_bytes.is_some()
    }

    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }

    /// Returns the number of slots that hold an arrival.
    pub(super) fn arrivals(&self) -> u64 {
        self.taken.occupied()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.taken.bytes().len() + self.memory.bytes().len()) as u64
    }

    pub(super) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        self.taken.write(sink)?;
        sink.write_all(self.memory.bytes())
    }

    /// Reads the saved state of a queue with the same number of slots. `holds_positions` tells whether that queue held
    /// positions or digests.
    pub(super) fn read(&mut self, source: &mut dyn io::Read, holds_positions: bool) -> io::Result<()> {
        if holds_positions != self.holds_positions() {
            self.position_bytes = holds_positions.then(|| self.bytes_of_a_position());
            self.memory = Self::memory(self.places, self.place_bytes())?;
        }
        self.taken.read(source)?;
        source.read_exact(self.memory.bytes_mut())?;
        let cells = self.geometry.cells() as usize;
        if !holds_positions {
            return Ok(());
        }
        let mut arrivals = (0..self.places as usize).filter_map(|place| self.positions(place));
        if arrivals.any(|positions| positions.iter().any(|position| position >= cells)) {
            return Err(invalid("an arrival has a position past the last cell"));
        }
        Ok(())
    }
}

fn digest_from(bytes: &[u8]) -> Digest {
    let packed = bytes.iter().rev().fold(0, |packed: u128, byte| packed << 8 | u128::from(*byte));
    Digest { lo: packed as u64, hi: (packed >> 64) as u64 }
}

fn digest_to(digest: Digest) -> [u8; DIGEST_BYTES] {
    (u128::from(digest.hi) << 64 | u128::from(digest.lo)).to_le_bytes()
}

fn pack(positions: &Positions, position_bytes: usize, bytes: &mut [u8]) {
    for (position, bytes) in positions.iter().zip(bytes.chunks_exact_mut(position_bytes)) {
        bytes.copy_from_slice(&position.to_le_bytes()[..position_bytes]);
    }
}

/// Positions in packed form, as stored in a slot of the queue.
#[derive(Clone, Copy)]
struct Packed<'a> {
    bytes: &'a [u8],
    position_bytes: usize,
}

impl Offsets for Packed<'_> {
    #[inline(always)]
    fn for_each(self, mut visit: impl FnMut(usize)) {
        for bytes in self.bytes.chunks_exact(self.position_bytes) {
            visit(bytes.iter().rev().fold(0, |position, byte| position << 8 | usize::from(*byte)));
        }
    }
}
