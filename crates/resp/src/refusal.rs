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
    /// A second word that Redis has, and that is not served for a reason.
    UnservedSubcommand {
        /// The command, in small letters.
        command: &'static str,
        /// The word, in small letters.
        subcommand: &'static str,
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
    /// They overwrite values.
    Overwrites,
    /// They set several keys or none.
    SetsTogether,
    /// They give a key another name or place.
    MovesKeys,
    /// They take away the time of a key, or are about fields of hashes.
    ChangesTimes,
    /// They tell for how long a key is there.
    TellsTimes,
    /// They need the keys themselves.
    ListsKeys,
    /// They count the events of a filter.
    CountsEvents,
    /// They ask whether keys are there, and keep them there.
    TouchesKeys,
    /// They run programs in the server.
    RunsScripts,
    /// They need messages between clients.
    PublishesMessages,
    /// They show what other clients send.
    ShowsCommands,
    /// They need to know when keys change.
    WatchesKeys,
    /// They move the bytes of filters.
    MovesBytes,
    /// They show how single keys are kept.
    ShowsMemory,
    /// They are about users of Redis.
    NamesUsers,
    /// They read logs of the server.
    KeepsLogs,
    /// They have the server save what it stores.
    SavesItself,
    /// They are between servers of Redis.
    IsCluster,
    /// They end the server.
    StopsNode,
    /// They are RedisBloom's for cuckoo filters.
    HasCuckoo,
    /// They count how often keys come.
    CountsKeys,
    /// Of a command that is served, they are about other connections, or change how this one is spoken to.
    ConnectsAlone,
    /// They change the server's settings.
    KeepsSettings,
    /// They change the modules of the server.
    HasNoModules,
    /// They tell more of commands than the table does.
    TellsTable,
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
                write!(
                    out,
                    "ERR syntax error: firstseen stores no values: SET takes NX with EX, PX, EXAT or PXAT, not {option}"
                )
            }
            Self::HelloOption(option) => write!(out, "ERR Syntax error in HELLO option '{}'", Text(cut(option, 128))),
            Self::ClientAttribute(attribute) => write!(out, "ERR Unrecognized option '{}'", Text(cut(attribute, 128))),
            Self::TooManyItems { items_max } => write!(out, "ERR a command takes at most {items_max} items"),
            Self::Unserved { command, why } => {
                let (what, instead) = why.texts();
                write!(out, "ERR firstseen {what}: {} is not served; {instead}", Capitals(command))
            }
            Self::UnservedSubcommand { command, subcommand, why } => {
                let (what, instead) = why.texts();
                let command = Capitals(command);
                let subcommand = Capitals(subcommand);
                write!(out, "ERR firstseen {what}: {command} {subcommand} is not served; {instead}")
            }
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

impl Unserved {
    /// What firstseen does not, and what to use instead.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::StoresValues => ("stores no values", "SET key value NX tells whether a key is new"),
            Self::Overwrites => {
                ("stores no values to overwrite", "SET key value NX EX seconds records a key that is new")
            }
            Self::SetsTogether => {
                ("sets no keys all or none", "a pipeline of SET key value NX tells of each whether it is new")
            }
            Self::MovesKeys => {
                ("moves no keys", "`firstseen filter alter` changes a filter, and cluster backup saves all")
            }
            Self::ChangesTimes => {
                ("takes no key's time away", "SET key value NX EX seconds gives it, and else its filter's window holds")
            }
            Self::TellsTimes => ("keeps no key's time to tell", "FS.INFO filter tells for how long a filter remembers"),
            Self::ListsKeys => ("keeps no keys to list", "EXISTS asks about one, and FS.LIST lists filters"),
            Self::CountsEvents => {
                ("counts no events for clients", "`firstseen top` shows about how many a filter holds")
            }
            Self::TouchesKeys => ("keeps no key for longer when it is used", "EXISTS tells how many were seen"),
            Self::RunsScripts => (
                "runs no scripts but those it knows",
                "SET key value NX and FS.CLAIM check and record in one step without any",
            ),
            Self::PublishesMessages => ("publishes no messages", "a broker of messages does"),
            Self::ShowsCommands => ("shows no other client's commands", "the node's /metrics counts them"),
            Self::WatchesKeys => ("watches no keys", "MULTI and EXEC work without it"),
            Self::MovesBytes => ("gives no bytes of filters to clients", "`firstseen cluster backup` saves filters"),
            Self::ShowsMemory => ("keeps no single keys", "BF.INFO filter and `firstseen filter describe` tell sizes"),
            Self::NamesUsers => ("has no users of Redis", "`firstseen access grant` gives rights to principals"),
            Self::KeepsLogs => ("keeps no such log", "the node's /metrics and `firstseen top` show how it fares"),
            Self::SavesItself => (
                "saves nothing on request",
                "--durability of a filter says what is kept, and `firstseen cluster backup` saves all",
            ),
            Self::IsCluster => {
                ("is a cluster of its own", "every node can be a door, and filter create --copies N keeps copies")
            }
            Self::StopsNode => {
                ("is ended by no client", "a signal ends a node: SIGTERM, as docs/how-to/run-a-cluster.md says")
            }
            Self::HasCuckoo => {
                ("has no commands for one kind of filter", "BF.ADD and BF.EXISTS ask a filter of --kind cuckoo, too")
            }
            Self::CountsKeys => ("counts no keys for clients", "`firstseen estimate` counts those of a log"),
            Self::ConnectsAlone => ("has each connection speak for itself", "CLIENT HELP lists what is served"),
            Self::KeepsSettings => {
                ("is set up by its nodes' configuration", "change [redis] there, and start the node again")
            }
            Self::HasNoModules => ("loads no modules", "BF.* are served without"),
            Self::TellsTable => ("tells of commands what COMMAND INFO does", "COMMAND HELP lists what is served"),
        }
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
