//! Access to the store of a node that is not running, in order to recover a cluster that has lost most of its voters.
//! The state of the store can be replaced by the state of a new cluster, in which this node is the only voter. The
//! replacement is written to the disk completely or not at all.
//!
//! The state that is read from the stopped node includes all entries of the node's log, even entries that may not have
//! been committed. It therefore contains every command that the previous cluster has executed, as far as this node
//! knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{Membership, RaftLogReader};

use super::database::{Database, LOG, StoreError, VALUES};
use super::log::{COMMITTED, PURGED, VOTE};
use super::machine::{SNAPSHOT, Stored};
use super::storage::MetaStorage;
use super::{IDENTITY, Identity, LogStore, Machine, Published};
use crate::state::State;
use crate::types::{LogId, Member, SnapshotMeta, StorageError, StoredMembership, Vote};

/// Number of entries that are applied at once.
const ENTRIES_AT_ONCE: u64 = 64;

/// The store of a node that is not running.
pub(crate) struct Survivor {
    database: Database,
    identity: Option<Identity>,
    published: Arc<Published>,
    last: LogId,
    term: u64,
}

impl Survivor {
    /// Reads the store.
    ///
    /// # Errors
    /// [`StoreError`] names the file and the problem.
    pub(crate) async fn open(storage: MetaStorage) -> Result<Self, StoreError> {
        let database = Database::open(storage).await?;
        let identity = database.value(IDENTITY).await?;
        let published: Arc<Published> = Arc::default();
        let mut machine = Machine::open(database.clone(), Arc::clone(&published), None).await?;
        let mut log = LogStore::new(database.clone());
        let taken_up = take_up(&mut machine, &mut log).await;
        let (last, vote) = taken_up.map_err(|error| database.failed("take up its log", error))?;
        let term = vote.leader_id.term.max(last.leader_id.term);
        Ok(Self { database, identity, published, last, term })
    }

    /// Returns the node's identity. `None` means that the node does not belong to a cluster.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Returns the newest state.
    pub(crate) fn state(&self) -> State {
        self.published.state()
    }

    /// Returns the index of the newest log entry.
    pub(crate) fn last_index(&self) -> u64 {
        self.last.index
    }

    /// Replaces the entire store by `state`, which corresponds to entry `index`. The node of `identity` becomes the
    /// only voter.
    ///
    /// # Errors
    /// [`StoreError`]: nothing has changed.
    pub(crate) async fn replace(&self, identity: Identity, state: &State, index: u64) -> Result<(), StoreError> {
        let node = identity.node;
        let me = state.map().nodes.get(&node);
        let me = me.map(|me| Member { name: me.name.clone(), address: me.address.clone() }).unwrap_or_default();
        let voters = vec![BTreeSet::from([node.0])];
        let membership = Membership::new(voters, BTreeMap::from([(node.0, me)]));
        let last = LogId { index, ..self.last };
        let meta = SnapshotMeta {
            last_log_id: Some(last),
            last_membership: StoredMembership::new(Some(last), membership),
            snapshot_id: last.to_string(),
        };
        let database = &self.database;
        let state = state.to_bytes().map_err(|reason| StoreError::Encode {
            place: Arc::clone(database.place()),
            value: "the state".to_owned(),
            reason,
        })?;
        let values = [
            (IDENTITY, database.encoded(IDENTITY, &identity)?),
            (SNAPSHOT, database.encoded(SNAPSHOT, &Stored { meta, state })?),
            (PURGED, database.encoded(PURGED, &last)?),
            (COMMITTED, database.encoded(COMMITTED, &Some(last))?),
            (VOTE, database.encoded(VOTE, &Vote::new(self.term + 1, node.0))?),
        ];
        database
            .write(move |transaction| {
                transaction.open_table(LOG)?.retain(|_, _| false)?;
                let mut table = transaction.open_table(VALUES)?;
                for (name, bytes) in &values {
                    table.insert(*name, bytes.as_slice())?;
                }
                Ok(())
            })
            .await
    }

    /// Closes the file.
    ///
    /// # Errors
    /// [`StoreError`] names the file and the problem.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        self.database.close().await
    }
}

/// Applies all entries of the log. Returns the newest entry and the newest vote.
async fn take_up(machine: &mut Machine, log: &mut LogStore) -> Result<(LogId, Vote), StorageError> {
    let (mut last, _) = machine.applied_state().await?;
    loop {
        let next = last.map_or(0, |last| last.index + 1);
        let entries = log.try_get_log_entries(next..next + ENTRIES_AT_ONCE).await?;
        let Some(newest) = entries.last().map(|entry| entry.log_id) else { break };
        machine.apply(entries).await?;
        last = Some(newest);
    }
    let vote = log.read_vote().await?;
    Ok((last.unwrap_or_default(), vote.unwrap_or_default()))
}
