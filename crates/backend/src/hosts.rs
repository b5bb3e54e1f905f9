//! Host names by which a node accepts HTTP requests.
//!
//! This check protects the node from DNS rebinding. In such an attack, a malicious web page makes its own host name
//! resolve to the address of the node. The browser of a user then sends the requests of the page to the node, and the
//! page can read the replies. These requests contain the host name of the page. The node therefore accepts only
//! requests for an IP address, or for a host name that the node knows as its own.
//!
//! A request without a host name does not come from a browser, and is accepted.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// Host names of a node.
#[derive(Clone, Debug)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Creates the set of `localhost`, the name in the address that the node advertises, and other names.
    pub fn new(advertised: Option<&str>, others: &[String]) -> Self {
        let names = others.iter().map(String::as_str).chain(advertised.map(without_port)).chain(["localhost"]);
        Self(names.map(str::to_ascii_lowercase).collect())
    }

    /// Returns whether a request for this host is accepted. The text is the value of the `Host` header, with or without
    /// a port.
    pub fn has(&self, host: &str) -> bool {
        let name = without_port(host.trim());
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        address.parse::<IpAddr>().is_ok() || self.0.contains(&name.trim_end_matches('.').to_ascii_lowercase())
    }
}

/// Returns the host of `host:port`. An IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|digit| digit.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_answers_by_its_addresses_and_its_own_names() {
        let hosts = Hosts::new(Some("n1.example:7400"), &["Metrics.internal".to_owned()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:7401",
            "10.1.2.3:80",
            "[::1]:7401",
            "[::1]",
            "::1",
            "localhost:7401",
            "LOCALHOST",
            "n1.example",
            "n1.example.:1",
            "metrics.internal:9",
        ] {
            assert!(hosts.has(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7401",
            "n1.example.evil",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "localhost:x",
        ] {
            assert!(!hosts.has(host), "{host}");
        }
    }
}
