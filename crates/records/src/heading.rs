//! Finds the header of a file of rows, which names the fields. The header may be the first row, the first row after
//! some comments, or a comment such as `#Fields: ...`.

use crate::cut::{count_newlines, record_start};
use crate::names::names_of_fields_line;
use crate::separated::{FirstRow, Table, read_first_row};
use crate::walk::{RawRecord, RecordSpan, Walk};
use crate::{ConfigError, RecordFormat};

/// First words of the comments that Zeek writes before the names. The values in these comments are separated like
/// fields.
const ZEEK_WORDS: [&[u8]; 6] = [b"separator", b"set_separator", b"empty_field", b"unset_field", b"path", b"open"];

/// Header of a file.
pub(crate) struct Heading {
    pub(crate) names: Vec<String>,
    /// Number of fields of a row.
    pub(crate) width: usize,
    /// Position of the header.
    pub(crate) record: RawRecord,
    /// Whether the header is a comment that names the fields (`#Fields: ...`).
    pub(crate) is_comment: bool,
    /// Whether the header is a row that begins with `#` (`#id,name`).
    pub(crate) begins_like_comment: bool,
}

/// The first lines of a file.
pub(crate) struct Beginning {
    /// Comments before the header.
    pub(crate) comments: Vec<RecordSpan>,
    /// The header. `None` means that it has not arrived yet.
    pub(crate) heading: Option<Heading>,
}

/// Returns whether a file that begins with the lines of `walk` has comments, for a format that does not determine this.
pub(crate) fn has_comments(walk: &Walk) -> bool {
    walk.bytes.get(record_start(walk.bytes, walk.start, walk.record_end).content) == Some(&b'#')
}

/// Reads the comments and the header at the beginning of `walk`. The function looks at one line at a time, and the
/// lines after it have no influence on whether it is a comment, a header or neither. A caller that has read only the
/// first lines of a file therefore gets the same result as one that has read the whole file.
pub(crate) fn read_beginning(walk: &Walk, format: RecordFormat, table: Table) -> Result<Beginning, ConfigError> {
    let mut rest = *walk;
    let mut comments = Vec::new();
    while table.has_comments && has_comments(&rest) {
        let comment = first_line(&rest);
        if let Some(heading) = commented_heading(&rest, comment, format, table) {
            return Ok(Beginning { comments, heading: Some(heading) });
        }
        comments.push(comment.span);
        rest = walk_after(&rest, comment.span);
    }
    if rest.start >= rest.bytes.len() && !comments.is_empty() {
        return Ok(Beginning { comments, heading: None });
    }
    if format == RecordFormat::W3c {
        return Err(ConfigError::NoFieldsLine { line: rest.line });
    }
    let row = read_first_row(&rest, table).map_err(|reason| ConfigError::BadHeader { reason })?;
    Ok(Beginning { comments, heading: Some(heading(row, false)) })
}

fn heading(row: FirstRow, begins_like_comment: bool) -> Heading {
    let FirstRow { names, fields, record } = row;
    Heading { names, width: fields, record, is_comment: false, begins_like_comment }
}

/// Returns the header that a comment contains, for example `#Fields: date time` or `#id,name`. Returns `None` if the
/// comment is a directive (`#Date: ...`), a sentence (`# Exported ...`) or has only one field, because such a comment
/// does not name fields.
fn commented_heading(walk: &Walk, comment: RawRecord, format: RecordFormat, table: Table) -> Option<Heading> {
    let text = &walk.bytes[comment.content.range()];
    if let Some(names) = names_of_fields_line(text) {
        let width = names.len();
        return Some(Heading { names, width, record: comment, is_comment: true, begins_like_comment: true });
    }
    let word = text[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
    let is_directive = text.get(1 + word) == Some(&b':') || ZEEK_WORDS.contains(&&text[1..=word]);
    if format == RecordFormat::W3c || word == 0 || is_directive {
        return None;
    }
    let row = read_first_row(walk, table).ok()?;
    (row.fields >= 2 && row.record.span == comment.span).then(|| heading(row, true))
}

/// Returns the first line of `walk`, ignoring quotes.
fn first_line(walk: &Walk) -> RawRecord {
    let rest = &walk.bytes[walk.start..];
    let end = memchr::memchr(b'\n', rest).map_or(walk.bytes.len(), |newline| walk.start + newline + 1);
    let begins = record_start(walk.bytes, walk.start, walk.record_end);
    let span = RecordSpan { start: begins.record as u32, end: end as u32, line: walk.line };
    let line = &walk.bytes[begins.content..end];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    RawRecord::new(span, begins.content, begins.content + line.len())
}

/// Returns a walk over the bytes after `span`.
pub(crate) fn walk_after<'a>(walk: &Walk<'a>, span: RecordSpan) -> Walk<'a> {
    let lines = count_newlines(&walk.bytes[span.range()]);
    Walk { start: span.end as usize, line: span.line + lines, ..*walk }
}
