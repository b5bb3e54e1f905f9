//! Makes a hint for the user if no record of an input could be read. The hint says what the input looks like, and which
//! command or flag helps. A hint is one line without control characters, so it is safe to print. The file name in a
//! suggested command is always `FILE`. All functions of this module are pure.

use crate::clf::is_log_line;
use crate::cut::BYTE_ORDER_MARK;
use crate::detect::{detect, is_json_object, lines_of};
use crate::separated::rows_of;
use crate::{RecordFormat, printable};

/// Minimum number of fields in a row of PostgreSQL's csvlog.
const CSVLOG_FIELDS: usize = 20;

/// Returns a hint if `first_bytes` do not look like records in `format`. The hint says what the bytes look like, and
/// which command or flag helps. `separator` is the byte between two fields if it is not the default separator of the
/// format.
///
/// ```
/// use firstseen_records::{RecordFormat, hint};
/// let text = hint(b"[{\"id\":1},{\"id\":2}]\n", RecordFormat::Jsonl, None).expect("a hint");
/// assert_eq!(text, "this looks like one JSON array: jq -c '.[]' FILE | firstseen dedup --format jsonl ...");
/// assert_eq!(hint(b"{\"id\":1}\n", RecordFormat::Jsonl, None), None);
/// ```
pub fn hint(first_bytes: &[u8], format: RecordFormat, separator: Option<u8>) -> Option<String> {
    let text = first_bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first_bytes);
    let text = text.trim_ascii_start();
    let line = lines_of(text).next().unwrap_or_default();
    json_hint(text, line, format)
        .or_else(|| csvlog_hint(text, line, format))
        .or_else(|| prefix_hint(line))
        .or_else(|| markup_hint(text))
        .or_else(|| format_hint(text, format, separator))
}

/// Returns a hint if the records of the input are longer than a line. Comparing such an input line by line would split
/// its records. Examples are JSON that is not one object per line, the format csvlog of PostgreSQL, and XML. The hint
/// says what the input looks like, and which command converts it.
pub fn hint_of_document(first_bytes: &[u8]) -> Option<String> {
    let text = first_bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first_bytes).trim_ascii_start();
    let line = lines_of(text).next().unwrap_or_default();
    let format = RecordFormat::Lines;
    json_hint(text, line, format).or_else(|| csvlog_hint(text, line, format)).or_else(|| markup_hint(text))
}

/// Returns a hint for JSON that is not one object per line.
fn json_hint(text: &[u8], line: &[u8], format: RecordFormat) -> Option<String> {
    const PIPE: &str = "FILE | firstseen dedup --format jsonl ...";
    let (first, rest) = text.split_first()?;
    let next = rest.trim_ascii_start().first()?;
    if *first == b'[' && matches!(next, b'{' | b'[' | b']') && serde_json_fits(text) {
        return Some(format!("this looks like one JSON array: jq -c '.[]' {PIPE}"));
    }
    if *first != b'{' || !matches!(next, b'"' | b'}') {
        return None;
    }
    if let Some(name) = name_of_first_array(text) {
        return Some(format!("this looks like one JSON object with its records in an array: jq -c '{name}[]' {PIPE}"));
    }
    if !is_json_object(line) && text.contains(&b'\n') && serde_json_fits(text) {
        return Some(format!("this looks like JSON objects of several lines each: jq -c . {PIPE}"));
    }
    (is_json_object(line) && format != RecordFormat::Jsonl && format != RecordFormat::Lines)
        .then(|| "this looks like jsonl: --format jsonl".to_owned())
}

/// Returns whether a text is JSON or the beginning of JSON.
fn serde_json_fits(text: &[u8]) -> bool {
    let read = serde_json::Deserializer::from_slice(text).into_iter::<serde::de::IgnoredAny>().next();
    match read {
        None | Some(Ok(_)) => true,
        Some(Err(error)) => error.is_eof() || error.is_io(),
    }
}

/// Returns the path of the first member of the object at the beginning of `text` that is an array of objects.
fn name_of_first_array(text: &[u8]) -> Option<String> {
    let mut rest = text.strip_prefix(b"{")?.trim_ascii_start();
    // Small members may precede the array: `{"count": 2, "Records": [{...`.
    for _ in 0..8 {
        let end = memchr::memchr(b'"', rest.strip_prefix(b"\"")?)?;
        let name = std::str::from_utf8(&rest[1..=end]).ok()?;
        rest = rest[end + 2..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        if let Some(inside) = rest.strip_prefix(b"[") {
            let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let is_plain = is_plain && !name.starts_with(|first: char| first.is_ascii_digit()) && !name.is_empty();
            let path = if is_plain { format!(".{name}") } else { format!(".[\"{}\"]", printable(name)) };
            // Lines that are objects with an array of objects inside are valid jsonl.
            let line = lines_of(text).next().unwrap_or_default();
            let is_first_of_many = is_json_object(line) && text.len() > line.len() + 2;
            return (inside.trim_ascii_start().starts_with(b"{") && !is_first_of_many).then_some(path);
        }
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<serde::de::IgnoredAny>();
        values.next()?.ok()?;
        rest = rest[values.byte_offset()..].trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
    }
    None
}

/// Returns a hint for PostgreSQL's csvlog. It has no header, and each row begins with a time that ends with the name of
/// its zone.
fn csvlog_hint(text: &[u8], line: &[u8], format: RecordFormat) -> Option<String> {
    let (time, _) = line.split_at_checked(24)?;
    let has_shape = time.iter().zip(b"0000-00-00 00:00:00.000 ").all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        shape => byte == shape,
    });
    let comma = memchr::memchr(b',', line)?;
    // A query that extends over several lines is one field.
    let fields = rows_of(text, b',', true).first().map_or(0, |(fields, _)| *fields);
    (has_shape && comma < 40 && fields >= CSVLOG_FIELDS).then(|| {
        let flags = if format == RecordFormat::Csv { "" } else { "--format csv " };
        format!(
            "this looks like PostgreSQL's csvlog, which has no header: {flags}--no-header --key 6,7 --time 1 (6 is the \
             session, 7 the line in it)"
        )
    })
}

/// Returns a hint for a log line after the prefix that a collector added.
fn prefix_hint(line: &[u8]) -> Option<String> {
    let words = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at + 1);
    let is_prefixed = !is_log_line(line) && words.take(12).any(|at| is_log_line(&line[at..]));
    is_prefixed.then(|| {
        "this looks like clf behind the prefix of a syslog or container: cut it off, as by sed -E 's/^[^\"]*(: | [FP] |[|] )//' FILE | \
         firstseen dedup --format clf ..."
            .to_owned()
    })
}

fn markup_hint(text: &[u8]) -> Option<String> {
    let is_markup = text.starts_with(b"<?xml") || text.starts_with(b"<!DOCTYPE") || text.starts_with(b"<html");
    is_markup.then(|| "this looks like XML or HTML, whose elements are no records: write one record a line".to_owned())
}

/// Returns a hint about another format or another separator that would fit.
fn format_hint(text: &[u8], format: RecordFormat, used: Option<u8>) -> Option<String> {
    let detected = detect(text, &[]);
    if detected.format() != RecordFormat::Lines {
        let separator = detected.separator();
        if detected.format() == format && (separator.is_none() || separator == used) {
            return None;
        }
        let flag = separator.map(|byte| format!(" --separator '{}'", byte.escape_ascii())).unwrap_or_default();
        let what = detected.format();
        return Some(format!(
            "this looks like {what}{}: --format {what}{flag}",
            if separator.is_some() { " with another separator" } else { "" }
        ));
    }
    let used = used.or(format.default_separator())?;
    if !format.has_header() || format == RecordFormat::W3c || are_rows(text, used) {
        return None;
    }
    let separator = b",\t;|".iter().copied().find(|separator| *separator != used && are_rows(text, *separator))?;
    Some(format!("this looks like rows with another separator: --separator '{}'", separator.escape_ascii()))
}

/// Returns whether a text consists of rows that have the same number of fields if `separator` is the byte between two
/// fields. The last row is ignored, because the text may end in the middle of it.
fn are_rows(text: &[u8], separator: u8) -> bool {
    let rows = rows_of(text, separator, true);
    let columns = rows.first().map_or(0, |(fields, _)| *fields);
    columns >= 2 && rows.len() >= 3 && rows[..rows.len() - 1].iter().all(|(fields, _)| *fields == columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RecordFormat::{Clf, Csv, Jsonl, Lines, Tsv};

    #[test]
    fn what_an_input_looks_like_is_said_with_the_command_that_helps() {
        let csvlog = "2024-10-10 03:00:00.123 UTC,\"u\",\"d\",42,\"[local]\",5f.1,1,\"idle\",2024-10-10 03:00:00 UTC,3/1,0,LOG,\
                      00000,\"m\",,,,,,,,,\"psql\"\n";
        let log = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12\n";
        let prefixed = format!("Oct 10 13:55:30 web01 nginx: {log}");
        for (text, format, words) in [
            ("[\n  {\"id\": 1},\n  {\"id\": 2}\n]\n", Jsonl, "jq -c '.[]' FILE"),
            ("[]", Jsonl, "jq -c '.[]' FILE"),
            ("{\"Records\": [{\"eventID\": 1}, {\"eventID\"", Jsonl, "jq -c '.Records[]' FILE"),
            ("{\"count\": 2, \"hits-2\": [{\"a\": 1}]}", Jsonl, "jq -c '.[\"hits-2\"][]' FILE"),
            ("{\n  \"id\": 1\n}\n{\n  \"id\": 2\n}\n", Jsonl, "jq -c . FILE"),
            ("{\"id\":1}\n{\"id\":2}\n", Csv, "--format jsonl"),
            (csvlog, Jsonl, "--format csv --no-header"),
            (csvlog, Csv, "csvlog, which has no header: --no-header"),
            (&prefixed, Clf, "clf behind the prefix"),
            (log, Jsonl, "this looks like clf: --format clf"),
            ("id;m\n1;1,5\n2;2,5\n", Csv, "--separator ';'"),
            ("1;a\n2;b\n3;c\n", Csv, "--separator ';'"),
            ("id\tm\n1\ta\n2\tb\n", Jsonl, "--format tsv"),
            ("#Fields: date time\n2024-01-01 10:00:00\n", Jsonl, "--format w3c"),
            ("<?xml version=\"1.0\"?>\n<a/>\n", Csv, "XML"),
        ] {
            let found = hint(text.as_bytes(), format, None).unwrap_or_default();
            assert!(found.contains(words), "{text:?}: {found:?}");
            assert!(!found.contains('\n'));
        }
    }

    #[test]
    fn nothing_is_said_of_what_fits_or_looks_like_nothing() {
        let log = "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12\n";
        for (text, format) in [
            ("", Jsonl),
            ("x\n", Jsonl),
            ("{\"id\":1}\n", Jsonl),
            ("{\"items\":[{\"a\":1}]}\n{\"items\":[{\"a\":2}]}\n", Jsonl),
            (log, Clf),
            ("id,m\n1,a\n2,b\n", Csv),
            ("id\tm\n1\ta\n2\tb\n", Tsv),
            ("words\nwords\n", Lines),
            ("{", Csv),
            ("{\"", Csv),
            ("[", Lines),
        ] {
            assert_eq!(hint(text.as_bytes(), format, None), None, "{text:?}");
        }
    }
}
