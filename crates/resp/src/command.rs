//! Request of a Redis client as bytes. A request consists of a command name and arguments, which refer to the received
//! bytes instead of copying them.

use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;

/// Position of an argument in the bytes of its command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Creates the span of these bytes. [`Limits`](crate::Limits) keep both numbers below 2^31.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Request of a client: the name of a command, and its arguments.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    all: Arguments<'a>,
    consumed_bytes: usize,
}

impl<'a> Command<'a> {
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span], consumed_bytes: usize) -> Self {
        Self { all: Arguments { bytes, spans }, consumed_bytes }
    }

    /// Returns the name of the command, as the client wrote it.
    pub fn name(&self) -> &'a [u8] {
        self.all.at(0)
    }

    /// Returns the arguments after the name.
    pub fn arguments(&self) -> Arguments<'a> {
        self.all.from(1)
    }

    /// Returns the number of arguments including the name, as Redis counts them.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the size of the command on the connection, in bytes.
    pub fn consumed_bytes(&self) -> usize {
        self.consumed_bytes
    }

    /// Copies the command with its bytes, for commands that are executed later.
    pub fn keep(&self) -> KeptCommand {
        let mut kept = KeptCommand { bytes: Vec::new(), spans: Vec::new(), consumed_bytes: self.consumed_bytes };
        kept.bytes.reserve_exact(self.all.iter().map(<[u8]>::len).sum());
        kept.spans.reserve_exact(self.all.len());
        for argument in self.all {
            let start = kept.bytes.len();
            kept.bytes.extend_from_slice(argument);
            kept.spans.push(Span::new(start, kept.bytes.len()));
        }
        kept
    }
}

/// Prints only the name and the number of arguments, because arguments may be passwords.
impl Debug for Command<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "Command({} and {} arguments)", self.name().escape_ascii(), self.arguments().len())
    }
}

/// A [`Command`] that owns its bytes.
#[derive(Clone)]
pub struct KeptCommand {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    consumed_bytes: usize,
}

impl KeptCommand {
    /// Returns the command.
    pub fn command(&self) -> Command<'_> {
        Command::new(&self.bytes, &self.spans, self.consumed_bytes)
    }

    /// Returns the memory that the command uses, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl Debug for KeptCommand {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.command().fmt(out)
    }
}

/// Consecutive arguments of a command.
#[derive(Clone, Copy, Default)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the argument at `index`, which counts from 0.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// Returns the argument at `index`, which counts from 0. Returns empty bytes if there is no such argument.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// Returns the arguments from index `first` on.
    #[must_use]
    pub fn from(&self, first: usize) -> Self {
        Self { spans: self.spans.get(first..).unwrap_or_default(), ..*self }
    }

    /// Returns the first `count` arguments, or all if there are fewer.
    #[must_use]
    pub fn up_to(&self, count: usize) -> Self {
        Self { spans: self.spans.get(..count).unwrap_or(self.spans), ..*self }
    }

    /// Iterates over all arguments, in order.
    pub fn iter(&self) -> ArgumentIter<'a> {
        ArgumentIter { bytes: self.bytes, spans: self.spans.iter() }
    }
}

impl<'a> IntoIterator for Arguments<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgumentIter<'a>;

    fn into_iter(self) -> ArgumentIter<'a> {
        self.iter()
    }
}

impl Debug for Arguments<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter().map(|argument| argument.escape_ascii().to_string())).finish()
    }
}

impl PartialEq for Arguments<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Arguments<'_> {}

/// Iterator that [`Arguments::iter`] returns.
#[derive(Clone, Debug)]
pub struct ArgumentIter<'a> {
    bytes: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
}

impl<'a> Iterator for ArgumentIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.spans.next().map(|span| span.of(self.bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }
}

impl ExactSizeIterator for ArgumentIter<'_> {}
impl FusedIterator for ArgumentIter<'_> {}
