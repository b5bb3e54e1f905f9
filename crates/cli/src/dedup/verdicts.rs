//! The interface that `dedup` needs from a decider in addition to the verdicts: reasons, checks, and a part of the
//! report.

use firstseen_filter::{Digest, FilterDefinition};
use firstseen_records::Records;
use firstseen_routing::Answer;

use super::outages::Why;
use crate::driver::Decider;
use crate::report::filter::FilterReport;
use crate::report::{Confirmed, Verified};

/// A decider whose decisions are verdicts about duplicates.
///
/// The methods identify an event in two ways. An `index` is the number of the event in the batch that the decider
/// returned last. A `place` is the number of the event in the current chunk, which is the part of this batch whose
/// decisions the driver has just read.
pub(super) trait Verdicts<R: Records>: Decider<R, Decision = Answer> {
    /// Returns why event `_index` is undecided. `None` means that the filter is full.
    fn why(&self, _index: usize) -> Option<Why> {
        None
    }

    /// Returns whether event `_index` is undecided because its time is not plausible.
    fn is_implausible(&self, _index: usize) -> bool {
        false
    }

    /// Returns the definition of the filter, or of one of its slice groups.
    fn group(&self) -> &FilterDefinition;

    /// Returns the definition of the filter. The result is `None` for a filter of a cluster, whose settings are not
    /// flags of this run.
    fn definition(&self) -> Option<&FilterDefinition> {
        None
    }

    /// Returns the greatest time that was accepted, in milliseconds since 1970, if this process knows it.
    fn clock_ms(&self) -> Option<u64> {
        None
    }

    /// Returns the place of the first event that came later than the lateness allows and was judged anyway.
    fn past_lateness(&self) -> Option<usize> {
        None
    }

    /// Returns whether answers are checked against an exact filter or an exact cache.
    fn is_checked(&self) -> bool {
        false
    }

    /// Checks an answer against the exact filter or the exact cache. Returns whether the answer is certain.
    fn check(&mut self, _digest: Digest, _place: usize, _answer: Answer) -> bool {
        true
    }

    /// Returns the counts of the exact cache. `None` means that the run has no such cache.
    fn confirmed(&self) -> Option<Confirmed> {
        None
    }

    /// Returns the measured errors compared with the exact answers. `None` means that errors are not measured.
    fn verified(&self) -> Option<Verified> {
        None
    }

    /// Returns the part of the report about the filter.
    fn report(&mut self) -> FilterReport;
}
