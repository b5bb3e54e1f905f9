//! Counts of a pipe, which another thread can read for metrics while the pipe works.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::message::PartitionId;
use crate::outcome::Outcome;

/// Upper bounds of the latency histogram, in seconds.
pub const LATENCY_BOUNDS_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// All figures at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Messages of delivered batches.
    pub events: u64,
    /// Messages that were written to the output.
    pub passed: u64,
    /// Messages whose keys were new.
    pub new: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Messages without a value, which were passed on.
    pub tombstones: u64,
    /// Undecided events by reason.
    pub undecided: BTreeMap<&'static str, u64>,
    /// Messages that are no events, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Messages that were written to the topic of dead letters.
    pub dead_letters: u64,
    /// Attempts to deliver a batch.
    pub attempts: Attempts,
    /// Filters that were rebuilt.
    pub rebuilds: Rebuilds,
    /// Checkpoints.
    pub checkpoints: Checkpoints,
    /// Partitions of this process.
    pub partitions: Partitions,
    /// Messages by partition that are not delivered yet.
    #[serde(serialize_with = "by_name")]
    pub lag: BTreeMap<PartitionId, i64>,
    /// Batches by the time from their first message to their commit. The last number counts all slower ones.
    pub latency: [u64; LATENCY_BOUNDS_S.len() + 1],
    /// Sum of these times.
    pub latency_seconds: f64,
}

/// Attempts to deliver a batch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Attempts {
    /// Batches that were committed.
    pub committed: u64,
    /// Attempts that were aborted.
    pub aborted: u64,
    /// Aborted attempts of a process that was fenced.
    pub fenced: u64,
    /// Attempts whose outcome was unknown at first.
    pub unknown: u64,
}

/// Filters that were rebuilt.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rebuilds {
    /// Number of filters.
    pub filters: u64,
    /// Events that were read for them.
    pub events: u64,
    /// Time that this took.
    pub seconds: f64,
}

/// Checkpoints.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Checkpoints {
    /// Checkpoints that were saved.
    pub saved: u64,
    /// Checkpoints that could not be saved.
    pub failed: u64,
}

/// Partitions of this process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Partitions {
    /// Whether the group has assigned partitions to this process at least once.
    pub has_joined: bool,
    /// Assigned partitions.
    pub assigned: u64,
    /// Partitions whose filters are rebuilt.
    pub ready: u64,
    /// Memory of the filters.
    pub filter_bytes: u64,
}

fn by_name<S: serde::Serializer>(lag: &BTreeMap<PartitionId, i64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(lag.iter().map(|(partition, lag)| (partition.to_string(), lag)))
}

impl Figures {
    /// Adds the outcome of one delivered message.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.events += 1;
        match outcome {
            Outcome::New => self.new += 1,
            Outcome::Duplicate => self.duplicates += 1,
            Outcome::Tombstone => self.tombstones += 1,
            Outcome::Undecided(reason) => *self.undecided.entry(reason.name()).or_default() += 1,
            Outcome::Rejected(rejection) => *self.rejected.entry(rejection.name()).or_default() += 1,
        }
    }

    /// Adds the latency of a committed batch.
    pub(crate) fn add_latency(&mut self, latency: Duration) {
        let seconds = latency.as_secs_f64();
        let bucket = LATENCY_BOUNDS_S.partition_point(|bound| *bound < seconds);
        self.latency[bucket] += 1;
        self.latency_seconds += seconds;
    }

    /// Returns whether every partition that this process has can be used.
    pub fn is_ready(&self) -> bool {
        self.partitions.has_joined && self.partitions.ready == self.partitions.assigned
    }
}

/// Figures that the pipe changes and other threads read.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Figures>>);

impl Counts {
    /// Returns the figures at this moment.
    pub fn figures(&self) -> Figures {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the figures.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
