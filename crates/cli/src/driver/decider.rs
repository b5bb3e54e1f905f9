//! What decides about events: a filter in this process, or one of a cluster.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use firstseen_records::Records;

use crate::input::Batch;
use crate::terminal::progress::Progress;

/// Decides about events.
///
/// A batch is submitted first. It comes back, at once or after others were submitted, when the decisions about its events
/// are there: the driver asks for them chunk by chunk with [`decide`](Self::decide), and writes its records. Batches come
/// back in the order in which they were submitted.
///
/// The methods from [`waiting`](Self::waiting) on are about claims. A decider that claims events records an event after
/// its record was written, and others may hold some of the events; these are decided later ([`retry`](Self::retry)).
pub(crate) trait Decider<R: Records> {
    /// What it says about an event.
    type Decision;

    /// How far ahead of the others an event's time may be to be accepted without their confirmation, in milliseconds;
    /// `None` if times do not matter.
    fn step_ms(&self) -> Option<u64>;

    /// Takes a batch. Returns the next one that is decided, which may be this one; `None` if the decisions are still to
    /// come, and more batches may be submitted meanwhile. `ahead_ms` has the times of the records behind the batch, where
    /// they are known.
    ///
    /// # Errors
    /// Where nothing can be decided from here on.
    fn submit(&mut self, batch: Box<Batch<R>>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch<R>>>>;

    /// Waits until the oldest batch is decided that was submitted and has not come back; `None` if there is none.
    ///
    /// # Errors
    /// Where nothing can be decided from here on.
    fn oldest(&mut self) -> anyhow::Result<Option<Box<Batch<R>>>> {
        Ok(None)
    }

    /// Replaces `decisions` by those about `events` of the batch that came back last, one an event.
    fn decide(&mut self, batch: &Batch<R>, events: Range<usize>, decisions: &mut Vec<Self::Decision>);

    /// Saves the filter, where it is one that this process keeps.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn save(&self, _path: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// What waits as others hold it.
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    /// Whether event `index` of the batch that came back last waits as another one holds it.
    fn is_held(&self, _index: usize) -> bool {
        false
    }

    /// Whether events are claimed: records are then confirmed after they were written.
    fn has_claims(&self) -> bool {
        false
    }

    /// Confirms the records of the batch that came back last, which are written. Returns the batch if all of its events
    /// are decided, and keeps it otherwise.
    ///
    /// # Errors
    /// Where the request could not be sent.
    fn confirm(&mut self, batch: Box<Batch<R>>, _progress: &Progress) -> anyhow::Result<Option<Box<Batch<R>>>> {
        Ok(Some(batch))
    }

    /// Releases the claims of the batch that came back last, whose records could not be written.
    fn release(&mut self, _batch: &Batch<R>) {}

    /// Asks again about a batch with events that others hold, if one is due. Its events are decided then as those of a
    /// batch that came back.
    ///
    /// # Errors
    /// Where nothing can be decided from here on.
    fn retry(&mut self) -> anyhow::Result<Option<Retry<R>>> {
        Ok(None)
    }

    /// The run ends: events that others hold are left to them, and claims that are not written are released.
    fn leave(&mut self) {}

    /// Whether every record that was claimed is written and recorded, and by this run alone.
    fn is_clean(&self) -> bool {
        true
    }
}

/// A batch with events that were held by others.
pub(crate) struct Retry<R> {
    pub(crate) batch: Box<Batch<R>>,
    pub(crate) events: Vec<usize>,
}

/// What waits as others hold it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) records: usize,
    pub(crate) batches: usize,
    /// Whether the input should wait for them.
    pub(crate) is_crowded: bool,
    /// How long until one of the batches is to be asked about again.
    pub(crate) due: Option<Duration>,
}
