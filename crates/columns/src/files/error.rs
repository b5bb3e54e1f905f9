//! Errors of reading and writing files.

use std::error::Error;
use std::io;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// Why a file of rows cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system reports an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The content of the file is damaged, or uses a feature that is not supported.
    #[error("it cannot be decoded, as it is damaged or uses a feature that is not supported ({0})")]
    Undecodable(String),
    /// The file ends before its last record.
    #[error("the input ends within a batch of rows: the rest of it is missing")]
    CutOff,
    /// A message is too large.
    #[error("a batch of rows has {bytes} bytes, and at most {bytes_max} are read: write smaller batches")]
    TooLarge {
        /// Size of the message.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Rows cannot be written in the form of the input.
    #[error("rows cannot be written: {0}")]
    Unwritable(String),
}

impl From<ParquetError> for FileError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => of_other(inner),
            ParquetError::General(reason)
            | ParquetError::NYI(reason)
            | ParquetError::EOF(reason)
            | ParquetError::ArrowError(reason) => Self::Undecodable(reason),
            error => Self::Undecodable(error.to_string()),
        }
    }
}

impl From<ArrowError> for FileError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Self::Io(error),
            ArrowError::ExternalError(inner) => of_other(inner),
            ArrowError::ParquetError(reason) | ArrowError::IpcError(reason) => Self::Undecodable(reason),
            error => Self::Undecodable(error.to_string()),
        }
    }
}

fn of_other(error: Box<dyn Error + Send + Sync>) -> FileError {
    let error = match error.downcast::<ParquetError>() {
        Ok(error) => return FileError::from(*error),
        Err(error) => error,
    };
    match error.downcast::<io::Error>() {
        Ok(error) => FileError::Io(*error),
        Err(error) => FileError::Undecodable(error.to_string()),
    }
}

/// Returns the error of writing. A writer reports every failure like a reader does.
pub(crate) fn unwritable(error: impl Into<FileError>) -> FileError {
    match error.into() {
        FileError::Undecodable(reason) => FileError::Unwritable(reason),
        error => error,
    }
}
