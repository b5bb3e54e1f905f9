//! Queries to another level of a filter tree, divided into parts. Each head node at the other level answers the part
//! with its own events.
//!
//! A level of a filter tree queries another level about events that it cannot decide alone. Every query gets exactly
//! one answer. The answer is created when all parts of the query have been answered, or when the query is abandoned.
//!
//! This module does not depend on owners, links or time.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::Probes;
use firstseen_routing::{
    Decision, GroupReply, LevelContact, LevelQuery, LevelReply, MonotonicMs, NodeId, Reason, Seen, Submission, Tick,
    Times,
};

use crate::links::{GroupInstance, Way};
use crate::plain::plain_submission;

/// Lower bound of the numbers of parts. The numbers of batches from producers are smaller.
const PARTS: u64 = 1 << 40;

/// Identity of a query: the group that asks, and the number that it gave to the query.
pub(crate) type Asked = (GroupInstance, u64);

/// Part of a query.
struct Part {
    of: Asked,
    /// Indexes of the part's events in the query.
    indices: Vec<usize>,
    head: GroupInstance,
    submission: Submission,
}

/// Unanswered query, with the answers received so far.
struct Open {
    climbed: LevelReply,
    parts: usize,
    deadline_ms: MonotonicMs,
}

/// All queries that are not answered yet.
#[derive(Default)]
pub(crate) struct Climbs {
    open: BTreeMap<Asked, Open>,
    parts: BTreeMap<u64, Part>,
    /// Number of parts that were created so far.
    begun: u64,
}

impl Climbs {
    /// Divides a query into parts. `by_head` contains the indexes of the events for each head. Returns the request to
    /// each head.
    pub(crate) fn begin(
        &mut self,
        from: GroupInstance,
        climb: LevelQuery,
        by_head: BTreeMap<GroupInstance, Vec<usize>>,
    ) -> Vec<(GroupInstance, Submission)> {
        let events = climb.probes.len();
        let of = (from, climb.number);
        let climbed = LevelReply {
            number: climb.number,
            decisions: vec![Decision::Undecided(Reason::Unknown); events],
            seen: vec![Seen::default(); events],
            degraded: vec![false; events],
            contact: LevelContact::Reached,
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

    /// Returns whether the part with this number is not answered yet.
    pub(crate) fn has_part(&self, number: u64) -> bool {
        self.parts.contains_key(&number)
    }

    /// Adds the answer to a part. Returns the answer to the whole query if this was the last part.
    pub(crate) fn answered(&mut self, reply: GroupReply) -> Option<Way> {
        let Part { of, indices, submission, .. } = self.parts.remove(&reply.reply_to)?;
        let open = self.open.get_mut(&of)?;
        for (of_part, index) in indices.into_iter().enumerate() {
            open.climbed.decisions[index] = match reply.answers.decisions()[of_part] {
                Decision::Undecided(_) if submission.again => Decision::Undecided(Reason::Unknown),
                decision => decision,
            };
            open.climbed.degraded[index] = reply.answers.is_event_degraded(of_part);
            open.climbed.seen[index] = reply.answers.seen().get(of_part).copied().unwrap_or_default();
        }
        open.parts -= 1;
        if open.parts == 0 { self.abandon(of) } else { None }
    }

    /// Returns a retry of a part, marked as possibly recorded.
    pub(crate) fn again(&mut self, number: u64) -> Option<Way> {
        let Part { of: (from, _), head, submission, .. } = self.parts.get_mut(&number)?;
        submission.again = true;
        Some(Way::Again(*from, *head, submission.clone()))
    }

    /// Abandons a query, and returns an answer that contains the verdicts received so far.
    pub(crate) fn abandon(&mut self, of: Asked) -> Option<Way> {
        let Open { climbed, .. } = self.open.remove(&of)?;
        self.parts.retain(|_, part| part.of != of);
        Some(Way::LevelReply(of.0, climbed))
    }

    /// Returns the queries whose deadline has passed.
    pub(crate) fn late(&self, now_ms: MonotonicMs) -> Vec<Asked> {
        self.open.iter().filter(|(_, open)| open.deadline_ms <= now_ms).map(|(of, _)| *of).collect()
    }

    /// Returns the parts that were sent to these nodes, each with its query.
    pub(crate) fn parts_at(&self, nodes: &BTreeSet<NodeId>) -> Vec<(u64, Asked)> {
        let there = self.parts.iter().filter(|(_, part)| nodes.contains(&part.head.node));
        there.map(|(number, part)| (*number, part.of)).collect()
    }

    /// Removes the queries of these nodes, because no process waits for the answers any more.
    pub(crate) fn forget(&mut self, nodes: &BTreeSet<NodeId>) {
        self.open.retain(|(from, _), _| !nodes.contains(&from.node));
        self.parts.retain(|_, part| !nodes.contains(&part.of.0.node));
    }
}
