//! Commands of the server, which clients send to learn what it can do. Must not know: what is replied.

use super::words::{check_arity, is};
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
        Some(subcommand) => return Err(Refusal::UnknownSubcommand { command: "command", subcommand }),
    };
    Ok(ServerRequest::Command(query))
}

pub(super) fn config(arguments: Arguments<'_>) -> Result<ServerRequest<'_>, Refusal<'_>> {
    let subcommand = arguments.at(0);
    if !is(subcommand, "GET") {
        return Err(Refusal::UnknownSubcommand { command: "config", subcommand });
    }
    check_arity("config", "get", arguments, 3..=usize::MAX)?;
    Ok(ServerRequest::ConfigGet { patterns: arguments.from(1) })
}

pub(super) fn module(arguments: Arguments<'_>) -> Result<ServerRequest<'_>, Refusal<'_>> {
    let subcommand = arguments.at(0);
    if !is(subcommand, "LIST") {
        return Err(Refusal::UnknownSubcommand { command: "module", subcommand });
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
        return Err(Refusal::UnknownSubcommand { command: "cluster", subcommand });
    };
    check_arity("cluster", name, arguments, 2..=2)?;
    Ok(ServerRequest::Cluster(query))
}
