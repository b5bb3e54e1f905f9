//! Adapter that gives a decaying filter, which estimates frequencies, the interface of the kinds that give verdicts.
//!
//! When it is asked for verdicts, every event is undecided and nothing is recorded.
//!
//! This module does not depend on cells.

use std::io::{self, Read, Write};

use crate::decaying::DecayingFilter;
use crate::events::Events;
use crate::{Stamp, Verdict};

/// Decaying filter with the interface of the kinds that answer with flags.
pub(crate) struct Frequencies {
    pub(crate) kind: DecayingFilter,
}

impl Frequencies {
    pub(crate) fn observe_batch<E: Events>(&mut self, events: E, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.lookup_batch(events, stamps, verdicts);
    }

    pub(crate) fn lookup_batch<E: Events>(&mut self, events: E, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        let count = events.count();
        assert!(count == stamps.len() && count == verdicts.len(), "each event needs one stamp and one verdict");
        verdicts.fill(Verdict::Undecided);
    }

    /// Returns `None`, because a decaying filter has counters instead of events that expire one by one.
    pub(crate) fn live_events(&self) -> Option<u64> {
        None
    }

    pub(crate) fn keep_positions(&mut self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn write_cap(&self, _sink: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn read_cap(&mut self, _source: &mut dyn Read) -> io::Result<()> {
        Ok(())
    }
}
