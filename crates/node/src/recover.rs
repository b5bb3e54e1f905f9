//! Going on with the folder of one node, where more than half of the voters are lost for good.
//!
//! Promises: the folder of a running node is not touched; nothing is written before somebody has consented; the node's
//! former state of the agreement is kept beside the one that replaces it. Must not know: what a cluster agrees on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use firstseen_meta::{Recovery, RecoveryError};
use firstseen_routing::ClusterId;
use thiserror::Error;

use crate::data_folder::DATABASE_FILE;
use crate::edges::{EdgeError, random};
use crate::repair::{RepairError, check_stopped};

/// The node's former state of the agreement.
const FORMER_FILE: &str = "meta.before-recovery.redb";

/// Why a folder is not recovered; nothing has changed.
#[derive(Debug, Error)]
pub enum RecoverError {
    /// The folder is in use, or cannot be used.
    #[error(transparent)]
    Folder(#[from] RepairError),
    /// The folder has no node's data.
    #[error("{0} is not there: is this the data folder of a node?")]
    NoNode(PathBuf),
    /// An earlier recovery has been there.
    #[error("{0} is there from an earlier recovery: move it away first")]
    SetAside(PathBuf),
    /// No random bits.
    #[error(transparent)]
    Random(#[from] EdgeError),
    /// The node's state does not allow it.
    #[error(transparent)]
    Agreement(#[from] RecoveryError),
}

/// Rewrites the agreement's state of the node in `data_dir`, such that the node is alone in a new cluster, if
/// `consents` agrees once it knows what that means. None where it did not.
///
/// # Errors
/// [`RecoverError`].
pub async fn recover(
    data_dir: &Path,
    consents: impl FnOnce(&Recovery) -> bool,
) -> Result<Option<Recovery>, RecoverError> {
    let [database, former] = [DATABASE_FILE, FORMER_FILE].map(|file| data_dir.join(file));
    if !database.is_file() {
        return Err(RecoverError::NoNode(database));
    }
    // The node cannot be started while somebody thinks about it.
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
        // The state is still in its place. Where its copy stays, another try says so.
        let _ = fs::remove_file(&former);
    }
    File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(RepairError::at(&former))?;
    recovered.map(|()| Some(recovery))
}
