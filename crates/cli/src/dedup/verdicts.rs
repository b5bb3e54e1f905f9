//! What `dedup` asks of a decider beyond the verdicts: reasons, checks, and its part of the report.

use firstseen_filter::{Digest, FilterDefinition};
use firstseen_records::Records;
use firstseen_routing::Answer;

use super::troubles::Why;
use crate::driver::Decider;
use crate::report::filter::FilterReport;
use crate::report::{Confirmed, Verified};

/// A decider that finds duplicates. An event is named by its index in the batch that came back last, or by its `place` in
/// the chunk that was decided last.
pub(super) trait Verdicts<R: Records>: Decider<R, Decision = Answer> {
    /// Why event `index` is undecided. `None` means that the filter is full.
    fn why(&self, _index: usize) -> Option<Why> {
        None
    }

    /// Whether event `index` is undecided as its time is doubted.
    fn is_doubted(&self, _index: usize) -> bool {
        false
    }

    /// The definition of the filter; `None` for a filter of a cluster, whose flags are not those of this run.
    fn definition(&self) -> Option<&FilterDefinition> {
        None
    }

    /// The greatest time that was accepted, in milliseconds since 1970, where this process knows it.
    fn clock_ms(&self) -> Option<u64> {
        None
    }

    /// The place of the first event that came later than the lateness allows, and was judged all the same.
    fn past_lateness(&self) -> Option<usize> {
        None
    }

    /// Whether answers are checked.
    fn is_checked(&self) -> bool {
        false
    }

    /// Checks an answer against the exact answer, or the exact cache; returns whether it is certain.
    fn check(&mut self, _digest: Digest, _place: usize, _answer: Answer) -> bool {
        true
    }

    /// What the exact cache says of duplicates, where there is one.
    fn confirmed(&self) -> Option<Confirmed> {
        None
    }

    /// The errors against the exact answer, where they are measured.
    fn verified(&self) -> Option<Verified> {
        None
    }

    /// The report's part about the filter.
    fn report(&mut self) -> FilterReport;
}
