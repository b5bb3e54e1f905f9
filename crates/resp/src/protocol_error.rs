//! What is wrong with bytes that are no request. Must not know: how they are parsed.

use std::fmt::{self, Display, Formatter};

/// Bytes that are no request, or one that is too large. Whoever gets it sends it as an error, in the words of
/// [`Display`], which are Redis' and begin with `ERR`, and closes the connection: where the next request begins is not
/// known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count of arguments is no number, or too great.
    InvalidMultibulkLength,
    /// The length of an argument is no number, is negative or too great, or is not the length of what follows.
    InvalidBulkLength,
    /// An argument does not begin with `$`.
    ExpectedBulk {
        /// The byte that it begins with.
        got: u8,
    },
    /// An inline command has too many bytes or arguments.
    TooBigInline,
    /// The count of arguments has no end.
    TooBigMultibulkCount,
    /// The length of an argument has no end.
    TooBigBulkCount,
    /// An inline command ends inside of quotes, or goes on right behind them.
    UnbalancedQuotes,
    /// A client that has to say who it is first sends too many arguments.
    UnauthenticatedMultibulkLength,
    /// A client that has to say who it is first sends too long an argument.
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

/// The end of a line is told as a space, which is what Redis sends, and other bytes that are no text by their number.
fn expected(got: u8, out: &mut Formatter<'_>) -> fmt::Result {
    match got {
        b'\r' | b'\n' => out.write_str("expected '$', got ' '"),
        b' '..=b'~' => write!(out, "expected '$', got '{}'", char::from(got)),
        _ => write!(out, "expected '$', got '{}'", got.escape_ascii()),
    }
}

impl std::error::Error for ProtocolError {}
