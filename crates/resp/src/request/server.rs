//! Commands of the server, which clients send to learn what it can do. Must not know: what is replied.

use super::unserved::subcommand_refusal;
use super::words::{check_arity, is};
use crate::table::Verb;
use crate::{Arguments, Refusal};

/// A command of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRequest<'a> {
    /// `INFO`.
    Info {
        /// The sections to tell; none: the usual ones.
        sections: Arguments<'a>,
    },
    /// `COMMAND`.
    Command(CommandQuery<'a>),
    /// `CONFIG GET`.
    ConfigGet {
        /// Which parameters to tell.
        patterns: Arguments<'a>,
    },
    /// `CLIENT HELP` and the like: the reply is an array of lines.
    Help {
        /// The command, in capitals.
        command: &'static str,
        /// Its second words, in capitals.
        subcommands: &'static [&'static str],
    },
    /// `TIME`.
    Time,
    /// `MODULE LIST`.
    ModuleList,
    /// `CLUSTER`.
    Cluster(ClusterQuery),
}

/// A command `COMMAND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandQuery<'a> {
    /// `COMMAND`: all commands as by `COMMAND INFO`.
    All,
    /// `COMMAND COUNT`.
    Count,
    /// `COMMAND LIST`: all names.
    List,
    /// `COMMAND INFO`.
    Info {
        /// Of which commands; none: of all.
        names: Arguments<'a>,
    },
    /// `COMMAND DOCS`.
    Docs {
        /// Of which commands; none: of all.
        names: Arguments<'a>,
    },
}

/// A command `CLUSTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterQuery {
    /// `CLUSTER INFO`.
    Info,
    /// `CLUSTER MYID`.
    MyId,
    /// `CLUSTER NODES`.
    Nodes,
    /// `CLUSTER SHARDS`.
    Shards,
    /// `CLUSTER SLOTS`.
    Slots,
}

/// The second words that are served, by command.
const SUBCOMMANDS: [(Verb, &str, &[&str]); 5] = [
    (
        Verb::Client,
        "CLIENT",
        &["GETNAME", "ID", "NO-EVICT", "NO-TOUCH", "REPLY ON", "SETINFO", "SETNAME", "TRACKING OFF", "HELP"],
    ),
    (Verb::Cluster, "CLUSTER", &["INFO", "MYID", "NODES", "SHARDS", "SLOTS", "HELP"]),
    (Verb::Command, "COMMAND", &["COUNT", "DOCS", "INFO", "LIST", "HELP"]),
    (Verb::Config, "CONFIG", &["GET", "HELP"]),
    (Verb::Module, "MODULE", &["LIST", "HELP"]),
];

/// The request for help that a command with a second word is, where it is one.
pub(super) fn help(verb: Verb, arguments: Arguments<'_>) -> Option<ServerRequest<'static>> {
    let (_, command, subcommands) = SUBCOMMANDS.iter().find(|(of, ..)| *of == verb)?;
    let is_help = arguments.len() == 1 && is(arguments.at(0), "HELP");
    is_help.then_some(ServerRequest::Help { command, subcommands })
}

pub(super) fn command(arguments: Arguments<'_>) -> Result<ServerRequest<'_>, Refusal<'_>> {
    let names = arguments.from(1);
    let query = match arguments.get(0) {
        None => CommandQuery::All,
        Some(word) if is(word, "COUNT") => {
            check_arity("command", "count", arguments, 2..=2)?;
            CommandQuery::Count
        }
        Some(word) if is(word, "LIST") => {
            check_arity("command", "list", arguments, 2..=2)?;
            CommandQuery::List
        }
        Some(word) if is(word, "INFO") => CommandQuery::Info { names },
        Some(word) if is(word, "DOCS") => CommandQuery::Docs { names },
        Some(subcommand) => return Err(subcommand_refusal("command", subcommand)),
    };
    Ok(ServerRequest::Command(query))
}

pub(super) fn config(arguments: Arguments<'_>) -> Result<ServerRequest<'_>, Refusal<'_>> {
    let subcommand = arguments.at(0);
    if !is(subcommand, "GET") {
        return Err(subcommand_refusal("config", subcommand));
    }
    check_arity("config", "get", arguments, 3..=usize::MAX)?;
    Ok(ServerRequest::ConfigGet { patterns: arguments.from(1) })
}

pub(super) fn module(arguments: Arguments<'_>) -> Result<ServerRequest<'_>, Refusal<'_>> {
    let subcommand = arguments.at(0);
    if !is(subcommand, "LIST") {
        return Err(subcommand_refusal("module", subcommand));
    }
    check_arity("module", "list", arguments, 2..=2)?;
    Ok(ServerRequest::ModuleList)
}

pub(super) fn cluster(arguments: Arguments<'_>) -> Result<ServerRequest<'_>, Refusal<'_>> {
    const QUERIES: [(&str, ClusterQuery); 5] = [
        ("info", ClusterQuery::Info),
        ("myid", ClusterQuery::MyId),
        ("nodes", ClusterQuery::Nodes),
        ("shards", ClusterQuery::Shards),
        ("slots", ClusterQuery::Slots),
    ];
    let subcommand = arguments.at(0);
    let Some((name, query)) = QUERIES.into_iter().find(|(name, _)| is(subcommand, name)) else {
        return Err(subcommand_refusal("cluster", subcommand));
    };
    check_arity("cluster", name, arguments, 2..=2)?;
    Ok(ServerRequest::Cluster(query))
}
