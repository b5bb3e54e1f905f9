//! Errors of this crate. They have different consequences:
//!
//! - A [`ConfigError`] means that the configuration does not fit the input. It ends the run.
//! - A [`RejectReason`] means that a single record cannot be read. The run continues with the next record. A
//!   [`Rejection`] contains such a reason together with the position of the record.

use std::sync::Arc;

/// Why a text is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The text has no known form.
    #[error("is no time in any known form: describe the form with --time-format, such as '%d.%m.%Y %H:%M:%S'")]
    Unrecognised,
    /// The text has a known form, but a part is out of range, such as month 13 or minute 60.
    #[error(
        "names a date or a time of day that does not exist: if it is meant in another form, describe that with \
         --time-format"
    )]
    NoSuchTime,
    /// The time is before 1970 or after 9999.
    #[error(
        "is before 1970 or after 9999: if it is a number in another unit, name that with --time-format epoch, epoch-ms, \
         epoch-us or epoch-ns"
    )]
    OutOfRange,
    /// The date can be read in more than one way.
    #[error(
        "may begin with its day or with its month: say which with --time-format, such as '%d/%m/%Y' or '%m/%d/%Y %H:%M:%S'"
    )]
    Ambiguous,
    /// The date has no year, as in the traditional form of syslog.
    #[error(
        "has no year, which is not guessed: have the log written with years (ISO 8601), or time records as they come \
         with --clock wall"
    )]
    NoYear,
    /// The text is a time of day without a date.
    #[error("is a time of day without a date: if the date is in another field, name both with --time DATE,TIME")]
    NoDate,
    /// The abbreviation of the time zone is unknown or has several meanings.
    #[error(
        "ends in the abbreviation of a zone that is not known or has several meanings: name the zone with --tz, such as \
         --tz America/Chicago, or describe the form with --time-format"
    )]
    UnknownZone,
    /// The text does not have the form that the user specified.
    #[error("is not written in the form that --time-format describes")]
    NotInFormat,
}

/// Why a parser cannot be created, or cannot continue with this file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The format does not exist.
    #[error("there is no format `{format}`: choose lines, csv, tsv, w3c, jsonl, clf or cdxj")]
    UnknownFormat {
        /// Name that was given.
        format: String,
    },
    /// The records of this input do not have the field.
    #[error("there is no field `{field}`{}; the fields are {available}", did_you_mean(.suggestion))]
    UnknownField {
        /// Field that was asked for.
        field: String,
        /// Existing names, separated by commas.
        available: String,
        /// The most similar existing name, if there is one.
        suggestion: Option<String>,
    },
    /// Two columns have the name that was asked for.
    #[error("two columns are called `{field}`: name one of them by its number, {first} or {second}")]
    AmbiguousField {
        /// Name of the columns.
        field: String,
        /// Number of the first such column, starting at 1.
        first: usize,
        /// Number of the second such column.
        second: usize,
    },
    /// A header of one column lacks the field. The header seems to use another separator.
    #[error(
        "there is no field `{field}`: the header has one column, `{header}`; if `{separator}` separates its fields, say \
         --separator '{separator}'"
    )]
    OneColumn {
        /// Field that was asked for.
        field: String,
        /// Text of the header.
        header: String,
        /// Separator that the header seems to have, in the form that the flag accepts.
        separator: &'static str,
    },
    /// The byte cannot separate fields.
    #[error("{shown} cannot separate fields: a separator is one byte, and no quote, line break or comment sign")]
    BadSeparator {
        /// The byte as it is written in a message.
        shown: String,
    },
    /// A separator was given for a format with a fixed separator.
    #[error("records in format {format} have no separator to choose: it is for csv, tsv and w3c")]
    NoSeparator {
        /// Name of the format.
        format: &'static str,
    },
    /// Fields to ignore were given, but the key is not the whole record.
    #[error("fields are ignored where the whole record is the key: name the fields of the key, or those to ignore")]
    IgnoredWithKey,
    /// Fields to ignore were given for a format that does not support this.
    #[error("fields of records in format {format} cannot be ignored: this is for csv, tsv, w3c and jsonl")]
    CannotIgnore {
        /// Name of the format.
        format: &'static str,
    },
    /// All fields would be ignored.
    #[error("all {columns} fields are ignored, so that records have no key")]
    NothingLeft {
        /// Number of fields of a record.
        columns: usize,
    },
    /// Fields to ignore were given, but the rows have more fields than this supports.
    #[error("a row has {fields} fields: fields are ignored among {fields_max} at most")]
    TooManyFields {
        /// Number of fields of a row.
        fields: usize,
        /// Maximum number of fields.
        fields_max: usize,
    },
    /// A record has no key, and the user asked to end the run in this case.
    #[error("line {line}: its key field `{field}` has no value, and --empty-key fail ends the run there")]
    EmptyKey {
        /// Line on which the record begins.
        line: u64,
        /// Field as the user named it.
        field: Arc<str>,
    },
    /// In a file whose fields are named by `#Fields:`, a record precedes that line.
    #[error(
        "line {line}: a record comes before the line `#Fields: ...`, which names the fields (--no-header: use numbers)"
    )]
    NoFieldsLine {
        /// Line of the record.
        line: u64,
    },
    /// The field has no value in any record of the whole input.
    #[error("the field `{field}` has no value in any record (--empty-key value takes an empty value for a key)")]
    NoRecordHasValue {
        /// Field that was asked for.
        field: String,
    },
    /// No record of the whole input has the field.
    #[error("no record has the field `{field}`{}{}", did_you_mean(.suggestion), fields(.available))]
    NoRecordHas {
        /// Field that was asked for.
        field: String,
        /// Names in the first record, separated by commas, if records name their fields.
        available: Option<String>,
        /// The most similar existing name, if there is one.
        suggestion: Option<String>,
    },
    /// A field was named although there is no header.
    #[error("there is no field `{field}`: without a header, fields are numbers from 1 to {index_max}")]
    NotAnIndex {
        /// Field that was asked for.
        field: String,
        /// Greatest valid number of a field.
        index_max: usize,
    },
    /// The name of a field is invalid, because it or a step of its dotted path is empty.
    #[error("`{field}` is no field name: it has an empty part (a dot that belongs to a name is written `\\.`)")]
    EmptyName {
        /// Field that was asked for.
        field: String,
    },
    /// The time zone does not exist.
    #[error("there is no time zone `{zone}`{}: use an IANA name such as Europe/Berlin", did_you_mean(.suggestion))]
    UnknownTimeZone {
        /// Zone that was asked for.
        zone: String,
        /// The most similar existing name, if there is one.
        suggestion: Option<String>,
    },
    /// The form of times cannot be used.
    #[error(
        "times in the form `{format}` cannot be read: {reason}; use epoch, epoch-ms, epoch-us, epoch-ns or a pattern \
         such as '%d.%m.%Y %H:%M:%S'"
    )]
    BadTimeFormat {
        /// Form that was asked for.
        format: String,
        /// What is wrong with the form.
        reason: String,
    },
    /// The header of a further file names other fields than the header of the first file.
    #[error(
        "the header differs from the first file's: `{other}` instead of `{first}`; \
         give files of one shape, or use numbers and say that there is no header"
    )]
    HeaderDiffers {
        /// Names in the first file.
        first: String,
        /// Names in this file.
        other: String,
    },
    /// A record within a file has the names of the header in another order.
    #[error(
        "line {line} has the names of the header in another order, `{other}` instead of `{first}`, so that other fields \
         would be compared behind it: give files of one shape"
    )]
    HeaderReordered {
        /// Line of the record.
        line: u64,
        /// Names of the header.
        first: String,
        /// Names in the record.
        other: String,
    },
    /// The header cannot be parsed as a record.
    #[error("the header on line 1 cannot be read: {reason}")]
    BadHeader {
        /// What is wrong with the header.
        reason: RejectReason,
    },
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    // The suggested name is escaped, because a comma separates names.
    let name = suggestion.as_ref().map(|name| name.replace(',', "\\,"));
    name.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

fn fields(available: &Option<String>) -> String {
    available.as_ref().map(|names| format!("; the fields are {names}")).unwrap_or_default()
}

/// Why a record is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The line is blank.
    #[error("the line is blank")]
    Blank,
    /// The line is a comment (`#...`) in a file with comments.
    #[error("the line is a comment")]
    Comment {
        /// Whether the comment names the fields of the rows after it.
        names_fields: bool,
    },
    /// A field of the key has no value: it is empty, `null` in JSON, or `-` in a log.
    #[error("its key field `{field}` has no value (--empty-key value takes an empty value for a key)")]
    NoKey {
        /// Field as the user named it.
        field: Arc<str>,
    },
    /// A required field occurs more than once, so its value is ambiguous.
    #[error("its field `{field}` occurs more than once")]
    RepeatedName {
        /// Path of the field.
        field: Arc<str>,
    },
    /// The number of fields of the row differs from that of the header, or of the first row if there is no header.
    #[error(
        "it has {}, and the {} has {expected}{}",
        counted_fields(*.fields),
        if *.has_header { "header" } else { "first row" },
        ragged_remedy(*.is_tab_quoted, *.is_beyond_padding)
    )]
    Ragged {
        /// Number of fields of the row.
        fields: usize,
        /// Number of fields of the header or of the first row.
        expected: usize,
        /// Whether the file has a header.
        has_header: bool,
        /// Whether the row contains quotes, which have no meaning in tab-separated records.
        is_tab_quoted: bool,
        /// Whether short rows are padded, and this row has further fields that would not be compared.
        is_beyond_padding: bool,
    },
    /// A quote joins several lines into one record, but closes within a field. This happens if an escaped quote is
    /// mistaken for a closing quote.
    #[error("a quote joins {lines} lines to it, and does not close at the end of a field")]
    JoinedLines {
        /// Number of lines of the record.
        lines: u64,
    },
    /// The key or the time is missing.
    #[error("it has no field `{field}`")]
    MissingField {
        /// Field as the user named it.
        field: Arc<str>,
    },
    /// The value of the time field is not a time.
    #[error("the time field `{field}` has `{text}`, which {error}")]
    BadTime {
        /// Field as the user named it.
        field: Arc<str>,
        /// Value of the field, shortened and safe to print.
        text: Box<str>,
        /// What is wrong with the value.
        error: TimeError,
    },
    /// The record is not UTF-8, which JSON and index lines must be.
    #[error("it is not UTF-8 at byte {column}")]
    InvalidUtf8 {
        /// Position of the byte in the record, starting at 1.
        column: usize,
    },
    /// The record contains a NUL byte, which does not occur in text.
    #[error("it has a NUL byte at byte {column}")]
    NulByte {
        /// Position of the byte in the record, starting at 1.
        column: usize,
    },
    /// The record is not JSON.
    #[error("it is not valid JSON at byte {column}")]
    InvalidJson {
        /// Position of the byte in the JSON text, starting at 1.
        column: usize,
    },
    /// The record is JSON, but not an object.
    #[error("it is JSON but no object")]
    NotAnObject,
    /// The line does not have the form `host ident user [time] "request" status bytes`.
    #[error("it is no line of the common log format")]
    NotALogLine,
    /// The line does not have the form `urlkey timestamp {json}`.
    #[error("it is no index line: `urlkey timestamp {{json}}`")]
    NotAnIndexLine,
    /// The record is longer than the limit. If the record does not fit into the block, the following blocks contain its
    /// other pieces. For each of those blocks, [`ParsedBlock::is_rest`](crate::ParsedBlock::is_rest) returns true.
    #[error("it is longer than {record_bytes_max} bytes{}{}", size(.record_bytes, .is_whole), quoted_lines(.lines))]
    TooLong {
        /// Number of bytes of the record in this block.
        record_bytes: u64,
        /// The limit that the record exceeds.
        record_bytes_max: usize,
        /// Number of lines of the record. It is greater than one if quotes join lines.
        lines: u64,
        /// Whether this block contains the whole record.
        is_whole: bool,
    },
    /// The line has an opening quote that is not closed. Only this line is rejected, and the lines after it are read as
    /// separate records.
    ///
    /// The reader concludes that a quote is not closed if it finds no closing quote before the end of the input, or
    /// within four times the maximum length of a record. It also concludes this if the next quote seems to open another
    /// field.
    #[error("a quote opens on this line and the record does not end")]
    UnclosedQuote,
    /// The input could not be read further within this record. The error of the input follows.
    #[error("the input broke off in it")]
    CutOff,
}

fn counted_fields(fields: usize) -> String {
    if fields == 1 { "1 field".to_owned() } else { format!("{fields} fields") }
}

fn ragged_remedy(is_tab_quoted: bool, is_beyond_padding: bool) -> &'static str {
    if is_beyond_padding {
        ", whose further fields --ignore would leave out, too (name the fields to compare with --key)"
    } else if is_tab_quoted {
        " (if quotes enclose fields, say --format csv --separator tab)"
    } else {
        " (--ragged pad takes such rows)"
    }
}

/// Defines [`RejectKind`], the list of its members, and the name of each member in one table.
macro_rules! reject_kinds {
    ($($(#[$doc:meta])+ $kind:ident = $name:literal,)+) => {
        /// Kind of a rejected record, without the details that its [`RejectReason`] has. Reports count rejected records
        /// by kind, so the kinds do not change between releases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RejectKind {
            $($(#[$doc])+ $kind,)+
        }

        impl RejectKind {
            /// All kinds in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the name in reports, in lower case with underscores.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

reject_kinds! {
    /// The line is blank or a comment, so it is not a record.
    Blank = "blank",
    /// A field of the key has no value.
    NoKey = "no_key",
    /// A required field occurs more than once.
    RepeatedName = "repeated_name",
    /// The number of fields differs from that of the header, or of the first row.
    Ragged = "ragged",
    /// A quote joins several lines into one record, and does not close at the end of a field.
    JoinedLines = "joined_lines",
    /// The key or the time is missing.
    MissingField = "missing_field",
    /// The value of the time field is not a time.
    BadTime = "bad_time",
    /// The record is not UTF-8.
    InvalidUtf8 = "invalid_utf8",
    /// The record contains a NUL byte.
    NulByte = "nul_byte",
    /// The record is not JSON.
    InvalidJson = "invalid_json",
    /// The record is JSON, but not an object.
    NotAnObject = "not_an_object",
    /// The record is not a log line.
    NotALogLine = "not_a_log_line",
    /// The record is not an index line.
    NotAnIndexLine = "not_an_index_line",
    /// The record is longer than the limit.
    TooLong = "too_long",
    /// A quote is opened but not closed.
    UnclosedQuote = "unclosed_quote",
    /// The input ended within the record because it could not be read further.
    BrokenOff = "broken_off",
}

impl RejectReason {
    /// Returns the kind of this reason, without the details.
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

    /// Returns the name of its [`kind`](Self::kind), by which reports count it.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// Returns a text that says on which lines a mistaken quote may have joined records. Such lines may be valid records.
fn quoted_lines(lines: &u64) -> String {
    match lines.saturating_sub(1) {
        0 => String::new(),
        more => format!("; a quote in it joins the next {more} lines to this one"),
    }
}

/// Returns a text with the size of a record whose end is known.
fn size(record_bytes: &u64, is_whole: &bool) -> String {
    if *is_whole { format!(" (it has {record_bytes})") } else { String::new() }
}
