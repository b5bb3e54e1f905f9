//! Reads the messages of a stream.

use std::io::{ErrorKind, Read};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::root_as_message;
use arrow_schema::SchemaRef;

use super::message::{Decoder, undecodable};
use super::{FileError, check_size};

/// Mark before the length of a message. Streams of old programs do not have it.
const MESSAGE_MARK: [u8; 4] = [0xff; 4];

/// The batches of a stream.
pub(in super::super) struct StreamBatches<R> {
    input: R,
    decoder: Decoder,
    has_ended: bool,
}

/// Bytes of a message.
struct Message {
    metadata: Vec<u8>,
    body: Vec<u8>,
}

impl<R: Read> StreamBatches<R> {
    /// Reads the schema at the beginning of a stream.
    ///
    /// # Errors
    /// Returns an error if the stream does not begin with a schema.
    pub(in super::super) fn open(mut input: R) -> Result<Self, FileError> {
        let Some(Message { metadata, .. }) = read_message(&mut input)? else {
            return Err(FileError::Undecodable("it does not begin with a schema".to_owned()));
        };
        Ok(Self { decoder: Decoder::of_message(&metadata)?, input, has_ended: false })
    }

    pub(in super::super) fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    /// Reads the next batch. `None` means that the stream has ended.
    ///
    /// # Errors
    /// Returns an error if the stream cannot be read or decoded, or if something follows its end.
    pub(in super::super) fn next(&mut self) -> Result<Option<RecordBatch>, FileError> {
        while !self.has_ended {
            let Some(Message { metadata, body }) = read_message(&mut self.input)? else {
                self.has_ended = true;
                check_end(&mut self.input)?;
                return Ok(None);
            };
            if let Some(rows) = self.decoder.decode(&metadata, &Buffer::from_vec(body))? {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }
}

/// Checks that nothing follows the end of a stream.
fn check_end(input: &mut impl Read) -> Result<(), FileError> {
    if read_up_to(input, 1)?.is_empty() {
        return Ok(());
    }
    let text = "another stream follows its end: give each stream a file of its own";
    Err(FileError::Undecodable(text.to_owned()))
}

/// Reads a message. `None` means that the stream has ended.
fn read_message(input: &mut impl Read) -> Result<Option<Message>, FileError> {
    let Some(mut length) = read_word(input)? else { return Ok(None) };
    if length == MESSAGE_MARK {
        length = read_word(input)?.ok_or(FileError::CutOff)?;
    }
    let metadata_bytes = u64::from(u32::from_le_bytes(length));
    if metadata_bytes == 0 {
        return Ok(None);
    }
    check_size(metadata_bytes)?;
    let metadata = read_whole(input, metadata_bytes)?;
    let body_bytes = root_as_message(&metadata).map_err(undecodable)?.bodyLength();
    let body_bytes = u64::try_from(body_bytes).map_err(undecodable)?;
    check_size(body_bytes)?;
    let body = read_whole(input, body_bytes)?;
    Ok(Some(Message { metadata, body }))
}

/// Reads four bytes. `None` means that the stream has ended before them.
fn read_word(input: &mut impl Read) -> Result<Option<[u8; 4]>, FileError> {
    let bytes = read_up_to(input, 4)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    <[u8; 4]>::try_from(bytes).map(Some).map_err(|_| FileError::CutOff)
}

fn read_whole(input: &mut impl Read, bytes: u64) -> Result<Vec<u8>, FileError> {
    let found = read_up_to(input, bytes)?;
    if found.len() as u64 == bytes { Ok(found) } else { Err(FileError::CutOff) }
}

/// Reads at most `bytes_max` bytes, and fewer only at the end of the input. Memory grows with the bytes that arrive.
fn read_up_to(input: &mut impl Read, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    let mut found = Vec::new();
    loop {
        match input.take(bytes_max - found.len() as u64).read_to_end(&mut found) {
            Ok(_) => return Ok(found),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
