//! Checkpoints: files with the filter of a partition and the offset up to which it contains all delivered events. A
//! checkpoint makes a rebuild short. It is never needed: without it, a filter is rebuilt from the log.
//!
//! # Guarantees
//!
//! - Only one process uses a folder at a time.
//! - A checkpoint is used only if it has the same key, the same filter, the same topic and partition, and an offset
//!   that is not after the committed one. The *anchor*, which is the last message that the filter contains, must still
//!   be in the log with the same bytes. A topic that was deleted and created again has no such message.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use firstseen_embedded::{Lock, StateError, StateFile, StateHeader, drawn_seed, save};
use firstseen_filter::{Digest, FilterSecret};
use firstseen_routing::SlicedDefinition;
use serde::{Deserialize, Serialize};

use crate::error::PipeError;
use crate::message::{Message, PartitionId};
use crate::partition_filter::PartitionFilter;

/// What a checkpoint depends on, in addition to the key and the seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckpointDefinition {
    topic: String,
    partition: i32,
    group: String,
    /// Offset after the last delivered message.
    offset: i64,
    anchor: Anchor,
    filter: SlicedDefinition,
}

/// The last message that a filter contains, by which a checkpoint recognizes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) offset: i64,
    timestamp_ms: Option<i64>,
    /// Digest of key and value.
    content: Digest,
}

impl Anchor {
    /// Describes a message.
    pub(crate) fn of<M: Message>(message: &M, secret: &FilterSecret) -> Self {
        let parts = [message.key().unwrap_or_default(), message.value().unwrap_or_default()];
        Self {
            offset: message.offset(),
            timestamp_ms: message.timestamp_ms(),
            content: secret.digest_parts(parts, &mut Vec::new()),
        }
    }
}

/// A filter that was loaded from a checkpoint.
pub(crate) struct Loaded {
    pub(crate) filter: PartitionFilter,
    pub(crate) anchor: Anchor,
}

/// Folder with the checkpoints of one process.
pub struct CheckpointFolder {
    path: PathBuf,
    group: String,
    /// How keys and times are read.
    key: String,
    seed: u64,
    /// Definition of the filters. `None` until [`CheckpointFolder::set_filter`].
    definition: Option<SlicedDefinition>,
    _lock: Lock,
}

/// Content of the file with the seed of all checkpoints of a folder.
#[derive(Serialize, Deserialize)]
struct Seed {
    seed: u64,
}

impl CheckpointFolder {
    /// Locks the folder, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error if another process uses the folder, or if it cannot be written.
    pub fn open(path: &Path, group: &str) -> Result<Self, PipeError> {
        fs::create_dir_all(path).map_err(|error| folder_error(path, &error))?;
        let lock = Lock::of(&path.join("pipe"))?;
        let seed = read_seed(path)?;
        let path = path.to_owned();
        Ok(Self { path, group: group.to_owned(), key: String::new(), seed, definition: None, _lock: lock })
    }

    /// Returns the seed with which the keys of all checkpoints in this folder are hashed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Sets how keys and times are read ([`EventReader::identity`](crate::EventReader::identity)), and the definition of
    /// the filters. Checkpoints that differ from them are not used.
    pub fn set_filter(&mut self, key: String, definition: &SlicedDefinition) {
        self.key = key;
        self.definition = Some(definition.clone());
    }

    fn path(&self, partition: &PartitionId) -> PathBuf {
        self.path.join(format!("{}-{}.checkpoint", partition.topic, partition.partition))
    }

    /// Saves the filter of a partition, which contains all delivered events before `offset`.
    pub(crate) fn save(
        &self,
        partition: &PartitionId,
        filter: &PartitionFilter,
        offset: i64,
        anchor: Anchor,
    ) -> Result<(), StateError> {
        let Some(filter_definition) = &self.definition else { return Ok(()) };
        let definition = CheckpointDefinition {
            topic: partition.topic.to_string(),
            partition: partition.partition,
            group: self.group.clone(),
            offset,
            anchor,
            filter: filter_definition.clone(),
        };
        let header = StateHeader { key: self.key.clone(), seed: self.seed, definition };
        save(&self.path(partition), &header, |body| filter.write_body(body))
    }

    /// Loads the checkpoint of a partition. `committed` is the committed offset.
    ///
    /// Returns `None` if there is no checkpoint, and the reason if there is one that cannot be used.
    pub(crate) fn load(&self, partition: &PartitionId, committed: i64) -> Result<Option<Loaded>, String> {
        let Some(definition) = &self.definition else { return Ok(None) };
        let path = self.path(partition);
        let file = StateFile::<CheckpointDefinition>::open(&path).map_err(|error| chain(&error))?;
        let Some(file) = file else { return Ok(None) };
        let header = file.header();
        let found = &header.definition;
        if *found.topic != *partition.topic || found.partition != partition.partition || found.group != self.group {
            return Err("it belongs to another topic or group".to_owned());
        }
        if header.key != self.key || header.seed != self.seed {
            return Err(format!("its keys are read by `{}`, here by `{}`", header.key, self.key));
        }
        if !found.filter.answers_like(definition) {
            return Err("its filter has another definition".to_owned());
        }
        if found.offset > committed {
            return Err(format!("it ends at offset {}, after the committed offset {committed}", found.offset));
        }
        let anchor = found.anchor;
        let mut filter = None;
        file.read(|body| {
            filter = Some(PartitionFilter::read_body(definition, body)?);
            Ok(())
        })
        .map_err(|error| chain(&error))?;
        Ok(filter.map(|filter| Loaded { filter, anchor }))
    }
}

/// Returns an error together with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn folder_error(path: &Path, error: &dyn std::error::Error) -> PipeError {
    let reason = format!("{error}; name a folder that this process may write with --state");
    PipeError::log(format!("cannot use the folder {}", path.display()), reason)
}

/// Returns the seed of a folder, and draws one for a new folder.
fn read_seed(folder: &Path) -> Result<u64, PipeError> {
    let path = folder.join("seed.json");
    match fs::read_to_string(&path) {
        Ok(text) => {
            let seed: Seed = serde_json::from_str(&text).map_err(|error| folder_error(&path, &error))?;
            Ok(seed.seed)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let seed = drawn_seed();
            write_seed(&path, seed).map_err(|error| folder_error(&path, &error))?;
            Ok(seed)
        }
        Err(error) => Err(folder_error(&path, &error)),
    }
}

/// Writes the seed to a new file that only this user can read, because producers must not know the seed.
fn write_seed(path: &Path, seed: u64) -> std::io::Result<()> {
    let written = path.with_extension("tmp");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(&written)?;
    file.write_all(serde_json::to_string(&Seed { seed }).map_err(std::io::Error::other)?.as_bytes())?;
    file.sync_all()?;
    fs::rename(&written, path)
}
