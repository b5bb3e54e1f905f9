//! Flags that describe the input.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::bail;
use clap::{Args, ValueEnum};
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

/// Which time of a record counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// The one that it brings (--time)
    Event,
    /// That at which it arrives here
    Wall,
}

/// A part of the run that needs the times of events.
#[derive(Clone, Copy, Debug)]
pub struct NeedsTime<'a> {
    /// What it is called in a message.
    pub what: &'a str,
    /// The flag to use instead where no record has a time.
    pub instead: &'a str,
}

/// What to read, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Files to read, one after the other; `-` is standard input. gzip, zstd, bzip2 and xz are recognised by content
    #[arg(value_name = "FILE", default_value = "-")]
    pub files: Vec<PathBuf>,
    /// How records are written: lines, csv, tsv, jsonl, clf (common and combined log), cdxj (Common Crawl index), w3c
    /// (extended log, IIS). By default the first lines say so where that is unmistakable; else a record is a line
    #[arg(long, default_value = "auto", value_parser = parse_format_or_auto)]
    pub format: FormatArg,
    /// Byte between the fields of csv, tsv and w3c: a character, `tab`, or `\x01`. Without --format it means csv
    #[arg(long, value_name = "CHAR", value_parser = parse_separator, allow_hyphen_values = true)]
    pub separator: Option<u8>,
    /// Records end with a NUL byte, not with a newline (lines and jsonl only). Without --format a record is what ends so
    #[arg(short = 'z', long, alias = "zero-terminated")]
    pub null_data: bool,
    /// Fields that make the key, by header name, JSON field, log field or 1-based number; all must be equal.
    /// By default the whole record; with --format clf `host,request`, with --format cdxj `urlkey`. In JSON `user.id` is the
    /// member `id` of the object `user`. A comma in a name is written `\,`
    #[arg(long, value_name = "FIELD,...")]
    pub key: Vec<String>,
    /// Fields that are no part of the key, where the whole record is the key (csv, tsv, w3c, jsonl)
    #[arg(long, value_name = "FIELD,...", conflicts_with = "key")]
    pub ignore: Vec<String>,
    /// What to do with a record whose key, or a field of it, has no value (an empty field or blanks, JSON `null` and `""`, `-` in
    /// logs)
    #[arg(long, value_name = "RULE", value_enum, default_value_t = EmptyKeyArg::Pass)]
    pub empty_key: EmptyKeyArg,
    /// What to do with a row that has another number of fields than the header, or than the first row
    #[arg(long, value_name = "RULE", value_enum, default_value_t = RaggedArg::Reject)]
    pub ragged: RaggedArg,
    /// Field that holds the time, or several (`date,time`) whose values are joined by blanks; a comma in a name is
    /// written `\,`. Known are numbers since 1970 and dates as numbers, RFC 3339, `YYYY-MM-DD hh:mm:ss`, and the forms
    /// of logs, mail and HTTP. Log and index lines have theirs
    #[arg(long, value_name = "FIELD,...")]
    pub time: Option<String>,
    /// The only form of times: `epoch`, `epoch-ms`, `epoch-us` or `epoch-ns` for numbers since 1970, or a pattern of
    /// strftime such as `%d.%m.%Y %H:%M:%S`. By default the form of each time is recognised
    #[arg(long, value_name = "FORMAT", value_parser = parse_time_format)]
    pub time_format: Option<TimeFormat>,
    /// Which time of a record counts. By default its own; for a stream on standard input (a pipe, no file) whose records have none
    /// (no --time, and no format with times), that at which it arrives
    #[arg(long, value_enum)]
    pub clock: Option<ClockArg>,
    /// Field that names the source of a record (an address, a campaign), for the report
    #[arg(long, value_name = "FIELD")]
    pub source: Option<String>,
    /// csv and tsv start with a record, not with a header
    #[arg(long)]
    pub no_header: bool,
    /// Zone of times that do not name theirs, and of calendar landmarks
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub tz: String,
    /// Make spellings of one key equal: `url` (rules in docs/reference/normalize.md)
    #[arg(long, value_name = "RULES", value_parser = parse_normalization)]
    pub normalize: Option<KeyNormalization>,
    /// What the first bytes of the first file said.
    #[arg(skip)]
    looked: Looked,
}

/// The format that a flag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatArg {
    /// The one that the first lines show.
    Auto,
    /// This one.
    Given(RecordFormat),
}

/// What to do with a record whose key has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmptyKeyArg {
    /// It has no key, so that it cannot be judged
    Pass,
    /// The empty value is a value: the second record that has it is a duplicate
    Value,
    /// End the run before it, with exit code 2
    Fail,
}

/// What to do with a row of another number of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RaggedArg {
    /// Its fields may be others than their names say, so that it cannot be judged
    Reject,
    /// Fields that it lacks are empty, and further ones are ignored
    Pad,
}

/// What the first bytes of the first file said.
#[derive(Default)]
struct Looked {
    detected: OnceLock<Detected>,
    /// The file, to be read on.
    opened: Mutex<Option<Opened>>,
}

impl fmt::Debug for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.detected.fmt(f)
    }
}

/// Parses the name of a format.
///
/// # Errors
/// The names of all formats, if there is none of this name.
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
    parse_format(name).map(FormatArg::Given).map_err(|error| format!("{error}, or auto"))
}

/// A character, `tab`, `\t`, or a byte in hexadecimal digits (`\x01`).
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
    /// Looks at the first file where no flag names the format, and says which one it shows. Of a stream the first read is
    /// waited for. Records that end with NUL bytes are taken as they are.
    ///
    /// # Errors
    /// Where the file is no text: nothing was written yet.
    pub fn look(&self) -> anyhow::Result<()> {
        let (FormatArg::Auto, None, false) = (self.format, self.separator, self.null_data) else { return Ok(()) };
        let Some(path) = self.files.first() else { return Ok(()) };
        // A file that cannot be opened is an error of the run, which finds it again.
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

    /// The first bytes of the first file that has any; `first` is opened for the first of them.
    fn first_bytes(&self, first: &Opened) -> anyhow::Result<Vec<u8>> {
        let mut bytes = first.first_bytes();
        for path in &self.files[1..] {
            // What is no file can be read once only.
            if !bytes.is_empty() || !path.is_file() {
                break;
            }
            let Ok(mut next) = Opened::new(path, b'\n') else { break };
            next.look(path)?;
            bytes = next.first_bytes();
        }
        Ok(bytes)
    }

    /// The fields that flags name.
    fn wanted_names(&self) -> Vec<String> {
        let time = self.time.as_deref().map_or_else(Vec::new, split_names);
        self.key_names().into_iter().chain(time).chain(self.source.clone()).chain(self.ignored_names()).collect()
    }

    /// Returns whether the key is the whole record. It is if the format was detected and no `--key` is given, because the
    /// user has not said which fields make two records equal.
    fn is_whole(&self) -> bool {
        self.key.is_empty() && self.format == FormatArg::Auto
    }

    /// How records are written: as the flag says, or as [`Self::look`] has found it.
    pub fn format(&self) -> RecordFormat {
        match (self.format, self.looked.detected.get()) {
            (FormatArg::Given(format), _) => format,
            (FormatArg::Auto, _) if self.separator.is_some() => RecordFormat::Csv,
            (FormatArg::Auto, detected) => detected.map_or(RecordFormat::Lines, |detected| detected.format()),
        }
    }

    /// The byte between two fields, where the format has such.
    fn separator(&self) -> Option<u8> {
        let detected = self.looked.detected.get().and_then(|detected| detected.separator());
        self.separator.or(detected).or(self.format().default_separator())
    }

    /// The byte between two fields, where line breaks may stand between quotes in the records.
    pub fn quotes(&self) -> Option<u8> {
        self.separator().filter(|_| self.format().has_quoted_newlines())
    }

    /// The fields of the key, as flags name them.
    fn key_names(&self) -> Vec<String> {
        self.key.iter().flat_map(|names| split_names(names)).collect()
    }

    fn ignored_names(&self) -> Vec<String> {
        self.ignore.iter().flat_map(|names| split_names(names)).collect()
    }

    /// The parser that the flags describe. It reads times where `reads_time`, which is where the window uses them.
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
            // A separator that the format does not take is refused with the other mistakes in the flags.
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

    /// Where times come from. `needs_time` names the part that needs them, and the flag to use where no record has one.
    ///
    /// # Errors
    /// Where the time is missing, or asked for twice.
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

    /// The parser that the flags describe; `times` as [`Self::times`] gives them, none where nothing needs them.
    ///
    /// # Errors
    /// Where the flags do not fit the format.
    pub fn parser(&self, times: Option<Times>, secret: FilterSecret) -> anyhow::Result<RecordParser> {
        let config = self.parser_config(times == Some(Times::Record));
        Ok(RecordParser::new(config, secret).map_err(|error| UsageError(self.with_doubt(&error)))?)
    }

    /// The byte that ends a record.
    ///
    /// # Errors
    /// Where records of the format cannot end with the byte that the flags ask for.
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

    /// The input that the flags describe.
    ///
    /// # Errors
    /// Those of [`Self::record_end`].
    pub(crate) fn text_files(&self, parser: RecordParser) -> anyhow::Result<TextFiles> {
        let format = self.format();
        let options = BlockOptions::for_format(format);
        let separator = self.separator().unwrap_or(options.separator);
        let block_options = BlockOptions { separator, record_end: self.record_end()?, ..options };
        let first = self.looked.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(TextFiles::new(self.files.clone(), first, format, block_options, parser))
    }

    /// The settings that make the key, which a saved filter depends on: the same event must have the same key in every
    /// run.
    pub fn key_identity(&self) -> String {
        let mut key = self.key_names();
        if key.is_empty() && !self.is_whole() {
            key = self.format().default_key().iter().map(|field| (*field).to_owned()).collect();
        }
        let normalize = if self.normalize.is_some() { " normalized as url" } else { "" };
        match key.len() {
            0 if self.ignore.is_empty() => format!("whole records{normalize}"),
            0 => format!("whole records without {}{normalize}", joined_names(&self.ignored_names())),
            _ => format!("{}{normalize}", joined_names(&key)),
        }
    }

    /// An error of the parser; where no flag names the format, and the input did not show it, that is said too.
    fn with_doubt(&self, error: &ConfigError) -> String {
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
