//! Adapts a node to the number of files that the system allows it to open. Each connection counts as an open file. The
//! module first raises the limit of the process as far as possible. If the limit is still too low, the node accepts
//! fewer connections from clients, so that the journal, the consensus log and the links to other nodes can always be
//! opened.

use std::path::Path;

use firstseen_node::NodeConfig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Number of connections at `http_listen`.
const HTTP: u64 = 64;
/// Number of files that are not incoming connections: the journal, listeners, the consensus log, and links to other
/// nodes.
const OTHERS: u64 = 128;

/// Minimum number of connections of each kind that a node accepts.
const LEAST: u32 = 4;

/// Raises the limit of open files, so that the process can serve as many connections as the configuration allows. If
/// the system does not permit a limit that is high enough, the node must accept fewer connections. The function then
/// reduces the maximum number of each kind of connection by the same factor, and returns a warning.
pub(super) fn allow(config: &mut NodeConfig, path: &Path) -> Option<String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let wanted = wanted(config);
    if wanted > soft && soft < hard {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
    if wanted <= hard {
        return None;
    }
    let warning = warning(config, hard, path);
    lower(config, hard);
    Some(warning)
}

/// Reduces the maximum number of connections of every kind, so that the node opens at most `limit` files. At least a
/// quarter of the limit remains for connections.
fn lower(config: &mut NodeConfig, limit: u64) {
    let room = limit.saturating_sub(HTTP + OTHERS).max(limit / 4);
    let connections = wanted(config).saturating_sub(HTTP + OTHERS).max(1);
    let limits = &mut config.limits;
    let redis = config.redis.iter_mut().map(|redis| &mut redis.connections_max);
    let http_api = config.http_api.iter_mut().map(|http_api| &mut http_api.connections_max);
    let of_node = [&mut limits.connections_max, &mut limits.handshakes_max];
    for most in of_node.into_iter().chain(redis).chain(http_api) {
        let share = u128::from(*most) * u128::from(room) / u128::from(connections);
        *most = u32::try_from(share).unwrap_or(u32::MAX).max(LEAST).min(*most);
    }
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
         {hard}, so the node takes fewer connections of each kind: raise that (ulimit -Hn, or LimitNOFILE= of its unit), or lower \
         connections_max",
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
        config.redis = Some(firstseen_node::RedisEndpointSettings::at(([127, 0, 0, 1], 6379).into()));
        assert_eq!(wanted(&config), 800 + 100 + 64 + 128 + 512);
        config.http_api = Some(firstseen_node::HttpEndpointSettings::at(([127, 0, 0, 1], 7480).into()));
        assert_eq!(wanted(&config), 800 + 100 + 64 + 128 + 512 + 1024);
        let path = Path::new("node.toml");
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        config.limits.connections_max = u32::MAX;
        let said = allow(&mut config, path).filter(|_| hard < 1 << 32).unwrap_or_else(|| warning(&config, hard, path));
        assert!(said.contains("node.toml") && said.contains("LimitNOFILE"), "{said}");
    }

    /// Clients of one endpoint had taken all files of a node, so the node could not accept links, and the other nodes
    /// found it down.
    #[test]
    fn where_the_system_allows_few_files_all_kinds_of_connections_are_lowered() {
        let mut config = NodeConfig::new("a", std::net::SocketAddr::from(([127, 0, 0, 1], 7400)), "data");
        config.redis = Some(firstseen_node::RedisEndpointSettings::at(([127, 0, 0, 1], 6379).into()));
        for limit in [4_096, 512, 110] {
            let mut lowered = config.clone();
            lower(&mut lowered, limit);
            let connections = wanted(&lowered) - HTTP - OTHERS;
            assert!(
                connections <= limit.saturating_sub(HTTP + OTHERS).max(limit / 4) + u64::from(3 * LEAST),
                "{limit}"
            );
            assert!(lowered.limits.connections_max >= LEAST, "{limit}");
            assert!(lowered.redis.as_ref().is_some_and(|redis| redis.connections_max <= 512), "{limit}");
        }
    }
}
