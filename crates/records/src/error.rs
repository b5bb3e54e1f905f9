//! Errors of the configuration ([`ConfigError`], which end the run) and of one record ([`RejectReason`], the run goes
//! on). Must not know: where the record is; its place stands beside the reason.

use std::sync::Arc;

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// No known form.
    #[error("is no time in any known form: describe the form with --time-format, such as '%d.%m.%Y %H:%M:%S'")]
    Unrecognised,
    /// A known form, with a month 13 or a minute 60.
    #[error(
        "names a date or a time of day that does not exist: if it is meant in another form, describe that with \
         --time-format"
    )]
    NoSuchTime,
    /// Before 1970 or after 9999.
    #[error(
        "is before 1970 or after 9999: if it is a number in another unit, name that with --time-format epoch, epoch-ms, \
         epoch-us or epoch-ns"
    )]
    OutOfRange,
    /// A date that can be read in more than one way.
    #[error(
        "may begin with its day or with its month: say which with --time-format, such as '%d/%m/%Y' or '%m/%d/%Y %H:%M:%S'"
    )]
    Ambiguous,
    /// A date without a year, as in the traditional form of syslog.
    #[error(
        "has no year, which is not guessed: have the log written with years (ISO 8601), or time records as they come \
         with --clock wall"
    )]
    NoYear,
    /// A time of day without a date.
    #[error("is a time of day without a date: if the date is in another field, name both with --time DATE,TIME")]
    NoDate,
    /// An abbreviation of a zone that is not known, or has several meanings.
    #[error(
        "ends in the abbreviation of a zone that is not known or has several meanings: name the zone with --tz, such as \
         --tz America/Chicago, or describe the form with --time-format"
    )]
    UnknownZone,
    /// Another form than the one that was asked for.
    #[error("is not written in the form that --time-format describes")]
    NotInFormat,
}

/// Why a parser cannot be built, or cannot go on with this file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such format.
    #[error("there is no format `{format}`: choose lines, csv, tsv, w3c, jsonl, clf or cdxj")]
    UnknownFormat {
        /// The name that was given.
        format: String,
    },
    /// A field that the records of this input do not have.
    #[error("there is no field `{field}`{}; the fields are {available}", did_you_mean(.suggestion))]
    UnknownField {
        /// The field that was asked for.
        field: String,
        /// The names that exist, separated by commas.
        available: String,
        /// The nearest name, if one is near.
        suggestion: Option<String>,
    },
    /// Two columns have the name that was asked for.
    #[error("two columns are called `{field}`: name one of them by its number, {first} or {second}")]
    AmbiguousField {
        /// The name.
        field: String,
        /// The number of the first such column, from 1.
        first: usize,
        /// The number of the second such column.
        second: usize,
    },
    /// A field that a header of one column lacks, which seems to be parted by another separator.
    #[error(
        "there is no field `{field}`: the header has one column, `{header}`; if `{separator}` separates its fields, say \
         --separator '{separator}'"
    )]
    OneColumn {
        /// The field that was asked for.
        field: String,
        /// The header.
        header: String,
        /// The separator that the header seems to have, as the flag takes it.
        separator: &'static str,
    },
    /// A byte that cannot separate fields.
    #[error("{shown} cannot separate fields: a separator is one byte, and no quote, line break or comment sign")]
    BadSeparator {
        /// The byte as it is written in a message.
        shown: String,
    },
    /// A separator for a format that has its own.
    #[error("records in format {format} have no separator to choose: it is for csv, tsv and w3c")]
    NoSeparator {
        /// The name of the format.
        format: &'static str,
    },
    /// Fields to ignore where the key is not the whole record.
    #[error("fields are ignored where the whole record is the key: name the fields of the key, or those to ignore")]
    IgnoredWithKey,
    /// Fields to ignore in a format without fields for that.
    #[error("fields of records in format {format} cannot be ignored: this is for csv, tsv, w3c and jsonl")]
    CannotIgnore {
        /// The name of the format.
        format: &'static str,
    },
    /// All fields are to be ignored.
    #[error("all {columns} fields are ignored, so that records have no key")]
    NothingLeft {
        /// Fields of a record.
        columns: usize,
    },
    /// Rows with more fields than can be told apart.
    #[error("a row has {fields} fields: fields are ignored among {fields_max} at most")]
    TooManyFields {
        /// Fields of a row.
        fields: usize,
        /// The limit.
        fields_max: usize,
    },
    /// A record has no key, and was to end the run.
    #[error("line {line}: its key field `{field}` has no value, and --empty-key fail ends the run there")]
    EmptyKey {
        /// The line on which the record begins.
        line: u64,
        /// The field as the user named it.
        field: Arc<str>,
    },
    /// The lines of a file that says its fields by `#Fields:` begin before that.
    #[error(
        "line {line}: a record comes before the line `#Fields: ...`, which names the fields (--no-header: use numbers)"
    )]
    NoFieldsLine {
        /// The line of the record.
        line: u64,
    },
    /// A field that has no value in any record of the whole input.
    #[error("the field `{field}` has no value in any record (--empty-key value takes an empty value for a key)")]
    NoRecordHasValue {
        /// The field that was asked for.
        field: String,
    },
    /// A field that was in no record of the whole input.
    #[error("no record has the field `{field}`{}{}", did_you_mean(.suggestion), fields(.available))]
    NoRecordHas {
        /// The field that was asked for.
        field: String,
        /// The names in the first record, separated by commas, where records name their fields.
        available: Option<String>,
        /// The nearest name, if one is near.
        suggestion: Option<String>,
    },
    /// A field was named although there is no header.
    #[error("there is no field `{field}`: without a header, fields are numbers from 1 to {index_max}")]
    NotAnIndex {
        /// The field that was asked for.
        field: String,
        /// The greatest number.
        index_max: usize,
    },
    /// A field name that cannot be read: empty, or an empty step in a dotted path.
    #[error("`{field}` is no field name: it has an empty part (a dot that belongs to a name is written `\\.`)")]
    EmptyName {
        /// The field that was asked for.
        field: String,
    },
    /// No such time zone.
    #[error("there is no time zone `{zone}`{}: use an IANA name such as Europe/Berlin", did_you_mean(.suggestion))]
    UnknownTimeZone {
        /// The zone that was asked for.
        zone: String,
        /// The nearest name, if one is near.
        suggestion: Option<String>,
    },
    /// A form of times that cannot be used.
    #[error(
        "times in the form `{format}` cannot be read: {reason}; use epoch, epoch-ms, epoch-us, epoch-ns or a pattern \
         such as '%d.%m.%Y %H:%M:%S'"
    )]
    BadTimeFormat {
        /// The form that was asked for.
        format: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A further file's header names other fields than the first one's.
    #[error(
        "the header differs from the first file's: `{other}` instead of `{first}`; \
         give files of one shape, or use numbers and say that there is no header"
    )]
    HeaderDiffers {
        /// The first file's names.
        first: String,
        /// This file's names.
        other: String,
    },
    /// A record within a file has the names of the header in another order.
    #[error(
        "line {line} has the names of the header in another order, `{other}` instead of `{first}`, so that other fields \
         would be compared behind it: give files of one shape"
    )]
    HeaderReordered {
        /// The line of the record.
        line: u64,
        /// The names of the header.
        first: String,
        /// Those of the record.
        other: String,
    },
    /// The header cannot be read as a record.
    #[error("the header on line 1 cannot be read: {reason}")]
    BadHeader {
        /// What is wrong with it.
        reason: RejectReason,
    },
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    // A comma separates names unless it is escaped.
    let name = suggestion.as_ref().map(|name| name.replace(',', "\\,"));
    name.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

fn fields(available: &Option<String>) -> String {
    available.as_ref().map(|names| format!("; the fields are {names}")).unwrap_or_default()
}

/// Why a record is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The line is blank.
    #[error("the line is blank")]
    Blank,
    /// The line is a comment (`#...`) in a file that has such.
    #[error("the line is a comment")]
    Comment {
        /// Whether it names the fields of the rows behind it.
        names_fields: bool,
    },
    /// A field of the key has no value: it is empty, JSON's `null`, or `-` in a log.
    #[error("its key field `{field}` has no value (--empty-key value takes an empty value for a key)")]
    NoKey {
        /// The field as the user named it.
        field: Arc<str>,
    },
    /// A field that is needed occurs more than once, so that it has no one value.
    #[error("its field `{field}` occurs more than once")]
    RepeatedName {
        /// The path of the field.
        field: Arc<str>,
    },
    /// The row has not as many fields as the header, or as the first row where there is no header.
    #[error(
        "it has {}, and the {} has {expected}{}",
        counted_fields(*.fields),
        if *.has_header { "header" } else { "first row" },
        ragged_cure(*.is_tab_quoted, *.is_beyond_padding)
    )]
    Ragged {
        /// Its fields.
        fields: usize,
        /// Those of the header or of the first row.
        expected: usize,
        /// Whether there is a header.
        has_header: bool,
        /// Whether it has quotes, which mean nothing in tab-separated records.
        is_tab_quoted: bool,
        /// Whether short rows are padded, and this one has fields that would not be compared.
        is_beyond_padding: bool,
    },
    /// A quote joins lines to one record, but closes within a field, as where an escaped quote was taken for one that
    /// closes.
    #[error("a quote joins {lines} lines to it, and does not close at the end of a field")]
    JoinedLines {
        /// Its lines.
        lines: u64,
    },
    /// The key or the time is missing.
    #[error("it has no field `{field}`")]
    MissingField {
        /// The field as the user named it.
        field: Arc<str>,
    },
    /// The time field is no time.
    #[error("the time field `{field}` has `{text}`, which {error}")]
    BadTime {
        /// The field as the user named it.
        field: Arc<str>,
        /// Its value, shortened and safe to print.
        text: Box<str>,
        /// What is wrong with it.
        error: TimeError,
    },
    /// The record is not UTF-8, as JSON and index lines must be.
    #[error("it is not UTF-8 at byte {column}")]
    InvalidUtf8 {
        /// 1-based byte in the record.
        column: usize,
    },
    /// The record has a NUL byte, which no text has.
    #[error("it has a NUL byte at byte {column}")]
    NulByte {
        /// 1-based byte in the record.
        column: usize,
    },
    /// The record is not JSON.
    #[error("it is not valid JSON at byte {column}")]
    InvalidJson {
        /// 1-based byte in the JSON text.
        column: usize,
    },
    /// The record is JSON, but not an object.
    #[error("it is JSON but no object")]
    NotAnObject,
    /// The line is not `host ident user [time] "request" status bytes`.
    #[error("it is no line of the common log format")]
    NotALogLine,
    /// The line is not `urlkey timestamp {json}`.
    #[error("it is no index line: `urlkey timestamp {{json}}`")]
    NotAnIndexLine,
    /// The record is longer than the limit. Where it is not whole, the blocks that follow have the rest of it
    /// ([`ParsedBlock::is_rest`](crate::ParsedBlock::is_rest)).
    #[error("it is longer than {record_bytes_max} bytes{}{}", size(.record_bytes, .is_whole), quoted_lines(.lines))]
    TooLong {
        /// Its bytes, as far as they are in this block.
        record_bytes: u64,
        /// The limit.
        record_bytes_max: usize,
        /// Its lines: more than one where quotes join them.
        lines: u64,
        /// Whether this block has all of it.
        is_whole: bool,
    },
    /// A quote does not close: the record would not end before four times the limit or the end of the input, or only
    /// where another quote seems to open. Only its line is rejected; the lines after it are read one by one.
    #[error("a quote opens on this line and the record does not end")]
    UnclosedQuote,
    /// The input broke off; the error of the input follows.
    #[error("the input broke off in it")]
    CutOff,
}

fn counted_fields(fields: usize) -> String {
    if fields == 1 { "1 field".to_owned() } else { format!("{fields} fields") }
}

fn ragged_cure(is_tab_quoted: bool, is_beyond_padding: bool) -> &'static str {
    if is_beyond_padding {
        ", whose further fields --ignore would leave out, too (name the fields to compare with --key)"
    } else if is_tab_quoted {
        " (if quotes enclose fields, say --format csv --separator tab)"
    } else {
        " (--ragged pad takes such rows)"
    }
}

/// Defines [`RejectKind`], the list of its members, and the name of each, in one table.
macro_rules! reject_kinds {
    ($($(#[$doc:meta])+ $kind:ident = $name:literal,)+) => {
        /// What is wrong with a record that is no event, without the details: it stays the same from release to release,
        /// so that reports count by it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RejectKind {
            $($(#[$doc])+ $kind,)+
        }

        impl RejectKind {
            /// All kinds, in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name in reports, in lower case with underscores.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

reject_kinds! {
    /// The line is blank, or a comment: it is no record at all.
    Blank = "blank",
    /// A field of the key has no value.
    NoKey = "no_key",
    /// A field that is needed occurs more than once.
    RepeatedName = "repeated_name",
    /// The row has another number of fields than the header, or than the first row.
    Ragged = "ragged",
    /// A quote joins lines to one record, and does not close at the end of a field.
    JoinedLines = "joined_lines",
    /// The key or the time is missing.
    MissingField = "missing_field",
    /// The time field is no time.
    BadTime = "bad_time",
    /// The record is not UTF-8.
    InvalidUtf8 = "invalid_utf8",
    /// There is a NUL byte in the record.
    NulByte = "nul_byte",
    /// The record is not JSON.
    InvalidJson = "invalid_json",
    /// The record is JSON, but not an object.
    NotAnObject = "not_an_object",
    /// The record is no log line.
    NotALogLine = "not_a_log_line",
    /// The record is no index line.
    NotAnIndexLine = "not_an_index_line",
    /// The record is longer than the limit.
    TooLong = "too_long",
    /// A quote opens and does not close.
    UnclosedQuote = "unclosed_quote",
    /// The input ended within the record because it could not be read further.
    BrokenOff = "broken_off",
}

impl RejectReason {
    /// What is wrong, without the details.
    ///
    /// ```
    /// use firstseen_records::{RejectKind, RejectReason};
    /// let reason = RejectReason::MissingField { field: "id".into() };
    /// assert_eq!((reason.kind(), reason.name()), (RejectKind::MissingField, "missing_field"));
    /// ```
    pub fn kind(&self) -> RejectKind {
        match self {
            Self::Blank | Self::Comment { .. } => RejectKind::Blank,
            Self::NoKey { .. } => RejectKind::NoKey,
            Self::RepeatedName { .. } => RejectKind::RepeatedName,
            Self::Ragged { .. } => RejectKind::Ragged,
            Self::JoinedLines { .. } => RejectKind::JoinedLines,
            Self::MissingField { .. } => RejectKind::MissingField,
            Self::BadTime { .. } => RejectKind::BadTime,
            Self::InvalidUtf8 { .. } => RejectKind::InvalidUtf8,
            Self::NulByte { .. } => RejectKind::NulByte,
            Self::InvalidJson { .. } => RejectKind::InvalidJson,
            Self::NotAnObject => RejectKind::NotAnObject,
            Self::NotALogLine => RejectKind::NotALogLine,
            Self::NotAnIndexLine => RejectKind::NotAnIndexLine,
            Self::TooLong { .. } => RejectKind::TooLong,
            Self::UnclosedQuote => RejectKind::UnclosedQuote,
            Self::CutOff => RejectKind::BrokenOff,
        }
    }

    /// The name of its [`kind`](Self::kind), by which reports count it.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// Says where the lines are that a mistaken quote may have joined: they may be sound.
fn quoted_lines(lines: &u64) -> String {
    match lines.saturating_sub(1) {
        0 => String::new(),
        more => format!("; a quote in it joins the next {more} lines to this one"),
    }
}

/// The size of a record whose end is known.
fn size(record_bytes: &u64, is_whole: &bool) -> String {
    if *is_whole { format!(" (it has {record_bytes})") } else { String::new() }
}
