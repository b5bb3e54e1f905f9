//! Records that this copy has received from the copy that answers, and that may not have reached all copies yet.
//!
//! The answering copy may fail before all other copies have received its last records. The replies in these records may
//! already have reached producers, so the next answering copy must give the same replies to retries. The next answering
//! copy therefore begins by sending the last records that it has received to all copies.
//!
//! When a different copy begins to answer, all remaining copies forget the idempotency keys and replies of the last
//! records that they have received. They do not know which of these records the new answering copy has. If it lacks a
//! record, it may give a different reply, and the remembered reply would be wrong.
//!
//! The number of stored records is bounded. This module does not depend on cluster maps or on the contents of records.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::group::site::NUMBER_BITS;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{MirrorNumber, Mirrored};

/// A record that another copy made and that was applied here.
struct HeardRecord {
    from: NodeId,
    /// Epoch of the cluster map by which the record was sent.
    epoch: Epoch,
    number: u64,
    mirrored: Arc<Mirrored>,
}

/// Records that may not have reached all copies yet, oldest first.
#[derive(Default)]
pub(super) struct ReceivedRecords {
    records: VecDeque<HeardRecord>,
    events: usize,
    /// Information about records that were dropped because there was no room.
    lost: Option<LostRecords>,
}

/// A group of dropped records.
#[derive(Clone, Copy)]
struct LostRecords {
    /// The copy that made the last of these records.
    from: NodeId,
    /// The number after the last of these records. `None` if several copies made them, because then it is not known
    /// when all copies have them.
    below: Option<u64>,
}

impl ReceivedRecords {
    /// Stores a record that was applied. If the stored records have more than `events_max` events, all of them are
    /// dropped.
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

    /// Removes and returns all records. The second value is whether all of them come from copy `from` and none was
    /// dropped.
    pub(super) fn take_from(&mut self, from: Option<NodeId>) -> (Vec<Arc<Mirrored>>, bool) {
        let Self { records, lost, .. } = std::mem::take(self);
        let is_all = lost.is_none() && records.iter().all(|record| Some(record.from) == from);
        (records.into_iter().map(|record| record.mirrored).collect(), is_all)
    }

    /// Keeps only the records of copy `to` that were sent by a map of this epoch or a later one. Returns whether there
    /// were any other records.
    pub(super) fn follow(&mut self, to: Option<NodeId>, epoch: Epoch) -> bool {
        let had = self.records.len();
        self.records.retain(|record| Some(record.from) == to && record.epoch >= epoch);
        self.events = self.records.iter().map(|record| record.mirrored.weight()).sum();
        self.lost.take().is_some() || self.records.len() < had
    }
}

/// Returns whether all copies have every record with a number below `below`. The sender of `number` states in
/// [`MirrorNumber::acknowledged_below`] up to which number all copies have acknowledged its records. This statement is
/// valid only for records of the same incarnation of the sender, because a restarted node uses different record
/// numbers.
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

    fn hear(heard: &mut ReceivedRecords, number: u64, acknowledged_below: u64) {
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

    fn sequences(heard: &mut ReceivedRecords) -> Option<Vec<u64>> {
        let (taken, is_all) = heard.take_from(Some(ANSWERS));
        is_all.then(|| taken.iter().map(|mirrored| mirrored.name.sequence).collect())
    }

    #[test]
    fn records_that_all_copies_have_are_not_kept() {
        let mut heard = ReceivedRecords::default();
        (5..10).for_each(|number| hear(&mut heard, number, 5));
        hear(&mut heard, 10, 8);
        assert_eq!(sequences(&mut heard), Some(vec![8, 9, 10]));
        assert_eq!(sequences(&mut heard), Some(vec![]));
    }

    #[test]
    fn dropped_records_are_known_to_be_missing_until_all_copies_have_them() {
        let mut heard = ReceivedRecords::default();
        (0..11).for_each(|number| hear(&mut heard, number, 0));
        assert_eq!(sequences(&mut heard), None);
        (0..11).for_each(|number| hear(&mut heard, number, 0));
        hear(&mut heard, 11, 11);
        assert_eq!(sequences(&mut heard), Some(vec![11]));
    }

    #[test]
    fn a_copy_that_does_not_answer_keeps_records_of_the_new_one() {
        let mut heard = ReceivedRecords::default();
        hear(&mut heard, 1, 0);
        assert!(!heard.follow(Some(ANSWERS), Epoch(1)), "nothing else was heard");
        assert!(heard.follow(Some(NodeId(2)), Epoch(2)), "what the one before has sent is void");
        assert_eq!(sequences(&mut heard), Some(vec![]));
    }

    #[test]
    fn another_start_does_not_acknowledge_earlier_numbers() {
        let mut heard = ReceivedRecords::default();
        hear(&mut heard, 7, 0);
        hear(&mut heard, (1 << NUMBER_BITS) + 1, 1 << NUMBER_BITS);
        assert_eq!(sequences(&mut heard).map(|sequences| sequences.len()), Some(2));
    }
}
