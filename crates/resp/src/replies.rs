//! Encodes replies to Redis clients in both versions of the Redis protocol.
//!
//! Line ends in texts are replaced with spaces. Some texts, such as errors, contain words from the client's request.
//! Without the replacement, a client could use such words to inject additional replies.
//!
//! After the header of an array, the caller must write exactly as many elements as the header announces.

use bytes::{Bytes, BytesMut};
use std::fmt::{self, Display, Write};

/// Version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Version that all clients speak. It has no booleans and no maps, and two kinds of null.
    #[default]
    Resp2,
    /// Version that clients request with `HELLO 3`.
    Resp3,
}

/// Replies to one client that have not been sent yet.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: BytesMut,
    protocol: Protocol,
}

impl Replies {
    /// Creates an empty buffer of replies.
    pub fn new(protocol: Protocol) -> Self {
        Self { bytes: BytesMut::new(), protocol }
    }

    /// Returns the version in which replies are written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sets the version in which further replies are written.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns the number of bytes to send.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes and returns the bytes to send.
    pub fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    /// Writes a simple string, such as `OK`. Line ends are replaced with spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// Writes an error: a code in upper case, a space, and a sentence. Line ends are replaced with spaces.
    pub fn error(&mut self, error: impl Display) {
        self.line(b'-', error);
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// Writes a string of arbitrary bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes a null in the place of a string.
    pub fn null(&mut self) {
        self.versions("$-1\r\n", "_\r\n");
    }

    /// Writes a null in the place of an array.
    pub fn null_array(&mut self) {
        self.versions("*-1\r\n", "_\r\n");
    }

    /// Writes a boolean. Version 2 uses the integers 1 and 0.
    pub fn boolean(&mut self, value: bool) {
        if value { self.versions(":1\r\n", "#t\r\n") } else { self.versions(":0\r\n", "#f\r\n") }
    }

    /// Writes the header of an array, after which the caller writes `members` replies.
    pub fn array(&mut self, members: usize) {
        self.header(b'*', members);
    }

    /// Writes the header of a message that the server sends without a request, for example a published message. The
    /// caller then writes `members` replies. In version 2 of the protocol, such a message has the form of an array.
    pub fn push(&mut self, members: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', members),
            Protocol::Resp3 => self.header(b'>', members),
        }
    }

    /// Writes an array without elements.
    pub fn empty_array(&mut self) {
        self.array(0);
    }

    /// Writes the header of a map. The caller then writes `entries` keys, each followed by its value. Version 2 of the
    /// protocol has no maps, so the keys and values form an array there.
    pub fn map(&mut self, entries: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * entries),
            Protocol::Resp3 => self.header(b'%', entries),
        }
    }

    fn versions(&mut self, two: &str, three: &str) {
        let text = match self.protocol {
            Protocol::Resp2 => two,
            Protocol::Resp3 => three,
        };
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn header(&mut self, mark: u8, value: impl itoa::Integer) {
        self.bytes.extend_from_slice(&[mark]);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, mark: u8, text: impl Display) {
        self.bytes.extend_from_slice(&[mark]);
        // If the value's own `Display` implementation fails, the text ends there.
        let _ = write!(OneLine { bytes: &mut self.bytes }, "{text}");
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Writer that removes line ends from text.
struct OneLine<'r> {
    bytes: &'r mut BytesMut,
}

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (number, part) in text.split(['\r', '\n']).enumerate() {
            if number > 0 {
                self.bytes.extend_from_slice(b" ");
            }
            self.bytes.extend_from_slice(part.as_bytes());
        }
        Ok(())
    }
}
