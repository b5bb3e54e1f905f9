//! Producers and their submissions. The test network adds the events.

use firstseen_filter::{ProbeShape, Probes, WindowClock};
use firstseen_mesh::plain_submission;
use firstseen_routing::{Operation, SlicedDefinition, Submission, Tick, Times};

/// Returns observation number `number` of producer 1, without any events.
pub(crate) fn observation(number: u64) -> Submission {
    plain_submission(number, Operation::Observe, Probes::new(ProbeShape::Spread { cells: 1, hashes: 1 }))
}

/// A producer that sends its events one after the other. Several producers may share a clock.
pub(crate) struct Producer {
    id: u128,
    sequence: u64,
    clock: WindowClock,
}

impl Producer {
    pub(crate) fn new(id: u128, definition: &SlicedDefinition) -> Self {
        Self { id, sequence: 0, clock: super::clock(&definition.group) }
    }

    /// Returns the next submission with one event, or `None` if the clock rejects its time.
    pub(crate) fn ask(&mut self, time_ms: u64, records: bool) -> Option<Submission> {
        let base_unit = self.clock.now_unit();
        let tick = if records { self.clock.place_tick(Some(time_ms)) } else { self.clock.look_up_tick(Some(time_ms)) };
        let (clock_unit, unit) = tick?;
        let ticks = vec![Tick { clock_unit, unit }];
        let times = Times { base_unit, ticks, clock_ms: self.clock.now_ms(), ttl_ms: None };
        let operation = if records { Operation::Observe } else { Operation::Lookup };
        self.sequence += 1;
        Some(Submission { operation, producer: self.id, times, ..observation(self.sequence) })
    }
}
