//! Detects the format of an input from its first bytes. If the guess were wrong, the wrong part of a record could
//! become its key, and different records could count as equal. The module therefore returns a format other than `lines`
//! only if every line that it has examined has this format.

use crate::RecordFormat;
use crate::clf::{is_index_line, is_log_line};
use crate::cut::record_start;
use crate::names::names_of_fields_line;
use crate::separated::rows_of;
use serde::de::IgnoredAny;
use std::collections::HashSet;

/// Minimum number of rows of a table, including its header.
const ROWS_MIN: usize = 3;
/// Maximum length in bytes of a name in a header.
const NAME_BYTES_MAX: usize = 64;
/// Bytes that may separate fields, each with the format of such rows.
const SEPARATORS: [(u8, RecordFormat); 4] =
    [(b'\t', RecordFormat::Tsv), (b',', RecordFormat::Csv), (b';', RecordFormat::Csv), (b'|', RecordFormat::Csv)];

/// Format of an input, as [`detect`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    format: RecordFormat,
    separator: Option<u8>,
    doubt: Option<&'static str>,
}

impl Detected {
    fn of(format: RecordFormat) -> Self {
        Self { format, separator: None, doubt: None }
    }

    fn lines(doubt: &'static str) -> Self {
        Self { format: RecordFormat::Lines, separator: None, doubt: Some(doubt) }
    }

    /// Returns the format. It is `lines` if no other format is unmistakable.
    pub fn format(self) -> RecordFormat {
        self.format
    }

    /// Returns the byte between two fields if it differs from the default of the format.
    pub fn separator(self) -> Option<u8> {
        self.separator
    }

    /// Returns why no format other than `lines` is unmistakable.
    pub fn doubt(self) -> Option<&'static str> {
        self.doubt
    }
}

/// Detects the format of records from the first bytes of their input. A last line without a line end is ignored.
///
/// - The format is `jsonl`, `clf` or `cdxj` if every line is a record of this format.
/// - The format is `w3c` or `tsv` if comment lines with `#Fields` come first.
/// - The format is `csv` or `tsv` if there are at least three rows with the same number of fields, which must be at
///   least two. The first row must have different names, and none of them may be a number.
/// - A header that has all of the names in `wanted`, the fields that the user has named, needs no rows.
/// - Every other input is `lines`.
///
/// ```
/// use firstseen_records::{RecordFormat, detect};
/// assert_eq!(detect(b"{\"id\":1}\n{\"id\":2}\n", &[]).format(), RecordFormat::Jsonl);
/// assert_eq!(detect(b"id;name\n1;ann\n2;bob\n", &[]).separator(), Some(b';'));
/// assert_eq!(detect(b"a line\nanother, with a comma\n", &[]).format(), RecordFormat::Lines);
/// assert_eq!(detect(b"id,name\n", &["id".to_owned()]).format(), RecordFormat::Csv);
/// ```
pub fn detect(first_block: &[u8], wanted: &[String]) -> Detected {
    if first_block.is_empty() && !wanted.is_empty() {
        // No record lacks a wanted field, because the format accepts any names.
        return Detected::of(RecordFormat::Jsonl);
    }
    let end = memchr::memrchr(b'\n', first_block);
    let Some(whole) = end.map(|end| &first_block[..=end]) else { return Detected::lines("no line is complete yet") };
    let lines: Vec<&[u8]> = lines_of(whole).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Detected::lines("all lines are empty");
    }
    if let Some(detected) = by_fields_line(&lines) {
        return detected;
    }
    if lines.iter().all(|line| is_json_object(line)) {
        return Detected::of(RecordFormat::Jsonl);
    }
    if lines.iter().all(|line| is_log_line(line)) {
        return Detected::of(RecordFormat::Clf);
    }
    if lines.iter().all(|line| is_index_line(line)) {
        return Detected::of(RecordFormat::Cdxj);
    }
    let mut tables = SEPARATORS.iter().filter(|(separator, format)| is_table(whole, *separator, *format, wanted));
    match (tables.next(), tables.next()) {
        (Some(_), Some(_)) => Detected::lines("more than one byte may separate fields"),
        (Some((separator, format)), None) => {
            let separator = Some(*separator).filter(|separator| format.default_separator() != Some(*separator));
            Detected { format: *format, separator, doubt: None }
        }
        (None, _) => Detected::lines("not all lines are records of one other format"),
    }
}

/// Returns the lines of a text without their ends, and without bytes that may precede a record, such as a byte order
/// mark.
pub(crate) fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|&byte| byte == b'\n').map(|line| {
        let line = &line[record_start(line, 0, b'\n').content..];
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

pub(crate) fn is_json_object(line: &[u8]) -> bool {
    let is_object = line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    is_object && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Detects a file whose first lines are comments, where one of the comments names the fields.
fn by_fields_line(lines: &[&[u8]]) -> Option<Detected> {
    let comments = lines.iter().take_while(|line| line.starts_with(b"#")).count();
    let at = lines[..comments].iter().position(|line| names_of_fields_line(line).is_some())?;
    let names = names_of_fields_line(lines[at])?.len();
    let mut rows = lines[comments..].iter().filter(|line| !line.starts_with(b"#")).peekable();
    // If there is no row yet, tabs in the line with the names show that the rows have tabs too. A W3C log has blanks
    // there.
    let is_empty = rows.peek().is_none();
    let has_tabs = if is_empty {
        lines[at].contains(&b'\t')
    } else {
        names > 1 && rows.clone().all(|row| row.split(|&byte| byte == b'\t').count() == names)
    };
    if has_tabs {
        return Some(Detected::of(RecordFormat::Tsv));
    }
    let is_extended = lines[at].get(7) == Some(&b':') && (is_empty || has_blanks(rows.copied(), names));
    is_extended.then_some(Detected::of(RecordFormat::W3c))
}

/// Returns whether rows have as many fields as there are names, separated by blanks. Blanks in quotes do not separate
/// fields.
fn has_blanks<'a>(mut rows: impl Iterator<Item = &'a [u8]>, names: usize) -> bool {
    rows.all(|row| rows_of(row, b' ', true).first().is_some_and(|(fields, _)| *fields == names))
}

fn is_table(block: &[u8], separator: u8, format: RecordFormat, wanted: &[String]) -> bool {
    let has_quotes = format != RecordFormat::Tsv;
    let rows = rows_of(block, separator, has_quotes);
    let mut rows = rows.iter().filter(|(_, content)| !content.is_empty());
    let Some((columns, header)) = rows.next() else { return false };
    let mut count = 1;
    for (fields, content) in rows {
        if fields != columns || content == header {
            return false;
        }
        count += 1;
    }
    *columns >= 2 && has_names(header, separator) && (count >= ROWS_MIN || has_wanted(header, separator, wanted))
}

/// Returns whether `header` contains all names of fields that the user has given. If it does, the line is certainly a
/// header. The user may also select fields by number, but a number only states the position of a column, so the
/// function ignores numbers. If the user has given numbers only, nothing shows that the line is a header, and the
/// result is false.
fn has_wanted(header: &[u8], separator: u8, wanted: &[String]) -> bool {
    let mut wanted = wanted.iter().filter(|name| name.parse::<usize>().is_err()).peekable();
    wanted.peek().is_some() && wanted.all(|wanted| names_of(header, separator).any(|name| name == wanted.as_bytes()))
}

/// Returns the fields of a header without their quotes.
fn names_of(header: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    header
        .split(move |&byte| byte == separator)
        .map(|name| name.strip_prefix(b"\"").and_then(|inside| inside.strip_suffix(b"\"")).unwrap_or(name))
}

/// Returns whether the fields of a header are names. Names are different from each other, and none of them is a
/// sentence.
fn has_names(header: &[u8], separator: u8) -> bool {
    let mut seen = HashSet::new();
    names_of(header, separator).all(|name| is_name(name) && seen.insert(name))
}

fn is_name(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_alphabetic() || "_@#$".contains(first))
        && !name.ends_with(' ')
        && name.split(' ').count() <= 3
        && name.chars().all(|letter| letter.is_alphanumeric() || "_-.:@#/$()[]% ".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12 \"-\" \"x\"\n";
    const INDEX: &str = "org,example)/ 20240101120000 {\"url\": \"http://example.org/\"}\n";

    fn found(text: &str) -> (&'static str, Option<u8>) {
        let detected = detect(text.as_bytes(), &[]);
        assert_eq!(detected.doubt().is_some(), detected.format() == RecordFormat::Lines, "{text:?}");
        (detected.format().name(), detected.separator())
    }

    #[test]
    fn unmistakable_formats_are_found() {
        for (text, format) in [
            ("{\"id\":1}\n".to_owned(), "jsonl"),
            ("\u{feff}{\"id\":1}\r\n\r\n{}\r\n{\"cut off".to_owned(), "jsonl"),
            (LOG.to_owned(), "clf"),
            (LOG.replace("192.0.2.7", "www.example.org:443 2001:db8::7") + LOG, "clf"),
            (INDEX.repeat(2), "cdxj"),
            ("id,name\n1,ann\n2,bob\n".to_owned(), "csv"),
            ("id,\"name\"\r\n1,\"ann, lee\"\r\n2,\"bob\nlee\"\r\n".to_owned(), "csv"),
            ("ts\tuser id\n1\ta\n2\tb\n".to_owned(), "tsv"),
            ("\0\0\0{\"id\":1}\n\u{feff}{\"id\":2}\n".to_owned(), "jsonl"),
            ("\0\0id,name\n1,ann\n\u{feff}2,bob\n".to_owned(), "csv"),
            ("#Version: 1.0\n#Fields: date time cs-uri\n2024-01-01 10:00:00 /\n".to_owned(), "w3c"),
            ("#Software: x\n#Fields: date time\n".to_owned(), "w3c"),
            ("#Version: 1.0\n#Fields: date time x\n2024-01-01\t10:00:00\t-\n".to_owned(), "tsv"),
            ("#separator \\x09\n#fields\tts\tuid\n#types\ttime\tstring\n1.5\tC1\n".to_owned(), "tsv"),
        ] {
            assert_eq!(found(&text), (format, None), "{text:?}");
        }
        assert_eq!(found("id;price\n1;1,5\n2;2,5\n"), ("csv", Some(b';')));
        assert_eq!(found("a|b|c\n1|2|3\n4|5|6\n"), ("csv", Some(b'|')));
    }

    #[test]
    fn a_header_with_the_fields_that_are_named_needs_no_rows() {
        let wanted = ["user id".to_owned(), "2".to_owned()];
        for (text, format) in [
            ("\"user id\",ad\n", RecordFormat::Csv),
            ("ts\tuser id\n1\ta\n", RecordFormat::Tsv),
            ("ts,user id,x\n1,a\n", RecordFormat::Lines),
            ("ts,user\n1,a\n", RecordFormat::Lines),
            ("", RecordFormat::Jsonl),
        ] {
            assert_eq!(detect(text.as_bytes(), &wanted).format(), format, "{text:?}");
        }
        assert_eq!(detect(b"id,name\n1,a\n", &["2".to_owned()]).format(), RecordFormat::Lines);
    }

    #[test]
    fn everything_else_is_lines() {
        for text in [
            "",
            "\n\n",
            "{\"id\":1}",
            "{\"id\":1}\nno json\n",
            "[1]\n[2]\n",
            "{\n\"id\": 1\n}\n",
            "id,name\n1,ann\n",
            "id,name\n1,ann\n2,bob,x\n",
            "1,2\n3,4\n5,6\n",
            "id,id\n1,2\n3,4\n",
            "id,\n1,2\n3,4\n",
            "hello, world\nhello, world\nbye, world\n",
            "Dear all of you my friends, hello\nso, it\nis, so\n",
            "a,b;c\n1,2;3\n4,5;6\n",
            "2024-01-01,b\n2024-01-02,c\n2024-01-03,d\n",
            "Oct 10 13:55:30 web01 nginx: 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12\n",
            "just\nsome\nwords\n",
        ] {
            assert_eq!(found(text), ("lines", None), "{text:?}");
        }
        let mixed = LOG.to_owned() + "a line of another kind\n";
        assert_eq!(found(&mixed).0, "lines");
    }
}
