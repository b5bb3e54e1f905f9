//! Reads Arrow's format for batches (IPC), as a stream or as a file.
//!
//! Both consist of messages: a schema, dictionaries, and batches of rows. A stream has them one after the other. A file
//! has an index at its end that says where they are. `message` decodes a message, and does not depend on where it comes
//! from.
//!
//! Memory grows only with the bytes that arrive. Compressed values are the exception: their size is named before them,
//! and is checked against a limit.

mod file;
mod message;
mod stream;

pub(super) use file::{FILE_MAGIC, FileBatches, has_magic};
pub(super) use stream::StreamBatches;

use super::FileError;

/// Maximum number of bytes of one message, and of its values when they are decompressed.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;

fn check_size(bytes: u64) -> Result<(), FileError> {
    if bytes > MESSAGE_BYTES_MAX {
        return Err(FileError::TooLarge { bytes, bytes_max: MESSAGE_BYTES_MAX });
    }
    Ok(())
}
