//! Opens an input, and detects from its first bytes whether and how it is compressed. This module does not depend on
//! files, names or records.

use crate::archive::Archive;
use crate::bzip2::Bzip2Member;
use crate::compression::Compression;
use crate::counted_input::{CountedInput, TrailingBytes};
use crate::gzip::GzipMember;
use crate::refused::Refused;
use crate::xz::XzStream;
use crate::zstd::ZstdReader;
use std::error::Error as StdError;
use std::io::{Error, ErrorKind, Read, Result};

/// Reader of the decompressed bytes of an input.
///
/// ```
/// use firstseen_records::{Compression, Decompressed};
/// let mut input = Decompressed::new(&b"plain text\n"[..])?;
/// assert_eq!(input.compression(), Compression::Plain);
/// assert_eq!(std::io::read_to_string(&mut input)?, "plain text\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Reading compressed input can fail in several ways. Truncated input causes an error of kind
/// [`ErrorKind::UnexpectedEof`], and damaged input causes an error of kind [`ErrorKind::InvalidData`]. Both messages
/// name the compression format and the position in the compressed input. Other bytes after a complete archive cause an
/// error of kind [`ErrorKind::Other`]. Zero bytes after gzip, bzip2 and xz are ignored, because they are padding. Data
/// that would need too much memory causes an error that contains [`Refused`](crate::Refused).
///
/// Uncompressed input is passed on read by read, so no byte is delayed.
pub struct Decompressed<R: Read>(Source<R>);

enum Source<R: Read> {
    Plain(CountedInput<R>),
    Gzip(Box<Archive<GzipMember<R>>>),
    Zstd(Box<ZstdReader<R>>),
    Bzip2(Box<Archive<Bzip2Member<R>>>),
    Xz(Box<Archive<XzStream<R>>>),
}

impl<R: Read> Decompressed<R> {
    /// Reads the first bytes of `input`, but no more than are needed to detect or exclude a compression.
    ///
    /// # Errors
    /// Returns the errors of reading `input`.
    pub fn new(input: R) -> Result<Self> {
        let mut input = CountedInput::new(input);
        let compression = loop {
            let head = input.buffered();
            match compression_of(head) {
                Some(compression) => break compression,
                None if input.read_more()? == 0 => break Compression::Plain,
                None => {}
            }
        };
        Ok(Self(match compression {
            Compression::Plain => Source::Plain(input),
            Compression::Gzip => Source::Gzip(Box::new(Archive::new(input))),
            Compression::Zstd => Source::Zstd(Box::new(ZstdReader::new(input))),
            Compression::Bzip2 => Source::Bzip2(Box::new(Archive::new(input))),
            Compression::Xz => Source::Xz(Box::new(Archive::new(input))),
        }))
    }

    /// Returns the compression that the first bytes show.
    pub fn compression(&self) -> Compression {
        match &self.0 {
            Source::Plain(_) => Compression::Plain,
            Source::Gzip(_) => Compression::Gzip,
            Source::Zstd(_) => Compression::Zstd,
            Source::Bzip2(_) => Compression::Bzip2,
            Source::Xz(_) => Compression::Xz,
        }
    }

    /// Returns the number of bytes of the input that were used so far. Compared with the size of the file, this is the
    /// progress.
    pub fn input_bytes_used(&self) -> u64 {
        self.input().used()
    }

    fn input(&self) -> &CountedInput<R> {
        match &self.0 {
            Source::Plain(input) => input,
            Source::Gzip(decoder) => decoder.input(),
            Source::Zstd(decoder) => decoder.input(),
            Source::Bzip2(decoder) => decoder.input(),
            Source::Xz(decoder) => decoder.input(),
        }
    }

    fn explain(&self, error: Error) -> Error {
        if self.input().has_failed() || error.kind() == ErrorKind::Interrupted || Refused::of(&error).is_some() {
            return error;
        }
        let compression = self.compression();
        let at = self.input().used();
        if error.get_ref().is_some_and(|inner| inner.is::<TrailingBytes>()) {
            let text = format!(
                "{compression} input has trailing bytes after the archive, from byte {at} of it on, which are no {compression}"
            );
            return Error::other(text);
        }
        if is_truncation(&error) {
            let text =
                format!("{compression} input breaks off after byte {at} of the compressed data: it is not whole");
            return Error::new(ErrorKind::UnexpectedEof, text);
        }
        let text = format!("{compression} input is damaged near byte {at} of the compressed data: {error}");
        Error::new(ErrorKind::InvalidData, text)
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let read = match &mut self.0 {
            Source::Plain(input) => input.read(buffer),
            Source::Gzip(decoder) => decoder.read(buffer),
            Source::Zstd(decoder) => decoder.read(buffer),
            Source::Bzip2(decoder) => decoder.read(buffer),
            Source::Xz(decoder) => decoder.read(buffer),
        };
        read.map_err(|error| self.explain(error))
    }
}

impl<R: Read> std::fmt::Debug for Decompressed<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressed(..)")
    }
}

/// Returns the compression that `head` shows. `None` means that more bytes are needed to decide.
fn compression_of(head: &[u8]) -> Option<Compression> {
    if crate::gzip::is_member(head) {
        return Some(Compression::Gzip);
    }
    if crate::zstd::is_frame(head) {
        return Some(Compression::Zstd);
    }
    if crate::bzip2::is_member(head) {
        return Some(Compression::Bzip2);
    }
    if crate::xz::is_stream(head) {
        return Some(Compression::Xz);
    }
    let may_become = crate::gzip::may_become_member(head)
        || crate::zstd::may_become_frame(head)
        || crate::bzip2::may_become_member(head)
        || crate::xz::may_become_stream(head);
    (!may_become).then_some(Compression::Plain)
}

fn is_truncation(error: &Error) -> bool {
    if error.kind() == ErrorKind::UnexpectedEof {
        return true;
    }
    let mut cause: Option<&(dyn StdError + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(inner) = cause {
        if inner.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = inner.source();
    }
    false
}
