//! What is called what in a node's folder for data. Must not know: what is in it.

/// The file of the cluster's agreement in the folder for data.
pub(crate) const DATABASE_FILE: &str = "meta.redb";

/// The folder of the journal there.
pub(crate) const JOURNAL_FOLDER: &str = "journal";

/// Where a repaired journal is made.
pub(crate) const REPAIRING_FOLDER: &str = "journal.repairing";
