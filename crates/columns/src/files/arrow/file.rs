//! Reads the messages of a file (Feather version 2) in the order of its index.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::{Block, root_as_footer};
use arrow_schema::SchemaRef;

use super::message::{Decoder, undecodable};
use super::{FileError, check_size};

/// First and last bytes of a file. A stream does not have them.
pub(in super::super) const FILE_MAGIC: &[u8; 6] = b"ARROW1";
/// Number of bytes at the end of a file: the length of its index, and the magic bytes.
const TAIL_BYTES: usize = 10;
/// Number of bytes that may precede the metadata of a message: the mark of a message, and its length.
const PREFIX_BYTES: usize = 8;

/// The batches of a file.
pub(in super::super) struct FileBatches<R> {
    file: R,
    decoder: Decoder,
    /// Messages that were not read yet: dictionaries first, then batches.
    messages: VecDeque<Place>,
}

/// Place of a message in a file.
struct Place {
    start: u64,
    metadata_bytes: u64,
    body_bytes: u64,
}

/// Returns whether a file begins like a file of Arrow, and rewinds it.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(in super::super) fn has_magic(file: &mut (impl Read + Seek)) -> Result<bool, FileError> {
    let mut magic = Vec::new();
    file.rewind()?;
    file.take(FILE_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    Ok(magic == FILE_MAGIC)
}

impl<R: Read + Seek> FileBatches<R> {
    /// Reads the index of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if its index is damaged.
    pub(in super::super) fn open(mut file: R) -> Result<Self, FileError> {
        let file_bytes = file.seek(SeekFrom::End(0))?;
        let tail_start = file_bytes.checked_sub(TAIL_BYTES as u64).ok_or(FileError::CutOff)?;
        let mut tail = [0; TAIL_BYTES];
        file.seek(SeekFrom::Start(tail_start))?;
        file.read_exact(&mut tail)?;
        let [a, b, c, d, magic @ ..] = tail;
        if magic != *FILE_MAGIC {
            return Err(FileError::CutOff);
        }
        let index_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
        let Some(index_start) = tail_start.checked_sub(index_bytes) else {
            return Err(FileError::Undecodable("its index is larger than the file".to_owned()));
        };
        let index = read_at(&mut file, index_start, index_bytes)?;
        let index = root_as_footer(&index).map_err(undecodable)?;
        let schema = index.schema();
        let schema = schema.ok_or_else(|| FileError::Undecodable("its index has no schema".to_owned()))?;
        let decoder = Decoder::new(Arc::new(fb_to_schema(schema)));
        let blocks = index.dictionaries().into_iter().flatten().chain(index.recordBatches().into_iter().flatten());
        let messages = blocks.map(|block| Place::new(block, file_bytes)).collect::<Result<VecDeque<_>, _>>()?;
        Ok(Self { file, decoder, messages })
    }

    pub(in super::super) fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    /// Reads the next batch. `None` means that the file has no further batches.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or decoded.
    pub(in super::super) fn next(&mut self) -> Result<Option<RecordBatch>, FileError> {
        while let Some(Place { start, metadata_bytes, body_bytes }) = self.messages.pop_front() {
            let prefixed = read_at(&mut self.file, start, metadata_bytes)?;
            let body = read_at(&mut self.file, start + metadata_bytes, body_bytes)?;
            if let Some(rows) = self.decoder.decode(metadata_of(&prefixed), &Buffer::from_vec(body))? {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }
}

impl Place {
    /// Checks that a message is within the file, and not too large.
    fn new(block: &Block, file_bytes: u64) -> Result<Self, FileError> {
        let start = u64::try_from(block.offset()).map_err(undecodable)?;
        let metadata_bytes = u64::try_from(block.metaDataLength()).map_err(undecodable)?;
        let body_bytes = u64::try_from(block.bodyLength()).map_err(undecodable)?;
        check_size(metadata_bytes)?;
        check_size(body_bytes)?;
        match start.checked_add(metadata_bytes + body_bytes) {
            Some(end) if end <= file_bytes => Ok(Self { start, metadata_bytes, body_bytes }),
            _ => Err(FileError::Undecodable("its index names a place beyond its end".to_owned())),
        }
    }
}

/// Returns the metadata of a message without what precedes it: its length, and in newer files a mark.
fn metadata_of(prefixed: &[u8]) -> &[u8] {
    let prefix_bytes = if prefixed.starts_with(&[0xff; 4]) { PREFIX_BYTES } else { PREFIX_BYTES / 2 };
    prefixed.get(prefix_bytes..).unwrap_or_default()
}

/// Reads bytes within the file, whose number was checked.
fn read_at(file: &mut (impl Read + Seek), start: u64, bytes: u64) -> Result<Vec<u8>, FileError> {
    let mut found = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(bytes).read_to_end(&mut found)?;
    if found.len() as u64 == bytes { Ok(found) } else { Err(FileError::CutOff) }
}
