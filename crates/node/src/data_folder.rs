//! Names of the files in a node's data folder. This module does not depend on the content of the files.

/// File of the consensus database.
pub(crate) const DATABASE_FILE: &str = "meta.redb";

/// File with the time of day that the node relied on last.
pub(crate) const CLOCK_FILE: &str = "clock";

/// Folder of the journal.
pub(crate) const JOURNAL_FOLDER: &str = "journal";

/// Folder in which a repair creates the new journal.
pub(crate) const REPAIRING_FOLDER: &str = "journal.repairing";
