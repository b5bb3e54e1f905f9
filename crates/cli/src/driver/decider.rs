//! The interface to whatever decides about events: a filter in this process, or a filter of a cluster.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use firstseen_records::Records;

use crate::input::Batch;
use crate::terminal::progress::Progress;

/// Decides about events.
///
/// The driver submits batches of events to the decider, and the decider returns each batch when its events are decided.
/// A filter in this process decides a batch at once. A filter of a cluster may decide a batch only after the driver has
/// submitted further batches. In both cases, the decider returns the batches in the order in which they were submitted.
/// For each returned batch, the driver reads the decisions chunk by chunk with [`decide`](Self::decide), and writes the
/// records.
///
/// Only deciders that use claims need the methods from [`waiting`](Self::waiting) on. A claim reserves an event for one
/// consumer, and the filter records the event only after the driver has written its record. If another consumer holds
/// the claim of an event, the decider cannot decide the event yet. It decides the event later in
/// [`retry`](Self::retry).
pub(crate) trait Decider<R: Records> {
    /// Decision about one event.
    type Decision;

    /// Maximum amount in milliseconds by which an event may be ahead of all other events without confirmation. A time
    /// that is farther ahead is plausible only if later events have similar times. `None` means that the filter does
    /// not use times.
    fn step_ms(&self) -> Option<u64>;

    /// Submits a batch, and returns the next batch whose events are decided. The returned batch can be the submitted
    /// batch or an earlier batch. `None` means that no batch is decided yet. In that case, the driver may submit
    /// further batches.
    ///
    /// `ahead_ms` contains the times of the records that follow the submitted batch, as far as they are known.
    ///
    /// # Errors
    /// Returns an error if no further event can be decided.
    fn submit(&mut self, batch: Box<Batch<R>>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch<R>>>>;

    /// Waits until the oldest batch that has not come back is decided, and returns it. `None` means that there is no
    /// such batch.
    ///
    /// # Errors
    /// Returns an error if no further event can be decided.
    fn oldest(&mut self) -> anyhow::Result<Option<Box<Batch<R>>>> {
        Ok(None)
    }

    /// Replaces the content of `decisions` with the decisions about `events` of the batch that came back last, one per
    /// event.
    fn decide(&mut self, batch: &Batch<R>, events: Range<usize>, decisions: &mut Vec<Self::Decision>);

    /// Saves the filter to `_path`, if this process keeps the filter.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn save(&self, _path: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// Returns how many records wait because other consumers hold their events.
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    /// Returns whether event `_index` of the batch that came back last waits because another consumer holds it.
    fn is_held(&self, _index: usize) -> bool {
        false
    }

    /// Returns whether this decider claims events. The records must then be confirmed after they were written.
    fn has_claims(&self) -> bool {
        false
    }

    /// Confirms the claims of the batch that the decider returned last. The driver calls this method after it has
    /// written the records of the batch.
    ///
    /// Returns the batch if all of its events are decided. If other consumers hold some of the events, the decider
    /// keeps the batch and returns `None`. The driver then calls [`retry`](Self::retry) later.
    ///
    /// # Errors
    /// Returns an error if the request could not be sent.
    fn confirm(&mut self, batch: Box<Batch<R>>, _progress: &Progress) -> anyhow::Result<Option<Box<Batch<R>>>> {
        Ok(Some(batch))
    }

    /// Releases the claims of the batch that came back last, because its records could not be written.
    fn release(&mut self, _batch: &Batch<R>) {}

    /// Retries one batch with events that other consumers held. The decider claims these events again, and returns the
    /// batch together with the list of these events. The driver then writes the records of the events that are decided
    /// now. `None` means that no batch is due for a retry yet.
    ///
    /// # Errors
    /// Returns an error if no further event can be decided.
    fn retry(&mut self) -> anyhow::Result<Option<Retry<R>>> {
        Ok(None)
    }

    /// Ends the claims of this run. Events that other consumers hold are left to them, and claims on records that were
    /// not written are released.
    fn leave(&mut self) {}

    /// Returns whether this run wrote and recorded every record that it claimed, and no other consumer wrote one of
    /// them.
    fn is_clean(&self) -> bool {
        true
    }
}

/// Batch with events that other consumers held and that are now decided.
pub(crate) struct Retry<R> {
    pub(crate) batch: Box<Batch<R>>,
    pub(crate) events: Vec<usize>,
}

/// Records and batches that wait because other consumers hold their events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) records: usize,
    pub(crate) batches: usize,
    /// Whether the limit of waiting records is reached. If so, the input should pause.
    pub(crate) is_crowded: bool,
    /// Time until the decider asks again about one of the batches.
    pub(crate) due: Option<Duration>,
}
