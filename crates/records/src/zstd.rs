//! Reads the frames of a zstd file one after the other, including skippable frames. This module does not depend on the
//! meaning of the bytes.

use crate::byte_kind::ByteKind;
use crate::counted_input::{CountedInput, TrailingBytes};
use crate::refused::Refused;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, Error, ErrorKind, Read, Result, copy, sink};

const FRAME_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// End of the magic of a skippable frame. Its first byte may be any value from `50` to `5F`.
const SKIPPABLE_MAGIC_END: [u8; 3] = [0x2A, 0x4D, 0x18];

/// Maximum size of the decompression window in bytes, which limits the memory that decompression needs. A frame that
/// requires a larger window is rejected, as it is by `zstd -d`. For comparison, the tool zstd uses a window of 8 MiB up
/// to level 19, and of 128 MiB with `--long`.
const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// Returns whether an input with this beginning is zstd.
pub(crate) fn is_frame(head: &[u8]) -> bool {
    head.first_chunk::<4>().is_some_and(|magic| *magic == FRAME_MAGIC || is_skippable(magic))
}

/// Returns whether an input that begins with these bytes may turn out to be zstd.
pub(crate) fn may_become_frame(head: &[u8]) -> bool {
    let begins_skippable = match head {
        [] => true,
        [first, rest @ ..] => first & 0xF0 == 0x50 && SKIPPABLE_MAGIC_END.starts_with(rest),
    };
    head.len() < 4 && (FRAME_MAGIC.starts_with(head) || begins_skippable)
}

fn is_skippable([first, rest @ ..]: &[u8; 4]) -> bool {
    first & 0xF0 == 0x50 && *rest == SKIPPABLE_MAGIC_END
}

pub(crate) struct ZstdReader<R> {
    input: CountedInput<R>,
    /// The current frame.
    frame: Option<Box<FrameDecoder>>,
    is_at_end: bool,
}

impl<R: Read> ZstdReader<R> {
    pub(crate) fn new(input: CountedInput<R>) -> Self {
        Self { input, frame: None, is_at_end: false }
    }

    pub(crate) fn input(&self) -> &CountedInput<R> {
        &self.input
    }

    /// Opens the next frame with data. Returns `None` at the end of the input.
    fn open_frame(&mut self) -> Result<Option<Box<FrameDecoder>>> {
        while !self.input.fill_buf()?.is_empty() {
            let head = self.input.peek(FRAME_MAGIC.len())?;
            if !is_frame(head) && !may_become_frame(head) {
                return Err(Error::other(TrailingBytes));
            }
            let mut frame = Box::new(FrameDecoder::new());
            frame.set_max_window_size(WINDOW_BYTES_MAX);
            match frame.init(&mut self.input) {
                Ok(()) => return Ok(Some(frame)),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = copy(&mut (&mut self.input).take(length.into()), &mut sink())?;
                    if skipped < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested: window_bytes, .. }) => {
                    return Err(Refused::error(ByteKind::ZstdWindow { window_bytes }));
                }
                Err(FrameDecoderError::DictNotProvided { dict_id: id }) => {
                    return Err(Refused::error(ByteKind::ZstdDictionary { id }));
                }
                Err(error) => return Err(Error::other(error)),
            }
        }
        Ok(None)
    }

    fn next_bytes(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let frame = match &mut self.frame {
                Some(frame) => frame,
                None => match self.open_frame()? {
                    Some(frame) => self.frame.insert(frame),
                    None => return Ok(0),
                },
            };
            while frame.can_collect() == 0 && !frame.is_finished() {
                frame.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1)).map_err(Error::other)?;
            }
            let bytes = frame.read(buffer)?;
            if bytes > 0 {
                return Ok(bytes);
            }
            let written = frame.get_checksum_from_data();
            if written.is_some() && written != frame.get_calculated_checksum() {
                return Err(Error::new(ErrorKind::InvalidData, "its checksum does not match"));
            }
            self.frame = None;
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_at_end || buffer.is_empty() {
            return Ok(0);
        }
        let read = self.next_bytes(buffer);
        self.is_at_end = !matches!(read, Ok(1..));
        read
    }
}
