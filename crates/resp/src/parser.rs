//! Requests out of the bytes of a connection, however these are cut. Promises: each byte is looked at once, be it that a
//! command comes byte by byte; arguments stay where they came, but for inline commands, which lose their quotes; memory
//! grows with what has come, never with what was announced. Must not know: what commands mean.
//!
//! In one thing it is stricter than Redis, which skips two bytes wherever a line or an argument ends, whatever they are:
//! here they have to be `\r\n`, so that a length that is wrong is not taken for the next argument.

use crate::command::Span;
use crate::inline::Words;
use crate::number::integer;
use crate::{Command, Limits, ProtocolError};
use memchr::memchr;

/// The state of one connection's requests.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    stage: Stage,
    /// How many bytes of the current command are parsed.
    parsed_bytes: usize,
    /// How many bytes behind these hold no end of a line.
    searched_bytes: usize,
    spans: Vec<Span>,
    words: Words,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// At the first byte of a command.
    Start,
    /// At the length of an argument, when `left` are still to come.
    Length { left: usize },
    /// At the bytes of an argument.
    Data { left: usize, length_bytes: usize },
    /// Behind bytes that are no command.
    Failed(ProtocolError),
}

/// What the bytes at hand have at their start.
enum Step {
    /// The beginning of a command.
    Incomplete,
    /// A request to do nothing.
    Nothing { taken_bytes: usize },
    /// A command whose arguments lie in these bytes.
    Array { taken_bytes: usize },
    /// A command whose arguments are among the words.
    Inline { taken_bytes: usize },
}

impl Parser {
    /// A parser for a connection from its first byte.
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

    /// The limits that hold for what is parsed from now on: what is left of the current command, and all later ones.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The memory that the parser holds, in bytes: up to 16 for each argument of the longest command yet, and twice the
    /// longest line.
    pub fn held_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.words.held_bytes()
    }

    /// Gives back the memory, unless a command is half parsed: for a connection that has been idle.
    pub fn shed(&mut self) {
        if let Stage::Start = self.stage {
            self.spans = Vec::new();
            self.words.shed();
        }
    }

    /// Takes the next command off the front of `input`, which begins where the last call left it. `None` if no command
    /// is complete: then what is left of `input` comes again, with what the connection brings behind it. Empty lines and
    /// empty arrays are taken off, as Redis does.
    ///
    /// # Errors
    /// [`ProtocolError`] if the bytes are no request, or one that is too large. Its text is the last that the connection
    /// is sent, then it is closed; a further call gives the same error.
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
                Step::Nothing { taken_bytes } => {
                    self.take(input, taken_bytes);
                }
                Step::Array { taken_bytes } => {
                    let own = self.take(input, taken_bytes);
                    return Ok(Some(Command::new(own, &self.spans, taken_bytes)));
                }
                Step::Inline { taken_bytes } => {
                    self.take(input, taken_bytes);
                    return Ok(Some(Command::new(self.words.bytes(), &self.spans, taken_bytes)));
                }
            }
        }
    }

    /// Takes a request off the front of `input`, and gives its bytes.
    fn take<'b>(&mut self, input: &mut &'b [u8], taken_bytes: usize) -> &'b [u8] {
        (self.parsed_bytes, self.searched_bytes) = (0, 0);
        let (own, rest) = input.split_at_checked(taken_bytes).unwrap_or((input, &[]));
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

    /// Reads the count of arguments; gives a step where no argument is to be read.
    fn begin_array(&mut self, input: &[u8]) -> Result<Option<Step>, ProtocolError> {
        let Some(line) = self.line(input, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(Some(Step::Incomplete));
        };
        let invalid = ProtocolError::InvalidMultibulkLength;
        let count = line.ends_properly.then(|| integer(line.behind_mark())).flatten().ok_or(invalid)?;
        if count <= 0 {
            return Ok(Some(Step::Nothing { taken_bytes: self.parsed_bytes }));
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

    /// Reads arguments until they are complete, or the bytes end.
    fn array(&mut self, input: &[u8]) -> Result<Step, ProtocolError> {
        loop {
            match self.stage {
                Stage::Length { left: 0 } => {
                    self.stage = Stage::Start;
                    return Ok(Step::Array { taken_bytes: self.parsed_bytes });
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
            // An empty line begins with its end.
            got => return Err(ProtocolError::ExpectedBulk { got: *got.unwrap_or(&b'\r') }),
        }
        let invalid = ProtocolError::InvalidBulkLength;
        let length = line.ends_properly.then(|| integer(line.behind_mark())).flatten().ok_or(invalid)?;
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

    /// Reads the line that begins behind what is parsed.
    fn line<'b>(&mut self, input: &'b [u8], too_big: ProtocolError) -> Result<Option<Line<'b>>, ProtocolError> {
        let unparsed = input.get(self.parsed_bytes..).unwrap_or_default();
        let Some(end) = self.search(b'\r', unparsed, too_big)? else { return Ok(None) };
        let (Some(text), Some(&behind)) = (unparsed.get(..end), unparsed.get(end + 1)) else {
            // The `\r` is found again at once.
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
        let taken_bytes = end + 1;
        Ok(if self.spans.is_empty() { Step::Nothing { taken_bytes } } else { Step::Inline { taken_bytes } })
    }

    /// Where the line at the front of `bytes` has its end, `mark`, if it has come.
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

/// A count or a length.
struct Line<'b> {
    /// Without its end.
    text: &'b [u8],
    /// Whether `\n` follows `\r`.
    ends_properly: bool,
}

impl<'b> Line<'b> {
    /// What follows its first byte.
    fn behind_mark(&self) -> &'b [u8] {
        self.text.get(1..).unwrap_or_default()
    }
}
