//! Parses the query of a `dedup` request, and creates the parser of its records.
//!
//! The options in the query of a `dedup` request have the same names and meanings as the flags of the command
//! `firstseen dedup`. An unknown option is rejected with an error that names the option.
//!
//! This module does not depend on bodies.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use firstseen_filter::FilterSecret;
use firstseen_records::{
    BlockOptions, Compression, EmptyKey, KeyNormalization, ParserConfig, Ragged, RecordFormat, RecordParser,
};
use url::form_urlencoded;
use utoipa::{IntoParams, ToSchema};

use crate::limits::RECORD_BYTES_MAX;
use crate::problem::{Problem, ProblemKind};

/// Preferred size of a block of records, in bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Options that the query may have.
const OPTIONS: [&str; 12] = [
    "format",
    "key",
    "ignore",
    "time",
    "time_format",
    "tz",
    "separator",
    "no_header",
    "normalize",
    "empty_key",
    "ragged",
    "unjudged",
];

/// Handling of a record that cannot be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unjudged {
    /// The record is sent back, so nothing is lost.
    #[default]
    Pass,
    /// The record is dropped.
    Drop,
}

/// Query of a `dedup` request, as the OpenAPI document describes it. [`DedupOptions::read`] parses the query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)]
pub(crate) struct DedupQuery {
    /// Format of the records. The default is `lines`.
    #[param(inline, value_type = FormatName, required = false)]
    format: Option<FormatName>,
    /// Fields that make up the key, separated by commas. The default is the key of the format.
    #[param(value_type = String, required = false)]
    key: Option<String>,
    /// Fields that are not part of the key, if the key is the whole record.
    #[param(value_type = String, required = false)]
    ignore: Option<String>,
    /// Field or fields that contain the time. The default is the time field of the format, or otherwise the time at
    /// which a record arrives.
    #[param(value_type = String, required = false)]
    time: Option<String>,
    /// Only accepted form of times: epoch, epoch-ms, epoch-us, epoch-ns, or a pattern of strftime.
    #[param(value_type = String, required = false)]
    time_format: Option<String>,
    /// Time zone of times that do not name one. The default is UTC.
    #[param(value_type = String, required = false)]
    tz: Option<String>,
    /// Character between two fields. The values `tab` and `space` are also accepted.
    #[param(value_type = String, required = false, pattern = "^([\\x20-\\x7e]|tab|space)$")]
    separator: Option<String>,
    /// Whether csv and tsv data begin with a record instead of a header.
    #[param(value_type = bool, required = false)]
    no_header: Option<bool>,
    /// Normalization of keys. With `url`, different spellings of the same URL have the same key.
    #[param(inline, value_type = NormalizeName, required = false)]
    normalize: Option<NormalizeName>,
    /// Handling of a record whose key is empty. Either the record cannot be judged, or the empty value is a key like
    /// any other.
    #[param(inline, value_type = EmptyKeyName, required = false)]
    empty_key: Option<EmptyKeyName>,
    /// Handling of a row with a different number of fields. The row is either rejected or padded.
    #[param(inline, value_type = RaggedName, required = false)]
    ragged: Option<RaggedName>,
    /// Handling of a record that cannot be judged. The record is either sent back or dropped.
    #[param(inline, value_type = UnjudgedName, required = false)]
    unjudged: Option<UnjudgedName>,
}

/// Header about the body, as the OpenAPI document describes it.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(crate) struct DedupHeaders {
    /// Compression of the body.
    #[param(rename = "Content-Encoding", inline, value_type = EncodingName, required = false)]
    content_encoding: Option<EncodingName>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum FormatName {
    Lines,
    Csv,
    Tsv,
    W3c,
    Jsonl,
    Clf,
    Cdxj,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum UnjudgedName {
    Pass,
    Drop,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum EmptyKeyName {
    Pass,
    Value,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum RaggedName {
    Reject,
    Pad,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum NormalizeName {
    Url,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum EncodingName {
    Identity,
    Gzip,
    Zstd,
}

/// Rules by which keys are normalized. Without the option, keys are not changed.
const NORMALIZATIONS: [(&str, KeyNormalization); 2] = [("", KeyNormalization::None), ("url", KeyNormalization::Url)];

/// Options that a query contains. Each option occurs only once.
struct QueryOptions(Vec<(String, String)>);

impl QueryOptions {
    /// Parses the options.
    ///
    /// # Errors
    /// Returns a problem if an option is unknown or occurs twice.
    fn read(query: Option<&str>) -> Result<Self, Problem> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !OPTIONS.contains(&&*name) {
                let known = OPTIONS.join("`, `");
                return Err(Problem::malformed(format_args!(
                    "query: `{name}` is no option of dedup; its options are `{known}`"
                )));
            }
            if given.iter().any(|(before, _)| *before == name) {
                return Err(Problem::malformed(format_args!("query: {name} comes twice; give it once")));
            }
            given.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(given))
    }

    fn value(&self, option: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == option).map(|(_, value)| value.as_str())
    }

    /// Returns the names in the list of an option. The list is empty if the option is not set.
    fn names(&self, option: &str) -> Vec<String> {
        self.value(option).map_or_else(Vec::new, split_names)
    }

    /// Returns the meaning of an option's value. If the option is not set, returns the meaning of the first entry of
    /// `known`.
    ///
    /// # Errors
    /// Returns a problem if the value is not in `known`.
    fn one_of<T: Copy>(&self, option: &str, known: &[(&str, T)]) -> Result<T, Problem> {
        let value = self.value(option).or(known.first().map(|(value, _)| *value)).unwrap_or_default();
        known.iter().find(|(known, _)| *known == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|(value, _)| *value).filter(|value| !value.is_empty()).collect();
            wrong(option, &format_args!("`{value}` is not known: give {}", known.join(" or ")))
        })
    }
}

/// Options for parsing records, and for the handling of records that cannot be judged.
#[derive(Debug)]
pub(crate) struct DedupOptions {
    config: ParserConfig,
    /// Whether records carry times, because the query names a time field or the format has one.
    has_times: bool,
    /// Whether the query names the time field.
    names_time: bool,
    pub(crate) unjudged: Unjudged,
    pub(crate) compression: Compression,
}

impl DedupOptions {
    /// Parses the options of a request.
    ///
    /// # Errors
    /// Returns a problem that says what is wrong with the options.
    pub(crate) fn read(query: Option<&str>, headers: &HeaderMap) -> Result<Self, Problem> {
        let given = QueryOptions::read(query)?;
        let format: RecordFormat =
            given.value("format").unwrap_or("lines").parse().map_err(|error| wrong("format", &error))?;
        let mut times = given.names("time").into_iter();
        let own_time = format.default_time().map(str::to_owned);
        let time = times.next().or(own_time);
        let config = ParserConfig {
            key: given.names("key"),
            time: time.clone(),
            time_rest: times.collect(),
            time_format: given
                .value("time_format")
                .map(str::parse)
                .transpose()
                .map_err(|error| Problem::impossible(format_args!("query: time_format: {error}")))?,
            no_header: given.one_of("no_header", &[("false", false), ("true", true)])?,
            zone: given.value("tz").unwrap_or("UTC").to_owned(),
            normalization: given.one_of("normalize", &NORMALIZATIONS)?,
            separator: given.value("separator").map(separator).transpose()?,
            ignore: given.names("ignore"),
            empty_key: given.one_of("empty_key", &[("pass", EmptyKey::Pass), ("value", EmptyKey::Value)])?,
            ragged: given.one_of("ragged", &[("reject", Ragged::Reject), ("pad", Ragged::Pad)])?,
            ..ParserConfig::new(format)
        };
        let options = Self {
            config,
            has_times: time.is_some(),
            names_time: given.value("time").is_some(),
            unjudged: given.one_of("unjudged", &[("pass", Unjudged::Pass), ("drop", Unjudged::Drop)])?,
            compression: compression(headers)?,
        };
        // The options are checked completely before the filter is looked up.
        options.parser(FilterSecret::from_seed(0), true)?;
        Ok(options)
    }

    /// Returns whether records carry their times.
    pub(crate) fn has_times(&self) -> bool {
        self.has_times
    }

    /// Checks whether the filter accepts the times of records, if the query names their field. `takes_times` tells
    /// whether it does.
    ///
    /// # Errors
    /// Returns a problem if the nodes of the filter stamp events themselves.
    pub(crate) fn check_times(&self, filter: &str, takes_times: bool) -> Result<(), Problem> {
        if self.names_time && !takes_times {
            return Err(Problem::impossible(format_args!(
                "filter `{filter}` uses the time at which a record arrives: leave time out of the query, or create a filter with --clock event"
            )));
        }
        Ok(())
    }

    /// Creates the parser of the records, which hashes keys with this secret. The parser reads times if `reads_times`
    /// is set.
    ///
    /// # Errors
    /// Returns a problem if options contradict each other.
    pub(crate) fn parser(&self, secret: FilterSecret, reads_times: bool) -> Result<RecordParser, Problem> {
        let mut config = self.config.clone();
        if !reads_times {
            (config.time, config.time_rest) = (None, Vec::new());
        }
        RecordParser::new(config, secret).map_err(|error| Problem::impossible(format_args!("query: {error}")))
    }

    /// Returns how the body is divided into blocks of records.
    pub(crate) fn blocks(&self) -> BlockOptions {
        let options = BlockOptions::for_format(self.config.format);
        BlockOptions {
            block_bytes_target: BLOCK_BYTES,
            record_bytes_max: RECORD_BYTES_MAX,
            separator: self.config.separator.unwrap_or(options.separator),
            ..options
        }
    }
}

fn wrong(option: &str, what: &dyn std::fmt::Display) -> Problem {
    Problem::malformed(format_args!("query: {option}: {what}"))
}

fn separator(text: &str) -> Result<u8, Problem> {
    match (text, text.as_bytes()) {
        ("tab", _) => Ok(b'\t'),
        ("space", _) => Ok(b' '),
        (_, [byte]) => Ok(*byte),
        _ => Err(wrong("separator", &"give one character, tab or space")),
    }
}

/// Returns the names in a comma-separated list. A comma inside a name is written as `\,`.
fn split_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&',') => {
                letters.next();
                name.push(',');
            }
            ',' => names.push(std::mem::take(&mut name)),
            letter => name.push(letter),
        }
    }
    names.push(name);
    names
}

/// Returns the compression of the body.
fn compression(headers: &HeaderMap) -> Result<Compression, Problem> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let value = values.next();
    let more = values.next();
    match (value.map(|value| value.as_bytes().to_ascii_lowercase()).as_deref(), more) {
        (None | Some(b"identity"), None) => Ok(Compression::Plain),
        (Some(b"gzip" | b"x-gzip"), None) => Ok(Compression::Gzip),
        (Some(b"zstd"), None) => Ok(Compression::Zstd),
        _ => Err(Problem::new(
            ProblemKind::UnsupportedMediaType,
            "header Content-Encoding: give one of gzip, zstd and identity",
        )),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(query: &str) -> Result<DedupOptions, Problem> {
        DedupOptions::read(Some(query), &HeaderMap::new())
    }

    #[test]
    fn options_are_those_of_the_command() {
        let options = read("format=jsonl&key=user,ad&time=ts&tz=Europe/Berlin&unjudged=drop").unwrap();
        let config = &options.config;
        assert_eq!((config.format, &config.key), (RecordFormat::Jsonl, &vec!["user".to_owned(), "ad".to_owned()]));
        assert_eq!(
            (config.time.as_deref(), &*config.zone, options.unjudged),
            (Some("ts"), "Europe/Berlin", Unjudged::Drop)
        );
        let lines = DedupOptions::read(None, &HeaderMap::new()).unwrap();
        assert!(!lines.has_times() && lines.unjudged == Unjudged::Pass && lines.compression == Compression::Plain);
        assert!(read("format=clf").unwrap().has_times());
        let csv = read("format=csv&separator=%3B&no_header=true").unwrap();
        assert_eq!((csv.blocks().separator, csv.config.no_header), (b';', true));
    }

    #[test]
    fn options_that_cannot_be_meant_are_refused() {
        for (query, why) in [
            ("keys=a", "`keys` is no option of dedup"),
            ("format=xml", "format"),
            ("format=jsonl&format=csv", "comes twice"),
            ("tz=Nowhere/Land", "query: "),
            ("format=jsonl&separator=%3B", "query: "),
            ("separator=abc", "one character"),
            ("normalize=all", "give url"),
            ("no_header=yes", "give false or true"),
            ("unjudged=fail", "give pass or drop"),
            ("time_format=%25Q%25Q", "time_format"),
            ("format=lines&key=user", "query: "),
        ] {
            let problem = read(query).unwrap_err();
            assert!(problem.detail().contains(why), "{query}: {problem:?}");
        }
    }

    #[test]
    fn names_are_split_at_commas() {
        assert_eq!(split_names(r"a,b\,c,"), ["a", "b,c", ""]);
        assert_eq!(split_names(r"a\b"), [r"a\b"]);
    }

    #[test]
    fn only_some_encodings_are_taken() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            compression(&headers)
        };
        assert_eq!(with("GZIP"), Ok(Compression::Gzip));
        assert_eq!(with("zstd"), Ok(Compression::Zstd));
        assert_eq!(with("identity"), Ok(Compression::Plain));
        assert!(with("br").is_err() && with("gzip, zstd").is_err());
    }
}
