//! Recovers a cluster from the data folder of one node after more than half of the voters have failed for good.
//!
//! # Guarantees
//! - The data folder of a running node is not changed.
//! - Nothing is written before the operator has consented.
//! - The node's previous consensus database is kept in the same folder as the new one.
//!
//! This module does not depend on the content of the cluster map.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use firstseen_meta::{Recovery, RecoveryError};
use firstseen_routing::ClusterId;
use thiserror::Error;

use crate::data_folder::DATABASE_FILE;
use crate::edges::{EdgeError, random};
use crate::repair::{RepairError, check_stopped};

/// File name for the node's consensus database from before the recovery.
const FORMER_FILE: &str = "meta.before-recovery.redb";

/// Reason why a data folder is not recovered. The folder has not been changed.
#[derive(Debug, Error)]
pub enum RecoverError {
    /// The folder is in use or cannot be used.
    #[error(transparent)]
    Folder(#[from] RepairError),
    /// The folder does not contain the data of a node.
    #[error("{0} is not there: is this the data folder of a node?")]
    NoNode(PathBuf),
    /// The folder still contains the old database of an earlier recovery.
    #[error("{0} remains from an earlier recovery: move it away first")]
    SetAside(PathBuf),
    /// The operating system provides no random bits.
    #[error(transparent)]
    Random(#[from] EdgeError),
    /// The state of the node does not allow a recovery.
    #[error(transparent)]
    Agreement(#[from] RecoveryError),
}

/// Rewrites the consensus state in `data_dir` so that this node becomes the only member of a new cluster. This is a
/// last resort when the majority of a cluster is lost for good.
///
/// Before anything is changed, the function calls `consents` with a description of the consequences. If `consents`
/// returns `false`, the function changes nothing and returns `None`.
///
/// # Errors
/// [`RecoverError`] says why the folder cannot be recovered.
pub async fn recover(
    data_dir: &Path,
    consents: impl FnOnce(&Recovery) -> bool,
) -> Result<Option<Recovery>, RecoverError> {
    let [database, former] = [DATABASE_FILE, FORMER_FILE].map(|file| data_dir.join(file));
    if !database.is_file() {
        return Err(RecoverError::NoNode(database));
    }
    // The lock prevents the node from starting while the operator decides.
    let lock = check_stopped(&database)?;
    if former.exists() {
        return Err(RecoverError::SetAside(former));
    }
    let recovery = firstseen_meta::plan_recovery(database.clone()).await?;
    if !consents(&recovery) {
        return Ok(None);
    }
    let cluster = ClusterId(random()?);
    let copied = fs::copy(&database, &former).and_then(|_| File::open(&former)?.sync_all());
    drop(lock);
    let recovered = match copied {
        Ok(()) => firstseen_meta::recover(database, cluster, &recovery).await.map_err(RecoverError::from),
        Err(error) => Err(RepairError::at(&former)(error).into()),
    };
    if recovered.is_err() {
        // The original database is still in place. If the copy cannot be deleted here, the next attempt reports it.
        let _ = fs::remove_file(&former);
    }
    File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(RepairError::at(&former))?;
    recovered.map(|()| Some(recovery))
}
