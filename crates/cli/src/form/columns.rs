//! Rows whose values are stored in columns.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use anyhow::{Context, bail};
use firstseen_columns::{ColumnFormat, RowParser, Rows, Template};
use firstseen_filter::FilterSecret;

use super::{Form, Reading};
use crate::exit::UsageError;
use crate::flags::input::{InputArgs, RaggedArg};
use crate::flags::names::joined_names;
use crate::input::columns::{ColumnFiles, OpenFile};
use crate::input::{Times, name};
use crate::output::columns::ColumnOutput;
use crate::output::{Earlier, FileOutput, Target};

/// Rows in files of a format.
pub(crate) struct Columns {
    format: ColumnFormat,
    /// The first file, until the input takes it.
    first: Option<OpenFile>,
    template: Template,
    /// Names of the columns that form the key, if the key is the whole row or all of it except some columns.
    whole_row: Option<Vec<String>>,
}

impl Columns {
    /// Opens the first file, and checks that all files have the same columns.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if a file is not of the format, has other columns, or does not fit the flags.
    pub(crate) fn open(flags: &InputArgs, format: ColumnFormat) -> anyhow::Result<Self> {
        check(flags, format)?;
        let Some((first, others)) = flags.files.split_first() else { bail!(UsageError("no file is named".to_owned())) };
        let first_file = OpenFile::open(first, format).with_context(|| name(first))?;
        let mut template = first_file.reader().template().clone();
        // A pipe must not be opened twice: what was read from it would be lost. It is checked when its turn comes.
        for path in others.iter().filter(|path| path.is_file()) {
            let opened = OpenFile::open(path, format).with_context(|| name(path))?;
            opened.check_columns(template.schema()).with_context(|| name(path))?;
            template.complete_with(opened.reader().template());
        }
        let parser = RowParser::new(&flags.parser_config(false), template.schema(), FilterSecret::from_seed(0));
        let parser = parser.map_err(|error| UsageError(error.to_string()))?;
        let whole_row = parser.whole_row().map(|names| names.iter().map(ToString::to_string).collect());
        if flags.is_detected() {
            let compared =
                if whole_row.is_some() { "whole rows are compared" } else { "the columns of --key are compared" };
            notice!("firstseen: {}: read as {format} and {compared}", name(first));
        }
        if let [column, ..] = template.converted() {
            notice!(
                "firstseen: {}: the column `{column}` has times of 96 bits, which is an obsolete type: they are written with 64 \
                 bits (nanoseconds since 1970)",
                name(first)
            );
        }
        Ok(Self { format, first: Some(first_file), template, whole_row })
    }
}

impl Form for Columns {
    type Records = Rows;
    type Input = ColumnFiles;
    type Output = ColumnOutput;

    const APPENDS: bool = false;

    fn key_identity(&self, flags: &InputArgs) -> String {
        match &self.whole_row {
            Some(names) => format!("whole rows of {}{}", joined_names(names), flags.normalization_identity()),
            None => flags.key_identity(),
        }
    }

    fn input(&mut self, flags: &InputArgs, reading: &Reading) -> anyhow::Result<ColumnFiles> {
        let config = flags.parser_config(reading.times == Some(Times::Record));
        let parser = RowParser::new(&config, self.template.schema(), reading.secret.clone());
        let mut parser = parser.map_err(|error| UsageError(error.to_string()))?;
        if let Some(time_ms) = reading.last_time_ms {
            parser.continue_from(time_ms);
        }
        let schema = Arc::clone(self.template.schema());
        Ok(ColumnFiles::new(flags.files.clone(), self.format, self.first.take(), parser, schema))
    }

    fn output(&self, _: &InputArgs, to: Target<'_>, earlier: Earlier) -> anyhow::Result<ColumnOutput> {
        if matches!(to, Target::Stdout) && io::stdout().is_terminal() {
            let text =
                format!("rows are written as {}, which a terminal cannot show: name a file with --out", self.format);
            bail!(UsageError(text));
        }
        ColumnOutput::rows(to, earlier, &self.template)
    }

    fn lines(&self, _: &InputArgs, to: Target<'_>, earlier: Earlier) -> anyhow::Result<ColumnOutput> {
        Ok(ColumnOutput::lines(FileOutput::to_target(to, earlier.without_quotes())?))
    }
}

/// Checks that no flag describes text.
fn check(flags: &InputArgs, format: ColumnFormat) -> anyhow::Result<()> {
    let flag = match flags {
        InputArgs { separator: Some(_), .. } => "--separator",
        InputArgs { null_data: true, .. } => "-z (--null-data)",
        InputArgs { no_header: true, .. } => "--no-header",
        InputArgs { ragged: RaggedArg::Pad, .. } => "--ragged pad",
        _ => return Ok(()),
    };
    Err(UsageError(format!("{flag} is for text, and the format is {format}: leave it out")).into())
}
