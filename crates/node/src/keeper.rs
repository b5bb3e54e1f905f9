//! The keeper of a node's journal: takes records from all owners, writes and syncs them together.
//!
//! Promises: records of one owner stand in the owner's order; records that are due are synced as soon as the disk
//! allows, with all that came meanwhile; a full disk delays, an error of a sync ends the node. Must not know: what
//! records hold.

mod bases;
mod hang;
mod writer;
mod yielding;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use firstseen_journal::{Disk, DiskRoom, NodeMark, ScanError, Segments, Steps, scan};
use firstseen_meta::Identity;
use firstseen_routing::MonotonicMs;
use firstseen_wire::watch;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::group_key::GroupKey;
pub(crate) use hang::{DiskState, look_after, patience};
pub(crate) use writer::write;
pub(crate) use yielding::Yielding;

/// Records that wait for the disk may take this many bytes before owners take no more events that are to be persisted.
const WAITING_BYTES_MAX: u64 = 64 << 20;

/// Records that wait are written when they take so many bytes, due or not.
const WRITE_BYTES: u64 = 1 << 20;

/// The place of a record in the checkpoint of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointMark {
    /// It is no part of one, or in the middle.
    None,
    /// It begins one.
    Begin,
    /// It ends one: records from before the checkpoint's beginning are not needed.
    End,
}

/// A record for the writer, or another note.
enum Note {
    Record {
        key: GroupKey,
        mark: CheckpointMark,
        bytes: Vec<u8>,
    },
    /// The group has an owner: everything from this segment on is needed.
    Base {
        key: GroupKey,
        segment: u64,
    },
    /// Nothing of the group is needed any more.
    Forget {
        key: GroupKey,
    },
}

#[derive(Default)]
struct WaitingNotes {
    notes: Vec<Note>,
    bytes: u64,
    /// Records ever taken.
    taken: u64,
    /// When the first of those that wait must be synced.
    due_ms: Option<MonotonicMs>,
    /// When the first of those that are being written must be synced.
    writing_due_ms: Option<MonotonicMs>,
}

/// The keeper, as owners know it.
pub(crate) struct Keeper {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    segment_bytes: u32,
    waiting: Mutex<WaitingNotes>,
    woken: Notify,
    /// Records that are on the medium.
    synced: watch::Sender<u64>,
    /// How long writes and syncs of waiting records took.
    sync_seconds: Histogram,
    /// One owner reads at a time.
    reading: Mutex<()>,
    /// Owners that have not read the journal yet: nothing is written before they have.
    readers_left: AtomicUsize,
    /// Why the journal cannot be relied on: nothing is written then.
    damage: OnceLock<String>,
    /// Bytes of cells of all groups that keep a journal.
    cells_bytes: AtomicU64,
    identity: OnceLock<NodeMark>,
    is_full: AtomicBool,
    /// The work that the disk is doing, and the state that follows from it.
    steps: Steps,
    disk_state: watch::Sender<DiskState>,
    /// Bytes of records ever taken, with those that were there at the start.
    journal_bytes: AtomicU64,
    segments: AtomicU64,
    failure: OnceLock<String>,
    failed: CancellationToken,
    /// All records that were taken are written, and no more will be.
    written: CancellationToken,
}

impl Keeper {
    /// A keeper for `readers` owners.
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u32, clock: Arc<dyn Clock>, readers: usize) -> Self {
        Self {
            disk,
            clock,
            segment_bytes,
            waiting: Mutex::default(),
            woken: Notify::new(),
            synced: watch::channel(0).0,
            // From 0.1 ms to 52 s.
            sync_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 20)),
            reading: Mutex::default(),
            readers_left: AtomicUsize::new(readers),
            damage: OnceLock::new(),
            cells_bytes: AtomicU64::new(0),
            identity: OnceLock::new(),
            is_full: AtomicBool::new(false),
            steps: Steps::default(),
            disk_state: watch::Sender::new(DiskState::default()),
            journal_bytes: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            failure: OnceLock::new(),
            failed: CancellationToken::new(),
            written: CancellationToken::new(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingNotes> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the journal of an earlier process of this node: every record with the number of its segment. Each owner
    /// reads it, one after the other, and then calls [`Self::has_read`].
    pub(crate) fn read(
        &self,
        identity: Identity,
        take: impl FnMut(u64, &[u8]) -> Result<(), String>,
    ) -> Result<Segments, ScanError> {
        let _turn = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let of = NodeMark { cluster: identity.journal.0, node: identity.node.0 };
        let _ = self.identity.set(of);
        let found = scan(&*self.disk, of, take)?;
        let least_bytes = u64::from(self.segment_bytes) / 4;
        let bytes = found.used_bytes.max(found.numbers.len() as u64 * least_bytes);
        self.journal_bytes.fetch_max(bytes, Ordering::Relaxed);
        self.segments.fetch_max(found.numbers.len() as u64, Ordering::Relaxed);
        Ok(found)
    }

    /// An owner has taken up the records of its groups, and said which segments they need; or it cannot.
    pub(crate) fn has_read(&self, damage: Option<&String>) {
        if let Some(damage) = damage {
            let _ = self.damage.set(damage.clone());
        }
        if self.readers_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.woken.notify_one();
        }
    }

    /// Whether records may be written.
    fn may_write(&self) -> bool {
        self.readers_left.load(Ordering::Acquire) == 0 && self.damage.get().is_none()
    }

    /// Those of one owner have changed; returns the bytes of cells of all groups that keep a journal.
    pub(crate) fn count_cells(&self, before_bytes: u64, now_bytes: u64) -> u64 {
        let change = now_bytes.wrapping_sub(before_bytes);
        self.cells_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    /// Bytes of a segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_bytes)
    }

    /// Takes a record, which is to be on the medium within `within_ms`; returns the number of records taken so far.
    pub(crate) fn keep(&self, key: GroupKey, mark: CheckpointMark, bytes: Vec<u8>, within_ms: u64) -> u64 {
        let due_ms = self.clock.monotonic_ms().after(within_ms);
        self.journal_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut waiting = self.waiting();
        let is_news = waiting.due_ms.is_none_or(|due| due_ms < due) || waiting.bytes < WRITE_BYTES;
        waiting.bytes += bytes.len() as u64;
        waiting.taken += 1;
        waiting.due_ms = Some(waiting.due_ms.map_or(due_ms, |due| due.min(due_ms)));
        waiting.notes.push(Note::Record { key, mark, bytes });
        let taken = waiting.taken;
        drop(waiting);
        if is_news {
            self.woken.notify_one();
        }
        taken
    }

    /// A group needs everything from `segment` on; all of the journal where that is 0.
    pub(crate) fn need(&self, key: GroupKey, segment: u64) {
        self.waiting().notes.push(Note::Base { key, segment });
    }

    /// A group is gone.
    pub(crate) fn forget(&self, key: GroupKey) {
        self.waiting().notes.push(Note::Forget { key });
    }

    /// Records that are on the medium.
    pub(crate) fn synced(&self) -> u64 {
        *self.synced.borrow()
    }

    /// How long writes and syncs of waiting records took.
    pub(crate) fn sync_seconds(&self) -> Histogram {
        self.sync_seconds.clone()
    }

    /// The room of the disk, where that can be told.
    pub(crate) fn disk_room(&self) -> Option<DiskRoom> {
        self.disk.room()
    }

    /// Changes whenever more records are on the medium.
    pub(crate) fn watch_synced(&self) -> watch::Receiver<u64> {
        self.synced.subscribe()
    }

    /// Whether owners are to take no more events that are to be persisted: the disk is full, or slow, or cannot be
    /// written.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_full()
            || self.hangs()
            || !self.disk.may_grow()
            || self.damage.get().is_some()
            || self.waiting().bytes > WAITING_BYTES_MAX
    }

    /// Whether records that were due so long ago are not on the medium.
    pub(crate) fn is_overdue(&self, grace_ms: u64) -> bool {
        let now_ms = self.clock.monotonic_ms();
        let waiting = self.waiting();
        [waiting.due_ms, waiting.writing_due_ms].into_iter().flatten().any(|due_ms| due_ms.after(grace_ms) < now_ms)
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Whether the disk hangs.
    pub(crate) fn hangs(&self) -> bool {
        self.disk_state() == DiskState::Hangs
    }

    /// The state of the disk.
    pub(crate) fn disk_state(&self) -> DiskState {
        *self.disk_state.borrow()
    }

    /// Changes with the state of the disk.
    pub(crate) fn watch_disk(&self) -> watch::Receiver<DiskState> {
        self.disk_state.subscribe()
    }

    /// Bytes of records that the journal has taken, from this process and from earlier ones whose records it still has.
    pub(crate) fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    /// Segments on the disk.
    pub(crate) fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Bytes of records that wait for the disk.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting().bytes
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(error.to_string());
        self.failed.cancel();
    }

    /// Waits until all records that were taken are written, after the writer was stopped.
    pub(crate) async fn written(&self) {
        self.written.cancelled().await;
    }

    /// Waits until it is not known any more what is on the medium; returns why.
    pub(crate) async fn failed(&self) -> String {
        self.failed.cancelled().await;
        self.failure.get().cloned().unwrap_or_default()
    }
}
