//! Output folder of a run of experiments. It contains one JSON document and one picture for each experiment, a page and
//! a table.
//!
//! # Guarantees
//!
//! - Each file in the folder is complete or missing, and all files belong to the same run.
//! - A folder that contains other files is rejected.
//! - If the folder contains the results of an earlier run, only files that a run writes are removed.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use firstseen_eval::document::Document;
use firstseen_eval::experiments::EXPERIMENTS;
use firstseen_eval::{page, results};

use super::summary::Report;
use firstseen_cli::exit::UsageError;

const PAGE: &str = "index.html";
/// Mark in the head of the page of a run. No other page has it, so a page with the mark may be replaced.
const MARK: &str = page::GENERATOR;
const TABLE: &str = "results.md";
/// Text of the page while the run is in progress.
const IN_PROGRESS_PAGE: &str = "<title>firstseen</title><p>The experiments have not ended.</p>\n";

/// Output folder of a run. The folder is locked as long as this value exists, so that no other run writes to it at the
/// same time. The lock has no effect on file systems that do not support locks on folders.
pub(super) struct Folder {
    path: PathBuf,
    _locked: File,
}

impl Folder {
    /// Creates the folder if it does not exist, and removes the files of an earlier run.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or written to, or if it contains files that no run has written.
    pub(super) fn open(path: &Path) -> Result<Self, UsageError> {
        let shown = path.display();
        fs::create_dir_all(path).map_err(|error| refused("make the folder", path, &error))?;
        let locked = File::open(path).map_err(|error| refused("open the folder", path, &error))?;
        // Some network file systems do not support locks on folders. Two runs on such a file system are not prevented
        // from using the same folder.
        if let Err(TryLockError::WouldBlock) = locked.try_lock() {
            let remedy = "wait for its end, or choose another folder with --out";
            return Err(UsageError(format!("another run writes into {shown}: {remedy}")));
        }
        let mut entries = fs::read_dir(path).map_err(|error| refused("read the folder", path, &error))?;
        let is_ours = fs::read_to_string(path.join(PAGE)).is_ok_and(|page| page.contains(MARK));
        if entries.next().is_some() && !is_ours {
            return Err(UsageError(format!("{shown} holds something else: choose another folder with --out")));
        }
        let folder = Self { path: path.to_owned(), _locked: locked };
        // The next steps may be interrupted. The page is written first, so that a later run recognizes the folder.
        let cleared =
            folder.write(PAGE, &format!("<!DOCTYPE html>{MARK}{IN_PROGRESS_PAGE}")).and_then(|()| folder.clear());
        cleared.map_err(|error| refused("write into", path, &error))?;
        Ok(folder)
    }

    /// Removes the files of an earlier run except the page.
    fn clear(&self) -> io::Result<()> {
        let names = EXPERIMENTS.iter().map(|experiment| experiment.name);
        let numbers = names.clone().map(page::document_name);
        let all = names.map(page::picture_name).chain(numbers).chain([TABLE.to_owned()]);
        // A run that was killed may have left temporary files.
        for name in all.flat_map(|name| [draft_of(&name), name]) {
            match fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the numbers and the picture of one experiment.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(super) fn write_experiment(&self, document: &Document) -> anyhow::Result<()> {
        let svg = firstseen_picture::svg(&document.panels)
            .map_err(|error| anyhow::anyhow!("experiment {}: {error}", document.name))?;
        let numbers = serde_json::to_string_pretty(document)? + "\n";
        self.put(&page::document_name(&document.name), &numbers)?;
        self.put(&page::picture_name(&document.name), &svg)
    }

    /// Writes the page and the table of all experiments, and returns the path of the page.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(super) fn write_page(&self, report: &Report) -> anyhow::Result<PathBuf> {
        let heading = page::Heading { made: report.made(), not_ended: report.not_ended.len() };
        self.put(PAGE, &page::html(&heading, &report.experiments))?;
        self.put(TABLE, &results::markdown(&heading, &report.experiments))?;
        Ok(self.path.join(PAGE))
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<()> {
        self.write(name, text).with_context(|| format!("cannot write {}", self.path.join(name).display()))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let draft = self.path.join(draft_of(name));
        let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, self.path.join(name)));
        if written.is_err() {
            // The caller receives the error. If the temporary file cannot be removed, the next run removes it.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

fn refused(what: &str, path: &Path, error: &io::Error) -> UsageError {
    UsageError(format!("cannot {what} {}: {error}: choose another folder with --out", path.display()))
}

/// Returns the name of a temporary file that is not complete yet.
fn draft_of(name: &str) -> String {
    format!("{name}.part")
}
