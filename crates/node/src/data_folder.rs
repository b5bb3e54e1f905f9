//! The names of files in a node's data folder. Must not know: what is in the files.

/// The file of the cluster's agreement in the folder for data.
pub(crate) const DATABASE_FILE: &str = "meta.redb";

/// The file with the time that the node relied on last.
pub(crate) const CLOCK_FILE: &str = "clock";

/// The folder of the journal there.
pub(crate) const JOURNAL_FOLDER: &str = "journal";

/// Where a repaired journal is made.
pub(crate) const REPAIRING_FOLDER: &str = "journal.repairing";
