//! Reading what can be read of a journal that is damaged.
//!
//! Promises: every record that is whole, in order; how much is not. Must not know: what records hold.

use std::io;

use crate::disk::Disk;
use crate::scan::{MARK, file_name, numbers};
use crate::segment::{ALIGNMENT, HEADER_BYTES, Header, NodeMark, SEGMENT_BYTES_MAX, frame_at};

/// What was found in a damaged journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Whose it is; none where no header can be read.
    pub of: Option<NodeMark>,
    /// Bytes of a segment, by the last header that can be read.
    pub segment_bytes: u32,
    /// Records that are whole.
    pub records: u64,
    /// Bytes of records that are not.
    pub lost_bytes: u64,
}

/// Hands every record that is whole to `take`, in order.
///
/// # Errors
/// What the disk, or `take`, says.
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
                // The next one that is whole, wherever it is.
                None => {
                    salvaged.lost_bytes += ALIGNMENT as u64;
                    offset += ALIGNMENT;
                }
            }
        }
    }
    Ok(salvaged)
}
