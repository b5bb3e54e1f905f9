//! Places and positions of cells, in the form in which nodes send them to each other and persist them. The types are
//! plain data.

use firstseen_filter::GenerationNumber;

/// Place in the memory of a slice's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPlace {
    /// Number of the generation that the cells belong to.
    pub generation: GenerationNumber,
    /// Offset in the memory of the generation, in bytes.
    pub start_bytes: u64,
}

/// Positions of several events within a slice group. The positions of each event are in the order of the hash
/// functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionLists {
    /// Number of positions of each event, from 1 to 16.
    pub counts: Vec<u8>,
    /// All positions, event after event.
    pub positions: Vec<u64>,
}

impl PositionLists {
    /// Appends the positions of one event.
    pub fn push(&mut self, positions: impl IntoIterator<Item = u64>) {
        let before = self.positions.len();
        self.positions.extend(positions);
        self.counts.push((self.positions.len() - before) as u8);
    }

    /// Returns an iterator over the position lists, one for each event.
    pub fn iter(&self) -> impl Iterator<Item = &[u64]> + Clone {
        let mut rest = &self.positions[..];
        self.counts.iter().map(move |count| {
            let (own, others) = rest.split_at((*count as usize).min(rest.len()));
            rest = others;
            own
        })
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
