//! Examines the content that earlier runs have left in an output file, so that this run can append records to it. The
//! content may end with an incomplete record, or begin with a header.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use firstseen_records::{ends_inside_quotes, printable};

/// Maximum number of bytes that are read of a first line, beyond the length of the expected header.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Returns the bytes that must be appended to `file` so that it ends with a complete record. If an earlier run was
/// killed, the last record of the file may be incomplete, and may even end within a quoted field. A record that is
/// appended after an open quote would be read as part of the quoted field.
///
/// `quotes` is the byte between two fields if the format has quotes, and `None` otherwise. With quotes, the function
/// reads the whole file, because the end of the file alone does not show whether a quote is open.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn end_of(file: &mut File, quotes: Option<u8>, record_end: u8) -> io::Result<&'static str> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok("");
    }
    if let Some(separator) = quotes {
        file.rewind()?;
        if ends_inside_quotes(&mut *file, separator)? {
            return Ok("\"\n");
        }
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(if last == [record_end] { "" } else { end_text(record_end) })
}

/// Returns the end of a record as text: NUL or a newline.
pub(crate) fn end_text(record_end: u8) -> &'static str {
    if record_end == 0 { "\0" } else { "\n" }
}

/// How an output file begins, compared with the expected header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The file begins with the expected header.
    Header,
    /// The file begins with this complete line, which is not the expected header.
    Other(String),
    /// The file is empty, or contains only part of a line because a run was killed while it wrote the line.
    Nothing,
}

/// Returns how `file` begins if `header` is expected. Line ends and a byte order mark are ignored.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn beginning_of(mut file: impl Read + Seek, header: &[u8]) -> io::Result<Beginning> {
    let bytes_max = header.len() + LINE_BYTES_MAX;
    let mut found = Vec::new();
    file.rewind()?;
    file.take(bytes_max as u64).read_to_end(&mut found)?;
    let header = line_of(header);
    let rest = behind_comments(unmarked(&found), header);
    if rest.is_empty() {
        return Ok(Beginning::Nothing);
    }
    let begun = line_of(rest);
    let behind = rest.strip_prefix(header);
    if behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(b"\n") || behind.starts_with(b"\r\n")) {
        return Ok(Beginning::Header);
    }
    let first = begun.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.len() < begun.len() || found.ends_with(b"\n") || found.len() == bytes_max {
        Ok(Beginning::Other(shown(first)))
    } else {
        Ok(Beginning::Nothing)
    }
}

/// Returns a header as printable text for a message.
pub(crate) fn shown(header: &[u8]) -> String {
    printable(&String::from_utf8_lossy(line_of(header)))
}

/// Returns `bytes` without the end of the last line and without a byte order mark.
fn line_of(bytes: &[u8]) -> &[u8] {
    let bytes = unmarked(bytes);
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the bytes after the comments that precede the header. The header may be a comment itself if it names the
/// fields.
fn behind_comments<'a>(mut bytes: &'a [u8], header: &[u8]) -> &'a [u8] {
    while bytes.starts_with(b"#") && !bytes.starts_with(header) {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { break };
        bytes = &bytes[end + 1..];
    }
    bytes
}

fn unmarked(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_header_is_known_by_its_line() {
        let other = |line: &str| Beginning::Other(line.to_owned());
        for (found, header, expected) in [
            ("", "k,t\n", Beginning::Nothing),
            ("k,", "k,t\n", Beginning::Nothing),
            ("k,t", "k,t\n", Beginning::Header),
            ("k,t\n", "k,t", Beginning::Header),
            ("k,t\r\na,1\r\n", "\u{feff}k,t\n", Beginning::Header),
            ("\u{feff}k,t\na,1\n", "k,t\r\n", Beginning::Header),
            ("\"k\nk\",t\na,1\n", "\"k\nk\",t\n", Beginning::Header),
            ("k,tt\n", "k,t\n", other("k,tt")),
            ("k,tt", "k,t\n", Beginning::Nothing),
            ("k\n", "k,t\n", other("k")),
            ("\n", "k,t\n", other("")),
            ("t,k\r\na,1\n", "k,t\n", other("t,k")),
            ("t,k\r\n", "k,t\n", other("t,k")),
        ] {
            let beginning = beginning_of(Cursor::new(found), header.as_bytes()).expect("memory");
            assert_eq!(beginning, expected, "{found:?} for {header:?}");
        }
        let long = "x".repeat(LINE_BYTES_MAX + 9);
        let beginning = beginning_of(Cursor::new(&long), b"k,t\n").expect("memory");
        assert!(matches!(beginning, Beginning::Other(_)), "a line without an end is whole enough");
    }
}
