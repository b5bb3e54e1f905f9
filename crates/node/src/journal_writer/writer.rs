//! The loop that writes the journal. The loop waits only for the disk. This module does not depend on slice groups.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firstseen_journal::{Journal, scan};
use tokio_util::sync::CancellationToken;

use super::retention::SegmentRetention;
use super::{JournalWriter, Note, WRITE_BYTES};

/// Pause between two attempts to write to a full disk.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// Writes the records that the journal writer accepts, until `stopping` is cancelled. Records that were accepted before
/// the cancellation are still written.
pub(crate) async fn write(keeper: Arc<JournalWriter>, stopping: CancellationToken) {
    let _ending = EndOfWriter(keeper.clone());
    let mut writer = Writer { keeper: keeper.clone(), journal: None, bases: SegmentRetention::default() };
    let ended = loop {
        if let Err(error) = writer.write_due(&stopping).await {
            break Err(error);
        }
        if stopping.is_cancelled() {
            break if keeper.may_write() { writer.write_all(&stopping).await } else { Ok(()) };
        }
    };
    if let Err(error) = ended {
        tracing::error!(%error, "writing the journal failed: it is not known which records are on the disk");
        keeper.fail(&error);
    }
}

/// Announces the end of the writer, even if the writer panics.
struct EndOfWriter(Arc<JournalWriter>);

impl Drop for EndOfWriter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&io::Error::other("its thread has panicked"));
        }
        self.0.written.cancel();
    }
}

/// Returns whether an error means that the disk has no room. This condition may be temporary.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

struct Writer {
    keeper: Arc<JournalWriter>,
    journal: Option<Journal>,
    bases: SegmentRetention,
}

impl Writer {
    /// Waits until a record is due, and then writes all waiting records.
    async fn write_due(&mut self, stopping: &CancellationToken) -> io::Result<()> {
        let due_in_ms = {
            let waiting = self.keeper.waiting();
            let due = waiting.due_ms.map(|due_ms| due_ms.since(self.keeper.clock.monotonic_ms()));
            if waiting.bytes >= WRITE_BYTES { due.map(|_| 0) } else { due }
        };
        match due_in_ms.filter(|_| self.keeper.may_write()) {
            Some(0) => self.write_all(stopping).await,
            due_in_ms => {
                let pause = async {
                    match due_in_ms {
                        Some(due_in_ms) => tokio::time::sleep(Duration::from_millis(due_in_ms)).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => {}
                    () = self.keeper.woken.notified() => {}
                    () = pause => {}
                }
                Ok(())
            }
        }
    }

    /// Writes and syncs the records that the journal writer has accepted so far.
    async fn write_all(&mut self, stopping: &CancellationToken) -> io::Result<()> {
        let (notes, taken) = {
            let mut waiting = self.keeper.waiting();
            waiting.writing_due_ms = waiting.due_ms.take();
            (std::mem::take(&mut waiting.notes), waiting.taken)
        };
        if !notes.iter().any(|note| matches!(note, Note::Record { .. })) && self.journal.is_none() {
            notes.into_iter().for_each(|note| drop(self.note(note)));
            return Ok(());
        }
        let mut bytes_written = 0;
        self.journal()?;
        // A slow disk may delay a write but not the following sync, so the measured time includes both.
        let mut begun_us = self.keeper.clock.monotonic_us();
        for note in notes {
            let Some(record) = self.note(note) else { continue };
            bytes_written += record.len() as u64;
            // If the disk is full, the journal keeps the record and writes it later.
            match self.on_disk(|journal| journal.push(record)) {
                Err(error) if !is_full(&error) => return Err(error),
                _ => {}
            }
        }
        let sync_takes = self.keeper.disk.sync_takes();
        if !sync_takes.is_zero() {
            let _under_way = self.keeper.steps.begin();
            tokio::time::sleep(sync_takes).await;
        }
        loop {
            match self.on_disk(|journal| journal.sync().and_then(|()| journal.mark())) {
                Ok(()) => {
                    let took_us = self.keeper.clock.monotonic_us().saturating_sub(begun_us);
                    self.keeper.sync_seconds.observe(took_us as f64 / 1e6);
                    break;
                }
                Err(error) if is_full(&error) && !stopping.is_cancelled() => {
                    self.log_full(Some(&error));
                    self.make_room()?;
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => {}
                        () = tokio::time::sleep(FULL_PAUSE) => {}
                    }
                    begun_us = self.keeper.clock.monotonic_us();
                }
                Err(error) => return Err(error),
            }
        }
        self.log_full(None);
        {
            let mut waiting = self.keeper.waiting();
            waiting.bytes -= bytes_written;
            waiting.writing_due_ms = None;
        }
        self.keeper.synced.send(taken);
        self.bases.synced();
        self.remove_unneeded()
    }

    /// Deletes segments that are no longer needed. Filters that were dropped in the meantime no longer need their
    /// segments.
    fn make_room(&mut self) -> io::Result<()> {
        let notes = {
            let mut waiting = self.keeper.waiting();
            let (records, others): (Vec<Note>, Vec<Note>) =
                std::mem::take(&mut waiting.notes).into_iter().partition(|note| matches!(note, Note::Record { .. }));
            waiting.notes = records;
            others
        };
        notes.into_iter().for_each(|note| drop(self.note(note)));
        self.remove_unneeded()
    }

    fn remove_unneeded(&mut self) -> io::Result<()> {
        let first_needed = self.bases.first_needed();
        self.on_disk(|journal| journal.remove_before(first_needed))?;
        let segments = self.journal()?.segments() as u64;
        self.keeper.segments.store(segments, Ordering::Relaxed);
        Ok(())
    }

    /// Processes a note about needed segments. If the note is a record, its bytes are returned.
    fn note(&mut self, note: Note) -> Option<Vec<u8>> {
        match note {
            Note::Base { key, segment } => self.bases.need(key, segment),
            Note::Forget { key } => self.bases.forget(key),
            Note::Record { key, mark, bytes } => {
                let segment = self.journal.as_ref().map_or(0, Journal::segment);
                self.bases.pass(key, mark, segment);
                return Some(bytes);
            }
        }
        None
    }

    /// Performs disk work, and registers it so that the disk watch sees it in progress.
    fn on_disk<T>(&mut self, work: impl FnOnce(&mut Journal) -> io::Result<T>) -> io::Result<T> {
        let keeper = self.keeper.clone();
        let journal = self.journal()?;
        let _under_way = keeper.steps.begin();
        work(journal)
    }

    /// Returns the journal, which continues after everything that the owners have read.
    fn journal(&mut self) -> io::Result<&mut Journal> {
        if self.journal.is_none() {
            let of = self.keeper.identity.get().copied().unwrap_or_default();
            let found = scan(&*self.keeper.disk, of, |_, _| Ok(())).map_err(io::Error::other)?;
            let disk = self.keeper.disk.clone();
            self.journal = Some(Journal::after(disk, of, self.keeper.segment_bytes, &found));
        }
        self.journal.as_mut().ok_or_else(|| io::Error::other("no journal"))
    }

    /// Logs when the journal runs out of room, and when it has room again.
    fn log_full(&self, full: Option<&io::Error>) {
        if self.keeper.is_full.swap(full.is_some(), Ordering::Relaxed) == full.is_some() {
            return;
        }
        match full {
            Some(error) => {
                tracing::error!(%error, "the disk of the journal is full: events of durable filters are rejected");
            }
            None => tracing::info!("the disk of the journal has room again"),
        }
    }
}
