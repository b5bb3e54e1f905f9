//! Decodes messages.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::SchemaRef;

use super::{FileError, check_size};

/// Schema and dictionaries of the messages so far, which later messages need.
pub(super) struct Decoder {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
}

/// Number of bytes before compressed values, which name the size of the values.
const SIZE_BYTES: usize = 8;

impl Decoder {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { schema, dictionaries: HashMap::new() }
    }

    /// Creates a decoder from the message with the schema.
    pub(super) fn of_message(metadata: &[u8]) -> Result<Self, FileError> {
        let message = root_as_message(metadata).map_err(undecodable)?;
        let schema = message.header_as_schema();
        let schema = schema.ok_or_else(|| FileError::Undecodable("it does not begin with a schema".to_owned()))?;
        Ok(Self::new(Arc::new(fb_to_schema(schema))))
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decodes a message after the schema. Returns its rows, if it has rows.
    pub(super) fn decode(&mut self, metadata: &[u8], body: &Buffer) -> Result<Option<RecordBatch>, FileError> {
        let message = root_as_message(metadata).map_err(undecodable)?;
        let version = message.version();
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let Some(batch) = message.header_as_record_batch() else { return Ok(None) };
                check_values(&batch, body)?;
                let schema = Arc::clone(&self.schema);
                Ok(Some(read_record_batch(body, batch, schema, &self.dictionaries, None, &version)?))
            }
            MessageHeader::DictionaryBatch => {
                let Some(dictionary) = message.header_as_dictionary_batch() else { return Ok(None) };
                dictionary.data().map_or(Ok(()), |values| check_values(&values, body))?;
                read_dictionary(body, dictionary, &self.schema, &mut self.dictionaries, &version)?;
                Ok(None)
            }
            MessageHeader::NONE => Ok(None),
            other => Err(FileError::Undecodable(format!("it has a message of the unsupported kind {other:?}"))),
        }
    }
}

/// Checks the sizes that compressed values name before them, because the library allocates memory for these sizes.
fn check_values(batch: &arrow_ipc::RecordBatch<'_>, body: &Buffer) -> Result<(), FileError> {
    if batch.compression().is_none() {
        return Ok(());
    }
    let mut total_bytes: u64 = 0;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(buffer.offset()).unwrap_or(usize::MAX);
        let named = start.checked_add(SIZE_BYTES).and_then(|end| body.as_slice().get(start..end));
        let Some(named) = named.and_then(|bytes| <[u8; SIZE_BYTES]>::try_from(bytes).ok()) else { continue };
        // -1 stands for values that are not compressed.
        total_bytes = total_bytes.saturating_add(u64::try_from(i64::from_le_bytes(named)).unwrap_or(0));
    }
    check_size(total_bytes)
}

pub(super) fn undecodable(error: impl std::fmt::Display) -> FileError {
    FileError::Undecodable(error.to_string())
}
