//! Counters in either of the two storages (basic or extended).
//!
//! A counter either holds the value that it is set to, or the setter reports that it cannot.
//!
//! This module does not depend on events or epochs.

use std::io;

use super::CounterStorage;
use super::basic::BasicCells;
use super::extended::ExtendedCells;
use super::rule::Decay;

pub(super) enum Counters {
    Basic(BasicCells),
    Extended(ExtendedCells),
}

impl Counters {
    pub(super) fn zeroed(cells: u64, storage: CounterStorage, decay: &Decay) -> io::Result<Self> {
        Ok(match storage {
            CounterStorage::Basic => Self::Basic(BasicCells::zeroed(cells)?),
            CounterStorage::Extended { extensions } => {
                let base_bits = if decay.literal { 4 } else { 8 };
                Self::Extended(ExtendedCells::zeroed(cells, base_bits, extensions)?)
            }
        })
    }

    /// Returns the greatest value that a counter can hold.
    pub(super) fn max(&self) -> u32 {
        match self {
            Self::Basic(_) => BasicCells::MAX,
            Self::Extended(_) => ExtendedCells::MAX,
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, index: usize) {
        match self {
            Self::Basic(cells) => cells.prefetch(index),
            Self::Extended(cells) => cells.prefetch(index),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> u32 {
        match self {
            Self::Basic(cells) => cells.get(index),
            Self::Extended(cells) => cells.get(index),
        }
    }

    /// Raises a counter to `parts`. Returns `false` if the counter cannot hold this value.
    #[inline(always)]
    pub(super) fn set(&mut self, index: usize, parts: u32) -> bool {
        match self {
            Self::Basic(cells) => cells.set(index, parts),
            Self::Extended(cells) => cells.set(index, parts),
        }
    }

    /// Applies one step of decay to every counter. Returns whether any counter changed.
    pub(super) fn step(&mut self, decay: &Decay) -> bool {
        match self {
            Self::Basic(cells) => cells.step(decay),
            Self::Extended(cells) => cells.step(decay),
        }
    }

    /// Returns the share of counters that are not zero, estimated from the counters in the first `bytes_max` bytes.
    pub(super) fn share_occupied(&self, bytes_max: usize) -> f64 {
        match self {
            Self::Basic(cells) => cells.share_occupied(bytes_max),
            Self::Extended(cells) => cells.share_occupied(bytes_max),
        }
    }

    pub(super) fn extensions_used(&self) -> u32 {
        match self {
            Self::Basic(_) => 0,
            Self::Extended(cells) => cells.extensions_used(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Basic(cells) => cells.bytes(),
            Self::Extended(cells) => cells.bytes(),
        }
    }

    /// Returns the size in bytes without extensions that were never used.
    pub(super) fn touched_bytes(&self) -> u64 {
        match self {
            Self::Basic(cells) => cells.bytes(),
            Self::Extended(cells) => cells.touched_bytes(),
        }
    }

    /// Returns the number of bytes that [`Self::write`] writes if `touched_bytes` bytes of the counters are in use.
    pub(super) fn body_bytes(&self, touched_bytes: u64) -> u64 {
        match self {
            Self::Basic(_) => touched_bytes,
            Self::Extended(_) => touched_bytes + ExtendedCells::HEADER_BYTES,
        }
    }

    pub(super) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        match self {
            Self::Basic(cells) => cells.write(sink),
            Self::Extended(cells) => cells.write(sink),
        }
    }

    pub(super) fn read(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        match self {
            Self::Basic(cells) => cells.read(source),
            Self::Extended(cells) => cells.read(source),
        }
    }
}
