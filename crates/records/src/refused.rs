//! The error for an input that is valid but does not contain records as text.

use crate::byte_kind::ByteKind;
use crate::compression::Compression;
use std::io::{Error, ErrorKind};

/// Error for an input that is refused because its bytes are not text, for example because it is an archive. A function
/// that reads such an input returns an [`Error`] of kind [`ErrorKind::Unsupported`], and this value is the inner error
/// of it.
///
/// ```
/// use firstseen_records::{ByteKind, Decompressed, Refused, TextInput};
/// let mut input = TextInput::new(Decompressed::new(&b"PK\x03\x04......"[..])?, b'\n');
/// let error = input.check().expect_err("an archive is no text");
/// let refused = Refused::of(&error).expect("the reason");
/// assert_eq!(refused.kind(), ByteKind::Zip);
/// assert_eq!(refused.to_string(), "it is a zip archive");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    kind: ByteKind,
    compression: Option<Compression>,
}

impl Refused {
    /// Returns the reason within `error`, if `error` contains one.
    pub fn of(error: &Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).copied()
    }

    /// Returns the kind of the bytes.
    pub fn kind(self) -> ByteKind {
        self.kind
    }

    /// Returns the command that converts the input into records. `file` is the name of the input, and `-` means
    /// standard input.
    pub fn advice(self, file: &str) -> String {
        crate::advice::advice(self.kind, file, self.compression)
    }

    pub(crate) fn error(kind: ByteKind) -> Error {
        Self { kind, compression: None }.into()
    }

    /// Returns the error for bytes that were found in the output of a decompressor.
    pub(crate) fn within(kind: ByteKind, compression: Compression) -> Error {
        let compression = Some(compression).filter(|compression| *compression != Compression::Plain);
        Self { kind, compression }.into()
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::new(ErrorKind::Unsupported, refused)
    }
}

impl std::error::Error for Refused {}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it is {}", self.kind)?;
        self.compression.map_or(Ok(()), |compression| write!(f, " within {compression} data"))
    }
}
