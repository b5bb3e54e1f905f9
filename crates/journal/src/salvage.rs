//! Reading the whole records of a damaged journal.
//!
//! Promises: every whole record is read, in order, and the damaged bytes are counted. Must not know: what records hold.

use std::io;

use crate::disk::Disk;
use crate::scan::{MARK, file_name, numbers};
use crate::segment::{ALIGNMENT, HEADER_BYTES, Header, NodeMark, SEGMENT_BYTES_MAX, frame_at};

/// What was found in a damaged journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The node that the journal is of; none where no header can be read.
    pub of: Option<NodeMark>,
    /// Bytes of a segment, by the last header that can be read.
    pub segment_bytes: u32,
    /// Records that are whole.
    pub records: u64,
    /// Bytes that belong to no whole record.
    pub lost_bytes: u64,
}

/// Hands every record that is whole to `take`, in order.
///
/// # Errors
/// Those of the disk, and of `take`.
pub fn salvage(disk: &dyn Disk, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Salvaged> {
    let mut salvaged = Salvaged::default();
    for number in numbers(disk)? {
        let segment = disk.read(&file_name(number), SEGMENT_BYTES_MAX)?;
        if let Ok(header) = Header::decode(&segment) {
            (salvaged.of, salvaged.segment_bytes) = (Some(header.of), header.segment_bytes);
        }
        let used = segment.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut offset = HEADER_BYTES;
        while offset < used {
            match frame_at(&segment, number, offset) {
                Some(frame) => {
                    if frame.payload != MARK {
                        salvaged.records += 1;
                        take(frame.payload)?;
                    }
                    offset = frame.end;
                }
                // Looks for the next whole frame, wherever it is.
                None => {
                    salvaged.lost_bytes += ALIGNMENT as u64;
                    offset += ALIGNMENT;
                }
            }
        }
    }
    Ok(salvaged)
}
