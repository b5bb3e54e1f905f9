//! Flags that say what the input is.

use std::path::PathBuf;

use clap::Args;
use firstseen_filter::FilterSecret;
use firstseen_records::{KeyNormalization, ParserConfig, RecordFormat, RecordParser};

use crate::exit::UsageError;

/// What to read.
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
    /// By default the whole record; of a log line `host,request`, of an index line `urlkey`
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    pub key: Vec<String>,
    /// Field that holds the time: seconds or milliseconds since 1970, RFC 3339, log time, or
    /// `YYYY-MM-DD hh:mm:ss`. Log and index lines have theirs
    #[arg(long, value_name = "FIELD")]
    pub time: Option<String>,
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

fn parse_normalization(name: &str) -> Result<KeyNormalization, String> {
    match name {
        "url" => Ok(KeyNormalization::Url),
        _ => Err(format!("`{name}` is no set of rules: choose url")),
    }
}

impl InputArgs {
    /// The parser that the flags describe. The time is read where `needs_time` says that the window uses it.
    pub fn parser_config(&self, needs_time: bool) -> ParserConfig {
        let own_time = self.format.default_time().filter(|_| needs_time).map(str::to_owned);
        ParserConfig {
            key: self.key.clone(),
            time: self.time.clone().or(own_time),
            source: self.source.clone(),
            no_header: self.no_header,
            zone: self.tz.clone(),
            normalization: self.normalize.unwrap_or(KeyNormalization::None),
            ..ParserConfig::new(self.format)
        }
    }

    /// The parser that the flags describe. `needs_time` says what needs to know when events occurred, and what to ask
    /// for where nothing tells.
    ///
    /// # Errors
    /// Where the time is missing, or the flags do not fit the format.
    pub fn parser(&self, needs_time: Option<(&str, &str)>, secret: FilterSecret) -> anyhow::Result<RecordParser> {
        let config = self.parser_config(needs_time.is_some());
        match needs_time {
            Some((what, instead)) if config.time.is_none() => Err(UsageError(format!(
                "{what} needs to know when events occurred: name the field with --time, or {instead}"
            ))
            .into()),
            _ => Ok(RecordParser::new(config, secret).map_err(|error| UsageError(error.to_string()))?),
        }
    }

    /// What of the input a saved filter depends on: the same event must have the same key in every run.
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
