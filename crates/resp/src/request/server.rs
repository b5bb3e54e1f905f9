//! Commands about the server, which clients send to find out what it supports.
//!
//! This module does not depend on the replies.

use super::unserved::subcommand_refusal;
use super::words::{check_arity, is};
use crate::table::Verb;
use crate::{Arguments, Refusal};

/// Command about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRequest<'a> {
    /// `INFO`, which replies with information about the server.
    Info {
        /// Requested sections. An empty list means the usual sections.
        sections: Arguments<'a>,
    },
    /// `COMMAND`, with its subcommands.
    Command(CommandQuery<'a>),
    /// `CONFIG GET`, which asks for configuration parameters.
    ConfigGet {
        /// Patterns of the requested parameters.
        patterns: Arguments<'a>,
    },
    /// `CLIENT HELP` and similar commands, which reply with an array of lines.
    Help {
        /// Name of the command, in upper case.
        command: &'static str,
        /// Subcommands, in upper case.
        subcommands: &'static [&'static str],
    },
    /// `TIME`, which asks for the current time.
    Time,
    /// `MODULE LIST`, which lists the modules.
    ModuleList,
    /// `CLUSTER`, with its subcommands.
    Cluster(ClusterQuery),
}

/// Subcommand of `COMMAND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandQuery<'a> {
    /// `COMMAND`, which describes all commands as `COMMAND INFO` does.
    All,
    /// `COMMAND COUNT`, which asks for the number of commands.
    Count,
    /// `COMMAND LIST`, which lists all names.
    List,
    /// `COMMAND INFO`, which describes commands.
    Info {
        /// Names of the commands. An empty list means all commands.
        names: Arguments<'a>,
    },
    /// `COMMAND DOCS`, which asks for documentation.
    Docs {
        /// Names of the commands. An empty list means all commands.
        names: Arguments<'a>,
    },
}

/// Subcommand of `CLUSTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterQuery {
    /// `CLUSTER INFO`, which asks for the state of the cluster.
    Info,
    /// `CLUSTER MYID`, which asks for the id of the node.
    MyId,
    /// `CLUSTER NODES`, which lists the nodes.
    Nodes,
    /// `CLUSTER SHARDS`, which lists the shards.
    Shards,
    /// `CLUSTER SLOTS`, which lists the slots.
    Slots,
}

/// Supported subcommands of each command.
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

/// Returns the request for help, if the command is one that has subcommands and the subcommand is `HELP`.
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
