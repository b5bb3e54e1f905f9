//! Why a command is not carried out, in words for the client. Must not know: how commands are read.

use crate::Command;
use std::fmt::{self, Display, Formatter};

/// Why a request was refused before anything was done. Whoever gets it sends it as an error, in the words of
/// [`Display`], which are Redis' where Redis has some; in a transaction it also fails `EXEC`. The connection goes on,
/// but after [`closes_connection`](Self::closes_connection).
#[derive(Clone, Copy, Debug)]
pub enum Refusal<'a> {
    /// There is no such command.
    UnknownCommand(Command<'a>),
    /// There is such a command, but not with this second word.
    UnknownSubcommand {
        /// The command, in small letters.
        command: &'static str,
        /// The word, as the client wrote it.
        subcommand: &'a [u8],
    },
    /// There are too few arguments, or too many.
    WrongArity {
        /// The command, in small letters.
        command: &'static str,
        /// Its second word, in small letters, where it has one.
        subcommand: Option<&'static str>,
    },
    /// An argument is no value of its kind; the text says which, and how.
    BadArgument(&'static str),
    /// A span of time is zero, negative, or too great.
    InvalidExpireTime {
        /// The command, in small letters.
        command: &'static str,
    },
    /// An option of `SET` that would store or read a value.
    SetOption {
        /// The option, in capitals.
        option: &'static str,
    },
    /// An option of `HELLO` that there is not, or without what belongs to it.
    HelloOption(&'a [u8]),
    /// An attribute of a client that there is not.
    ClientAttribute(&'a [u8]),
    /// More than [`ITEMS_MAX`](crate::ITEMS_MAX) items, of which there are so many.
    TooManyItems {
        /// The most there may be.
        items_max: usize,
    },
    /// A command that Redis has, and that is not served for a reason.
    Unserved {
        /// The command, in small letters.
        command: &'static str,
        /// The reason.
        why: Unserved,
    },
    /// A line of a request over HTTP, which a page in a browser may send to servers of others.
    HttpRequest,
}

/// Why commands of Redis are not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// They store values, or read them.
    StoresValues,
    /// `SET` without `NX` would overwrite; whoever carries out commands says it of
    /// [`KeyRequest::Overwrite`](crate::KeyRequest::Overwrite).
    Overwrites,
    /// They need messages between clients.
    PublishesMessages,
    /// They show what other clients send.
    ShowsCommands,
    /// They need to know when keys change.
    WatchesKeys,
    /// They move the bytes of filters.
    MovesBytes,
}

/// `ERR syntax error`.
pub(crate) const SYNTAX: Refusal<'static> = Refusal::BadArgument("ERR syntax error");
/// What Redis says of all integers that are none.
pub(crate) const NOT_AN_INTEGER: Refusal<'static> = Refusal::BadArgument("ERR value is not an integer or out of range");

impl Refusal<'_> {
    /// Whether the connection is to be closed, and nothing is to be sent.
    pub fn closes_connection(&self) -> bool {
        matches!(self, Self::HttpRequest)
    }
}

impl Display for Refusal<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(command) => unknown(command, out),
            Self::UnknownSubcommand { command, subcommand } => {
                write!(out, "ERR unknown subcommand '{}'. Try {} HELP.", Text(cut(subcommand, 128)), Capitals(command))
            }
            Self::WrongArity { command, subcommand: None } => {
                write!(out, "ERR wrong number of arguments for '{command}' command")
            }
            Self::WrongArity { command, subcommand: Some(subcommand) } => {
                write!(out, "ERR wrong number of arguments for '{command}|{subcommand}' command")
            }
            Self::BadArgument(text) => out.write_str(text),
            Self::InvalidExpireTime { command } => write!(out, "ERR invalid expire time in '{command}' command"),
            Self::SetOption { option } => {
                write!(out, "ERR syntax error: firstseen stores no values: SET takes NX with EX or PX, not {option}")
            }
            Self::HelloOption(option) => write!(out, "ERR Syntax error in HELLO option '{}'", Text(cut(option, 128))),
            Self::ClientAttribute(attribute) => write!(out, "ERR Unrecognized option '{}'", Text(cut(attribute, 128))),
            Self::TooManyItems { items_max } => write!(out, "ERR a command takes at most {items_max} items"),
            Self::Unserved { command, why } => unserved(command, *why, out),
            Self::HttpRequest => out.write_str("ERR this is no server of HTTP"),
        }
    }
}

impl std::error::Error for Refusal<'_> {}

/// As Redis 7 has it: the name is cut, and so are all arguments together, but for their quotes.
fn unknown(command: &Command<'_>, out: &mut Formatter<'_>) -> fmt::Result {
    write!(out, "ERR unknown command '{}', with args beginning with: ", Text(cut(command.name(), 128)))?;
    let mut written_bytes = 0;
    for argument in command.arguments() {
        if written_bytes >= 128 {
            break;
        }
        let argument = cut(argument, 128 - written_bytes);
        write!(out, "'{}' ", Text(argument))?;
        written_bytes += argument.len() + 3;
    }
    Ok(())
}

fn unserved(command: &str, why: Unserved, out: &mut Formatter<'_>) -> fmt::Result {
    let command = Capitals(command);
    match why {
        Unserved::StoresValues => write!(
            out,
            "ERR firstseen stores no values: {command} is not served; SET key value NX tells whether a key is new"
        ),
        Unserved::Overwrites => {
            write!(out, "ERR firstseen stores no values: {command} without NX overwrites; send SET key value NX")
        }
        Unserved::PublishesMessages => write!(out, "ERR firstseen publishes no messages: {command} is not served"),
        Unserved::ShowsCommands => {
            write!(out, "ERR firstseen shows no other client's commands: {command} is not served")
        }
        Unserved::WatchesKeys => {
            write!(out, "ERR firstseen watches no keys: {command} is not served; MULTI and EXEC work without it")
        }
        Unserved::MovesBytes => write!(
            out,
            "ERR firstseen gives no bytes of filters to clients: {command} is not served; `firstseen cluster backup` \
             saves filters"
        ),
    }
}

/// The first `bytes_max` bytes, and of these what stands before a zero, where texts of C end.
fn cut(text: &[u8], bytes_max: usize) -> &[u8] {
    let text = text.get(..bytes_max).unwrap_or(text);
    memchr::memchr(0, text).and_then(|end| text.get(..end)).unwrap_or(text)
}

/// Bytes of a client; what is no text becomes a mark.
struct Text<'a>(&'a [u8]);

impl Display for Text<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            out.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                out.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

/// A name in capitals.
struct Capitals<'a>(&'a str);

impl Display for Capitals<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| write!(out, "{}", letter.to_ascii_uppercase()))
    }
}
