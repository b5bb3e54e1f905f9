//! Flags that describe the input.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use firstseen_filter::FilterSecret;
use firstseen_records::{KeyNormalization, ParserConfig, RecordFormat, RecordParser, TimeFormat};

use crate::exit::UsageError;
use crate::flags::names::split_names;
use crate::input::{Reading, Times, is_stdin, stdin_file_bytes};

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
    /// Files to read, one after the other; `-` is standard input. gzip and zstd are recognised by content
    #[arg(value_name = "FILE", default_value = "-")]
    pub files: Vec<PathBuf>,
    /// How records are written: lines, csv, tsv, jsonl, clf (common and combined log), cdxj (Common Crawl index)
    #[arg(long, default_value = "lines", value_parser = parse_format)]
    pub format: RecordFormat,
    /// Fields that make the key, by header name, JSON field, log field or 1-based number; all must be equal.
    /// By default the whole record; of a log line `host,request`, of an index line `urlkey`. In JSON `user.id` is the
    /// member `id` of the object `user`
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    pub key: Vec<String>,
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
    /// Make spellings of one key equal: `url` (rules in docs/normalize.md)
    #[arg(long, value_name = "RULES", value_parser = parse_normalization)]
    pub normalize: Option<KeyNormalization>,
}

pub(crate) fn parse_format(name: &str) -> Result<RecordFormat, String> {
    name.parse().map_err(|error: firstseen_records::ConfigError| error.to_string())
}

fn parse_time_format(format: &str) -> Result<TimeFormat, String> {
    format.parse().map_err(|error: firstseen_records::ConfigError| error.to_string())
}

fn parse_normalization(name: &str) -> Result<KeyNormalization, String> {
    match name {
        "url" => Ok(KeyNormalization::Url),
        _ => Err(format!("`{name}` is no set of rules: choose url")),
    }
}

impl InputArgs {
    /// The parser that the flags describe. It reads times where `reads_time`, which is where the window uses them.
    pub fn parser_config(&self, reads_time: bool) -> ParserConfig {
        let own_time = self.format.default_time().filter(|_| reads_time).map(str::to_owned);
        let mut time_fields = self.time.as_deref().map_or_else(Vec::new, split_names).into_iter();
        ParserConfig {
            key: self.key.clone(),
            time: time_fields.next().or(own_time),
            time_rest: time_fields.collect(),
            time_format: self.time_format.clone(),
            source: self.source.clone(),
            no_header: self.no_header,
            zone: self.tz.clone(),
            normalization: self.normalize.unwrap_or(KeyNormalization::None),
            ..ParserConfig::new(self.format)
        }
    }

    /// Where times come from. `needs_time` names the part that needs them, and the flag to use where no record has one.
    ///
    /// # Errors
    /// Where the time is missing, or asked for twice.
    pub fn times(&self, needs_time: Option<NeedsTime<'_>>) -> anyhow::Result<Times> {
        let names_field = self.time.is_some();
        let has_field = names_field || self.format.default_time().is_some();
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
        Ok(RecordParser::new(config, secret).map_err(|error| UsageError(error.to_string()))?)
    }

    /// What is read, and how; `times` as [`Self::times`] gives them.
    pub fn reading(&self, parser: RecordParser, times: Times) -> Reading {
        let by_arrival = times == Times::Arrival;
        Reading { files: self.files.clone(), format: self.format, parser, by_arrival }
    }

    /// The settings that make the key, which a saved filter depends on: the same event must have the same key in every
    /// run.
    pub fn key_identity(&self) -> String {
        let format_key: Vec<String> = self.format.default_key().iter().map(|field| (*field).to_owned()).collect();
        let key = if self.key.is_empty() { &format_key } else { &self.key };
        let normalize = if self.normalize.is_some() { " normalized as url" } else { "" };
        match key.len() {
            0 => format!("whole records{normalize}"),
            1 => format!("{}{normalize}", key[0]),
            _ => format!("{}{normalize}", key.join(",")),
        }
    }
}
