//! Queries of a slice group to other levels of its filter tree. The group has only a few queries to one level in flight
//! at a time. While these are in flight, it collects the events of all producers for the next query, so that one query
//! contains many events. Query numbers are never reused.

use std::collections::{BTreeMap, VecDeque};

use crate::group::multi_slice::flights::Ticket;
use crate::ids::FilterId;
use crate::protocol::Operation;

/// Maximum number of queries of one group to one level that are under way at once. Full queries do not count.
const CLIMBS_MAX: usize = 32;
/// Maximum number of events in one query.
const CLIMB_EVENTS_MAX: usize = 1 << 12;

/// Destination and operation of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelQueryTarget {
    /// The filter of the other level.
    pub(super) to: FilterId,
    pub(super) operation: Operation,
}

/// Events on their way to other levels.
#[derive(Default)]
pub(super) struct Climbs {
    lanes: Vec<(LevelQueryTarget, Lane)>,
    /// The destination and the events of each query that is under way, by the query's number.
    in_progress: BTreeMap<u64, (LevelQueryTarget, Vec<Ticket>)>,
    last_number: u64,
}

#[derive(Default)]
struct Lane {
    /// Tickets in the order in which they arrived.
    waiting: VecDeque<Ticket>,
    in_progress: usize,
}

impl Lane {
    fn may_ask(&self) -> bool {
        let is_full = self.waiting.len() >= CLIMB_EVENTS_MAX;
        is_full || self.in_progress < CLIMBS_MAX && !self.waiting.is_empty()
    }
}

impl Climbs {
    /// Drops all events, because no caller waits for them any more. Numbering continues.
    pub(super) fn clear(&mut self) {
        *self = Self { last_number: self.last_number, ..Self::default() };
    }

    fn lane(&mut self, target: LevelQueryTarget) -> &mut Lane {
        let index = match self.lanes.iter().position(|(known, _)| *known == target) {
            Some(index) => index,
            None => {
                self.lanes.push((target, Lane::default()));
                self.lanes.len() - 1
            }
        };
        &mut self.lanes[index].1
    }

    pub(super) fn push(&mut self, target: LevelQueryTarget, ticket: Ticket) {
        self.lane(target).waiting.push_back(ticket);
    }

    /// Returns the events of the next query that may be sent. A full query does not wait for the replies to other
    /// queries.
    pub(super) fn next(&mut self) -> Option<(LevelQueryTarget, Vec<Ticket>)> {
        let (target, lane) = self.lanes.iter_mut().find(|(_, lane)| lane.may_ask())?;
        let events = lane.waiting.len().min(CLIMB_EVENTS_MAX);
        Some((*target, lane.waiting.drain(..events).collect()))
    }

    /// Returns a number that no other query of the group has.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn begin(&mut self, target: LevelQueryTarget, tickets: Vec<Ticket>) -> u64 {
        self.lane(target).in_progress += 1;
        let number = self.number();
        self.in_progress.insert(number, (target, tickets));
        number
    }

    pub(super) fn end(&mut self, number: u64) -> Option<(LevelQueryTarget, Vec<Ticket>)> {
        let (target, tickets) = self.in_progress.remove(&number)?;
        self.lane(target).in_progress -= 1;
        Some((target, tickets))
    }
}
