//! Counts the parts of an input that belong to no record. These are the repeated headers of files that were
//! concatenated, and runs of NUL bytes. Such parts are not written to any output. The first part of each kind is
//! reported on stderr, so the user knows what is missing in the output.

use firstseen_records::ParsedBlock;
use serde::Serialize;

use crate::terminal::progress::Progress;

/// Counts of the parts that were left out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Lines that repeat the header of their file, as in a stream of concatenated files.
    pub repeated_headers: u64,
    /// NUL bytes in front of records.
    pub hole_bytes: u64,
}

impl LeftOut {
    /// Counts the parts of a block that the parser has left out, such as repeated headers, and reports the first part
    /// of each kind on stderr. The message names the place of that part, which `place` returns for a line number.
    pub fn count(&mut self, parsed: &ParsedBlock, place: impl Fn(u64) -> String, progress: &Progress) {
        if let [first, ..] = parsed.repeated_headers() {
            if self.repeated_headers == 0 {
                progress.note(&format!(
                    "firstseen: {}: the header again, as where files were joined: it is left out, here and further on",
                    place(first.line)
                ));
            }
            self.repeated_headers += parsed.repeated_headers().len() as u64;
        }
        if parsed.hole_bytes() > 0 {
            if self.hole_bytes == 0 {
                progress.note(&format!(
                    "firstseen: {}: NUL bytes in front of a record, as `copytruncate` of logrotate leaves them: they are left \
                     out, here and further on (records that end with NUL bytes: -z)",
                    place(parsed.first_line())
                ));
            }
            self.hole_bytes += parsed.hole_bytes();
        }
    }
}
