//! Obtains estimates from a decaying filter, and compares them with exact frequencies if `--verify exact` is given. The
//! estimate for a record already counts the record itself. Estimates are returned in the order of the records.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

use firstseen_embedded::StateHeader;
use firstseen_filter::{DecayingFilter, Digest, Placed, Stamp, UnitNumber, WindowClock};
use firstseen_records::Records;

use super::definition::DecayingDefinition;
use super::exact::ExactFrequencies;
use crate::driver::Decider;
use crate::input::{Batch, present_ms};
use crate::state;

/// Estimate for an event whose time was accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Epoch in which the event is judged.
    pub(super) epoch: UnitNumber,
    /// Whether the event belongs to an earlier epoch.
    pub(super) is_late: bool,
}

/// A decaying filter, the clock that determines the epoch of an event, and the exact frequencies for checks.
pub(super) struct Frequencies {
    pub(super) filter: DecayingFilter,
    pub(super) clock: WindowClock,
    /// Maximum amount in milliseconds by which an event may be ahead of all other events without confirmation. A time
    /// that is farther ahead is plausible only if later events have similar times. `None` means that the filter does
    /// not use times.
    pub(super) step_ms: Option<u64>,
    /// Definition and seed, which a saved filter depends on.
    pub(super) header: StateHeader<DecayingDefinition>,
    pub(super) exact: Option<ExactFrequencies>,
    pub(super) lookup: bool,
    /// Times of the batch, followed by the times of the records after it.
    pub(super) times_ms: Vec<u64>,
    pub(super) placed: PlacedEvents,
}

/// Events of a chunk whose time was accepted, stored column by column.
#[derive(Default)]
pub(super) struct PlacedEvents {
    digests: Vec<Digest>,
    stamps: Vec<Stamp>,
    estimates: Vec<f64>,
}

impl Frequencies {
    pub(super) fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.clock.write_body(sink)?;
        self.filter.write_body(sink)
    }

    pub(super) fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        self.clock.read_body(source)?;
        self.filter.read_body(source)
    }

    /// Estimates the events with an accepted time, and counts them in the filter unless they are only looked up.
    fn estimate(&mut self) {
        let Self { filter, exact, placed: PlacedEvents { digests, stamps, estimates }, .. } = self;
        estimates.clear();
        estimates.resize(digests.len(), 0.0);
        if self.lookup {
            // A record counts with its present value, even if it comes late.
            stamps.iter_mut().for_each(|stamp| *stamp = Stamp::on_time(stamp.judged));
            filter.estimate_batch(digests, stamps, estimates);
        } else if let Some(exact) = exact {
            // Events are processed one at a time, because the estimate before an event includes all earlier events.
            for (index, (digest, stamp)) in digests.iter().zip(&*stamps).enumerate() {
                exact.asked(*digest, filter.estimate(*digest, stamp.judged));
                exact.count(*digest, *stamp);
                filter.observe_batch(&[*digest], &[*stamp], &mut estimates[index..=index]);
                exact.compare(*digest, stamp.judged, estimates[index]);
            }
        } else {
            filter.observe_batch(digests, stamps, estimates);
        }
    }
}

impl<R: Records> Decider<R> for Frequencies {
    /// The result is `None` for an event whose time is not plausible.
    type Decision = Option<Estimate>;

    fn step_ms(&self) -> Option<u64> {
        self.step_ms
    }

    fn submit(&mut self, batch: Box<Batch<R>>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch<R>>>> {
        batch.copy_times_ms(0..batch.parsed.len(), &mut self.times_ms);
        if batch.arrived_ms.is_some() {
            // A record that arrives now is never late, even if the clock of this machine was set back.
            let now_ms = self.clock.now_ms().unwrap_or(0);
            self.times_ms.iter_mut().for_each(|time_ms| *time_ms = now_ms.max(*time_ms));
        }
        self.times_ms.extend_from_slice(ahead_ms);
        self.clock.show_present_ms(present_ms());
        Ok(Some(batch))
    }

    fn decide(&mut self, batch: &Batch<R>, events: Range<usize>, decisions: &mut Vec<Option<Estimate>>) {
        decisions.clear();
        self.placed.digests.clear();
        self.placed.stamps.clear();
        for index in events {
            let placed = if self.lookup {
                self.clock.place_lookup(self.times_ms.get(index).copied())
            } else {
                self.clock.place_nth(&self.times_ms, index)
            };
            let Placed::At(stamp) = placed else {
                decisions.push(None);
                continue;
            };
            self.placed.digests.push(batch.parsed.digests()[index]);
            self.placed.stamps.push(stamp);
            decisions.push(Some(Estimate { value: 0.0, epoch: stamp.judged, is_late: stamp.unit < stamp.judged }));
        }
        self.estimate();
        for (decision, value) in decisions.iter_mut().flatten().zip(&self.placed.estimates) {
            decision.value = *value;
        }
    }

    fn save(&self, path: &Path) -> anyhow::Result<()> {
        state::save(path, &self.header, |body| self.write_body(body))
    }
}
