//! Events of the logs of a run, for the experiments that use real events.
//!
//! The events are in the order of their log.
//!
//! This module does not depend on cells, windows or files.

use std::borrow::Cow;
use std::collections::HashSet;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::parameter;
use crate::document::Parameter;
use crate::experiment::{EvalError, LogUse, Run, Scale};
use crate::stream::{Keys, Log, StreamSpec};

/// Keys with the repeats of the log of real clicks in Metwally et al. 2005: 4,093,573 distinct clicks of 5,583,301.
pub(super) const CLICKS: Keys = Keys::Repeats { distinct_share: 4_093_573.0 / 5_583_301.0, recent_keys: u64::MAX };

/// Logs of a run. If there are no logs, a stream with the repeats of the log of Metwally et al. 2005 replaces them.
pub(super) struct Clicks<'a> {
    logs: &'a [Log],
    scale: Scale,
    part: &'a LogUse,
}

impl<'a> Clicks<'a> {
    /// Creates the clicks of a run: for each log, the part that the experiment uses.
    pub(super) fn new(run: &Run<'a>, part: &'a LogUse) -> Self {
        Self { logs: run.logs, scale: run.scale, part }
    }

    /// Returns the names of the logs.
    pub(super) fn names(&self) -> Vec<&'a str> {
        match self.logs {
            [] => vec!["stream with the paper's repeats"],
            logs => logs.iter().map(|log| log.name.as_str()).collect(),
        }
    }

    /// Returns the parameters of experiments over logs.
    pub(super) fn parameters(&self) -> [Parameter; 3] {
        [
            parameter(
                "maximum number of clicks, from the start of the log or stream",
                (self.part.events_max)(self.scale),
            ),
            parameter("approximate number of clicks that all filters of a run see", TRIED_EVENTS(self.scale)),
            parameter("maximum number of filters per run, each with its own hash function", FILTERS_MAX),
        ]
    }

    /// Returns the note for a run without logs.
    pub(super) fn note(&self) -> Option<String> {
        let note = "No log was given, so the clicks are not real. They are a synthetic stream with the repeats of the \
             paper's log.";
        self.logs.is_empty().then(|| note.to_owned())
    }

    /// Returns the keys of each log, in the order of [`Self::names`].
    pub(super) fn keys(&self, seed: u64) -> Result<Vec<Cow<'a, [u64]>>, EvalError> {
        if self.logs.is_empty() {
            let stream = StreamSpec::new((self.part.events_max)(self.scale), CLICKS).events(seed)?;
            return Ok(vec![Cow::Owned(stream.map(|event| event.key).collect())]);
        }
        Ok(self.logs.iter().map(|log| Cow::Borrowed(self.part.part(&log.keys, self.scale))).collect())
    }
}

/// Approximate number of events that are observed in one run for each number of hash functions. A single filter makes
/// too few errors on a small log for a precise measurement. The run therefore sends a small log through several filters
/// with different hash functions, until they have observed this number of events together.
const TRIED_EVENTS: fn(Scale) -> u64 = |scale| scale.pick(600_000, 100_000, 20_000);
const FILTERS_MAX: u64 = 100;

/// Returns the seeds of the filters of one run.
pub(super) fn filter_seeds(scale: Scale, events: usize, seed: u64) -> impl Iterator<Item = u64> {
    let filters = (TRIED_EVENTS(scale) / events.max(1) as u64).clamp(1, FILTERS_MAX);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..filters).map(move |_| random.next_u64())
}

/// Minimum number of distinct events in a log. The size of a filter is chosen by the number of distinct events, and the
/// formulas are exact only for large filters. With 50 distinct clicks, the formulas of jumping windows were off by 3 to
/// 5 %, and with 500 by less than 1 %. The minimum is higher than 500, because slices divide the cells further.
pub(super) const DISTINCT_MIN: u64 = 1_000;

/// Returns the number of distinct events.
pub(super) fn distinct(keys: &[u64]) -> u64 {
    keys.iter().collect::<HashSet<_>>().len() as u64
}
