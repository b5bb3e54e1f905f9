//! Parses the bytes of a connection into requests, regardless of how the bytes are divided into reads.
//!
//! - Each byte is examined only once, even if a command arrives byte by byte.
//! - Arguments are not copied. Inline commands are an exception, because their quotes must be removed.
//! - Memory grows with the bytes that have arrived, and never with a length that was announced.
//!
//! This parser is stricter than Redis in one respect. The protocol requires the bytes `\r\n` after a line or an
//! argument. Redis skips two bytes there without checking them, so a wrong length of an argument shifts the start of
//! the next argument unnoticed. This parser checks the two bytes, and therefore detects the wrong length.

use crate::command::Span;
use crate::inline::Words;
use crate::number::integer;
use crate::{Command, Limits, ProtocolError};
use memchr::memchr;

/// Parser state of one connection.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    stage: Stage,
    /// Number of bytes of the current command that have been parsed.
    parsed_bytes: usize,
    /// Number of bytes after the parsed bytes that are known to contain no line end.
    searched_bytes: usize,
    spans: Vec<Span>,
    words: Words,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// At the first byte of a command.
    Start,
    /// At the length of an argument, with `left` arguments to come.
    Length { left: usize },
    /// At the bytes of an argument.
    Data { left: usize, length_bytes: usize },
    /// After bytes that are not a command.
    Failed(ProtocolError),
}

/// What the available bytes begin with.
enum Step {
    /// An incomplete command.
    Incomplete,
    /// An empty request, which asks for nothing.
    Nothing { consumed_bytes: usize },
    /// A command whose arguments are in the available bytes.
    Array { consumed_bytes: usize },
    /// A command whose arguments are in the buffer of words.
    Inline { consumed_bytes: usize },
}

impl Parser {
    /// Creates a parser for a connection, starting at its first byte.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            stage: Stage::Start,
            parsed_bytes: 0,
            searched_bytes: 0,
            spans: Vec::new(),
            words: Words::default(),
        }
    }

    /// Sets the limits for the rest of the current command and for all later commands.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the memory that the parser uses, in bytes. The parser keeps its buffers between commands, so the memory
    /// depends on the largest command so far. It is at most 16 bytes for each argument of the longest command, plus
    /// twice the length of the longest line.
    pub fn held_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.words.held_bytes()
    }

    /// Frees the memory of a connection that has been idle. Nothing is freed if a command is incomplete.
    pub fn release_memory(&mut self) {
        if let Stage::Start = self.stage {
            self.spans = Vec::new();
            self.words.release_memory();
        }
    }

    /// Removes the next command from the front of `input`. Returns `None` if `input` contains no complete command. The
    /// caller then waits for more bytes from the connection, and calls this function again with the rest of `input`
    /// followed by these bytes. Like Redis, the function skips empty lines and empty arrays.
    ///
    /// # Errors
    /// Returns [`ProtocolError`] if the bytes are not a request, or if the request is too large. The caller sends the
    /// text of the error to the client, and closes the connection. Further calls return the same error.
    pub fn next<'a, 'b: 'a>(&'a mut self, input: &mut &'b [u8]) -> Result<Option<Command<'a>>, ProtocolError> {
        loop {
            let step = match self.step(input) {
                Ok(step) => step,
                Err(error) => {
                    self.stage = Stage::Failed(error);
                    return Err(error);
                }
            };
            match step {
                Step::Incomplete => return Ok(None),
                Step::Nothing { consumed_bytes } => {
                    self.take(input, consumed_bytes);
                }
                Step::Array { consumed_bytes } => {
                    let own = self.take(input, consumed_bytes);
                    return Ok(Some(Command::new(own, &self.spans, consumed_bytes)));
                }
                Step::Inline { consumed_bytes } => {
                    self.take(input, consumed_bytes);
                    return Ok(Some(Command::new(self.words.bytes(), &self.spans, consumed_bytes)));
                }
            }
        }
    }

    /// Removes a request from the front of `input`, and returns its bytes.
    fn take<'b>(&mut self, input: &mut &'b [u8], consumed_bytes: usize) -> &'b [u8] {
        (self.parsed_bytes, self.searched_bytes) = (0, 0);
        let (own, rest) = input.split_at_checked(consumed_bytes).unwrap_or((input, &[]));
        *input = rest;
        own
    }

    fn step(&mut self, input: &[u8]) -> Result<Step, ProtocolError> {
        match (self.stage, input.first()) {
            (Stage::Failed(error), _) => Err(error),
            (Stage::Start, None) => Ok(Step::Incomplete),
            (Stage::Start, Some(b'*')) => match self.begin_array(input)? {
                Some(step) => Ok(step),
                None => self.array(input),
            },
            (Stage::Start, Some(_)) => self.inline(input),
            (Stage::Length { .. } | Stage::Data { .. }, _) => self.array(input),
        }
    }

    /// Reads the number of arguments. Returns a step if there is no argument to read.
    fn begin_array(&mut self, input: &[u8]) -> Result<Option<Step>, ProtocolError> {
        let Some(line) = self.line(input, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(Some(Step::Incomplete));
        };
        let invalid = ProtocolError::InvalidMultibulkLength;
        let count = line.ends_properly.then(|| integer(line.after_type_byte())).flatten().ok_or(invalid)?;
        if count <= 0 {
            return Ok(Some(Step::Nothing { consumed_bytes: self.parsed_bytes }));
        }
        let left = usize::try_from(count).ok().filter(|_| count <= i64::from(i32::MAX)).ok_or(invalid)?;
        if left > self.limits.arguments {
            let unauthenticated = ProtocolError::UnauthenticatedMultibulkLength;
            return Err(if self.limits.is_before_auth { unauthenticated } else { invalid });
        }
        self.spans.clear();
        self.stage = Stage::Length { left };
        Ok(None)
    }

    /// Reads arguments until the command is complete, or the bytes end.
    fn array(&mut self, input: &[u8]) -> Result<Step, ProtocolError> {
        loop {
            match self.stage {
                Stage::Length { left: 0 } => {
                    self.stage = Stage::Start;
                    return Ok(Step::Array { consumed_bytes: self.parsed_bytes });
                }
                Stage::Length { left } => match self.length(input)? {
                    Some(length_bytes) => self.stage = Stage::Data { left, length_bytes },
                    None => return Ok(Step::Incomplete),
                },
                Stage::Data { left, length_bytes } => {
                    let end = self.parsed_bytes + length_bytes;
                    match input.get(end..end + 2) {
                        Some(b"\r\n") => {}
                        Some(_) => return Err(ProtocolError::InvalidBulkLength),
                        None => return Ok(Step::Incomplete),
                    }
                    self.spans.push(Span::new(self.parsed_bytes, end));
                    self.parsed_bytes = end + 2;
                    self.stage = Stage::Length { left: left - 1 };
                }
                Stage::Start | Stage::Failed(_) => return Ok(Step::Incomplete),
            }
        }
    }

    /// Reads the length of an argument.
    fn length(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(line) = self.line(input, ProtocolError::TooBigBulkCount)? else { return Ok(None) };
        match line.text.first() {
            Some(b'$') => {}
            // If the line is empty, its first byte is the line end.
            got => return Err(ProtocolError::ExpectedBulk { got: *got.unwrap_or(&b'\r') }),
        }
        let invalid = ProtocolError::InvalidBulkLength;
        let length = line.ends_properly.then(|| integer(line.after_type_byte())).flatten().ok_or(invalid)?;
        let length_bytes = usize::try_from(length).map_err(|_| invalid)?;
        if length_bytes > self.limits.argument_bytes {
            let unauthenticated = ProtocolError::UnauthenticatedBulkLength;
            return Err(if self.limits.is_before_auth { unauthenticated } else { invalid });
        }
        if self.parsed_bytes + length_bytes + 2 > self.limits.command_bytes {
            return Err(invalid);
        }
        Ok(Some(length_bytes))
    }

    /// Reads the line that begins after the parsed bytes.
    fn line<'b>(&mut self, input: &'b [u8], too_big: ProtocolError) -> Result<Option<Line<'b>>, ProtocolError> {
        let unparsed = input.get(self.parsed_bytes..).unwrap_or_default();
        let Some(end) = self.search(b'\r', unparsed, too_big)? else { return Ok(None) };
        let (Some(text), Some(&behind)) = (unparsed.get(..end), unparsed.get(end + 1)) else {
            // The next call finds the `\r` again at once.
            self.searched_bytes = end;
            return Ok(None);
        };
        self.searched_bytes = 0;
        self.parsed_bytes += end + 2;
        Ok(Some(Line { text, ends_properly: behind == b'\n' }))
    }

    fn inline(&mut self, input: &[u8]) -> Result<Step, ProtocolError> {
        let Some(end) = self.search(b'\n', input, ProtocolError::TooBigInline)? else { return Ok(Step::Incomplete) };
        let line = input.get(..end).unwrap_or_default();
        self.words.split(line.strip_suffix(b"\r").unwrap_or(line), &self.limits, &mut self.spans)?;
        let consumed_bytes = end + 1;
        Ok(if self.spans.is_empty() { Step::Nothing { consumed_bytes } } else { Step::Inline { consumed_bytes } })
    }

    /// Returns the position of the line end `mark` in the line at the front of `bytes`, if it has arrived.
    fn search(&mut self, mark: u8, bytes: &[u8], too_big: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        let line_bytes = self.limits.line_bytes;
        let within = bytes.get(..line_bytes + 1).unwrap_or(bytes);
        let unsearched = within.get(self.searched_bytes..).unwrap_or_default();
        if let Some(found) = memchr(mark, unsearched) {
            return Ok(Some(self.searched_bytes + found));
        }
        self.searched_bytes = within.len();
        if bytes.len() > line_bytes { Err(too_big) } else { Ok(None) }
    }
}

/// Line with a count or a length.
struct Line<'b> {
    /// Text of the line without its line end.
    text: &'b [u8],
    /// Whether `\r` is followed by `\n`.
    ends_properly: bool,
}

impl<'b> Line<'b> {
    /// Returns the text after its first byte.
    fn after_type_byte(&self) -> &'b [u8] {
        self.text.get(1..).unwrap_or_default()
    }
}
