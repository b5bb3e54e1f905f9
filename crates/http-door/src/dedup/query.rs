//! From the query of a `dedup` to the parser of its records.
//!
//! Promises: the options have the names and meanings of the flags of `firstseen dedup`; one that does not exist is refused by name.
//! This module must not depend on bodies.

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

/// Bytes that a block of records should have.
const BLOCK_BYTES: usize = 256 << 10;
/// The options that the query may have.
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

/// What becomes of a record that cannot be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unjudged {
    /// It is passed on: nothing is lost.
    #[default]
    Pass,
    /// It is dropped.
    Drop,
}

/// The query, for the OpenAPI document. [`DedupOptions::read`] reads it.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)]
pub(crate) struct DedupQuery {
    /// How records are written; by default as lines.
    #[param(inline, value_type = FormatName, required = false)]
    format: Option<FormatName>,
    /// The fields that make the key, separated by commas; by default the key of the format.
    #[param(value_type = String, required = false)]
    key: Option<String>,
    /// Fields that are no part of the key, where that is the whole record.
    #[param(value_type = String, required = false)]
    ignore: Option<String>,
    /// The field of the time, or several; by default that of the format, or the time at which a record comes.
    #[param(value_type = String, required = false)]
    time: Option<String>,
    /// The only form of times: epoch, epoch-ms, epoch-us, epoch-ns, or a pattern of strftime.
    #[param(value_type = String, required = false)]
    time_format: Option<String>,
    /// The zone of times that do not name theirs; by default UTC.
    #[param(value_type = String, required = false)]
    tz: Option<String>,
    /// The character between two fields, tab or space.
    #[param(value_type = String, required = false, pattern = "^([\\x20-\\x7e]|tab|space)$")]
    separator: Option<String>,
    /// Whether csv and tsv begin with a record.
    #[param(value_type = bool, required = false)]
    no_header: Option<bool>,
    /// With url, spellings of one URL are one key.
    #[param(inline, value_type = NormalizeName, required = false)]
    normalize: Option<NormalizeName>,
    /// What becomes of a record whose key has no value: it cannot be judged, or the empty value is a value.
    #[param(inline, value_type = EmptyKeyName, required = false)]
    empty_key: Option<EmptyKeyName>,
    /// What becomes of a row with another number of fields: it is rejected, or padded.
    #[param(inline, value_type = RaggedName, required = false)]
    ragged: Option<RaggedName>,
    /// What becomes of a record that cannot be judged: it is passed on, or dropped.
    #[param(inline, value_type = UnjudgedName, required = false)]
    unjudged: Option<UnjudgedName>,
}

/// The header about the body, for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(crate) struct DedupHeaders {
    /// How the body is compressed.
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

/// The sets of rules by which keys are normalized; without the option, none is.
const NORMALIZATIONS: [(&str, KeyNormalization); 2] = [("", KeyNormalization::None), ("url", KeyNormalization::Url)];

/// The options that a query gives, each once.
struct Given(Vec<(String, String)>);

impl Given {
    /// Reads the options.
    ///
    /// # Errors
    /// An option that does not exist, or comes twice.
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

    /// Returns the names in the list of an option, or none if it is not given.
    fn names(&self, option: &str) -> Vec<String> {
        self.value(option).map_or_else(Vec::new, split_names)
    }

    /// Returns what the value of an option stands for; the first of `known` if it is not given.
    ///
    /// # Errors
    /// Another value.
    fn one_of<T: Copy>(&self, option: &str, known: &[(&str, T)]) -> Result<T, Problem> {
        let value = self.value(option).or(known.first().map(|(value, _)| *value)).unwrap_or_default();
        known.iter().find(|(known, _)| *known == value).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|(value, _)| *value).filter(|value| !value.is_empty()).collect();
            wrong(option, &format_args!("`{value}` is not known: give {}", known.join(" or ")))
        })
    }
}

/// How records are read, and what becomes of those that cannot be judged.
#[derive(Debug)]
pub(crate) struct DedupOptions {
    config: ParserConfig,
    /// Whether records name the field of their time, or their format has one.
    has_times: bool,
    /// Whether the query names the field of the time.
    names_time: bool,
    pub(crate) unjudged: Unjudged,
    pub(crate) compression: Compression,
}

impl DedupOptions {
    /// Reads the options of a request.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(query: Option<&str>, headers: &HeaderMap) -> Result<Self, Problem> {
        let given = Given::read(query)?;
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
        // What is wrong with the options is told before a filter is looked for.
        options.parser(FilterSecret::from_seed(0), true)?;
        Ok(options)
    }

    /// Whether records bring their times.
    pub(crate) fn has_times(&self) -> bool {
        self.has_times
    }

    /// Checks whether the filter takes the times of records, if the query names their field: `takes_times` tells.
    ///
    /// # Errors
    /// The filter stamps events itself.
    pub(crate) fn check_times(&self, filter: &str, takes_times: bool) -> Result<(), Problem> {
        if self.names_time && !takes_times {
            return Err(Problem::impossible(format_args!(
                "filter `{filter}` counts from the moment at which a record comes: leave time out of the query, or create a filter \
                 with --clock event"
            )));
        }
        Ok(())
    }

    /// The parser of the records, which hashes keys with this secret. It reads times if `reads_times`.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub(crate) fn parser(&self, secret: FilterSecret, reads_times: bool) -> Result<RecordParser, Problem> {
        let mut config = self.config.clone();
        if !reads_times {
            (config.time, config.time_rest) = (None, Vec::new());
        }
        RecordParser::new(config, secret).map_err(|error| Problem::impossible(format_args!("query: {error}")))
    }

    /// How the body is cut into records.
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

/// The names in a list; a comma in a name is written `\,`.
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

/// The compression of the body.
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
            "header Content-Encoding: the door takes gzip, zstd or identity, one of them",
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
