//! Reads the intact records of a damaged journal, for example to recover as much as possible after a disk error. All
//! intact records are returned in order. The bytes that do not belong to an intact record are counted.

use std::io;

use crate::disk::Disk;
use crate::scan::{MARK, file_name, numbers};
use crate::segment::{ALIGNMENT, HEADER_BYTES, Header, NodeMark, SEGMENT_BYTES_MAX, frame_at};

/// Result of reading a damaged journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Node that has written the journal. `None` means that no header could be read.
    pub of: Option<NodeMark>,
    /// Size of a segment in bytes, according to the last header that could be read.
    pub segment_bytes: u32,
    /// Number of intact records.
    pub records: u64,
    /// Number of bytes that do not belong to any intact record.
    pub lost_bytes: u64,
}

/// Passes every intact record to `take`, in order.
///
/// # Errors
/// Returns the errors of the disk, and those of `take`.
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
                // Searches for the next intact frame, which may begin at any aligned offset.
                None => {
                    salvaged.lost_bytes += ALIGNMENT as u64;
                    offset += ALIGNMENT;
                }
            }
        }
    }
    Ok(salvaged)
}
