//! Flags that describe the input.

use std::fmt;
#[cfg(feature = "parquet")]
use std::fs::File;
#[cfg(feature = "parquet")]
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::bail;
use clap::{Args, ValueEnum};
#[cfg(feature = "parquet")]
use firstseen_columns::ColumnFormat;
use firstseen_filter::FilterSecret;
use firstseen_records::{
    BlockOptions, ConfigError, Detected, EmptyKey, KeyNormalization, ParserConfig, Ragged, RecordFormat, RecordParser,
    TimeFormat, detect, hint_of_document,
};

use crate::exit::UsageError;
use crate::flags::names::{joined_names, split_names};
use crate::input::first::Opened;
use crate::input::text::TextFiles;
use crate::input::{Times, is_stdin, name, stdin_file_bytes};

/// Which time of a record is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// The time in the record (--time)
    Event,
    /// The time at which the record arrives here
    Wall,
}

/// A part of the run that needs the times of events, with the names that an error message about a missing time uses.
#[derive(Clone, Copy, Debug)]
pub struct NeedsTime<'a> {
    /// Name of this part in messages.
    pub what: &'a str,
    /// Flag that users can set instead if no record has a time.
    pub instead: &'a str,
}

/// Flags that say which files to read, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Files to read, one after the other; `-` is standard input. gzip, zstd, bzip2 and xz are recognised by their
    /// content
    #[arg(value_name = "FILE", default_value = "-")]
    pub files: Vec<PathBuf>,
    /// How records are written: lines, csv, tsv, jsonl, clf (common and combined log), cdxj (Common Crawl index), w3c
    /// (extended log, IIS), parquet, arrow (IPC). By default the first bytes determine the format if it is
    /// unmistakable; otherwise each line is a record
    #[arg(long, default_value = "auto", value_parser = parse_format_or_auto)]
    pub format: FormatArg,
    /// Byte between the fields of csv, tsv and w3c: a character, `tab`, or `\x01`. Without --format it implies csv
    #[arg(long, value_name = "CHAR", value_parser = parse_separator, allow_hyphen_values = true)]
    pub separator: Option<u8>,
    /// Records end with a NUL byte, not with a newline (lines and jsonl only). Without --format, only NUL bytes end a
    /// record
    #[arg(short = 'z', long, alias = "zero-terminated")]
    pub null_data: bool,
    /// Fields that form the key, by header name, JSON field, log field or 1-based number. Two keys are equal if all
    /// their fields are equal. The default is the whole record; with --format clf `host,request`, with --format cdxj
    /// `urlkey`. In JSON `user.id` is the member `id` of the object `user`. A comma in a name is written `\,`
    #[arg(long, value_name = "FIELD,...")]
    pub key: Vec<String>,
    /// Fields that are not part of the key if the whole record is the key (csv, tsv, w3c, jsonl)
    #[arg(long, value_name = "FIELD,...", conflicts_with = "key")]
    pub ignore: Vec<String>,
    /// What to do with a record whose key, or a field of it, has no value (an empty field or blanks, JSON `null` and
    /// `""`, `-` in logs)
    #[arg(long, value_name = "RULE", value_enum, default_value_t = EmptyKeyArg::Pass)]
    pub empty_key: EmptyKeyArg,
    /// What to do with a row that has more or fewer fields than the header, or than the first row without a header
    #[arg(long, value_name = "RULE", value_enum, default_value_t = RaggedArg::Reject)]
    pub ragged: RaggedArg,
    /// Field that holds the time, or several fields (`date,time`) whose values are joined by blanks. A comma in a name
    /// is written `\,`. Recognised are numbers since 1970 and dates as numbers, RFC 3339, `YYYY-MM-DD hh:mm:ss`, and
    /// the forms of logs, mail and HTTP. The lines of log and index formats have their own time field
    #[arg(long, value_name = "FIELD,...")]
    pub time: Option<String>,
    /// Accept times only in this form: `epoch`, `epoch-ms`, `epoch-us` or `epoch-ns` for numbers since 1970, or a
    /// pattern of strftime such as `%d.%m.%Y %H:%M:%S`. By default the form of each time is recognised
    #[arg(long, value_name = "FORMAT", value_parser = parse_time_format)]
    pub time_format: Option<TimeFormat>,
    /// Which time of a record is used: by default the time in the record. For records on standard input (a pipe, not a
    /// file) without a time (no --time, and no format with times) it is the time of arrival
    #[arg(long, value_enum)]
    pub clock: Option<ClockArg>,
    /// Field that names the source of a record (an address, a campaign), for the report
    #[arg(long, value_name = "FIELD")]
    pub source: Option<String>,
    /// csv and tsv files start with a record, not with a header
    #[arg(long)]
    pub no_header: bool,
    /// Time zone of times without a zone, and of calendar landmarks
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub tz: String,
    /// Treat different spellings of one key as equal: `url` (rules in docs/reference/normalize.md)
    #[arg(long, value_name = "RULES", value_parser = parse_normalization)]
    pub normalize: Option<KeyNormalization>,
    /// Result of looking at the first bytes of the first file.
    #[arg(skip)]
    looked: Examined,
}

/// Format that a flag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatArg {
    /// The format that the first lines show.
    Auto,
    /// The format of text that the user named.
    Given(RecordFormat),
    /// The format of rows that the user named.
    #[cfg(feature = "parquet")]
    Columns(ColumnFormat),
}

/// What to do with a record whose key has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmptyKeyArg {
    /// The record has no key, so it cannot be judged
    Pass,
    /// The empty value counts as a value: the second record that has it is a duplicate
    Value,
    /// End the run before this record, with exit code 2
    Fail,
}

/// What to do with a row that has another number of fields than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RaggedArg {
    /// The row's fields may not match their names, so the record cannot be judged
    Reject,
    /// Missing fields are empty, and extra fields are ignored
    Pad,
}

/// Result of looking at the first bytes of the first file.
#[derive(Default)]
struct Examined {
    detected: OnceLock<Detected>,
    /// Format of the first file if it has rows.
    #[cfg(feature = "parquet")]
    columns: OnceLock<Option<ColumnFormat>>,
    /// The opened file. The reader of records continues with this file, so no byte is read twice from a stream.
    opened: Mutex<Option<Opened>>,
}

impl fmt::Debug for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.detected.fmt(f)
    }
}

/// Parses the name of a format.
///
/// # Errors
/// Returns a message that lists the names of all formats if no format has this name.
pub fn parse_format(name: &str) -> Result<RecordFormat, String> {
    name.parse().map_err(|error: firstseen_records::ConfigError| error.to_string())
}

fn parse_time_format(format: &str) -> Result<TimeFormat, String> {
    format.parse().map_err(|error: firstseen_records::ConfigError| error.to_string())
}

fn parse_format_or_auto(name: &str) -> Result<FormatArg, String> {
    if name == "auto" {
        return Ok(FormatArg::Auto);
    }
    #[cfg(feature = "parquet")]
    if let Some(format) = ColumnFormat::ALL.into_iter().find(|format| format.name() == name) {
        return Ok(FormatArg::Columns(format));
    }
    #[cfg(not(feature = "parquet"))]
    if matches!(name, "parquet" | "arrow") {
        return Err(format!("this build of firstseen leaves the format {name} out: {}", crate::left_out::FULL_BUILD));
    }
    parse_format(name).map(FormatArg::Given).map_err(|error| format!("{error}, parquet, arrow, or auto"))
}

/// Parses a separator: a character, `tab`, `\t`, or a byte in hexadecimal digits (`\x01`).
fn parse_separator(text: &str) -> Result<u8, String> {
    let hexadecimal = text.strip_prefix("\\x").filter(|digits| digits.len() == 2);
    if let Some(byte) = hexadecimal.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        return Ok(byte);
    }
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        ("blank" | "space", _) => Ok(b' '),
        (_, [byte]) => Ok(*byte),
        _ => Err("a separator is one character, `tab`, or a byte such as `\\x01`".to_owned()),
    }
}

fn parse_normalization(name: &str) -> Result<KeyNormalization, String> {
    match name {
        "url" => Ok(KeyNormalization::Url),
        _ => Err(format!("`{name}` is no set of rules: choose url")),
    }
}

impl InputArgs {
    /// Detects whether the first file has rows, if no flag names the format or says how text is written. A stream is
    /// not examined.
    #[cfg(feature = "parquet")]
    pub(crate) fn detect_columns(&self) {
        if self.format != FormatArg::Auto || self.separator.is_some() || self.null_data {
            return;
        }
        let found = self.files.first().filter(|path| !is_stdin(path) && path.is_file());
        let mut head = [0; ColumnFormat::HEAD_BYTES];
        // A file that cannot be read is reported by the run itself.
        let is_read =
            found.and_then(|path| File::open(path).ok()).is_some_and(|mut file| file.read_exact(&mut head).is_ok());
        let format = ColumnFormat::of_bytes(&head).filter(|_| is_read);
        let _ = self.looked.columns.set(format);
    }

    /// Does nothing, because this build reads only text.
    #[cfg(not(feature = "parquet"))]
    pub(crate) fn detect_columns(&self) {}

    /// Returns the format of the input if its records are rows. `None` means that they are text.
    #[cfg(feature = "parquet")]
    pub(crate) fn columns(&self) -> Option<ColumnFormat> {
        match self.format {
            FormatArg::Columns(format) => Some(format),
            FormatArg::Auto => self.looked.columns.get().copied().flatten(),
            FormatArg::Given(_) => None,
        }
    }

    /// Returns whether the records are rows, and not text.
    pub(crate) fn has_columns(&self) -> bool {
        #[cfg(feature = "parquet")]
        return self.columns().is_some();
        #[cfg(not(feature = "parquet"))]
        false
    }

    /// Returns whether files of the format can be read only when they are complete.
    pub(crate) fn is_readable_only_at_end(&self) -> bool {
        #[cfg(feature = "parquet")]
        return self.columns() == Some(ColumnFormat::Parquet);
        #[cfg(not(feature = "parquet"))]
        false
    }

    /// Returns whether no flag names the format, so that it was detected.
    #[cfg(feature = "parquet")]
    pub(crate) fn is_detected(&self) -> bool {
        self.format == FormatArg::Auto
    }

    /// Detects the format of the records from the first bytes of the first file, and prints which format was found. If
    /// a flag names the format or the separator, or if records end with NUL bytes, the function does nothing. If the
    /// file is a stream, the function waits until its first bytes arrive.
    ///
    /// # Errors
    /// Returns an error if the file is not text. Nothing has been written at this point.
    pub fn look(&self) -> anyhow::Result<()> {
        let (FormatArg::Auto, None, false) = (self.format, self.separator, self.null_data) else { return Ok(()) };
        let Some(path) = self.files.first() else { return Ok(()) };
        // A file that cannot be opened is reported by the run itself, which opens the file again.
        let Ok(mut opened) = Opened::new(path, b'\n') else { return Ok(()) };
        opened.look(path)?;
        let first = self.first_bytes(&opened)?;
        let detected = *self.looked.detected.get_or_init(|| detect(&first, &self.wanted_names()));
        let document = hint_of_document(&first).filter(|_| detected.format() == RecordFormat::Lines);
        if let Some(document) = document {
            let text = format!("{}: {document}; --format lines compares its lines", name(path));
            return Err(UsageError(text).into());
        }
        if detected.format() != RecordFormat::Lines && !first.is_empty() {
            let separator = detected.separator().map(|byte| format!(" --separator '{}'", byte.escape_ascii()));
            let default = detected.format().default_key();
            let is_whole = self.key.is_empty() && !default.is_empty();
            let compared = if is_whole {
                format!("and whole lines are compared (--key {} compares these fields)", default.join(","))
            } else {
                "(--format lines compares whole lines)".to_owned()
            };
            let format = detected.format();
            let separator = separator.unwrap_or_default();
            notice!("firstseen: {}: read as {format}{separator} {compared}", name(path));
        }
        *self.looked.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    /// Returns the first bytes of the first file that is not empty. `first` is the already opened first file of the
    /// list.
    fn first_bytes(&self, first: &Opened) -> anyhow::Result<Vec<u8>> {
        let mut bytes = first.first_bytes();
        for path in &self.files[1..] {
            // Only regular files can be opened and read twice.
            if !bytes.is_empty() || !path.is_file() {
                break;
            }
            let Ok(mut next) = Opened::new(path, b'\n') else { break };
            next.look(path)?;
            bytes = next.first_bytes();
        }
        Ok(bytes)
    }

    /// Returns the names of all fields that flags mention.
    fn wanted_names(&self) -> Vec<String> {
        let time = self.time.as_deref().map_or_else(Vec::new, split_names);
        self.key_names().into_iter().chain(time).chain(self.source.clone()).chain(self.ignored_names()).collect()
    }

    /// Returns whether the whole record is the key. This is the case if the format was detected and `--key` is not
    /// given. The user has then not said which fields make two records equal. If the run chose a field itself, it could
    /// drop records that the user considers different.
    fn is_whole(&self) -> bool {
        self.key.is_empty() && self.format == FormatArg::Auto
    }

    /// Returns the format of records of text: the format that the flag names, or the format that [`Self::look`]
    /// detected. For rows, the result is [`RecordFormat::Lines`], which has no fields of its own.
    pub fn format(&self) -> RecordFormat {
        match (self.format, self.looked.detected.get()) {
            #[cfg(feature = "parquet")]
            (FormatArg::Columns(_), _) => RecordFormat::Lines,
            (FormatArg::Given(format), _) => format,
            (FormatArg::Auto, _) if self.separator.is_some() => RecordFormat::Csv,
            (FormatArg::Auto, detected) => detected.map_or(RecordFormat::Lines, |detected| detected.format()),
        }
    }

    /// Returns the byte between two fields, if the format has separated fields.
    fn separator(&self) -> Option<u8> {
        let detected = self.looked.detected.get().and_then(|detected| detected.separator());
        self.separator.or(detected).or(self.format().default_separator())
    }

    /// Returns the byte between two fields, if quoted fields of this format may contain line breaks.
    pub fn quotes(&self) -> Option<u8> {
        self.separator().filter(|_| self.format().has_quoted_newlines())
    }

    /// Returns the names of the key fields as the flags give them.
    fn key_names(&self) -> Vec<String> {
        self.key.iter().flat_map(|names| split_names(names)).collect()
    }

    fn ignored_names(&self) -> Vec<String> {
        self.ignore.iter().flat_map(|names| split_names(names)).collect()
    }

    /// Returns the configuration of the parser that the flags describe. `reads_time` says whether the window needs the
    /// times of events. If it does not need times and no flag names a time field, the parser does not read times at
    /// all, even if the format has a default time field.
    pub fn parser_config(&self, reads_time: bool) -> ParserConfig {
        let own_time = self.format().default_time().filter(|_| reads_time).map(str::to_owned);
        let mut time_fields = self.time.as_deref().map_or_else(Vec::new, split_names).into_iter();
        ParserConfig {
            key: self.key_names(),
            is_whole: self.is_whole(),
            time: time_fields.next().or(own_time),
            time_rest: time_fields.collect(),
            time_format: self.time_format.clone(),
            source: self.source.clone(),
            no_header: self.no_header,
            zone: self.tz.clone(),
            normalization: self.normalize.unwrap_or(KeyNormalization::None),
            // If the format does not take a separator, the parser reports it together with the other mistakes in the
            // flags.
            separator: self.separator(),
            ignore: self.ignored_names(),
            ragged: match self.ragged {
                RaggedArg::Reject => Ragged::Reject,
                RaggedArg::Pad => Ragged::Pad,
            },
            empty_key: match self.empty_key {
                EmptyKeyArg::Pass => EmptyKey::Pass,
                EmptyKeyArg::Value => EmptyKey::Value,
                EmptyKeyArg::Fail => EmptyKey::Fail,
            },
            ..ParserConfig::new(self.format())
        }
    }

    /// Determines where the times of events come from: from a field of each record, or from the moment at which the
    /// record arrives.
    ///
    /// `needs_time` is `None` if the run needs no times. Otherwise it names the part of the run that needs times, such
    /// as the window, and a flag that avoids this need. If the records have no time, the error message contains both.
    ///
    /// # Errors
    /// Returns an error if the time is missing, or if flags name it twice.
    pub fn times(&self, needs_time: Option<NeedsTime<'_>>) -> anyhow::Result<Times> {
        let names_field = self.time.is_some();
        let has_field = names_field || self.format().default_time().is_some();
        if self.time_format.is_some() && (self.clock == Some(ClockArg::Wall) || !has_field) {
            let reason =
                "--time-format describes the times of records, and none are read: name their field with --time";
            bail!(UsageError(reason.to_owned()));
        }
        let is_stream = self.files.iter().all(|path| is_stdin(path)) && stdin_file_bytes().is_none();
        match (self.clock, needs_time) {
            (Some(ClockArg::Wall), _) if names_field => {
                bail!(UsageError("--clock wall counts records when they arrive: leave --time out".to_owned()))
            }
            (Some(ClockArg::Wall), Some(_)) => Ok(Times::Arrival),
            (_, None) => Ok(Times::Record),
            _ if has_field => Ok(Times::Record),
            (None, Some(_)) if is_stream => {
                notice!(
                    "firstseen: records are timed as they arrive, as --time names no field for that (--clock wall says the same)"
                );
                Ok(Times::Arrival)
            }
            (_, Some(NeedsTime { what, instead })) => bail!(UsageError(format!(
                "{what} needs to know when events occurred: name the field with --time, take the times of arrival with --clock \
                 wall, or {instead}"
            ))),
        }
    }

    /// Returns whether records have times that a run could use: the flags or the format name a field for them, and the
    /// user has not chosen the time of arrival instead.
    #[cfg(feature = "full")]
    pub(crate) fn has_record_times(&self) -> bool {
        self.clock != Some(ClockArg::Wall) && (self.time.is_some() || self.format().default_time().is_some())
    }

    /// Returns the parser that the flags describe. `times` is the result of [`Self::times`]; `None` means that no part
    /// of the run needs times.
    ///
    /// # Errors
    /// Returns an error if the flags do not fit the format.
    pub fn parser(&self, times: Option<Times>, secret: FilterSecret) -> anyhow::Result<RecordParser> {
        let config = self.parser_config(times == Some(Times::Record));
        Ok(RecordParser::new(config, secret).map_err(|error| UsageError(self.with_format_doubt(&error)))?)
    }

    /// Returns the byte that ends a record.
    ///
    /// # Errors
    /// Returns an error if records of the format cannot end with the byte that the flags ask for.
    pub fn record_end(&self) -> anyhow::Result<u8> {
        let format = self.format();
        if self.null_data && !format.may_end_with_nul() {
            bail!(UsageError(format!(
                "-z (--null-data) is for the formats lines and jsonl, whose records may end with a NUL byte: {format} ends \
                 them with a newline"
            )));
        }
        Ok(if self.null_data { 0 } else { b'\n' })
    }

    /// Returns the input that the flags describe.
    ///
    /// # Errors
    /// Returns the errors of [`Self::record_end`].
    pub(crate) fn text_files(&self, parser: RecordParser) -> anyhow::Result<TextFiles> {
        let format = self.format();
        let options = BlockOptions::for_format(format);
        let separator = self.separator().unwrap_or(options.separator);
        let block_options = BlockOptions { separator, record_end: self.record_end()?, ..options };
        let first = self.looked.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(TextFiles::new(self.files.clone(), first, format, block_options, parser))
    }

    /// Returns a text that describes how keys are made from records, such as the names of the key fields. The text is
    /// stored together with a saved filter. A run can use a saved filter only if its own text is the same as the stored
    /// text. If the run made keys in a different way, it would not recognise the events of the saved filter.
    pub fn key_identity(&self) -> String {
        let mut key = self.key_names();
        if key.is_empty() && !self.is_whole() {
            key = self.format().default_key().iter().map(|field| (*field).to_owned()).collect();
        }
        let normalize = self.normalization_identity();
        match key.len() {
            0 if self.ignore.is_empty() => format!("whole records{normalize}"),
            0 => format!("whole records without {}{normalize}", joined_names(&self.ignored_names())),
            _ => format!("{}{normalize}", joined_names(&key)),
        }
    }

    /// Returns the end of [`Self::key_identity`], which says how the values of keys are unified.
    pub(crate) fn normalization_identity(&self) -> &'static str {
        if self.normalize.is_some() { " normalized as url" } else { "" }
    }

    /// Returns the message of a parser error. If no flag names the format and the input did not show it clearly, the
    /// message says so too.
    fn with_format_doubt(&self, error: &ConfigError) -> String {
        let doubt = self.looked.detected.get().and_then(|detected| detected.doubt());
        match doubt.filter(|_| self.format == FormatArg::Auto) {
            Some(doubt) => format!("{error} (records are read as lines, as {doubt}: name their format by --format)"),
            None => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_is_one_byte() {
        for (text, byte) in
            [(";", b';'), ("|", b'|'), ("\t", b'\t'), ("tab", b'\t'), ("\\t", b'\t'), ("\\x01", 1), ("-", b'-')]
        {
            assert_eq!(parse_separator(text), Ok(byte), "{text}");
        }
        for text in ["", ";;", "\\x1", "\\x0g", "\u{e4}"] {
            assert!(parse_separator(text).is_err(), "{text}");
        }
    }
}
