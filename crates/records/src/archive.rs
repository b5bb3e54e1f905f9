//! Decompresses an archive that consists of several compressed parts in sequence. In gzip and bzip2 the parts are
//! called members, and in xz they are called streams. The result is the concatenation of the decompressed parts.

use crate::counted_input::CountedInput;
use std::io::{Read, Result};

/// One part of an archive, which is being decoded.
pub(crate) trait Part: Sized {
    /// The type of input that the archive is read from.
    type Input: Read;

    /// Opens the part that begins with the next byte.
    fn open(input: CountedInput<Self::Input>) -> Self;

    /// Returns the input that this part is read from.
    fn input(&self) -> &CountedInput<Self::Input>;

    /// Returns the input, so that the next part can be read from it.
    fn input_mut(&mut self) -> &mut CountedInput<Self::Input>;

    /// Decodes the next bytes into `buffer`, and returns their number. Returns 0 at the end of the part if its checksum
    /// is correct.
    fn decode(&mut self, buffer: &mut [u8]) -> Result<usize>;

    /// Reads past the padding after a part. Returns whether another part follows.
    ///
    /// # Errors
    /// Returns an error if other bytes follow.
    fn has_next(input: &mut CountedInput<Self::Input>) -> Result<bool>;
}

/// Reader of the decompressed bytes of all parts of an archive.
pub(crate) struct Archive<P> {
    part: P,
    is_at_end: bool,
}

impl<P: Part> Archive<P> {
    pub(crate) fn new(input: CountedInput<P::Input>) -> Self {
        Self { part: P::open(input), is_at_end: false }
    }

    pub(crate) fn input(&self) -> &CountedInput<P::Input> {
        self.part.input()
    }

    fn next_bytes(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let bytes = self.part.decode(buffer)?;
            if bytes > 0 {
                return Ok(bytes);
            }
            let input = self.part.input_mut();
            if !P::has_next(input)? {
                return Ok(0);
            }
            self.part = P::open(input.take_over());
        }
    }
}

impl<P: Part> Read for Archive<P> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_at_end || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.next_bytes(buffer);
        self.is_at_end = !matches!(read, Ok(1..));
        read
    }
}
