//! Replies into bytes, in the two versions of the protocol. Promises: no memory is taken but for the bytes that are
//! written; a text cannot end its line early. Must not know: what replies mean, and whether an array gets as many
//! members as its header says: that is the caller's.

use bytes::{Bytes, BytesMut};
use std::fmt::{self, Display, Write};

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What all clients speak: no booleans, no maps, and nulls of two kinds.
    #[default]
    Resp2,
    /// What clients ask for with `HELLO 3`.
    Resp3,
}

/// The replies to one client that are not yet sent.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: BytesMut,
    protocol: Protocol,
}

impl Replies {
    /// No replies yet.
    pub fn new(protocol: Protocol) -> Self {
        Self { bytes: BytesMut::new(), protocol }
    }

    /// The version in which replies are written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Writes further replies in another version.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// How many bytes are to be sent.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is to be sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what is to be sent.
    pub fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    /// A word of success, such as `OK`. Ends of lines become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error: its code in capitals, a space, and a sentence. Ends of lines become spaces.
    pub fn error(&mut self, error: impl Display) {
        self.line(b'-', error);
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// Any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Nothing, where bytes might be.
    pub fn null(&mut self) {
        self.versions("$-1\r\n", "_\r\n");
    }

    /// Nothing, where an array might be.
    pub fn null_array(&mut self) {
        self.versions("*-1\r\n", "_\r\n");
    }

    /// Yes or no; version 2 has the integers 1 and 0 for these.
    pub fn boolean(&mut self, value: bool) {
        if value { self.versions(":1\r\n", "#t\r\n") } else { self.versions(":0\r\n", "#f\r\n") }
    }

    /// The header of an array: `members` replies follow.
    pub fn array(&mut self, members: usize) {
        self.header(b'*', members);
    }

    /// The header of a message that answers no command by itself: `members` replies follow; version 2 has an array.
    pub fn push(&mut self, members: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', members),
            Protocol::Resp3 => self.header(b'>', members),
        }
    }

    /// An array without members.
    pub fn empty_array(&mut self) {
        self.array(0);
    }

    /// The header of a map: `entries` times a key and a value follow; version 2 has an array of all these.
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
        // What is displayed may fail on its own account: then its text ends there.
        let _ = write!(OneLine { bytes: &mut self.bytes }, "{text}");
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Writes text without ends of lines.
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
