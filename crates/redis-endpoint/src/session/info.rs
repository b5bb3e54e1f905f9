//! Information about the server that clients request when they connect.
//!
//! The replies to `INFO` and `HELLO` describe this server truthfully. The only exceptions are fields that client
//! libraries require before they use a server, such as the version of Redis.
//!
//! This module does not depend on connections.

use firstseen_resp::{Arguments, Replies};

/// Version of Redis whose commands and texts the endpoint implements.
pub(super) const REDIS_VERSION: &str = "7.2.4";
/// Version of RedisBloom that `MODULE LIST` shows.
const BLOOM_VERSION: i64 = 20_608;

/// Returns the text of `INFO` with the given sections, or with all sections.
pub(super) fn text(sections: Arguments<'_>, node: &str, open: u64) -> String {
    let server = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\narch_bits:64\r\nos:{}\r\n\
         server_name:firstseen\r\nfirstseen_version:{}\r\nfirstseen_node:{node}\r\n",
        std::env::consts::OS,
        env!("CARGO_PKG_VERSION")
    );
    let all: [(&str, String); 7] = [
        ("server", server),
        ("clients", format!("# Clients\r\nconnected_clients:{open}\r\n")),
        ("persistence", "# Persistence\r\nloading:0\r\n".to_owned()),
        ("replication", "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("modules", format!("# Modules\r\nmodule:name=bf,ver={BLOOM_VERSION},api=1,filters=0\r\n")),
        ("cluster", "# Cluster\r\ncluster_enabled:0\r\n".to_owned()),
        ("keyspace", "# Keyspace\r\n".to_owned()),
    ];
    let asks_all = sections.is_empty()
        || sections.iter().any(|section| {
            ["all", "default", "everything"].iter().any(|word| section.eq_ignore_ascii_case(word.as_bytes()))
        });
    let asked = all
        .into_iter()
        .filter(|(name, _)| asks_all || sections.iter().any(|section| section.eq_ignore_ascii_case(name.as_bytes())));
    asked.map(|(_, text)| text).collect::<Vec<_>>().join("\r\n")
}

/// Writes the list of modules for the replies to `HELLO` and `MODULE LIST`.
pub(super) fn modules(replies: &mut Replies) {
    replies.array(1);
    replies.map(4);
    replies.bulk(b"name");
    replies.bulk(b"bf");
    replies.bulk(b"ver");
    replies.integer(BLOOM_VERSION);
    replies.bulk(b"path");
    replies.bulk(b"");
    replies.bulk(b"args");
    replies.empty_array();
}
