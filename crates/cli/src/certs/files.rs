//! Reads and writes the PEM files of certificates and keys in one folder. The module never overwrites a key or a
//! certificate, because a lost key cannot be recovered. Only the files about revoked certificates are replaced.
//!
//! A key file is created with mode 0600 before its content is written, so no other user of the machine can read the key
//! at any time.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::UsageError;
use crate::text::hex::{bytes_of_hex, hex};

/// File with the serial numbers and names of revoked certificates.
const REVOKED: &str = "revoked.txt";
const REVOCATION_LIST: &str = "ca.crl";

/// The folder that contains the files.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and creates it if it does not exist.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Checks that neither the certificate nor its key exists, before anything is written.
    pub(super) fn check_absent(&self, name: &str) -> Result<(), UsageError> {
        let files = ["pem", "key"].map(|ending| self.path(name, ending));
        match files.iter().find(|path| path.symlink_metadata().is_ok()) {
            Some(path) => Err(exists(path)),
            None => Ok(()),
        }
    }

    /// Returns the key of the authority in this folder. `None` means that the folder has no authority.
    pub(super) fn authority_key(&self) -> anyhow::Result<Option<String>> {
        let certificate = self.path("ca", "pem");
        let key = self.path("ca", "key");
        match (certificate.exists(), fs::read_to_string(&key)) {
            (true, Ok(pem)) => Ok(Some(pem)),
            (false, Err(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            (false, Ok(_)) => Err(UsageError(format!(
                "{} exists without {}: remove it, or choose another folder",
                key.display(),
                certificate.display()
            ))
            .into()),
            (true, Err(error)) if error.kind() == ErrorKind::NotFound => Err(UsageError(format!(
                "{} exists without {}, so nothing can be signed: choose another folder",
                certificate.display(),
                key.display()
            ))
            .into()),
            (_, Err(error)) => Err(error).with_context(|| format!("cannot read {}", key.display())),
        }
    }

    /// Writes a certificate, which all users may read, and its key.
    pub(super) fn write_pair(&self, name: &str, certificate: &str, key: &str) -> anyhow::Result<()> {
        write_new(&self.path(name, "key"), key, 0o600)?;
        write_new(&self.path(name, "pem"), certificate, 0o644)
    }

    /// Returns the certificate with this name.
    pub(super) fn certificate(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.path(name, "pem");
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Records that certificates are revoked, by their names. Returns the serial numbers of all revoked certificates.
    pub(super) fn note_revoked(&self, revoked: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<Vec<u8>>> {
        let path = self.0.join(REVOKED);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let mut lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        for (name, serial) in revoked {
            let hex = hex(serial);
            if !lines.iter().any(|line| line.starts_with(&hex)) {
                lines.push(format!("{hex} {name}"));
            }
        }
        self.replace(REVOKED, &(lines.join("\n") + "\n"))?;
        let numbers = lines.iter().map(|line| {
            bytes_of_hex(line.split(' ').next().unwrap_or_default())
                .with_context(|| format!("{}: `{line}` does not begin with a number in hex", path.display()))
        });
        numbers.collect()
    }

    /// Writes the revocation list, which replaces the previous list, and returns its path.
    pub(super) fn write_revoked(&self, pem: &str) -> anyhow::Result<PathBuf> {
        self.replace(REVOCATION_LIST, pem)?;
        Ok(self.0.join(REVOCATION_LIST))
    }

    /// Replaces a file in one atomic step, so that no reader sees part of it.
    fn replace(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        let new = self.0.join(format!("{name}.new"));
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))
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
