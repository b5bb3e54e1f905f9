//! Disk that stores its files in a folder of the file system. A file that was created completely still exists after a
//! power failure, because both the file and its folder are synced before the call returns.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::disk::{Disk, DiskFile, DiskRoom};
use crate::spare::SpareDescriptors;

/// Disk whose files are in one folder. The folder is created together with the first file.
pub struct FolderDisk {
    folder: PathBuf,
    spare: SpareDescriptors,
}

impl FolderDisk {
    /// Creates a disk for the folder at `folder`, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), spare: SpareDescriptors::new() }
    }

    fn sync_folder(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn create_once(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<File> {
        if !self.folder.is_dir() {
            fs::create_dir(&self.folder)?;
        }
        // Another process may have created the folder, and ended before the parent folder was synced.
        self.folder.parent().map_or(Ok(()), Self::sync_folder)?;
        let unfinished = self.folder.join(format!("{name}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&unfinished)?;
        file.set_len(len_bytes)?;
        file.write_all(start)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.folder.join(name))?;
        Self::sync_folder(&self.folder)?;
        Ok(file)
    }

    /// Removes a file if it exists. A missing file is not an error, because an earlier attempt may have removed the
    /// file and then failed to sync the folder. This happens if no file descriptor is free for the folder.
    fn remove_once(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Self::sync_folder(&self.folder)
    }
}

impl Disk for FolderDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn len_bytes(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.folder.join(name))?.len())
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.folder.join(name))?.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, name: &str, start: &[u8], len_bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.spare.retry(|| self.create_once(name, start, len_bytes))?;
        Ok(Box::new(FolderFile(file)))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.spare.retry(|| File::open(self.folder.join(name))?.sync_all())
    }

    fn room(&self) -> Option<DiskRoom> {
        // The folder is created with its first file. Until then, the parent folder is on the same disk.
        let there = if self.folder.is_dir() { Some(&*self.folder) } else { self.folder.parent() };
        let figures = statvfs(there.filter(|path| path.is_dir())?).ok()?;
        #[allow(clippy::useless_conversion, reason = "other systems count blocks in 32 bits")]
        let [free, total, block_bytes] =
            [figures.blocks_available(), figures.blocks(), figures.fragment_size()].map(u64::from);
        Some(DiskRoom { free_bytes: free.saturating_mul(block_bytes), total_bytes: total.saturating_mul(block_bytes) })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.spare.retry(|| self.remove_once(name))
    }
}

struct FolderFile(File);

impl DiskFile for FolderFile {
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(offset_bytes))?;
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
