//! PEM files in one folder.
//!
//! Promises: a file that exists is never touched, but for those that say what is revoked; key files are made with mode 0600, before any byte is written to
//! them. Must not know: what the files hold.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::exit::UsageError;
use crate::text::hex::{bytes_of_hex, hex};

/// The numbers and names of certificates that are revoked.
const REVOKED: &str = "revoked.txt";
const REVOCATION_LIST: &str = "ca.crl";

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
        let certificate = self.path("ca", "pem");
        let key = self.path("ca", "key");
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

    /// The certificate of this name.
    pub(super) fn certificate(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.path(name, "pem");
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Notes that certificates are revoked, by their names, and returns the numbers of all that are.
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

    /// Writes the revocation list, in the place of the one before, and returns where it is.
    pub(super) fn write_revoked(&self, pem: &str) -> anyhow::Result<PathBuf> {
        self.replace(REVOCATION_LIST, pem)?;
        Ok(self.0.join(REVOCATION_LIST))
    }

    /// Nobody reads half a file: the new one takes the place of the old.
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
