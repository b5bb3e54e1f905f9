//! A group that is closed, as another filter has followed: what began before goes on to its end, and nothing new is recorded.
//!
//! Promises: what has ended has told nobody first-seen since, and never will again. Must not know: who follows.

use super::DividedGroup;
use crate::map::{Ending, FilterRecord};
use crate::protocol::Moment;

impl DividedGroup {
    /// The map may say that the filter is closed.
    pub(super) fn follow_line(&mut self, record: &FilterRecord) {
        if self.present.follow(record.line.absent()) {
            self.in_flight.close_line();
        }
    }

    /// How far it has come since.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        Ending {
            has_ended: self.present.absent().is_some() && self.in_flight.has_ended_before_close(),
            newest_unit: self.present.clock().now_unit().max(self.own.now_unit()),
            // Nobody shows its clock to who heads nothing.
            present_unit: match self.membership.placement().asked_here() {
                0 => u64::MAX,
                _ => self.present.unit_at(now),
            },
        }
    }
}
