//! Events of the logs of a run, for the experiments that want real ones.
//!
//! Promises: events in the order of their log. Must not know: cells, windows, files.

use std::borrow::Cow;
use std::collections::HashSet;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::parameter;
use crate::document::Parameter;
use crate::experiment::{EvalError, LogUse, Run, Scale};
use crate::stream::{Keys, Log, StreamSpec};

/// Keys with the repeats of M05's log of real clicks: 4,093,573 distinct ones of 5,583,301.
pub(super) const CLICKS: Keys = Keys::Repeats { distinct_share: 4_093_573.0 / 5_583_301.0, recent_keys: u64::MAX };

/// The logs of a run, or a stream with the repeats of M05's log where there is none.
pub(super) struct Clicks<'a> {
    logs: &'a [Log],
    scale: Scale,
    part: &'a LogUse,
}

impl<'a> Clicks<'a> {
    /// For each log, the part that the experiment uses.
    pub(super) fn new(run: &Run<'a>, part: &'a LogUse) -> Self {
        Self { logs: run.logs, scale: run.scale, part }
    }

    /// What the logs are called.
    pub(super) fn names(&self) -> Vec<&'a str> {
        match self.logs {
            [] => vec!["stream with the paper's repeats"],
            logs => logs.iter().map(|log| log.name.as_str()).collect(),
        }
    }

    /// The parameters of experiments over logs.
    pub(super) fn parameters(&self) -> [Parameter; 3] {
        [
            parameter("clicks at most: the first of a log, or of the stream", (self.part.events_max)(self.scale)),
            parameter("clicks that the filters of a run see together, about", TRIED_EVENTS(self.scale)),
            parameter("filters of a run at most, each with a hash of its own", FILTERS_MAX),
        ]
    }

    /// The note where the run has no log.
    pub(super) fn note(&self) -> Option<String> {
        let note =
            "No log was given: these are not real clicks, but a synthetic stream with the repeats of the paper's log.";
        self.logs.is_empty().then(|| note.to_owned())
    }

    /// The keys of each log, in the order of [`Self::names`].
    pub(super) fn keys(&self, seed: u64) -> Result<Vec<Cow<'a, [u64]>>, EvalError> {
        if self.logs.is_empty() {
            let stream = StreamSpec::new((self.part.events_max)(self.scale), CLICKS).events(seed)?;
            return Ok(vec![Cow::Owned(stream.map(|event| event.key).collect())]);
        }
        Ok(self.logs.iter().map(|log| Cow::Borrowed(self.part.part(&log.keys, self.scale))).collect())
    }
}

/// Events that the filters of one run and one number of hash functions see in all. Of a small log, which has few
/// errors, more filters are measured, each with a hash of its own.
const TRIED_EVENTS: fn(Scale) -> u64 = |scale| scale.pick(600_000, 100_000, 20_000);
const FILTERS_MAX: u64 = 100;

/// The seeds of the filters of one run.
pub(super) fn filter_seeds(scale: Scale, events: usize, seed: u64) -> impl Iterator<Item = u64> {
    let filters = (TRIED_EVENTS(scale) / events.max(1) as u64).clamp(1, FILTERS_MAX);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..filters).map(move |_| random.next_u64())
}

/// Distinct events that a log must have. Formulas assume many cells: with 50 distinct clicks those of jumping windows
/// were 3 to 5 % off, with 500 within 1 %; slices divide the cells further.
pub(super) const DISTINCT_MIN: u64 = 1_000;

/// How many events are distinct.
pub(super) fn distinct(keys: &[u64]) -> u64 {
    keys.iter().collect::<HashSet<_>>().len() as u64
}
