//! Questions of a group to other levels of its tree.
//!
//! Promises: few questions to one level are under way at once, and meanwhile events of all producers gather for the
//! next one; numbers of questions are not used again. Must not know: what is asked, who owns other levels.

use std::collections::{BTreeMap, VecDeque};

use crate::group::divided::flights::Ticket;
use crate::ids::FilterId;
use crate::protocol::Operation;

/// So many questions of one group to one level are under way at once, full ones not counted.
const CLIMBS_MAX: usize = 32;
/// Events of one question.
const CLIMB_EVENTS_MAX: usize = 1 << 12;

/// What a question asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ClimbTarget {
    /// The level.
    pub(super) to: FilterId,
    pub(super) operation: Operation,
}

/// Events on their way to other levels.
#[derive(Default)]
pub(super) struct Climbs {
    lanes: Vec<(ClimbTarget, Lane)>,
    /// Tickets by the number of their question.
    under_way: BTreeMap<u64, (ClimbTarget, Vec<Ticket>)>,
    last_number: u64,
}

#[derive(Default)]
struct Lane {
    /// Tickets, in the order in which they came.
    waiting: VecDeque<Ticket>,
    under_way: usize,
}

impl Lane {
    fn may_ask(&self) -> bool {
        let is_full = self.waiting.len() >= CLIMB_EVENTS_MAX;
        is_full || self.under_way < CLIMBS_MAX && !self.waiting.is_empty()
    }
}

impl Climbs {
    /// Forgets all events; no caller waits for any of them. Numbers go on.
    pub(super) fn clear(&mut self) {
        *self = Self { last_number: self.last_number, ..Self::default() };
    }

    fn lane(&mut self, target: ClimbTarget) -> &mut Lane {
        let index = match self.lanes.iter().position(|(known, _)| *known == target) {
            Some(index) => index,
            None => {
                self.lanes.push((target, Lane::default()));
                self.lanes.len() - 1
            }
        };
        &mut self.lanes[index].1
    }

    pub(super) fn push(&mut self, target: ClimbTarget, ticket: Ticket) {
        self.lane(target).waiting.push_back(ticket);
    }

    /// The events of the next question that may be asked; a full question need not wait for others to be answered.
    pub(super) fn next(&mut self) -> Option<(ClimbTarget, Vec<Ticket>)> {
        let (target, lane) = self.lanes.iter_mut().find(|(_, lane)| lane.may_ask())?;
        let events = lane.waiting.len().min(CLIMB_EVENTS_MAX);
        Some((*target, lane.waiting.drain(..events).collect()))
    }

    /// A number that no other question of the group has.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn begin(&mut self, target: ClimbTarget, tickets: Vec<Ticket>) -> u64 {
        self.lane(target).under_way += 1;
        let number = self.number();
        self.under_way.insert(number, (target, tickets));
        number
    }

    pub(super) fn end(&mut self, number: u64) -> Option<(ClimbTarget, Vec<Ticket>)> {
        let (target, tickets) = self.under_way.remove(&number)?;
        self.lane(target).under_way -= 1;
        Some((target, tickets))
    }
}
