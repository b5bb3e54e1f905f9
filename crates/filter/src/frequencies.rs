//! The kind that answers with frequencies, in the place of one that answers with verdicts.
//!
//! Promises: when it is asked for verdicts, it is undecided and records nothing. Must not know: cells.

use std::io::{self, Read, Write};

use crate::decaying::DecayingFilter;
use crate::events::Events;
use crate::{Stamp, Verdict};

/// A decaying filter with the calls of the kinds that answer by flags.
pub(crate) struct Frequencies {
    pub(crate) kind: DecayingFilter,
}

impl Frequencies {
    pub(crate) fn observe_batch<E: Events>(&mut self, events: E, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.lookup_batch(events, stamps, verdicts);
    }

    pub(crate) fn lookup_batch<E: Events>(&mut self, events: E, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        let count = events.count();
        assert!(count == stamps.len() && count == verdicts.len(), "one stamp and one verdict an event");
        verdicts.fill(Verdict::Undecided);
    }

    /// A decaying filter keeps counters, not events that expire one by one.
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
