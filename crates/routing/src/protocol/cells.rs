//! Places and positions of cells, as nodes send them to each other and persist them.
//!
//! Promises: plain data. Must not know: what is done with it.

use firstseen_filter::GenerationNumber;

/// A place in the cells of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPlace {
    /// The number of the generation.
    pub generation: GenerationNumber,
    /// The byte of its memory.
    pub start_bytes: u64,
}

/// Group positions of several events, in the order of the hash functions of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionLists {
    /// Positions of each event, 1 to 16.
    pub counts: Vec<u8>,
    /// All positions, event after event.
    pub positions: Vec<u64>,
}

impl PositionLists {
    /// Adds an event.
    pub fn push(&mut self, positions: impl IntoIterator<Item = u64>) {
        let before = self.positions.len();
        self.positions.extend(positions);
        self.counts.push((self.positions.len() - before) as u8);
    }

    /// The lists, one an event.
    pub fn iter(&self) -> impl Iterator<Item = &[u64]> + Clone {
        let mut rest = &self.positions[..];
        self.counts.iter().map(move |count| {
            let (own, others) = rest.split_at((*count as usize).min(rest.len()));
            rest = others;
            own
        })
    }

    /// Events.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
