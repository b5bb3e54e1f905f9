//! The journal writer of a node. It receives journal records from all owner threads, and writes and syncs the records
//! of several owners together.
//!
//! # Guarantees
//! - The records of one owner stay in the order in which the owner passed them.
//! - When a record is due, it is synced as soon as the disk allows, together with all records that have arrived by
//!   then.
//! - A full disk delays the records. An error of a sync ends the node.
//!
//! This module does not depend on the content of the records.

mod gated_disk;
mod hang;
mod retention;
mod writer;

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
pub(crate) use gated_disk::GatedDisk;
pub(crate) use hang::{DiskState, look_after, patience};
pub(crate) use writer::write;

/// Maximum size of the records that wait for the disk, in bytes. Above this limit, owners accept no more events that
/// must be persisted.
const WAITING_BYTES_MAX: u64 = 64 << 20;

/// Size of the waiting records at which they are written even if none is due, in bytes.
const WRITE_BYTES: u64 = 1 << 20;

/// Position of a record within the checkpoint of its slice group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointMark {
    /// The record is not part of a checkpoint, or is in the middle of one.
    None,
    /// The record begins a checkpoint.
    Begin,
    /// The record ends a checkpoint. Records from before the beginning of this checkpoint are no longer needed.
    End,
}

/// A record for the writer, or information about the needed segments.
enum Note {
    Record {
        key: GroupKey,
        mark: CheckpointMark,
        bytes: Vec<u8>,
    },
    /// The slice group has an owner, and everything from this segment on is needed.
    Base {
        key: GroupKey,
        segment: u64,
    },
    /// The records of the slice group are no longer needed.
    Forget {
        key: GroupKey,
    },
}

#[derive(Default)]
struct WaitingNotes {
    notes: Vec<Note>,
    bytes: u64,
    /// Total number of records that have been accepted.
    taken: u64,
    /// Time at which the first waiting record must be synced.
    due_ms: Option<MonotonicMs>,
    /// Time at which the first record that is being written must be synced.
    writing_due_ms: Option<MonotonicMs>,
}

/// The part of the journal writer that is shared between the owner threads and the writing task.
pub(crate) struct JournalWriter {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    segment_bytes: u32,
    waiting: Mutex<WaitingNotes>,
    woken: Notify,
    /// Number of records that have been synced to the disk.
    synced: watch::Sender<u64>,
    /// Durations of writing and syncing waiting records.
    sync_seconds: Histogram,
    /// Ensures that only one owner reads the journal at a time.
    reading: Mutex<()>,
    /// Number of owners that have not read the journal yet. Nothing is written until all owners have read it.
    readers_left: AtomicUsize,
    /// Reason why the journal is not reliable. If it is set, nothing is written.
    damage: OnceLock<String>,
    /// Total size of the cells of all slice groups with a journal, in bytes.
    cells_bytes: AtomicU64,
    identity: OnceLock<NodeMark>,
    is_full: AtomicBool,
    /// The disk operations in progress, from which the state of the disk is derived.
    steps: Steps,
    disk_state: watch::Sender<DiskState>,
    /// Total size of all records that were ever accepted, in bytes. It includes the records that existed at the start.
    journal_bytes: AtomicU64,
    segments: AtomicU64,
    failure: OnceLock<String>,
    failed: CancellationToken,
    /// Cancelled when all accepted records are written and no more will follow.
    written: CancellationToken,
}

impl JournalWriter {
    /// Creates a journal writer for `readers` owners.
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u32, clock: Arc<dyn Clock>, readers: usize) -> Self {
        Self {
            disk,
            clock,
            segment_bytes,
            waiting: Mutex::default(),
            woken: Notify::new(),
            synced: watch::channel(0).0,
            // The buckets range from 0.1 ms to 52 s.
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

    /// Reads the journal that the previous process of this node has written. A journal consists of several segments,
    /// and each segment contains many records. The method calls `take` once for each record, with the number of the
    /// segment that contains the record, and with the bytes of the record.
    ///
    /// Every owner thread must call this method when it starts, because the records of its slice groups can be anywhere
    /// in the journal. Only one owner reads at a time, and the others wait. When an owner has finished reading, it must
    /// call [`Self::has_read`].
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

    /// Notes that an owner has read its records and reported which segments they need. `damage` says why the owner
    /// could not read them.
    pub(crate) fn has_read(&self, damage: Option<&String>) {
        if let Some(damage) = damage {
            let _ = self.damage.set(damage.clone());
        }
        if self.readers_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.woken.notify_one();
        }
    }

    /// Returns whether records may be written.
    fn may_write(&self) -> bool {
        self.readers_left.load(Ordering::Acquire) == 0 && self.damage.get().is_none()
    }

    /// Updates the size of the cells of one owner. Returns the total size of the cells of all slice groups with a
    /// journal.
    pub(crate) fn count_cells(&self, before_bytes: u64, now_bytes: u64) -> u64 {
        let change = now_bytes.wrapping_sub(before_bytes);
        self.cells_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    /// Returns the size of a segment in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_bytes)
    }

    /// Accepts a record that must be on the disk within `within_ms` milliseconds. Returns the number of records
    /// accepted so far.
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

    /// Notes that a slice group needs all records from `segment` on. Zero means the entire journal.
    pub(crate) fn need(&self, key: GroupKey, segment: u64) {
        self.waiting().notes.push(Note::Base { key, segment });
    }

    /// Notes that a slice group no longer needs its records.
    pub(crate) fn forget(&self, key: GroupKey) {
        self.waiting().notes.push(Note::Forget { key });
    }

    /// Returns the number of records that have been synced to the disk.
    pub(crate) fn synced(&self) -> u64 {
        *self.synced.borrow()
    }

    /// Returns the durations of writing and syncing waiting records.
    pub(crate) fn sync_seconds(&self) -> Histogram {
        self.sync_seconds.clone()
    }

    /// Returns the free space of the disk, if it is known.
    pub(crate) fn disk_room(&self) -> Option<DiskRoom> {
        self.disk.room()
    }

    /// Returns a receiver that is notified whenever more records have been synced.
    pub(crate) fn watch_synced(&self) -> watch::Receiver<u64> {
        self.synced.subscribe()
    }

    /// Returns whether owners must accept no more events that must be persisted, because the disk is full, slow, or not
    /// writable.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_full()
            || self.hangs()
            || !self.disk.may_grow()
            || self.damage.get().is_some()
            || self.waiting().bytes > WAITING_BYTES_MAX
    }

    /// Returns whether a record is overdue by more than `grace_ms` milliseconds.
    pub(crate) fn is_overdue(&self, grace_ms: u64) -> bool {
        let now_ms = self.clock.monotonic_ms();
        let waiting = self.waiting();
        [waiting.due_ms, waiting.writing_due_ms].into_iter().flatten().any(|due_ms| due_ms.after(grace_ms) < now_ms)
    }

    /// Returns whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns whether the disk hangs.
    pub(crate) fn hangs(&self) -> bool {
        self.disk_state() == DiskState::Hangs
    }

    /// Returns the state of the disk.
    pub(crate) fn disk_state(&self) -> DiskState {
        *self.disk_state.borrow()
    }

    /// Returns a receiver that is notified when the state of the disk changes.
    pub(crate) fn watch_disk(&self) -> watch::Receiver<DiskState> {
        self.disk_state.subscribe()
    }

    /// Returns the number of bytes that the journal has received so far, including the bytes that earlier processes
    /// have left in it. The number never decreases, even when old segments are deleted. The difference between two
    /// results therefore tells how much was written between the two calls.
    pub(crate) fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of segments on the disk.
    pub(crate) fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Returns the size of the records that wait for the disk, in bytes.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting().bytes
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(error.to_string());
        self.failed.cancel();
    }

    /// Waits until all accepted records are written, after the writer was told to stop.
    pub(crate) async fn written(&self) {
        self.written.cancelled().await;
    }

    /// Waits until a write error makes the content of the disk unknown, and returns the error.
    pub(crate) async fn failed(&self) -> String {
        self.failed.cancelled().await;
        self.failure.get().cloned().unwrap_or_default()
    }
}
