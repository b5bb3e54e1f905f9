//! Forms of records: how a run reads records, and how it writes them.
//!
//! `text` is the form of lines, rows and objects that are written as text. `columns` is the form of rows whose values
//! are stored in columns, such as those of a Parquet file. A run has one form: its outputs take the records of its
//! input.

#[cfg(feature = "parquet")]
pub(crate) mod columns;
pub(crate) mod text;

use firstseen_filter::FilterSecret;
use firstseen_records::Records;

use crate::flags::input::InputArgs;
use crate::input::{Input, Times};
use crate::output::{Earlier, Output, Target};

/// A form of records.
pub(crate) trait Form {
    /// The records of a batch.
    type Records: Records;
    /// Reads records.
    type Input: Input<Records = Self::Records>;
    /// Writes records.
    type Output: Output<Records = Self::Records>;

    /// Whether outputs can be appended to those of earlier runs.
    const APPENDS: bool;

    /// Returns a text that describes how keys are made from records. The text is stored together with a saved filter
    /// ([`InputArgs::key_identity`]).
    fn key_identity(&self, flags: &InputArgs) -> String;

    /// Opens the input that the flags describe.
    ///
    /// # Errors
    /// Returns an error if the flags do not fit the input.
    fn input(&mut self, flags: &InputArgs, reading: &Reading) -> anyhow::Result<Self::Input>;

    /// Opens an output for records.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn output(&self, flags: &InputArgs, to: Target<'_>, earlier: Earlier) -> anyhow::Result<Self::Output>;

    /// Opens an output for lines that are not records.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    fn lines(&self, flags: &InputArgs, to: Target<'_>, earlier: Earlier) -> anyhow::Result<Self::Output>;
}

/// What a run must know about its filter to read records.
pub(crate) struct Reading {
    /// Where times come from. `None` means that no part of the run needs times.
    pub(crate) times: Option<Times>,
    /// Secret with which keys are hashed.
    pub(crate) secret: FilterSecret,
    /// The last time that an earlier run read, in milliseconds since 1970, if this run continues with its filter.
    pub(crate) last_time_ms: Option<i64>,
}
