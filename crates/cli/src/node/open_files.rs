//! The files that the system lets a node have open: each connection takes one.
//!
//! Promises: the limit is raised as far as it may be, and nothing else is changed. Must not know: what connections are for.

use std::path::Path;

use firstseen_node::NodeConfig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Connections at `http_listen`.
const HTTP: u64 = 64;
/// Files beside incoming connections: the journal, listeners, the agreement, links to other nodes.
const OTHERS: u64 = 128;

/// Lets this process have as many files open as the configuration's connections may take; a warning where the system allows fewer.
pub(super) fn allow(config: &NodeConfig, path: &Path) -> Option<String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let wanted = wanted(config);
    if wanted > soft && soft < hard {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
    (wanted > hard).then(|| warning(config, hard, path))
}

fn wanted(config: &NodeConfig) -> u64 {
    let redis = config.redis.as_ref().map_or(0, |redis| redis.connections_max);
    let http_api = config.http_api.as_ref().map_or(0, |http_api| http_api.connections_max);
    let limits = &config.limits;
    let of_nodes = u64::from(limits.connections_max) + u64::from(limits.handshakes_max);
    of_nodes + u64::from(redis) + u64::from(http_api) + HTTP + OTHERS
}

fn warning(config: &NodeConfig, hard: u64, path: &Path) -> String {
    format!(
        "{}: connections_max (of [limits], [redis] and [http_api]), handshakes_max and what else a node opens are {} files, but the system allows this process \
         {hard}: raise that (ulimit -Hn, or LimitNOFILE= of its unit), or lower connections_max",
        path.display(),
        wanted(config)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_takes_a_file_and_more_than_there_may_be_are_warned_of() {
        let mut config = NodeConfig::new("a", std::net::SocketAddr::from(([127, 0, 0, 1], 7400)), "data");
        config.limits.connections_max = 800;
        config.limits.handshakes_max = 100;
        assert_eq!(wanted(&config), 800 + 100 + 64 + 128);
        config.redis = Some(firstseen_node::DoorSettings::at(([127, 0, 0, 1], 6379).into()));
        assert_eq!(wanted(&config), 800 + 100 + 64 + 128 + 512);
        config.http_api = Some(firstseen_node::HttpDoorSettings::at(([127, 0, 0, 1], 7480).into()));
        assert_eq!(wanted(&config), 800 + 100 + 64 + 128 + 512 + 1024);
        let path = Path::new("node.toml");
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        config.limits.connections_max = u32::MAX;
        let said = allow(&config, path).filter(|_| hard < 1 << 32).unwrap_or_else(|| warning(&config, hard, path));
        assert!(said.contains("node.toml") && said.contains("LimitNOFILE"), "{said}");
    }
}
