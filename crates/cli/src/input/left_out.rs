//! Parts of the input that belong to no record and are not passed on: repeated headers of joined files, holes of NUL
//! bytes.
//!
//! Guarantees: each of them is counted, and named on stderr once. It does not know where records go.

use firstseen_records::ParsedBlock;
use serde::Serialize;

use crate::terminal::progress::Progress;

/// What was left out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Lines that repeat the header of their file, as in a stream of files that were joined.
    pub repeated_headers: u64,
    /// NUL bytes in front of records.
    pub hole_bytes: u64,
}

impl LeftOut {
    /// Counts what the parser has left out of a block, and reports the first part of each kind. `place` returns the
    /// name of a line of the file.
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
