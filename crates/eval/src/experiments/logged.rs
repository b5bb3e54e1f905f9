//! Events of logs that were handed in, for the experiments that want real ones.
//!
//! Promises: events in the order of their log; a log with too few distinct events to be judged is refused. Must not
//! know: filters, windows, files.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::experiment::{EvalError, Run};
use crate::stream::{Keys, Log, StreamSpec};

/// Keys with the repeats of M05's log of real clicks: 4,093,573 distinct ones of 5,583,301.
pub(super) const CLICKS: Keys = Keys::Repeats { distinct_share: 4_093_573.0 / 5_583_301.0, recent_keys: u64::MAX };

/// The logs of a run, or a stream with the repeats of M05's log where there is none.
pub(super) struct Clicks<'a> {
    logs: &'a [Log],
    events_max: usize,
}

impl<'a> Clicks<'a> {
    /// At most `events_max` clicks of each log.
    pub(super) fn new(experiment: &'static str, run: &Run<'a>, events_max: u64) -> Result<Self, EvalError> {
        let clicks = Self { logs: run.logs, events_max: events_max as usize };
        for log in run.logs {
            check_distinct(experiment, &log.name, clicks.part_of(log))?;
        }
        Ok(clicks)
    }

    /// What the logs are called.
    pub(super) fn names(&self) -> Vec<&'a str> {
        match self.logs {
            [] => vec!["stream with the paper's repeats"],
            logs => logs.iter().map(|log| log.name.as_str()).collect(),
        }
    }

    /// The keys of each log, in the order of [`Self::names`].
    pub(super) fn keys(&self, seed: u64) -> Result<Vec<Cow<'a, [u64]>>, EvalError> {
        if self.logs.is_empty() {
            let stream = StreamSpec::new(self.events_max as u64, CLICKS).events(seed)?;
            return Ok(vec![Cow::Owned(stream.map(|event| event.key).collect())]);
        }
        Ok(self.logs.iter().map(|log| Cow::Borrowed(self.part_of(log))).collect())
    }

    fn part_of(&self, log: &'a Log) -> &'a [u64] {
        &log.keys[..log.keys.len().min(self.events_max)]
    }
}

/// Distinct events of a log that experiments need. Formulas are for many cells: of 50 distinct clicks those of jumping
/// windows were found 3 to 5 % off, of 500 within 1 %; slices divide the cells further.
const DISTINCT_MIN: u64 = 1_000;

/// How many events of a log are distinct, unless they are too few.
pub(super) fn check_distinct(experiment: &'static str, log: &str, keys: &[u64]) -> Result<u64, EvalError> {
    let distinct = keys.iter().collect::<HashSet<_>>().len() as u64;
    match distinct < DISTINCT_MIN {
        true => Err(EvalError::FewDistinct { log: log.to_owned(), distinct, experiment, distinct_min: DISTINCT_MIN }),
        false => Ok(distinct),
    }
}
