//! Reads a journal from its first record to its last record. The scan returns all records that were synced, in order.
//! In addition, it may return records that were written but not yet synced when the process ended. If the journal is
//! damaged, the scan fails with an error that describes the damage and its location.

use std::io;

use thiserror::Error;

use crate::disk::Disk;
use crate::segment::{ALIGNMENT, HEADER_BYTES, Header, HeaderError, NodeMark, SEGMENT_BYTES_MAX, VERSION, frame_at};

/// Segments of a journal, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Numbers of the segments, which are consecutive.
    pub numbers: Vec<u64>,
    /// End of the data in the newest segment.
    pub end: u64,
    /// Total size of all data, in bytes.
    pub used_bytes: u64,
}

/// Damage in a journal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file} is damaged at byte {offset} ({what})")]
pub struct Damage {
    /// Name of the damaged file.
    pub file: String,
    /// Offset of the damage in the file.
    pub offset: u64,
    /// Description of the damage.
    pub what: &'static str,
}

/// Error returned when a journal cannot be read.
#[derive(Debug, Error)]
pub enum ScanError {
    /// The disk has failed.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The data differs from the data that was written.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The journal was written by another release.
    #[error("{file} has version {version}, and this program reads version {VERSION}: use the release that wrote it")]
    Version {
        /// Name of the file.
        file: String,
        /// Format version of the file.
        version: u32,
    },
    /// The journal was written by another node.
    #[error("{file} belongs to another node: its folder was copied, or the identity of this node was removed")]
    Foreign {
        /// Name of the file.
        file: String,
    },
    /// The caller rejected a record.
    #[error("{file}, byte {offset}: {reason}")]
    Record {
        /// Name of the file.
        file: String,
        /// Offset of the record in the file.
        offset: u64,
        /// Reason that the caller returned.
        reason: String,
    },
}

/// Returns the name of the file that contains segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016}.journal")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".journal")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Returns the numbers of the segments on a disk, oldest first.
pub(crate) fn numbers(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.names()?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Passes every record of the journal of node `of` on `disk` to `take`, in order, together with the number of its
/// segment.
///
/// # Errors
/// Returns [`ScanError`] if the journal cannot be read completely. The records that were passed to `take` before the
/// error are valid.
pub fn scan(
    disk: &dyn Disk,
    of: NodeMark,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), String>,
) -> Result<Segments, ScanError> {
    let numbers = numbers(disk)?;
    let headers = numbers.iter().map(|number| header(disk, of, *number)).collect::<Result<Vec<Header>, _>>()?;
    let mut segments = Segments::default();
    for (index, number) in numbers.iter().copied().enumerate() {
        let file = file_name(number);
        let expected_end = match headers.get(index + 1) {
            Some(next) if next.number != number + 1 => {
                let end = headers[index].segment_bytes.into();
                return Err(damage(&file, end, "the file that follows is missing"));
            }
            next => next.map(|next| next.previous_end),
        };
        // The header of the next segment contains the end of this one, except for the newest segment. Only the data up
        // to that end is read, because most of a file may be zeros.
        let bytes = disk.read(&file, expected_end.unwrap_or(SEGMENT_BYTES_MAX))?;
        let end = scan_segment(&bytes, number, |offset, payload| {
            if payload == MARK {
                return Ok(());
            }
            take(number, payload).map_err(|reason| ScanError::Record { file: file.clone(), offset, reason })
        })?;
        match expected_end {
            Some(expected) if expected != end => return Err(damage(&file, end, "records are missing")),
            None => {
                check_end(&bytes, number, end).map_err(|what| damage(&file, end, what))?;
                // The process that wrote this file may have ended before it synced the file. The records that are read
                // now must be synced before they are used, so that they are not lost later.
                disk.sync(&file)?;
            }
            Some(_) => {}
        }
        segments.numbers.push(number);
        segments.end = end;
        segments.used_bytes += end;
    }
    Ok(segments)
}

fn damage(file: &str, offset: u64, what: &'static str) -> ScanError {
    Damage { file: file.to_owned(), offset, what }.into()
}

/// Reads the header of segment `number` of the journal of node `of`.
fn header(disk: &dyn Disk, of: NodeMark, number: u64) -> Result<Header, ScanError> {
    let file = file_name(number);
    let len_bytes = disk.len_bytes(&file)?;
    match Header::decode(&disk.read(&file, HEADER_BYTES as u64)?) {
        Ok(header) if u64::from(header.segment_bytes) != len_bytes || len_bytes > SEGMENT_BYTES_MAX => {
            Err(damage(&file, len_bytes, "the length of the file differs from its length at creation"))
        }
        Ok(header) if header.of != of => Err(ScanError::Foreign { file }),
        Ok(header) if header.number == number => Ok(header),
        Err(HeaderError::Version(version)) => Err(ScanError::Version { file, version }),
        Ok(_) | Err(_) => Err(damage(&file, 0, "its header")),
    }
}

/// Payload of a record without content. Its frame only notes how far the segment is synced.
pub(crate) const MARK: &[u8] = &[0];

/// Passes the frames of a segment to `take`, up to the first place without an intact frame. Returns that place.
fn scan_segment(
    segment: &[u8],
    number: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), ScanError>,
) -> Result<u64, ScanError> {
    let mut offset = HEADER_BYTES;
    while let Some(frame) = frame_at(segment, number, offset) {
        take(offset as u64, frame.payload)?;
        offset = frame.end;
    }
    Ok(offset as u64)
}

/// Checks whether a segment may end at `end`. The end is invalid if a later frame notes that data behind `end` was
/// synced.
fn check_end(segment: &[u8], number: u64, end: u64) -> Result<(), &'static str> {
    let rest = &segment[end as usize..];
    let Some(last) = rest.iter().rposition(|byte| *byte != 0) else { return Ok(()) };
    let last = end as usize + last;
    let later = (end as usize..=last).step_by(ALIGNMENT).filter_map(|offset| frame_at(segment, number, offset));
    match later.map(|frame| frame.synced).max() {
        Some(synced) if u64::from(synced) > end => Err("a record that was on the disk"),
        _ => Ok(()),
    }
}
