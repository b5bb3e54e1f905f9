//! Reasons why a command is rejected, and their texts for the client.

use crate::Command;
use std::fmt::{self, Display, Formatter};

/// Reason why a request was rejected before it had any effect. The caller sends the text of [`Display`] to the client.
/// If Redis has an error text for the same case, that text is used. A rejected command in a transaction also makes
/// `EXEC` fail. The connection stays open, unless [`closes_connection`](Self::closes_connection) returns `true`.
#[derive(Clone, Copy, Debug)]
pub enum Refusal<'a> {
    /// The command does not exist.
    UnknownCommand(Command<'a>),
    /// The command exists, but not with this subcommand.
    UnknownSubcommand {
        /// Name of the command, in lower case.
        command: &'static str,
        /// Subcommand, as the client wrote it.
        subcommand: &'a [u8],
    },
    /// The command has too few or too many arguments.
    WrongArity {
        /// Name of the command, in lower case.
        command: &'static str,
        /// Subcommand in lower case, if the command has one.
        subcommand: Option<&'static str>,
    },
    /// An argument is not valid. The text says which argument, and why.
    BadArgument(&'static str),
    /// A duration is zero, negative, or too great.
    InvalidExpireTime {
        /// Name of the command, in lower case.
        command: &'static str,
    },
    /// An option of `SET` would store or read a value.
    SetOption {
        /// Name of the option, in upper case.
        option: &'static str,
    },
    /// An option of `HELLO` is unknown or incomplete.
    HelloOption(&'a [u8]),
    /// An attribute of a client is unknown.
    ClientAttribute(&'a [u8]),
    /// The command has more items than [`ITEMS_MAX`](crate::ITEMS_MAX).
    TooManyItems {
        /// Maximum number of items.
        items_max: usize,
    },
    /// Redis has the command, but this server does not support it.
    Unserved {
        /// Name of the command, in lower case.
        command: &'static str,
        /// Reason why the command is not supported.
        why: Unserved,
    },
    /// Redis has the subcommand, but this server does not support it.
    UnservedSubcommand {
        /// Name of the command, in lower case.
        command: &'static str,
        /// Subcommand, in lower case.
        subcommand: &'static str,
        /// Reason why the subcommand is not supported.
        why: Unserved,
    },
    /// The command is a line of an HTTP request, which a web page may have sent from a browser.
    HttpRequest,
}

/// Reason why a command of Redis is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The command stores or reads values.
    StoresValues,
    /// The command overwrites values.
    Overwrites,
    /// The command sets either several keys or none of them.
    SetsTogether,
    /// The command renames or moves a key.
    MovesKeys,
    /// The command removes the expiry of a key, or works on fields of hashes.
    ChangesTimes,
    /// The command returns the remaining time of a key.
    TellsTimes,
    /// The command needs the keys themselves.
    ListsKeys,
    /// The command counts the events of a filter.
    CountsEvents,
    /// The command checks whether keys exist, and extends their lifetime.
    TouchesKeys,
    /// The command runs programs in the server.
    RunsScripts,
    /// The command needs messages between clients.
    PublishesMessages,
    /// The command shows what other clients send.
    ShowsCommands,
    /// The command needs to know when keys change.
    WatchesKeys,
    /// The command transfers the bytes of filters.
    MovesBytes,
    /// The command shows how single keys are stored.
    ShowsMemory,
    /// The command manages users of Redis.
    NamesUsers,
    /// The command reads logs of the server.
    KeepsLogs,
    /// The command makes the server save its data.
    SavesItself,
    /// The command is for communication between Redis servers.
    IsCluster,
    /// The command stops the server.
    StopsNode,
    /// The command belongs to the cuckoo filters of RedisBloom.
    HasCuckoo,
    /// The command counts how often keys occur.
    CountsKeys,
    /// The subcommand is about other connections, or changes the protocol of this connection.
    ConnectsAlone,
    /// The command changes the server's settings.
    KeepsSettings,
    /// The command changes the modules of the server.
    HasNoModules,
    /// The command describes commands in more detail than the table of commands allows.
    TellsTable,
}

/// The error `ERR syntax error`.
pub(crate) const SYNTAX: Refusal<'static> = Refusal::BadArgument("ERR syntax error");
/// Error text of Redis for every argument that should be an integer and is not.
pub(crate) const NOT_AN_INTEGER: Refusal<'static> = Refusal::BadArgument("ERR value is not an integer or out of range");

impl Refusal<'_> {
    /// Returns whether the connection must be closed without a reply.
    pub fn closes_connection(&self) -> bool {
        matches!(self, Self::HttpRequest)
    }
}

impl Display for Refusal<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(command) => unknown(command, out),
            Self::UnknownSubcommand { command, subcommand } => {
                write!(out, "ERR unknown subcommand '{}'. Try {} HELP.", Text(cut(subcommand, 128)), UpperCase(command))
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
                write!(out, "ERR firstseen {what}: {} is not served; {instead}", UpperCase(command))
            }
            Self::UnservedSubcommand { command, subcommand, why } => {
                let (what, instead) = why.texts();
                let command = UpperCase(command);
                let subcommand = UpperCase(subcommand);
                write!(out, "ERR firstseen {what}: {command} {subcommand} is not served; {instead}")
            }
            Self::HttpRequest => out.write_str("ERR this is no server of HTTP"),
        }
    }
}

impl std::error::Error for Refusal<'_> {}

/// Writes the error for an unknown command in the same form as Redis 7. Long requests are shortened: the error contains
/// at most 128 bytes of the command name, and about 128 bytes of all arguments together.
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
    /// Returns what firstseen does not do, and what to use in its place.
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
                ("is a cluster of its own", "every node can be an endpoint, and filter create --copies N keeps copies")
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

/// Returns the first `bytes_max` bytes, or fewer if there is a zero byte, where a text in C ends.
fn cut(text: &[u8], bytes_max: usize) -> &[u8] {
    let text = text.get(..bytes_max).unwrap_or(text);
    memchr::memchr(0, text).and_then(|end| text.get(..end)).unwrap_or(text)
}

/// Bytes of a client. Bytes that are not UTF-8 are written as a replacement character.
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

/// Name that is written in upper case.
struct UpperCase<'a>(&'a str);

impl Display for UpperCase<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| write!(out, "{}", letter.to_ascii_uppercase()))
    }
}
