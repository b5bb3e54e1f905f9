//! A group that is closed, as another filter has followed: events in flight go on to their end, and nothing new is
//! recorded.
//!
//! Promises: a group that has ended has replied first-seen to nobody since it closed, and never will again. Must not
//! know: who follows.

use super::DividedGroup;
use crate::map::{ClusterMap, Ending, FilterRecord};
use crate::protocol::Moment;

impl DividedGroup {
    /// The map may say that the filter is closed.
    pub(super) fn follow_line(&mut self, map: &ClusterMap, record: &FilterRecord) {
        self.claiming.iter_mut().for_each(|claiming| claiming.follow(map));
        if self.present.follow(record.line.absent()) {
            self.in_flight.close_line();
            self.claiming.iter_mut().for_each(|claiming| claiming.close());
        }
    }

    /// How far it has come since.
    pub(crate) fn ending(&self, now: Moment) -> Ending {
        Ending {
            has_ended: self.present.absent().is_some() && self.in_flight.has_ended_before_close(),
            newest_unit: self.present.clock().now_unit().max(self.own.now_unit()),
            // A node that heads no events is shown no producer's clock.
            present_unit: (self.membership.placement().asked_here() > 0).then(|| self.present.unit_at(now)),
        }
    }
}
