//! Stands in for `remote.rs` in a build without clusters.
//!
//! Promises: a user who asks for a cluster reads how to get a build that has them; the other functions are never
//! called, as no value of the type exists. Must not know: clusters.

use std::ops::Range;
use std::time::Duration;

use firstseen_filter::FilterSecret;
use firstseen_routing::Answer;

use super::ClusterArgs;
use super::troubles::Why;
use crate::exit::UsageError;
use crate::input::Batch;
use crate::left_out::FULL_BUILD;
use crate::report::filter::ClusterReport;

/// A filter of a cluster; in this build there is none.
pub(super) enum Remote {}

impl Remote {
    pub(super) fn connect(_args: &ClusterArgs, _lookup: bool) -> anyhow::Result<Self> {
        Err(UsageError(format!("this build of firstseen leaves `--cluster` out: {FULL_BUILD}")).into())
    }

    pub(super) fn secret(&self) -> FilterSecret {
        match *self {}
    }

    pub(super) fn needs_time(&self) -> Option<String> {
        match *self {}
    }

    pub(super) fn why(&self, _index: usize) -> Option<Why> {
        match *self {}
    }

    pub(super) fn is_doubted(&self, _index: usize) -> bool {
        match *self {}
    }

    pub(super) fn report(&self) -> ClusterReport {
        match *self {}
    }

    pub(super) fn is_full(&self) -> bool {
        match *self {}
    }

    pub(super) fn step_ms(&self) -> Option<u64> {
        match *self {}
    }

    pub(super) fn ask(&mut self, _batch: Box<Batch>, _ahead_ms: &[u64]) {
        match *self {}
    }

    pub(super) fn oldest(&mut self) -> anyhow::Result<Option<Box<Batch>>> {
        match *self {}
    }

    pub(super) fn answer(&mut self, _chunk: Range<usize>, _answers: &mut Vec<Answer>) {
        match *self {}
    }

    pub(super) fn is_held(&self, _index: usize) -> bool {
        match *self {}
    }

    pub(super) fn is_answered(&self) -> bool {
        match *self {}
    }

    pub(super) fn has_claims(&self) -> bool {
        match *self {}
    }

    pub(super) fn confirm(&mut self, _batch: Box<Batch>) -> anyhow::Result<Option<Box<Batch>>> {
        match *self {}
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        match *self {}
    }

    pub(super) fn waiting(&self) -> (usize, bool) {
        match *self {}
    }

    pub(super) fn again(&mut self) -> anyhow::Result<Option<(Box<Batch>, Vec<usize>)>> {
        match *self {}
    }

    pub(super) fn leave(&mut self) {
        match *self {}
    }

    pub(super) fn release(&mut self, _batch: &Batch) {
        match *self {}
    }

    pub(super) fn trouble(&mut self) -> Option<String> {
        match *self {}
    }

    pub(super) fn batches_aside(&self) -> usize {
        match *self {}
    }

    pub(super) fn is_clean(&self) -> bool {
        match *self {}
    }
}
