//! A group that is closed, as another filter has followed: what began before goes on to its end, and nothing new is recorded.
//!
//! Promises: what has ended has told nobody first-seen since, and never will again. Must not know: who follows.

use super::DividedGroup;
use super::flights::{Batch, Flights};
use crate::map::{Ending, FilterRecord};
use crate::protocol::Moment;

impl DividedGroup {
    /// The map may say that the filter is closed.
    pub(super) fn follow_line(&mut self, record: &FilterRecord) {
        if self.leave.follow(record.line.absent()) {
            self.absent_from = self.first_free();
        }
    }

    /// How far it has come since.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        let flights = self.flights.as_ref();
        let is_open = |first: &u64| flights.and_then(|flights| flights.batch(*first)).is_some_and(Batch::is_open);
        let before = flights.map(Flights::batches).unwrap_or_default().into_iter();
        let mut before = before.take_while(|first| *first < self.absent_from);
        Ending {
            has_ended: self.leave.absent().is_some() && !before.any(|first| is_open(&first)),
            newest_unit: self.clock.now_unit().max(self.own.now_unit()),
            // Nobody shows its clock to who heads nothing.
            present_unit: match self.membership.placement().asked_here() {
                0 => u64::MAX,
                _ => self.leave.present_unit(&self.clock, now),
            },
        }
    }
}
