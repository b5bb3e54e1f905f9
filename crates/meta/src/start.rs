//! Puts the parts of the agreement together.
//!
//! Promises: a cluster is founded on one node only, the one that was asked to found it. Must not know: what the
//! agreement is for.

use std::collections::BTreeMap;
use std::sync::Arc;

use openraft::SnapshotPolicy;
use openraft::error::{Fatal, InitializeError, RaftError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{MetaConfig, RaftTiming};
use crate::error::MetaError;
use crate::membership::{Controller, Job};
use crate::network::Network;
use crate::store::{Database, LogStore, Machine};
use crate::types::{Member, Raft};

/// Changes of the members that may wait.
const JOBS_MAX: usize = 16;

/// Bytes of a part of a snapshot: well below the limit of a message.
const SNAPSHOT_PART_BYTES: u64 = 1 << 20;

/// Entries of the log in one message: each has at most a definition, so that all together stay below the limit of a
/// message.
const MESSAGE_ENTRIES_MAX: u64 = 32;

/// Starts openraft from what is in the database.
pub(crate) async fn raft(config: &MetaConfig, database: &Database, network: &Network) -> Result<Raft, MetaError> {
    let (identity, timing) = (network.identity, &config.timing);
    let log = LogStore::new(database.clone());
    let machine = Machine::open(database.clone(), Arc::clone(&network.published), config.audit.clone()).await?;
    let raft_config = Arc::new(raft_config(timing, identity.node.0, config.seed)?);
    let raft = Raft::new(identity.node.0, raft_config, network.clone(), log, machine).await.map_err(stopped)?;
    // This is done also where an earlier process ended between persisting the identity and this step: the request is
    // the same one of the same operator, and a cluster of one node has no other to disagree with.
    if identity.founder && !raft.is_initialized().await.map_err(stopped)? {
        let profile = &config.profile;
        let me = Member { name: profile.name.clone(), address: profile.address.clone() };
        match raft.initialize(BTreeMap::from([(identity.node.0, me)])).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(MetaError::Stopped { reason: error.to_string() }),
        }
    }
    Ok(raft)
}

/// Starts the task that changes the members.
pub(crate) fn controller(
    raft: &Raft,
    network: &Network,
    config: &MetaConfig,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> mpsc::Sender<Job> {
    let (jobs, waiting) = mpsc::channel(JOBS_MAX);
    let (timing, same_on_all) = (config.timing, config.same_on_all.clone());
    let controller = Controller { raft: raft.clone(), network: network.clone(), timing, same_on_all };
    tasks.spawn(controller.run(waiting, stop.clone()));
    jobs
}

fn raft_config(timing: &RaftTiming, node: u64, seed: u64) -> Result<openraft::Config, MetaError> {
    let election_timeout_min = timing.election_timeout_ms(node, seed);
    let config = openraft::Config {
        cluster_name: "firstseen".to_owned(),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min,
        election_timeout_max: election_timeout_min + 1,
        install_snapshot_timeout: timing.attempt_ms,
        max_payload_entries: MESSAGE_ENTRIES_MAX,
        replication_lag_threshold: timing.snapshot_entries.saturating_mul(4),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(timing.snapshot_entries),
        snapshot_max_chunk_size: SNAPSHOT_PART_BYTES,
        max_in_snapshot_log_to_keep: timing.snapshot_entries / 4,
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| MetaError::Stopped { reason: format!("the timing cannot work: {error}") })
}

fn stopped(fatal: Fatal<u64>) -> MetaError {
    MetaError::Stopped { reason: fatal.to_string() }
}
