//! The formats of records, and the defaults of each format. This module does not depend on how a format is parsed.

use crate::ConfigError;

/// Format of the records in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// Each line is a record. Its only field is called `line`.
    Lines,
    /// Comma-separated values with quotes as in RFC 4180. Newlines in quotes belong to the record.
    Csv,
    /// Tab-separated values. Quotes have no special meaning.
    Tsv,
    /// Extended log format of the W3C, which IIS writes. Blanks separate the values, and `-` stands for a missing
    /// value. The comment line `#Fields: ...` names the fields of the lines after it. A file may contain several such
    /// comments with different names.
    W3c,
    /// One JSON object per line. A field is selected by its name or by a dotted path (`user.id`), and a dot that
    /// belongs to a name is written `\.`. If a selected name occurs twice in a record, its value is ambiguous, so the
    /// record is rejected. If the whole record is the key, two records are equal if their JSON values are equal. The
    /// order of the members does not matter.
    Jsonl,
    /// Common log format and combined log format of web servers. The fields are `host` (or `ip`), `ident`, `user`,
    /// `time`, `request`, `status`, `bytes` (`size`), `referer` (`referrer`) and `agent` (`user_agent`). The text `-`
    /// stands for a missing value.
    ///
    /// The parts of the request can also be selected, as `method`, `path` (`url`) and `protocol`. Some servers write
    /// the name of a virtual host in front of the host. This name is the field `vhost`.
    ///
    /// A field can also be selected by its position in the line. This is the only way to select the fields that some
    /// servers add at the end of the line.
    Clf,
    /// Common Crawl index lines of the form `urlkey timestamp {json}`. Other names are looked up in the JSON object.
    Cdxj,
}

impl RecordFormat {
    /// All formats, in the order in which help texts list them.
    pub const ALL: [Self; 7] = [Self::Lines, Self::Csv, Self::Tsv, Self::W3c, Self::Jsonl, Self::Clf, Self::Cdxj];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::W3c => "w3c",
            Self::Jsonl => "jsonl",
            Self::Clf => "clf",
            Self::Cdxj => "cdxj",
        }
    }

    /// Returns the key fields that are used if the user names none. An empty result means the whole record without its
    /// line end.
    ///
    /// A line of a web server log or of the Common Crawl index contains its time, so whole lines are rarely equal. The
    /// default key is therefore a part of the line. For `clf`, it consists of the client and the request. For `cdxj`,
    /// it is the canonical URL.
    ///
    /// ```
    /// use firstseen_records::RecordFormat;
    /// assert_eq!(RecordFormat::Clf.default_key(), ["host", "request"]);
    /// assert!(RecordFormat::Csv.default_key().is_empty());
    /// ```
    pub fn default_key(self) -> &'static [&'static str] {
        match self {
            Self::Clf => &["host", "request"],
            Self::Cdxj => &["urlkey"],
            Self::Lines | Self::Csv | Self::Tsv | Self::W3c | Self::Jsonl => &[],
        }
    }

    /// Returns the field that always contains the time in this format, if there is such a field.
    pub fn default_time(self) -> Option<&'static str> {
        match self {
            Self::Clf => Some("time"),
            Self::Cdxj => Some("timestamp"),
            Self::Lines | Self::Csv | Self::Tsv | Self::W3c | Self::Jsonl => None,
        }
    }

    /// Returns whether the first record of a file names the fields, unless the user says otherwise.
    pub fn has_header(self) -> bool {
        self.default_separator().is_some()
    }

    /// Returns the byte between the fields of a record, unless the user says otherwise. `None` means that the format
    /// has no separated fields.
    pub fn default_separator(self) -> Option<u8> {
        match self {
            Self::Csv => Some(b','),
            Self::Tsv => Some(b'\t'),
            Self::W3c => Some(b' '),
            Self::Lines | Self::Jsonl | Self::Clf | Self::Cdxj => None,
        }
    }

    /// Returns whether a record may end with a NUL byte instead of a newline, so that it can contain newlines.
    pub fn may_end_with_nul(self) -> bool {
        matches!(self, Self::Lines | Self::Jsonl)
    }

    /// Returns whether a record with a NUL byte must be rejected although the parser of this format accepts the byte.
    pub(crate) fn forbids_nul(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::W3c | Self::Clf | Self::Cdxj)
    }

    /// Returns whether a record may contain a newline between quotes.
    pub fn has_quoted_newlines(self) -> bool {
        self == Self::Csv
    }
}

impl std::fmt::Display for RecordFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for RecordFormat {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| ConfigError::UnknownFormat { format: name.into() })
    }
}
