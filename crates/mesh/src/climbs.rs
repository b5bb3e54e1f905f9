//! Climbs that were taken apart: each head of the level that is asked answers its part.
//!
//! Promises: a climb is answered once, when all of its parts are, or when it is given up. Must not know: owners, links,
//! time.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::Probes;
use firstseen_routing::{
    Climb, Climbed, Decision, GroupReply, MonotonicMs, NodeId, Reason, Seen, Submission, Tick, Times,
};

use crate::links::{Seat, Way};
use crate::plain::plain_submission;

/// Parts have numbers above this; those of submissions are less.
const PARTS: u64 = 1 << 40;

/// A climb: who asks, and its number there.
pub(crate) type Asked = (Seat, u64);

/// A part of a climb.
struct Part {
    of: Asked,
    /// The indices of its events in the climb.
    indices: Vec<usize>,
    head: Seat,
    submission: Submission,
}

/// A climb, and the answers so far.
struct Open {
    climbed: Climbed,
    parts: usize,
    deadline_ms: MonotonicMs,
}

/// All climbs that are not answered yet.
#[derive(Default)]
pub(crate) struct Climbs {
    open: BTreeMap<Asked, Open>,
    parts: BTreeMap<u64, Part>,
    /// Parts so far.
    begun: u64,
}

impl Climbs {
    /// Takes a climb apart: its events, by index, have these heads. Returns what each of them is asked.
    pub(crate) fn begin(
        &mut self,
        from: Seat,
        climb: Climb,
        by_head: BTreeMap<Seat, Vec<usize>>,
    ) -> Vec<(Seat, Submission)> {
        let events = climb.probes.len();
        let of = (from, climb.number);
        let climbed = Climbed {
            number: climb.number,
            decisions: vec![Decision::Undecided(Reason::Unknown); events],
            seen: vec![Seen::default(); events],
            degraded: false,
        };
        self.open.insert(of, Open { climbed, parts: by_head.len(), deadline_ms: climb.deadline_ms });
        let mut parts = Vec::new();
        for (head, indices) in by_head {
            self.begun += 1;
            let number = PARTS + self.begun;
            let mut probes = Probes::new(climb.probes.shape());
            indices.iter().for_each(|event| probes.push_from(&climb.probes, *event));
            let ticks: Vec<Tick> = indices.iter().filter_map(|event| climb.times.ticks.get(*event).copied()).collect();
            let submission = Submission {
                producer: u128::from(from.node.0) << 64 | u128::from(from.filter.0) << 8 | 1,
                times: Times { ticks, ..climb.times },
                deadline_ms: climb.deadline_ms,
                from: Some(climb.from),
                again: climb.again,
                traceparent: climb.traceparent.clone(),
                ..plain_submission(number, climb.operation, probes)
            };
            self.parts.insert(number, Part { of, indices, head, submission: submission.clone() });
            parts.push((head, submission));
        }
        parts
    }

    /// Whether the part of this number has no answer yet.
    pub(crate) fn has_part(&self, number: u64) -> bool {
        self.parts.contains_key(&number)
    }

    /// A part was answered; returns the answer to the climb where it was the last.
    pub(crate) fn answered(&mut self, reply: GroupReply) -> Option<Way> {
        let Part { of, indices, submission, .. } = self.parts.remove(&reply.reply_to)?;
        let open = self.open.get_mut(&of)?;
        open.climbed.degraded |= reply.answers.is_degraded();
        for (of_part, index) in indices.into_iter().enumerate() {
            open.climbed.decisions[index] = match reply.answers.decisions()[of_part] {
                Decision::Undecided(_) if submission.again => Decision::Undecided(Reason::Unknown),
                decision => decision,
            };
            open.climbed.seen[index] = reply.answers.seen().get(of_part).copied().unwrap_or_default();
        }
        open.parts -= 1;
        if open.parts == 0 { self.give_up(of) } else { None }
    }

    /// A part once more, marked as possibly recorded.
    pub(crate) fn again(&mut self, number: u64) -> Option<Way> {
        let Part { of: (from, _), head, submission, .. } = self.parts.get_mut(&number)?;
        submission.again = true;
        Some(Way::Again(*from, *head, submission.clone()))
    }

    /// Answers a climb with what is known of it.
    pub(crate) fn give_up(&mut self, of: Asked) -> Option<Way> {
        let Open { climbed, .. } = self.open.remove(&of)?;
        self.parts.retain(|_, part| part.of != of);
        Some(Way::Climbed(of.0, climbed))
    }

    /// Climbs whose time is over.
    pub(crate) fn late(&self, now_ms: MonotonicMs) -> Vec<Asked> {
        self.open.iter().filter(|(_, open)| open.deadline_ms <= now_ms).map(|(of, _)| *of).collect()
    }

    /// Parts that these nodes were asked, each with its climb.
    pub(crate) fn parts_at(&self, nodes: &BTreeSet<NodeId>) -> Vec<(u64, Asked)> {
        let there = self.parts.iter().filter(|(_, part)| nodes.contains(&part.head.node));
        there.map(|(number, part)| (*number, part.of)).collect()
    }

    /// Nobody waits any longer for the climbs of these nodes.
    pub(crate) fn forget(&mut self, nodes: &BTreeSet<NodeId>) {
        self.open.retain(|(from, _), _| !nodes.contains(&from.node));
        self.parts.retain(|_, part| !nodes.contains(&part.of.0.node));
    }
}
