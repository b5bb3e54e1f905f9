//! A request as bytes: a name and arguments, which lie in the bytes that came. Must not know: how these were found, and
//! what they mean.

use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;

/// Where an argument lies in the bytes of its command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The span of these bytes; [`Limits`](crate::Limits) keep both below 2^31.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// One request: the name of a command, and its arguments.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    all: Arguments<'a>,
    taken_bytes: usize,
}

impl<'a> Command<'a> {
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span], taken_bytes: usize) -> Self {
        Self { all: Arguments { bytes, spans }, taken_bytes }
    }

    /// The name, as the client wrote it.
    pub fn name(&self) -> &'a [u8] {
        self.all.at(0)
    }

    /// What follows the name.
    pub fn arguments(&self) -> Arguments<'a> {
        self.all.from(1)
    }

    /// How many arguments there are as Redis counts them: with the name.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// How many bytes of the connection the command took.
    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes
    }

    /// A copy that outlives the bytes that came, for commands that are carried out later.
    pub fn keep(&self) -> KeptCommand {
        let mut kept = KeptCommand { bytes: Vec::new(), spans: Vec::new(), taken_bytes: self.taken_bytes };
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

/// Only the name and the count: arguments may be passwords.
impl Debug for Command<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "Command({} and {} arguments)", self.name().escape_ascii(), self.arguments().len())
    }
}

/// A [`Command`] with bytes of its own.
#[derive(Clone)]
pub struct KeptCommand {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    taken_bytes: usize,
}

impl KeptCommand {
    /// The command, as it was.
    pub fn command(&self) -> Command<'_> {
        Command::new(&self.bytes, &self.spans, self.taken_bytes)
    }

    /// The memory that it holds, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl Debug for KeptCommand {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.command().fmt(out)
    }
}

/// Arguments in a row.
#[derive(Clone, Copy, Default)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The one at `index`, from 0.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// The one at `index`, from 0; no bytes where there is none.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// Those from `first` on.
    #[must_use]
    pub fn from(&self, first: usize) -> Self {
        Self { spans: self.spans.get(first..).unwrap_or_default(), ..*self }
    }

    /// The first `count`, or all where there are fewer.
    #[must_use]
    pub fn up_to(&self, count: usize) -> Self {
        Self { spans: self.spans.get(..count).unwrap_or(self.spans), ..*self }
    }

    /// All, in order.
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

/// The arguments of [`Arguments::iter`].
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
