//! Writes and reads snapshots: a header that describes the content, and a body in frames with checksums
//! (`docs/reference/snapshot-format.md`).
//!
//! - The reader never passes on a byte of the body before it has verified the checksum of its frame.
//! - A file that is truncated, or in which a single bit has changed, results in an error.
//! - No length that is read from the input leads to an allocation beyond fixed limits.
//!
//! This module does not depend on files or on the meaning of the body.
//!
//! ```text
//! magic "FSEENSNP" | version u32 | header length u32 | header, JSON | XXH3-64 of the header u64
//! frame: length u32, 1 to 2^20 | that many bytes | XXH3-64 of the bytes under seed = frame number u64
//! last frame: length 0 | XXH3-64 of nothing under seed = frame number u64
//! ```
//! All numbers are little-endian.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"FSEENSNP";
const VERSION: u32 = 2;
const HEADER_BYTES_MAX: usize = 1 << 16;
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Reason why a snapshot cannot be written or read.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a snapshot.
    #[error("this is not a firstseen snapshot")]
    NotASnapshot,
    /// The snapshot was written by another release.
    #[error(
        "snapshot version {0} is unknown here (this program reads version {VERSION}): use the release that wrote it"
    )]
    Version(u32),
    /// The bytes differ from those that were written.
    #[error("the snapshot is damaged ({0})")]
    Damaged(&'static str),
    /// The header is too long, or this program does not understand it.
    #[error("the snapshot's header is invalid: {0}")]
    Header(String),
    /// The bytes are undamaged, but they are not a valid state of the filter that the header describes.
    #[error("the snapshot does not fit this filter ({0}): use the release that wrote it, or remove it to start empty")]
    Body(String),
}

/// Writes a snapshot that consists of `header` and of everything that `body` writes.
///
/// ```
/// use std::io::{Read, Write};
/// use firstseen_filter::snapshot::{UnverifiedSnapshot, write};
/// let mut bytes = Vec::new();
/// write(&mut bytes, &"header", |body| body.write_all(b"cells")).unwrap();
///
/// let snapshot = UnverifiedSnapshot::<_, String>::open(&bytes[..]).unwrap();
/// assert_eq!(snapshot.header(), "header");
/// let mut cells = String::new();
/// snapshot.verify(|body| body.read_to_string(&mut cells)).unwrap();
/// assert_eq!(cells, "cells");
///
/// bytes[40] ^= 1;
/// assert!(UnverifiedSnapshot::<_, String>::open(&bytes[..]).and_then(|snapshot| snapshot.verify(|_| Ok(()))).is_err());
/// ```
///
/// # Errors
/// Returns the errors of `sink`, or an error if the header has more than 64 KiB.
pub fn write<H: Serialize>(
    mut sink: impl Write,
    header: &H,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), SnapshotError> {
    let header = serde_json::to_vec(header).map_err(|error| SnapshotError::Header(error.to_string()))?;
    if header.len() > HEADER_BYTES_MAX {
        return Err(SnapshotError::Header(format!("{} bytes, at most {HEADER_BYTES_MAX}", header.len())));
    }
    sink.write_all(MAGIC)?;
    sink.write_all(&VERSION.to_le_bytes())?;
    sink.write_all(&(header.len() as u32).to_le_bytes())?;
    sink.write_all(&header)?;
    sink.write_all(&xxh3_64(&header).to_le_bytes())?;
    let mut frames = FrameWriter { sink, frame: Vec::with_capacity(FRAME_BYTES_MAX), number: 0 };
    body(&mut frames)?;
    frames.flush_frame()?;
    frames.end()?;
    Ok(())
}

/// Writer that collects the body in frames.
struct FrameWriter<W> {
    sink: W,
    frame: Vec<u8>,
    number: u64,
}

impl<W: Write> FrameWriter<W> {
    fn flush_frame(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.end()?;
        self.frame.clear();
        Ok(())
    }

    /// Writes the current frame. An empty frame ends the body.
    fn end(&mut self) -> io::Result<()> {
        self.sink.write_all(&(self.frame.len() as u32).to_le_bytes())?;
        self.sink.write_all(&self.frame)?;
        self.sink.write_all(&xxh3_64_with_seed(&self.frame, self.number).to_le_bytes())?;
        self.number += 1;
        Ok(())
    }
}

impl<W: Write> Write for FrameWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.frame.len() == FRAME_BYTES_MAX {
            self.flush_frame()?;
        }
        let taken = bytes.len().min(FRAME_BYTES_MAX - self.frame.len());
        self.frame.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_frame()?;
        self.sink.flush()
    }
}

/// Snapshot of which only the header has been verified.
pub struct UnverifiedSnapshot<R, H> {
    source: R,
    header: H,
}

impl<R: Read, H: DeserializeOwned> UnverifiedSnapshot<R, H> {
    /// Reads and verifies the header.
    ///
    /// # Errors
    /// Returns [`SnapshotError`]. If the input ends early, the snapshot is reported as damaged.
    pub fn open(mut source: R) -> Result<Self, SnapshotError> {
        let mut fixed = [0; 16];
        read_exact(&mut source, &mut fixed, SnapshotError::NotASnapshot)?;
        if &fixed[..8] != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        let number =
            |start: usize| u32::from_le_bytes([fixed[start], fixed[start + 1], fixed[start + 2], fixed[start + 3]]);
        if number(8) != VERSION {
            return Err(SnapshotError::Version(number(8)));
        }
        let header_bytes = number(12) as usize;
        if header_bytes > HEADER_BYTES_MAX {
            return Err(SnapshotError::Damaged("header length"));
        }
        let mut header = vec![0; header_bytes];
        read_exact(&mut source, &mut header, SnapshotError::Damaged("header cut short"))?;
        let mut checksum = [0; 8];
        read_exact(&mut source, &mut checksum, SnapshotError::Damaged("header cut short"))?;
        if xxh3_64(&header) != u64::from_le_bytes(checksum) {
            return Err(SnapshotError::Damaged("header checksum"));
        }
        let header = serde_json::from_slice(&header).map_err(|error| SnapshotError::Header(error.to_string()))?;
        Ok(Self { source, header })
    }

    /// Returns the header, which describes the content of the snapshot.
    pub fn header(&self) -> &H {
        &self.header
    }

    /// Passes the frames of a snapshot to `body`, one after the other. The checksum of each frame has been verified.
    /// The snapshot must end exactly where `body` stops reading and where `source` ends. If a snapshot is part of a
    /// longer stream, the caller must limit the source to the snapshot.
    ///
    /// # Errors
    /// Returns [`SnapshotError::Damaged`] if a checksum, a length or the end is wrong, and [`SnapshotError::Body`] if
    /// `body` reports invalid data.
    pub fn verify<T>(self, body: impl FnOnce(&mut dyn Read) -> io::Result<T>) -> Result<T, SnapshotError> {
        let mut frames =
            FrameReader { source: self.source, frame: Vec::new(), read: 0, number: 0, ended: false, damage: None };
        let built = body(&mut frames);
        if let Some(damage) = frames.damage {
            return Err(SnapshotError::Damaged(damage));
        }
        let built = built.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => SnapshotError::Body(error.to_string()),
            io::ErrorKind::UnexpectedEof => SnapshotError::Damaged("body cut short"),
            _ => SnapshotError::Io(error),
        })?;
        match frames.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(SnapshotError::Damaged("body too long")),
            Err(error) => return Err(frames.damage.map_or(SnapshotError::Io(error), SnapshotError::Damaged)),
        }
        match frames.source.read_exact(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(built),
            Err(error) => Err(SnapshotError::Io(error)),
            Ok(()) => Err(SnapshotError::Damaged("bytes after the end")),
        }
    }
}

fn read_exact(source: &mut impl Read, bytes: &mut [u8], at_end: SnapshotError) -> Result<(), SnapshotError> {
    source.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => at_end,
        _ => SnapshotError::Io(error),
    })
}

/// Reader that passes on verified frames only.
struct FrameReader<R> {
    source: R,
    frame: Vec<u8>,
    read: usize,
    number: u64,
    ended: bool,
    damage: Option<&'static str>,
}

impl<R: Read> FrameReader<R> {
    fn next_frame(&mut self) -> io::Result<()> {
        let mut length = [0; 4];
        self.source.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(self.damaged("frame length"));
        }
        self.frame.resize(length, 0);
        self.source.read_exact(&mut self.frame)?;
        let mut checksum = [0; 8];
        self.source.read_exact(&mut checksum)?;
        if xxh3_64_with_seed(&self.frame, self.number) != u64::from_le_bytes(checksum) {
            return Err(self.damaged("frame checksum"));
        }
        (self.read, self.ended) = (0, length == 0);
        self.number += 1;
        Ok(())
    }

    fn damaged(&mut self, what: &'static str) -> io::Error {
        self.damage = Some(what);
        // If the caller continues to read after an error, it must not get any part of the invalid frame.
        (self.ended, self.read) = (true, 0);
        self.frame.clear();
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.read == self.frame.len() && !self.ended {
            self.next_frame().map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => self.damaged("cut short"),
                _ => error,
            })?;
        }
        let taken = bytes.len().min(self.frame.len() - self.read);
        bytes[..taken].copy_from_slice(&self.frame[self.read..self.read + taken]);
        self.read += taken;
        Ok(taken)
    }
}
