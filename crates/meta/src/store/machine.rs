//! The replicated state machine that openraft drives, with its snapshots.
//!
//! # Guarantees
//! - Receivers of the map see its versions in order.
//! - The secrets of a map are available before the map.
//! - A snapshot is on the disk before it is used.

use std::io::Cursor;
use std::sync::{Arc, PoisonError, RwLock};

use firstseen_routing::{ClusterMap, NodeId};
use firstseen_wire::watch;
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, ErrorSubject, ErrorVerb, OptionalSend, RaftSnapshotBuilder};
use serde::{Deserialize, Serialize};

use super::database::{Database, StoreError};
use super::log::failed;
use super::untold::PendingAudit;
use crate::audited::{AuditSender, Audited};
use crate::command::{Command, Outcome};
use crate::refusal::Refusal;
use crate::state::{Secrets, State};
use crate::types::{Applied, Entry, LogId, Snapshot, SnapshotMeta, StorageError, StoredMembership, TypeConfig};

pub(super) const SNAPSHOT: &str = "snapshot";

/// The part of the state that the rest of the node can see.
#[derive(Debug)]
pub(crate) struct Published {
    map: watch::Sender<Arc<ClusterMap>>,
    /// Index of the newest log entry that the state includes.
    applied: watch::Sender<u64>,
    state: RwLock<State>,
}

impl Default for Published {
    fn default() -> Self {
        Self { map: watch::Sender::new(Arc::default()), applied: watch::Sender::new(0), state: RwLock::default() }
    }
}

impl Published {
    pub(crate) fn map(&self) -> watch::Receiver<Arc<ClusterMap>> {
        self.map.subscribe()
    }

    /// Waits until the state includes log entry `index`.
    pub(crate) async fn shows(&self, index: u64) {
        self.applied.subscribe().wait_for(|applied| *applied >= index).await.ok();
    }

    pub(crate) fn newest(&self) -> Arc<ClusterMap> {
        Arc::clone(self.read().map())
    }

    pub(crate) fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(self.read().secrets())
    }

    pub(crate) fn has_left(&self, node: NodeId) -> bool {
        self.read().has_left(node)
    }

    pub(super) fn state(&self) -> State {
        self.read().clone()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and publishes a new map to its receivers.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut state);
        let map = Arc::clone(state.map());
        drop(state);
        self.map.send_if_modified(|shown| {
            let changed = !Arc::ptr_eq(shown, &map);
            if changed {
                *shown = map;
            }
            changed
        });
        answer
    }
}

/// The state, with the position in the log that it corresponds to.
#[derive(Debug)]
pub(crate) struct Machine {
    database: Database,
    published: Arc<Published>,
    /// Channel for changes that a principal requested.
    audit: Option<AuditSender>,
    applied: Option<LogId>,
    membership: StoredMembership,
}

/// Writes a snapshot of the state at the time when the snapshot was requested. Further entries can be applied in the
/// meantime.
#[derive(Debug)]
pub(crate) struct SnapshotBuilder {
    database: Database,
    state: State,
    applied: Option<LogId>,
    membership: StoredMembership,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) meta: SnapshotMeta,
    pub(super) state: Vec<u8>,
}

impl Machine {
    /// Opens the state of the newest snapshot.
    pub(crate) async fn open(
        database: Database,
        published: Arc<Published>,
        audit: Option<AuditSender>,
    ) -> Result<Self, StoreError> {
        let membership = StoredMembership::default();
        let mut machine = Self { database, published, audit, applied: None, membership };
        if let Some(stored) = machine.database.value::<Stored>(SNAPSHOT).await? {
            let state = machine.state_of(&stored.state)?;
            machine.adopt(&stored.meta, state);
        }
        Ok(machine)
    }

    fn state_of(&self, bytes: &[u8]) -> Result<State, StoreError> {
        State::from_bytes(bytes).map_err(|reason| StoreError::Corrupt {
            place: Arc::clone(self.database.place()),
            value: "the state in the snapshot".to_owned(),
            reason,
        })
    }

    fn adopt(&mut self, meta: &SnapshotMeta, state: State) {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.published.change(|current| *current = state);
        self.show_applied();
    }

    /// Applies a command, and reports its outcome if a principal requested it. A repeated command is not reported
    /// again.
    fn do_once(&self, index: u64, command: Command) -> Result<Outcome, Refusal> {
        let untold = PendingAudit::of(index, &command);
        let (outcome, cluster, was_done) = self.published.change(|state| {
            let was_done = state.outcome_of(command.id).is_some();
            (state.apply(index, command), state.map().cluster, was_done)
        });
        if let Some(untold) = untold.filter(|_| !was_done) {
            self.tell(untold.told(cluster, outcome.as_ref().err().map(ToString::to_string)));
        }
        outcome
    }

    /// The consensus does not wait for the audit log.
    fn tell(&self, audited: Audited) {
        if let Some(audit) = &self.audit
            && let Err(error) = audit.try_send(audited)
        {
            tracing::warn!(audited = ?error.into_inner(), "the queue of the audit file is full: this change is missing \
                                                           in the file");
        }
    }

    fn show_applied(&self) {
        if let Some(log_id) = self.applied {
            self.published.applied.send(log_id.index);
        }
    }
}

fn reading(error: StoreError) -> StorageError {
    failed(ErrorSubject::Snapshot(None), ErrorVerb::Read, error)
}

fn writing(error: StoreError) -> StorageError {
    failed(ErrorSubject::Snapshot(None), ErrorVerb::Write, error)
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let state = self.state.to_bytes().map_err(|reason| {
            let place = Arc::clone(self.database.place());
            writing(StoreError::Encode { place, value: "the state".to_owned(), reason })
        })?;
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: self.applied.map_or_else(|| "empty".to_owned(), |log_id| log_id.to_string()),
        };
        let stored = Stored { meta, state };
        self.database.put(SNAPSHOT, &stored).await.map_err(writing)?;
        Ok(Snapshot { meta: stored.meta, snapshot: Box::new(Cursor::new(stored.state)) })
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        for Entry { log_id, payload } in entries {
            let outcome = match payload {
                EntryPayload::Blank => None,
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(log_id), membership);
                    None
                }
                EntryPayload::Normal(command) => Some(self.do_once(log_id.index, command)),
            };
            self.applied = Some(log_id);
            answers.push(Applied { index: log_id.index, outcome });
        }
        self.show_applied();
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder {
            database: self.database.clone(),
            state: self.published.read().clone(),
            applied: self.applied,
            membership: self.membership.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let stored = Stored { meta: meta.clone(), state: snapshot.into_inner() };
        let state = self.state_of(&stored.state).map_err(reading)?;
        self.database.put(SNAPSHOT, &stored).await.map_err(writing)?;
        let from_index = self.applied.map_or(0, |log_id| log_id.index);
        let to_index = meta.last_log_id.map_or(0, |log_id| log_id.index);
        if from_index < to_index {
            self.tell(Audited::Skipped { cluster: state.map().cluster, from_index, to_index });
        }
        self.adopt(meta, state);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let stored: Option<Stored> = self.database.value(SNAPSHOT).await.map_err(reading)?;
        Ok(stored.map(|Stored { meta, state }| Snapshot { meta, snapshot: Box::new(Cursor::new(state)) }))
    }
}
