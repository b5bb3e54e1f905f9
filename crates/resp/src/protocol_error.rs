//! Errors of bytes that are not a request.

use std::fmt::{self, Display, Formatter};

/// Error returned if bytes are not a request, or if a request is too large. The caller sends the text of [`Display`],
/// which is the error text of Redis and begins with `ERR`, to the client. The caller must then close the connection,
/// because the parser cannot know where the next request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is not a number, or is too great.
    InvalidMultibulkLength,
    /// The length of an argument is not a number, is negative or too great, or does not match the bytes that follow.
    InvalidBulkLength,
    /// An argument does not begin with `$`.
    ExpectedBulk {
        /// First byte of the argument.
        got: u8,
    },
    /// An inline command has too many bytes or arguments.
    TooBigInline,
    /// The line with the number of arguments is too long.
    TooBigMultibulkCount,
    /// The line with the length of an argument is too long.
    TooBigBulkCount,
    /// An inline command ends within quotes, or continues directly after a closing quote.
    UnbalancedQuotes,
    /// A client that must authenticate first sends too many arguments.
    UnauthenticatedMultibulkLength,
    /// A client that must authenticate first sends an argument that is too long.
    UnauthenticatedBulkLength,
}

impl Display for ProtocolError {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("ERR Protocol error: ")?;
        out.write_str(match *self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length (items and values have at most 65536 bytes)",
            Self::ExpectedBulk { got } => return expected(got, out),
            Self::TooBigInline => "too big inline request",
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
        })
    }
}

/// Writes the unexpected byte. A line end is written as a space, as Redis does, and other unprintable bytes are written
/// as a number.
fn expected(got: u8, out: &mut Formatter<'_>) -> fmt::Result {
    match got {
        b'\r' | b'\n' => out.write_str("expected '$', got ' '"),
        b' '..=b'~' => write!(out, "expected '$', got '{}'", char::from(got)),
        _ => write!(out, "expected '$', got '{}'", got.escape_ascii()),
    }
}

impl std::error::Error for ProtocolError {}
