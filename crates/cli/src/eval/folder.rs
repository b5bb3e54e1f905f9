//! The folder that a run of experiments leaves: one JSON document and one picture an experiment, a page, a table.
//!
//! Promises: each file is there as a whole or not at all; a folder that holds something else is not written into. Must not
//! know: what the files say.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use firstseen_eval::document::Document;
use firstseen_eval::{page, picture, results};

use super::summary::Report;
use crate::exit::UsageError;

const PAGE: &str = "index.html";
/// What the page of a run has, and no other: it may be replaced.
const MARK: &str = "<title>firstseen";
const TABLE: &str = "results.md";

/// A folder that may be written into.
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder where it is missing.
    ///
    /// # Errors
    /// It cannot be made, or holds what no run has left there.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {shown}"))?;
        let mut entries = fs::read_dir(path).with_context(|| format!("cannot read the folder {shown}"))?;
        let is_ours = || fs::read_to_string(path.join(PAGE)).is_ok_and(|page| page.contains(MARK));
        if entries.next().is_some() && !is_ours() {
            return Err(UsageError(format!("{shown} holds something else: choose another folder with --out")).into());
        }
        let folder = Self { path: path.to_owned() };
        // What follows may be broken off: the folder is known by its page.
        folder.write(PAGE, "<!DOCTYPE html><title>firstseen</title><p>The experiments have not ended.</p>\n")?;
        Ok(folder)
    }

    /// Writes the numbers and the picture of one experiment.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write_experiment(&self, document: &Document) -> anyhow::Result<()> {
        let svg = picture::svg(document).map_err(|error| anyhow::anyhow!("experiment {}: {error}", document.name))?;
        self.write(&page::document_name(document), &(serde_json::to_string_pretty(document)? + "\n"))?;
        self.write(&page::picture_name(document), &svg)
    }

    /// Writes what shows all of them.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write_page(&self, report: &Report) -> anyhow::Result<()> {
        let heading = page::Heading { made: report.made() };
        self.write(TABLE, &results::markdown(&heading, &report.experiments))?;
        self.write(PAGE, &page::html(&heading, &report.experiments))
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let (path, draft) = (self.path.join(name), self.path.join(format!("{name}.part")));
        let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &path));
        if written.is_err() {
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    eprintln!("firstseen: {}: {error}", draft.display())
                }
                _ => {}
            }
        }
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}
