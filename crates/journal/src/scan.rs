//! Reading a journal from its first record to its last.
//!
//! Promises: gives the records that were synced, in order, and perhaps some that were not; or says what is wrong, and
//! where. Must not know: what records hold.

use std::io;

use thiserror::Error;

use crate::disk::Disk;
use crate::segment::{ALIGNMENT, HEADER_BYTES, Header, HeaderError, NodeMark, SEGMENT_BYTES_MAX, VERSION, frame_at};

/// The segments of a journal, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Numbers, each one more than the one before.
    pub numbers: Vec<u64>,
    /// Where the newest one ends.
    pub end: u64,
    /// Bytes of records in all.
    pub used_bytes: u64,
}

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file} is damaged at byte {offset} ({what})")]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where.
    pub offset: u64,
    /// What was found.
    pub what: &'static str,
}

/// Why a journal cannot be read.
#[derive(Debug, Error)]
pub enum ScanError {
    /// The disk has failed.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes are not those that were written.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// It was written by another release.
    #[error("{file} has version {version}, and this program reads version {VERSION}: use the release that wrote it")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// It was written by another node.
    #[error("{file} is of another node: its folder was copied, or its identity was removed")]
    Foreign {
        /// The file.
        file: String,
    },
    /// The caller did not take a record.
    #[error("{file}, byte {offset}: {reason}")]
    Record {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// Why.
        reason: String,
    },
}

/// The name of the file of segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:016}.journal")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".journal")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The numbers of the segments on a disk, oldest first.
pub(crate) fn numbers(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.names()?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Hands every record of the journal of `of` on `disk` to `take`, in order, with the number of its segment.
///
/// # Errors
/// [`ScanError`]: records that were handed on before the error can be relied on.
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
        // How far a segment goes is known of all but the newest; most of a file may be zeros.
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
                // The process that wrote the file may have ended before it was synced: records that are read now must
                // not be lost later.
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

/// The header of segment `number` of the journal of `of`.
fn header(disk: &dyn Disk, of: NodeMark, number: u64) -> Result<Header, ScanError> {
    let file = file_name(number);
    let len_bytes = disk.len_bytes(&file)?;
    match Header::decode(&disk.read(&file, HEADER_BYTES as u64)?) {
        Ok(header) if u64::from(header.segment_bytes) != len_bytes || len_bytes > SEGMENT_BYTES_MAX => {
            Err(damage(&file, len_bytes, "the file has another length than it was made with"))
        }
        Ok(header) if header.of != of => Err(ScanError::Foreign { file }),
        Ok(header) if header.number == number => Ok(header),
        Err(HeaderError::Version(version)) => Err(ScanError::Version { file, version }),
        Ok(_) | Err(_) => Err(damage(&file, 0, "its header")),
    }
}

/// A record without content, whose frame says how far the segment is synced.
pub(crate) const MARK: &[u8] = &[0];

/// Hands the frames of a segment on, up to the first place without one; returns that place.
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

/// Whether a segment may end at `end`: no byte behind that was synced, as far as later frames say.
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
