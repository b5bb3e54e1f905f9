//! Commands about the server: information about it, and the list of its commands.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_resp::{COMMANDS, CommandQuery, CommandSpec, Replies, ServerRequest, find_command};

use super::cluster::ClusterEndpoint;
use super::{Shared, info};

/// Replies to a command about the server. `at` is the address to which the client has connected.
pub(super) fn reply(replies: &mut Replies, shared: &Shared, at: SocketAddr, request: ServerRequest<'_>) {
    match request {
        ServerRequest::Info { sections } => {
            let text = info::text(sections, &shared.common.node, shared.common.counts.open());
            replies.bulk(text.as_bytes());
        }
        ServerRequest::Command(query) => command(replies, query),
        ServerRequest::ConfigGet { .. } => replies.map(0),
        ServerRequest::Help { command, subcommands } => {
            replies.array(1 + subcommands.len());
            replies.simple(&format!("{command} <subcommand> [<arg> ...]. Served are:"));
            subcommands.iter().for_each(|subcommand| replies.simple(subcommand));
        }
        ServerRequest::Time => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            replies.array(2);
            replies.bulk(since.as_secs().to_string().as_bytes());
            replies.bulk(since.subsec_micros().to_string().as_bytes());
        }
        ServerRequest::ModuleList => info::modules(replies),
        ServerRequest::Cluster(_) if !shared.common.settings.cluster => {
            shared.common.counts.refuse(replies, "ERR This instance has cluster support disabled");
        }
        ServerRequest::Cluster(query) => ClusterEndpoint { node: &shared.common.node, at }.reply(replies, query),
    }
}

fn command(replies: &mut Replies, query: CommandQuery<'_>) {
    match query {
        CommandQuery::All => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| about(replies, spec));
        }
        CommandQuery::Count => replies.integer(COMMANDS.len() as i64),
        CommandQuery::List => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| replies.bulk(spec.name().as_bytes()));
        }
        CommandQuery::Info { names } if names.is_empty() => command(replies, CommandQuery::All),
        CommandQuery::Info { names } => {
            replies.array(names.len());
            for name in names {
                match find_command(name) {
                    Some(spec) => about(replies, spec),
                    None => replies.null_array(),
                }
            }
        }
        // Tools show this text to people, who find the documentation on its own page.
        CommandQuery::Docs { .. } => replies.map(0),
    }
}

/// Writes the description of a command as in the reply to `COMMAND INFO` of Redis 6. The fields of later versions are
/// empty.
fn about(replies: &mut Replies, spec: &CommandSpec) {
    let (first, last, step) = spec.keys();
    replies.array(10);
    replies.bulk(spec.name().as_bytes());
    replies.integer(spec.arity());
    replies.array(spec.flags().len());
    spec.flags().iter().for_each(|flag| replies.simple(flag.word()));
    [first, last, step].into_iter().for_each(|place| replies.integer(place));
    (0..4).for_each(|_| replies.empty_array());
}
