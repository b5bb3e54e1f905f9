//! The records that a copy has taken from the one that answers, and that may not be on all copies yet.
//!
//! The copy that answers may go down before all others have its last records. The next one that answers gives a retry
//! the reply of the first attempt, so it first sends these records to all copies. Any other copy cannot
//! know which of these records the new one has, so it forgets their names and replies.
//!
//! Promises: the number of records that are kept is bounded. Must not know: maps, what is recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::group::site::NUMBER_BITS;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{MirrorNumber, Mirrored};

/// A record that another copy has made, and that was taken here.
struct HeardRecord {
    from: NodeId,
    /// The epoch of the map by which it was sent.
    epoch: Epoch,
    number: u64,
    mirrored: Arc<Mirrored>,
}

/// The records that may not be on all copies yet, the oldest first.
#[derive(Default)]
pub(super) struct Heard {
    records: VecDeque<HeardRecord>,
    events: usize,
    /// The records that were dropped for want of room.
    lost: Option<LostRecords>,
}

/// Records that were dropped.
#[derive(Clone, Copy)]
struct LostRecords {
    /// The copy that made the last of them.
    from: NodeId,
    /// The number after the last of them; none where other copies made some, as it is not known then when all copies
    /// have those.
    below: Option<u64>,
}

impl Heard {
    /// Keeps a record that was taken; drops all where they have more than `events_max` events.
    pub(super) fn push(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        number: MirrorNumber,
        mirrored: &Arc<Mirrored>,
        events_max: usize,
    ) {
        if let Some(LostRecords { from: of, below: Some(below) }) = self.lost
            && of == from
            && are_on_all_copies(below, number)
        {
            self.lost = None;
        }
        while let Some(record) = self.records.front()
            && record.from == from
            && are_on_all_copies(record.number + 1, number)
        {
            self.pop();
        }
        self.events += mirrored.weight();
        self.records.push_back(HeardRecord { from, epoch, number: number.number, mirrored: mirrored.clone() });
        if self.events > events_max {
            let is_of_one = self.lost.is_none() && self.records.iter().all(|record| record.from == from);
            self.clear();
            self.lost = Some(LostRecords { from, below: is_of_one.then(|| number.number.saturating_add(1)) });
        }
    }

    fn pop(&mut self) -> Option<HeardRecord> {
        let record = self.records.pop_front()?;
        self.events -= record.mirrored.weight();
        Some(record)
    }

    /// Forgets all records.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes all records out, and returns whether all of them are of copy `from` and none was dropped.
    pub(super) fn take_from(&mut self, from: Option<NodeId>) -> (Vec<Arc<Mirrored>>, bool) {
        let Self { records, lost, .. } = std::mem::take(self);
        let is_all = lost.is_none() && records.iter().all(|record| Some(record.from) == from);
        (records.into_iter().map(|record| record.mirrored).collect(), is_all)
    }

    /// Keeps the records of copy `to` that were sent by a map of this epoch or a later one; returns whether there were
    /// others.
    pub(super) fn follow(&mut self, to: Option<NodeId>, epoch: Epoch) -> bool {
        let had = self.records.len();
        self.records.retain(|record| Some(record.from) == to && record.epoch >= epoch);
        self.events = self.records.iter().map(|record| record.mirrored.weight()).sum();
        self.lost.take().is_some() || self.records.len() < had
    }
}

/// Whether the records with numbers below `below` are on all copies, as the copy that sent them says beside `number`.
/// Acknowledgements are of numbers of the same start of the node only.
fn are_on_all_copies(below: u64, number: MirrorNumber) -> bool {
    below >> NUMBER_BITS == number.number >> NUMBER_BITS && below <= number.acknowledged_below
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{GenerationNumber, ProbeShape, Probes};

    use super::*;
    use crate::protocol::{BatchName, ClockReading};
    use crate::verdict::Decision;

    const ANSWERS: NodeId = NodeId(1);

    fn hear(heard: &mut Heard, number: u64, acknowledged_below: u64) {
        let mirrored = Arc::new(Mirrored {
            name: BatchName { producer: 1, sequence: number },
            names: Vec::new(),
            decisions: vec![Decision::FirstSeen; 10],
            clock: ClockReading::default(),
            generation: GenerationNumber::FIRST,
            probes: Probes::new(ProbeShape::Spread { cells: 8, hashes: 1 }),
            stamps: Vec::new(),
        });
        heard.push(ANSWERS, Epoch(1), MirrorNumber { number, acknowledged_below }, &mirrored, 100);
    }

    fn sequences(heard: &mut Heard) -> Option<Vec<u64>> {
        let (taken, is_all) = heard.take_from(Some(ANSWERS));
        is_all.then(|| taken.iter().map(|mirrored| mirrored.name.sequence).collect())
    }

    #[test]
    fn records_that_all_copies_have_are_not_kept() {
        let mut heard = Heard::default();
        (5..10).for_each(|number| hear(&mut heard, number, 5));
        hear(&mut heard, 10, 8);
        assert_eq!(sequences(&mut heard), Some(vec![8, 9, 10]));
        assert_eq!(sequences(&mut heard), Some(vec![]));
    }

    #[test]
    fn dropped_records_are_known_to_be_missing_until_all_copies_have_them() {
        let mut heard = Heard::default();
        (0..11).for_each(|number| hear(&mut heard, number, 0));
        assert_eq!(sequences(&mut heard), None);
        (0..11).for_each(|number| hear(&mut heard, number, 0));
        hear(&mut heard, 11, 11);
        assert_eq!(sequences(&mut heard), Some(vec![11]));
    }

    #[test]
    fn a_copy_that_does_not_answer_keeps_records_of_the_new_one() {
        let mut heard = Heard::default();
        hear(&mut heard, 1, 0);
        assert!(!heard.follow(Some(ANSWERS), Epoch(1)), "nothing else was heard");
        assert!(heard.follow(Some(NodeId(2)), Epoch(2)), "what the one before has sent is void");
        assert_eq!(sequences(&mut heard), Some(vec![]));
    }

    #[test]
    fn another_start_does_not_acknowledge_earlier_numbers() {
        let mut heard = Heard::default();
        hear(&mut heard, 7, 0);
        hear(&mut heard, (1 << NUMBER_BITS) + 1, 1 << NUMBER_BITS);
        assert_eq!(sequences(&mut heard).map(|sequences| sequences.len()), Some(2));
    }
}
