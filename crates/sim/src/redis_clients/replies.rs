//! Parser for the replies of a Redis endpoint (RESP 2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes in a reply. The endpoint replies to the commands used here with one short line.
const LINE_BYTES_MAX: usize = 1024;

/// A reply in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A status reply, such as `+OK`.
    Status(String),
    /// An error with its text.
    Error(String),
    /// A number.
    Integer(i64),
    /// A nil reply.
    Nil,
}

/// Reads one reply.
///
/// # Errors
/// Returns an error if the connection ends, or if the reply has an unknown form.
pub(super) async fn read_reply(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Reply> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LINE_BYTES_MAX {
            return Err(io::Error::other("the reply is too long"));
        }
        line.push(reader.read_u8().await?);
    }
    let line = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
    let reply = match line.split_at_checked(1) {
        Some(("+", status)) => Some(Reply::Status(status.to_owned())),
        Some(("-", error)) => Some(Reply::Error(error.to_owned())),
        Some((":", number)) => number.parse().ok().map(Reply::Integer),
        Some(("$", "-1")) => Some(Reply::Nil),
        _ => None,
    };
    reply.ok_or_else(|| io::Error::other(format!("unknown reply {line:?}")))
}
