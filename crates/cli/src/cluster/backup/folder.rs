//! The folder of a backup (`docs/reference/disk-format.md`): its files and their checksums.
//!
//! # Guarantees
//!
//! - Only the user that runs the process can read the folder.
//! - The manifest is written last, when all other files are on the disk. A folder with a manifest is therefore
//!   complete, or was damaged later.
//! - Damage is found before any part of the backup is used.
//!
//! This module does not depend on clusters.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::{Metadata, cells};
use crate::exit::UsageError;

/// Version of the layout. It is incremented when an older program would misread the folder.
const FORMAT: u32 = 1;

const MANIFEST: &str = "MANIFEST";
const MANIFEST_NEW: &str = "MANIFEST.new";
const METADATA: &str = "metadata.json";
const CELLS: &str = "cells";

/// Beginning of the first line of a manifest.
const MAGIC: &str = "firstseen backup";

/// Maximum number of attempts to remove a folder into which another process may still write.
const REMOVALS_MAX: usize = 4;

/// Maximum size of a manifest or of metadata in bytes. This is a hundred times the size of the largest map.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// The manifest, which lists the files of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Version of the layout.
    pub(crate) format: u32,
    /// Version of the program that wrote the backup.
    pub(crate) version: String,
    /// Id of the cluster.
    pub(crate) cluster: String,
    /// Start of the backup, in milliseconds since 1970. The backup contains every event whose reply was sent before
    /// this time.
    pub(crate) begun_ms: u64,
    /// Time at which the backup was complete, in milliseconds since 1970.
    pub(crate) ended_ms: u64,
    /// All files of the backup.
    pub(crate) files: Vec<FileEntry>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    /// Path of the file in the folder.
    pub(crate) path: String,
    /// Length of the file in bytes.
    pub(crate) bytes: u64,
    /// XXH3-128 checksum of the whole file, in hexadecimal digits.
    pub(crate) xxh3: String,
    /// The slice whose cells the file contains. `None` means that the file contains no cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slice: Option<SliceEntry>,
}

/// A slice whose cells are in a file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceEntry {
    /// Number of the filter in the metadata.
    pub(crate) filter: u64,
    /// Number of the slice.
    pub(crate) slice: u32,
    /// Whether the slice had every event that was ever recorded in it.
    pub(crate) complete: bool,
}

/// A backup that is being written.
pub(super) struct NewFolder {
    path: PathBuf,
    is_made: bool,
}

impl NewFolder {
    /// Creates the folder, or uses an existing empty folder.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if the folder is not empty.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let is_made = !path.exists();
        if is_made {
            DirBuilder::new().mode(0o700).create(path).with_context(|| cannot_make(path))?;
        } else {
            let is_empty = fs::read_dir(path).with_context(|| cannot_make(path))?.next().is_none();
            if !is_empty {
                bail!(UsageError(format!("{} is not empty: a backup needs a folder of its own", path.display())));
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).with_context(|| cannot_make(path))?;
        }
        DirBuilder::new().mode(0o700).create(path.join(CELLS)).with_context(|| cannot_make(path))?;
        Ok(Self { path: path.to_owned(), is_made })
    }

    /// Returns the path of a slice's file, relative to the folder.
    pub(super) fn cells_path(filter: u64, slice: u32) -> String {
        format!("{CELLS}/{filter}-{slice}.snapshot")
    }

    /// Writes a file with `write`, from its beginning, and syncs it to the disk.
    ///
    /// # Errors
    /// Returns the errors of the disk, with the path of the file.
    pub(super) fn write(
        folder: &Path,
        path: String,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<FileEntry> {
        let whole = folder.join(&path);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&whole);
        let file = file.with_context(|| cannot_write(&whole))?;
        let mut sink = Summed::new(BufWriter::with_capacity(1 << 18, file));
        write(&mut sink).with_context(|| cannot_write(&whole))?;
        let synced = sink.inner.flush().and_then(|()| sink.inner.get_ref().sync_all());
        synced.with_context(|| cannot_write(&whole))?;
        Ok(FileEntry { path, bytes: sink.bytes, xxh3: sink.digest(), slice: None })
    }

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the metadata: everything that the cluster knows apart from cells.
    ///
    /// # Errors
    /// Returns the errors of the disk.
    pub(super) fn write_metadata(&self, metadata: &Metadata) -> anyhow::Result<FileEntry> {
        Self::write(&self.path, METADATA.to_owned(), |sink| Ok(serde_json::to_writer_pretty(sink, metadata)?))
    }

    /// Writes the manifest, which completes the backup. Returns the size of the backup in bytes.
    ///
    /// # Errors
    /// Returns the errors of the disk.
    pub(super) fn finish(
        &self,
        cluster: &str,
        begun_ms: u64,
        ended_ms: u64,
        files: Vec<FileEntry>,
    ) -> anyhow::Result<u64> {
        let bytes = files.iter().map(|file| file.bytes).sum();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let cluster = cluster.to_owned();
        let manifest = Manifest { format: FORMAT, version, cluster, begun_ms, ended_ms, files };
        let body = serde_json::to_string_pretty(&manifest)? + "\n";
        let line = format!("{MAGIC} {FORMAT} {:032x}\n", xxh3_128(body.as_bytes()));
        let path = self.path.join(MANIFEST);
        sync(&self.path.join(CELLS)).with_context(|| cannot_write(&path))?;
        Self::write(&self.path, MANIFEST_NEW.to_owned(), |sink| Ok(sink.write_all((line + &body).as_bytes())?))?;
        sync(&self.path).with_context(|| cannot_write(&path))?;
        fs::rename(self.path.join(MANIFEST_NEW), &path).with_context(|| cannot_write(&path))?;
        sync(&self.path).with_context(|| cannot_write(&path))?;
        Ok(bytes)
    }

    /// Removes the files that this backup has written, and no other files.
    pub(super) fn remove(&self) {
        // If removing a file fails, the remaining files have no manifest, so they do not count as a backup.
        let _ = fs::remove_file(self.path.join(MANIFEST));
        let _ = fs::remove_file(self.path.join(MANIFEST_NEW));
        let _ = fs::remove_file(self.path.join(METADATA));
        // The writing thread may still open one more file, but never a second one.
        let _ = (0..REMOVALS_MAX).any(|_| fs::remove_dir_all(self.path.join(CELLS)).is_ok());
        if self.is_made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// A backup whose checksums were all verified.
pub(crate) struct Backup {
    path: PathBuf,
    /// Manifest of the backup.
    pub(crate) manifest: Manifest,
    /// Everything that the cluster knew apart from cells.
    pub(crate) metadata: Metadata,
}

impl Backup {
    /// Reads the whole backup in the folder at `path`. `at` receives the number of bytes that were read, and the total
    /// number.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if the folder contains no backup, or an error that names the damaged file.
    pub(crate) fn open(path: &Path, mut at: impl FnMut(u64, u64)) -> anyhow::Result<Self> {
        let manifest = manifest(path)?;
        let total_bytes = manifest.files.iter().map(|file| file.bytes).sum();
        let mut metadata = None;
        let mut seen_bytes = 0;
        for entry in &manifest.files {
            let expected_path = match entry.slice {
                Some(SliceEntry { filter, slice, .. }) => NewFolder::cells_path(filter, slice),
                None => METADATA.to_owned(),
            };
            let damaged = format!("{} is damaged: use another backup", path.join(&entry.path).display());
            ensure!(entry.path == expected_path, damaged);
            match entry.slice {
                Some(_) => check_cells(path, entry).context(damaged)?,
                None => metadata = Some(read_metadata(path, entry).context(damaged)?),
            }
            seen_bytes += entry.bytes;
            at(seen_bytes, total_bytes);
        }
        let metadata = metadata.with_context(|| format!("{} has no {METADATA}", path.display()))?;
        Ok(Self { path: path.to_owned(), manifest, metadata })
    }

    /// Returns the file of a slice, if the backup contains it.
    pub(crate) fn cells_of(&self, filter: u64, slice: u32) -> Option<(PathBuf, &FileEntry)> {
        let mut files = self.manifest.files.iter();
        let entry = files.find(|entry| entry.slice.is_some_and(|of| of.filter == filter && of.slice == slice))?;
        Some((self.path.join(&entry.path), entry))
    }
}

fn manifest(folder: &Path) -> anyhow::Result<Manifest> {
    let path = folder.join(MANIFEST);
    let text = match File::open(&path) {
        Ok(file) => read_text(file).with_context(|| format!("cannot read {}", path.display()))?,
        Err(_) if !folder.is_dir() => bail!(UsageError(format!("there is no folder {}", folder.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!(UsageError(format!("{} holds no complete backup: there is no {MANIFEST} in it", folder.display())))
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let damaged = format!("{} is damaged, or no manifest of a backup: use another one", path.display());
    let Some((line, body)) = text.split_once('\n') else { bail!(damaged) };
    let words: Vec<&str> = line.strip_prefix(MAGIC).into_iter().flat_map(str::split_whitespace).collect();
    let [format, sum] = words[..] else { bail!(damaged) };
    let Ok(format) = format.parse::<u32>() else { bail!(damaged) };
    if format!("{MAGIC} {format} {:032x}", xxh3_128(body.as_bytes())) != line {
        bail!("{damaged} (its checksum is not {sum})");
    }
    if format != FORMAT {
        bail!(UsageError(format!(
            "{} has format {format}, and this program reads {FORMAT}: use the release that wrote it",
            path.display()
        )));
    }
    serde_json::from_str(body).context(damaged)
}

fn cannot_make(folder: &Path) -> String {
    format!("cannot make the folder {}", folder.display())
}

fn cannot_write(file: &Path) -> String {
    format!("cannot write {}", file.display())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn read_text(file: File) -> anyhow::Result<String> {
    let mut text = String::new();
    file.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn read_metadata(folder: &Path, entry: &FileEntry) -> anyhow::Result<Metadata> {
    let text = read_text(File::open(folder.join(&entry.path))?)?;
    let xxh3 = format!("{:032x}", xxh3_128(text.as_bytes()));
    ensure!((text.len() as u64, &xxh3) == (entry.bytes, &entry.xxh3), "its checksum does not match");
    Ok(serde_json::from_str(&text)?)
}

/// Checks that the file is unchanged, and that cells can be read from it.
fn check_cells(folder: &Path, entry: &FileEntry) -> anyhow::Result<()> {
    let file = File::open(folder.join(&entry.path))?;
    let mut source = Summed::new(BufReader::with_capacity(1 << 18, file));
    let of = entry.slice.map(|slice| (slice.filter, slice.slice));
    let read = cells::read(&mut source, |_| Ok(())).map(|header| Some((header.filter, header.slice)) == of);
    ensure!(read?, "it holds the cells of another slice");
    let found = (source.bytes, source.digest());
    ensure!(found == (entry.bytes, entry.xxh3.clone()), "its checksum does not match");
    Ok(())
}

/// Reader or writer that counts the bytes and computes their checksum.
struct Summed<T> {
    inner: T,
    bytes: u64,
    sum: Xxh3Default,
}

impl<T> Summed<T> {
    fn new(inner: T) -> Self {
        Self { inner, bytes: 0, sum: Xxh3Default::new() }
    }

    fn saw(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.sum.update(bytes);
    }

    fn digest(&self) -> String {
        format!("{:032x}", self.sum.digest128())
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.saw(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.saw(&bytes[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use firstseen_routing::ClusterMap;
    use tempfile::TempDir;

    use super::*;

    /// Creates an empty backup, with one more file in its manifest.
    fn backup(more: impl FnOnce(&Path) -> Option<FileEntry>) -> (TempDir, PathBuf) {
        let within = TempDir::new().expect("a folder");
        let path = within.path().join("backup");
        let folder = NewFolder::create(&path).expect("made");
        let metadata = Metadata {
            map: ClusterMap::default(),
            secrets: BTreeMap::new(),
            left_out: Vec::new(),
            altered: BTreeSet::new(),
        };
        let mut files = vec![folder.write_metadata(&metadata).expect("written")];
        files.extend(more(&path));
        folder.finish("00", 1, 2, files).expect("written");
        (within, path)
    }

    fn refusal(path: &Path) -> String {
        Backup::open(path, |_, _| ()).map(|_| ()).expect_err("refused").root_cause().to_string()
    }

    #[test]
    fn a_backup_that_was_written_is_whole() {
        let (_within, path) = backup(|_| None);
        let opened = Backup::open(&path, |seen, total| assert_eq!(seen, total)).expect("whole");
        assert_eq!((opened.manifest.begun_ms, opened.manifest.files.len()), (1, 1));
        assert!(opened.cells_of(1, 0).is_none());
    }

    #[test]
    fn a_manifest_names_no_files_elsewhere() {
        let (_within, path) = backup(|_| {
            let slice = Some(SliceEntry { filter: 1, slice: 0, complete: true });
            Some(FileEntry { path: "../../etc/passwd".to_owned(), bytes: 0, xxh3: String::new(), slice })
        });
        assert!(refusal(&path).contains("etc/passwd is damaged"));
        let (_within, path) =
            backup(|_| Some(FileEntry { path: "other.json".to_owned(), bytes: 0, xxh3: String::new(), slice: None }));
        assert!(refusal(&path).contains("other.json is damaged"));
    }

    #[test]
    fn another_format_is_named() {
        let (_within, path) = backup(|_| None);
        let manifest = path.join(MANIFEST);
        let text = fs::read_to_string(&manifest).expect("text");
        fs::write(&manifest, text.replacen("backup 1", "backup 2", 1)).expect("written");
        assert!(refusal(&path).contains("format 2, and this program reads 1"));
    }

    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("mine"), "x").expect("written");
        assert!(NewFolder::create(folder.path()).is_err_and(|error| error.to_string().contains("is not empty")));
        let within = folder.path().join("backup");
        NewFolder::create(&within).expect("made").remove();
        assert!(!within.exists() && folder.path().join("mine").exists());
    }
}
