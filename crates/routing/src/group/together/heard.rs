//! What a copy has taken from the one that answers, and what may not be on all copies yet.
//!
//! The copy that answers may go before all have what it has recorded last. Whoever answers next tells a retry what that was
//! told, so it sees to it first that the others have it, too; a copy that does not answer next cannot know which of it the
//! next one has, and does not remember under which names it was told.
//!
//! Promises: what is kept is bounded. Must not know: maps, what is recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::group::site::NUMBER_BITS;
use crate::ids::NodeId;
use crate::protocol::{MirrorNumber, Mirrored};

/// Something that was recorded elsewhere and taken here.
struct HeardRecord {
    from: NodeId,
    /// By which map.
    epoch: u64,
    number: u64,
    mirrored: Arc<Mirrored>,
}

/// What may not be on all copies yet, oldest first.
#[derive(Default)]
pub(super) struct Heard {
    records: VecDeque<HeardRecord>,
    events: usize,
    /// From whom something was heard that is not kept any more, and the number after it.
    lost_below: Option<(NodeId, u64)>,
}

impl Heard {
    /// Something was taken; of `events_max` events it is kept.
    pub(super) fn push(
        &mut self,
        (from, epoch): (NodeId, u64),
        number: MirrorNumber,
        mirrored: &Arc<Mirrored>,
        events_max: usize,
    ) {
        // What another start of the node has numbered, it does not mean.
        let start = |number: u64| number >> NUMBER_BITS;
        let is_over = |(of, below): (NodeId, u64)| {
            of == from && start(below) == start(number.number) && below <= number.acknowledged_below
        };
        self.lost_below = self.lost_below.filter(|lost| !is_over(*lost));
        while self.records.front().is_some_and(|record| is_over((record.from, record.number + 1))) {
            self.pop();
        }
        self.events += mirrored.decisions.len();
        self.records.push_back(HeardRecord { from, epoch, number: number.number, mirrored: mirrored.clone() });
        if self.events > events_max {
            let is_of_one = self.lost_below.is_none() && self.records.iter().all(|record| record.from == from);
            self.clear();
            // Of whom else it was, nobody knows when that is over.
            self.lost_below = Some((from, if is_of_one { number.number.saturating_add(1) } else { u64::MAX }));
        }
    }

    fn pop(&mut self) -> Option<HeardRecord> {
        let record = self.records.pop_front()?;
        self.events -= record.mirrored.decisions.len();
        Some(record)
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All that was heard, and whether that is from this copy alone and nothing of it is lost.
    pub(super) fn take_from(&mut self, from: Option<NodeId>) -> (Vec<Arc<Mirrored>>, bool) {
        let Self { records, lost_below, .. } = std::mem::take(self);
        let is_all = lost_below.is_none() && records.iter().all(|record| Some(record.from) == from);
        (records.into_iter().map(|record| record.mirrored).collect(), is_all)
    }

    /// Keeps what was heard of another copy by a map of this epoch or a later one; whether there was anything else.
    pub(super) fn follow(&mut self, to: Option<NodeId>, epoch: u64) -> bool {
        let is_of_new = |record: &HeardRecord| Some(record.from) == to && record.epoch >= epoch;
        let had = self.records.len();
        self.records.retain(is_of_new);
        self.events = self.records.iter().map(|record| record.mirrored.decisions.len()).sum();
        self.lost_below.take().is_some() || self.records.len() < had
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{ProbeShape, Probes};

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
            generation: 0,
            probes: Probes::new(ProbeShape::Spread { cells: 8, hashes: 1 }),
            stamps: Vec::new(),
        });
        heard.push((ANSWERS, 1), MirrorNumber { number, acknowledged_below }, &mirrored, 100);
    }

    fn sequences(heard: &mut Heard) -> Option<Vec<u64>> {
        let (taken, is_all) = heard.take_from(Some(ANSWERS));
        is_all.then(|| taken.iter().map(|mirrored| mirrored.name.sequence).collect())
    }

    #[test]
    fn what_all_have_is_not_kept() {
        let mut heard = Heard::default();
        (5..10).for_each(|number| hear(&mut heard, number, 5));
        hear(&mut heard, 10, 8);
        assert_eq!(sequences(&mut heard), Some(vec![8, 9, 10]));
        assert_eq!(sequences(&mut heard), Some(vec![]));
    }

    #[test]
    fn what_does_not_fit_is_known_to_be_lost_until_all_have_it() {
        let mut heard = Heard::default();
        (0..11).for_each(|number| hear(&mut heard, number, 0));
        assert_eq!(sequences(&mut heard), None);
        (0..11).for_each(|number| hear(&mut heard, number, 0));
        hear(&mut heard, 11, 11);
        assert_eq!(sequences(&mut heard), Some(vec![11]));
    }

    #[test]
    fn who_does_not_answer_keeps_what_is_of_the_new_one() {
        let mut heard = Heard::default();
        hear(&mut heard, 1, 0);
        assert!(!heard.follow(Some(ANSWERS), 1), "nothing else was heard");
        assert!(heard.follow(Some(NodeId(2)), 2), "what the one before has told is void");
        assert_eq!(sequences(&mut heard), Some(vec![]));
    }

    #[test]
    fn another_start_says_nothing_of_what_was_numbered_before() {
        let mut heard = Heard::default();
        hear(&mut heard, 7, 0);
        hear(&mut heard, (1 << NUMBER_BITS) + 1, 1 << NUMBER_BITS);
        assert_eq!(sequences(&mut heard).map(|sequences| sequences.len()), Some(2));
    }
}
