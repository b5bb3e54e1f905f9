//! Commands that concern the connection itself, such as authentication and the choice of the protocol version.
//! Passwords never appear in the debug output of these commands.
//!
//! This module does not depend on users, or on the state of a connection.

use super::unserved::subcommand_refusal;
use super::words::{check_arity, is};
use crate::number::integer;
use crate::refusal::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::{Arguments, Protocol};
use std::fmt::{self, Debug, Formatter};

/// Command about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRequest<'a> {
    /// `HELLO`, which replies with a map about the server.
    Hello {
        /// Version of the protocol from now on. `None` means no change.
        protocol: Option<Protocol>,
        /// Credentials of the client.
        credentials: Option<Credentials<'a>>,
        /// Name of the connection.
        name: Option<&'a [u8]>,
    },
    /// `AUTH`, which authenticates the client.
    Auth(Credentials<'a>),
    /// `PING`, which replies with a message.
    Ping {
        /// Message to reply with. `None` means `PONG`.
        message: Option<&'a [u8]>,
    },
    /// `ECHO`, which replies with the message.
    Echo {
        /// Message to reply with.
        message: &'a [u8],
    },
    /// `SELECT`, which selects a database.
    Select {
        /// Number of the database.
        database: i64,
    },
    /// `QUIT`, which replies `OK` and closes the connection.
    Quit,
    /// `RESET`, which restores the initial state of the connection and replies `RESET`.
    Reset,
    /// `READONLY`, which clients in cluster mode send.
    ReadOnly,
    /// `READWRITE`, which clients in cluster mode send.
    ReadWrite,
    /// `CLIENT`, with its subcommands.
    Client(ClientRequest<'a>),
}

impl ConnectionRequest<'_> {
    /// Returns whether a client may send the command before it has authenticated.
    pub fn is_allowed_before_auth(&self) -> bool {
        matches!(self, Self::Hello { .. } | Self::Auth(_) | Self::Quit | Self::Reset)
    }
}

/// Subcommand of `CLIENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRequest<'a> {
    /// `CLIENT ID`, which replies with the number of the connection.
    Id,
    /// `CLIENT GETNAME`, which replies with the name of the connection.
    GetName,
    /// `CLIENT SETNAME`, which sets the name of the connection.
    SetName {
        /// Name without spaces. An empty name removes the current name.
        name: &'a [u8],
    },
    /// `CLIENT SETINFO LIB-NAME`, which reports the name of the client library.
    SetLibraryName {
        /// Name without spaces.
        name: &'a [u8],
    },
    /// `CLIENT SETINFO LIB-VER`, which reports the version of the client library.
    SetLibraryVersion {
        /// Version without spaces.
        version: &'a [u8],
    },
    /// Subcommand that asks for a state which is always the case, such as `CLIENT NO-EVICT` and `CLIENT TRACKING OFF`.
    /// The reply is `OK`.
    Granted,
}

/// User name and password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    user: Option<&'a [u8]>,
    password: &'a [u8],
}

impl<'a> Credentials<'a> {
    /// Returns the user name. `None` means that the client sent only a password.
    pub fn user(&self) -> Option<&'a [u8]> {
        self.user
    }

    /// Returns the password or token.
    pub fn password(&self) -> &'a [u8] {
        self.password
    }
}

impl Debug for Credentials<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.user {
            Some(user) => write!(out, "Credentials(of {})", user.escape_ascii()),
            None => out.write_str("Credentials"),
        }
    }
}

const BAD_VERSION: Refusal<'static> = Refusal::BadArgument("ERR Protocol version is not an integer or out of range");
const UNSUPPORTED_VERSION: Refusal<'static> = Refusal::BadArgument("NOPROTO unsupported protocol version");
const BAD_NAME: Refusal<'static> =
    Refusal::BadArgument("ERR Client names cannot contain spaces, newlines or special characters.");
const BAD_LIBRARY_NAME: Refusal<'static> =
    Refusal::BadArgument("ERR lib-name cannot contain spaces, newlines or special characters.");
const BAD_LIBRARY_VERSION: Refusal<'static> =
    Refusal::BadArgument("ERR lib-ver cannot contain spaces, newlines or special characters.");

pub(super) fn hello(arguments: Arguments<'_>) -> Result<ConnectionRequest<'_>, Refusal<'_>> {
    let protocol = arguments.get(0).map(version).transpose()?;
    let mut credentials = None;
    let mut name = None;
    let mut place = 1;
    while let Some(option) = arguments.get(place) {
        let left = arguments.from(place + 1);
        if is(option, "AUTH") && left.len() >= 2 {
            credentials = Some(Credentials { user: Some(left.at(0)), password: left.at(1) });
            place += 3;
        } else if is(option, "SETNAME") && !left.is_empty() {
            name = Some(printable(left.at(0), BAD_NAME)?);
            place += 2;
        } else {
            return Err(Refusal::HelloOption(option));
        }
    }
    Ok(ConnectionRequest::Hello { protocol, credentials, name })
}

fn version(text: &[u8]) -> Result<Protocol, Refusal<'static>> {
    match integer(text).ok_or(BAD_VERSION)? {
        2 => Ok(Protocol::Resp2),
        3 => Ok(Protocol::Resp3),
        _ => Err(UNSUPPORTED_VERSION),
    }
}

pub(super) fn auth(arguments: Arguments<'_>) -> Result<ConnectionRequest<'_>, Refusal<'_>> {
    let credentials = match arguments.len() {
        1 => Credentials { user: None, password: arguments.at(0) },
        2 => Credentials { user: Some(arguments.at(0)), password: arguments.at(1) },
        _ => return Err(SYNTAX),
    };
    Ok(ConnectionRequest::Auth(credentials))
}

pub(super) fn select(arguments: Arguments<'_>) -> Result<ConnectionRequest<'_>, Refusal<'_>> {
    integer(arguments.at(0)).map(|database| ConnectionRequest::Select { database }).ok_or(NOT_AN_INTEGER)
}

pub(super) fn client(arguments: Arguments<'_>) -> Result<ConnectionRequest<'_>, Refusal<'_>> {
    let subcommand = arguments.at(0);
    let argument = arguments.at(1);
    let request = if is(subcommand, "ID") {
        check_arity("client", "id", arguments, 2..=2)?;
        ClientRequest::Id
    } else if is(subcommand, "GETNAME") {
        check_arity("client", "getname", arguments, 2..=2)?;
        ClientRequest::GetName
    } else if is(subcommand, "SETNAME") {
        check_arity("client", "setname", arguments, 3..=3)?;
        ClientRequest::SetName { name: printable(argument, BAD_NAME)? }
    } else if is(subcommand, "SETINFO") {
        check_arity("client", "setinfo", arguments, 4..=4)?;
        set_info(argument, arguments.at(2))?
    } else if is(subcommand, "NO-EVICT") {
        check_arity("client", "no-evict", arguments, 3..=3)?;
        granted(argument, &["ON", "OFF"])?
    } else if is(subcommand, "NO-TOUCH") {
        check_arity("client", "no-touch", arguments, 3..=3)?;
        granted(argument, &["ON", "OFF"])?
    } else if is(subcommand, "REPLY") && is(argument, "ON") {
        check_arity("client", "reply", arguments, 3..=3)?;
        ClientRequest::Granted
    } else if is(subcommand, "TRACKING") && is(argument, "OFF") {
        ClientRequest::Granted
    } else {
        return Err(subcommand_refusal("client", subcommand));
    };
    Ok(ConnectionRequest::Client(request))
}

fn set_info<'a>(attribute: &'a [u8], value: &'a [u8]) -> Result<ClientRequest<'a>, Refusal<'a>> {
    if is(attribute, "LIB-NAME") {
        Ok(ClientRequest::SetLibraryName { name: printable(value, BAD_LIBRARY_NAME)? })
    } else if is(attribute, "LIB-VER") {
        Ok(ClientRequest::SetLibraryVersion { version: printable(value, BAD_LIBRARY_VERSION)? })
    } else {
        Err(Refusal::ClientAttribute(attribute))
    }
}

fn granted<'a>(argument: &[u8], words: &[&str]) -> Result<ClientRequest<'a>, Refusal<'static>> {
    if words.iter().any(|word| is(argument, word)) { Ok(ClientRequest::Granted) } else { Err(SYNTAX) }
}

/// Returns the bytes, if they consist of printable characters without spaces.
fn printable<'a>(text: &'a [u8], refusal: Refusal<'static>) -> Result<&'a [u8], Refusal<'static>> {
    if text.iter().all(u8::is_ascii_graphic) { Ok(text) } else { Err(refusal) }
}
