//! PEM files in one folder.
//!
//! Promises: a file that exists is never touched; key files are made with mode 0600, before any byte is written to
//! them. Must not know: what the files hold.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::UsageError;

/// Where the files are.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if there is none.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Checks, before anything is written, that neither a certificate nor its key is there.
    pub(super) fn check_absent(&self, name: &str) -> Result<(), UsageError> {
        let files = ["pem", "key"].map(|ending| self.path(name, ending));
        match files.iter().find(|path| path.symlink_metadata().is_ok()) {
            Some(path) => Err(exists(path)),
            None => Ok(()),
        }
    }

    /// The key of the authority that is here; `None` if there is none.
    pub(super) fn authority_key(&self) -> anyhow::Result<Option<String>> {
        let (certificate, key) = (self.path("ca", "pem"), self.path("ca", "key"));
        match (certificate.exists(), fs::read_to_string(&key)) {
            (true, Ok(pem)) => Ok(Some(pem)),
            (false, Err(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            (false, Ok(_)) => Err(UsageError(format!(
                "{} is here without {}: take it away, or choose another folder",
                key.display(),
                certificate.display()
            ))
            .into()),
            (true, Err(error)) if error.kind() == ErrorKind::NotFound => Err(UsageError(format!(
                "{} is here without {}, so nothing can be signed: choose another folder",
                certificate.display(),
                key.display()
            ))
            .into()),
            (_, Err(error)) => Err(error).with_context(|| format!("cannot read {}", key.display())),
        }
    }

    /// Writes a certificate that all may read, and its key.
    pub(super) fn write_pair(&self, name: &str, certificate: &str, key: &str) -> anyhow::Result<()> {
        write_new(&self.path(name, "key"), key, 0o600)?;
        write_new(&self.path(name, "pem"), certificate, 0o644)
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.0.join(format!("{name}.{ending}"))
    }
}

fn exists(path: &Path) -> UsageError {
    UsageError(format!("{} exists, and nothing is overwritten: choose another folder or name", path.display()))
}

fn write_new(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path).into()),
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    };
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .with_context(|| format!("cannot write {}", path.display()))
}
