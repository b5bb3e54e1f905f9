//! The formats of records, and the defaults of each. Must not know: how any of them is parsed.

use crate::ConfigError;

/// How records are written in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// A record is a line; its only field is called `line`.
    Lines,
    /// Comma-separated values with quotes as in RFC 4180; quoted newlines belong to the record.
    Csv,
    /// Tab-separated values; a quote is a byte like any other.
    Tsv,
    /// Extended log format of the W3C, as IIS writes it: values separated by blanks; the comment line `#Fields: ...`
    /// names the fields, also where it comes again later with others, and `-` is no value.
    W3c,
    /// One JSON object a line. Fields are selected by name or by dotted path (`user.id`; a dot in a name is written
    /// `\.`). A record is rejected if a selected name occurs twice. As whole records, objects are equal if their values
    /// are, whatever the order of their members.
    Jsonl,
    /// The common log format, and the combined one, of web servers: `host` (or `ip`), `ident`, `user`, `time`,
    /// `request`, `status`, `bytes` (`size`), `referer` (`referrer`), `agent` (`user_agent`), then what a server adds;
    /// `method`, `path` (`url`) and `protocol` are the parts of the request, `vhost` is the virtual host in front of the
    /// host, where the line has one. A number is the place of a field in the line. `-` is no value.
    Clf,
    /// Common Crawl index lines: `urlkey timestamp {json}`; other names are looked up in the JSON object.
    Cdxj,
}

impl RecordFormat {
    /// All formats, in the order in which help texts list them.
    pub const ALL: [Self; 7] = [Self::Lines, Self::Csv, Self::Tsv, Self::W3c, Self::Jsonl, Self::Clf, Self::Cdxj];

    /// The name on the command line.
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

    /// The key fields where the user names none; empty: the whole record without its line end.
    ///
    /// A log line or an index line contains its time, so whole lines would never repeat: there the key is the client
    /// with its request (`clf`), or the canonical URL (`cdxj`).
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

    /// The field that always holds the time in this format, if there is one.
    pub fn default_time(self) -> Option<&'static str> {
        match self {
            Self::Clf => Some("time"),
            Self::Cdxj => Some("timestamp"),
            Self::Lines | Self::Csv | Self::Tsv | Self::W3c | Self::Jsonl => None,
        }
    }

    /// Whether the first record of a file names the fields, unless the user says otherwise.
    pub fn has_header(self) -> bool {
        self.default_separator().is_some()
    }

    /// The byte between the fields of a record, unless the user says otherwise; `None` where the format has none.
    pub fn default_separator(self) -> Option<u8> {
        match self {
            Self::Csv => Some(b','),
            Self::Tsv => Some(b'\t'),
            Self::W3c => Some(b' '),
            Self::Lines | Self::Jsonl | Self::Clf | Self::Cdxj => None,
        }
    }

    /// Whether a record may end with a NUL byte instead of a newline, and hold newlines.
    pub fn may_end_with_nul(self) -> bool {
        matches!(self, Self::Lines | Self::Jsonl)
    }

    /// Whether a NUL byte makes a record unreadable, and parsing does not find that out by itself.
    pub(crate) fn forbids_nul(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::W3c | Self::Clf | Self::Cdxj)
    }

    /// Whether a newline may stand inside a record, between quotes.
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
