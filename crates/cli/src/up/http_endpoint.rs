//! The HTTP endpoint of a local cluster, and example commands with which users can try it. The address and the other
//! settings are read from the configuration file of the first node, so changes that a user makes there are respected.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use firstseen_wire::tls::NODE_NAME;

use super::redis_endpoint::{CLICKS, certificate_options};
use crate::node::config_file::NodeFile;
use crate::text::style::Look;

/// The HTTP endpoint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalHttpEndpoint {
    listen: SocketAddr,
    speaks_tls: bool,
}

impl LocalHttpEndpoint {
    /// Returns the HTTP endpoint of a node with this configuration. `None` means that the node has no such endpoint.
    pub(crate) fn of(config: &Path) -> Option<Self> {
        let endpoint = NodeFile::read(config, &[]).ok()?.node.http_api?;
        Some(Self { listen: endpoint.listen, speaks_tls: endpoint.tls })
    }

    /// Returns the URL of the endpoint for clients on this machine.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.speaks_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    fn address(&self) -> SocketAddr {
        match self.listen.ip() {
            ip if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, self.listen.port())),
            _ => self.listen,
        }
    }

    /// Returns the example commands for this endpoint. `data` is the folder of the cluster.
    pub(crate) fn text(&self, data: &Path, look: Look) -> String {
        let request =
            format!("-X POST -H 'Idempotency-Key: an-event' {}/v1/filters/{CLICKS}/observe", self.named_url());
        let command = if self.speaks_tls {
            let port = self.listen.port();
            let resolve = format!("--resolve {NODE_NAME}:{port}:{}", self.address().ip());
            format!("curl {} {resolve} {request}", certificate_options(data))
        } else {
            format!("curl {request}")
        };
        format!("{} # an event of filter {CLICKS}; docs/reference/http.md\n", look.strong(&command))
    }

    /// Returns the URL of the endpoint. If the endpoint uses TLS, the URL has the host name that is in the certificates
    /// of nodes.
    fn named_url(&self) -> String {
        if self.speaks_tls { format!("https://{NODE_NAME}:{}", self.listen.port()) } else { self.url() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Asked, Folder};
    use super::*;
    use crate::text::size::ByteSize;

    #[test]
    fn the_endpoint_is_as_its_configuration_has_it_by_now() {
        let folder = tempfile::tempdir().unwrap();
        let asked = Asked {
            nodes: Some(1),
            sites: Vec::new(),
            port: None,
            tls: false,
            redis: None,
            http_api: Some(7490),
            memory: Some(ByteSize(1 << 26)),
        };
        let made = Folder::open(folder.path(), asked).unwrap();
        let endpoint = made.http_endpoint().unwrap();
        assert_eq!(endpoint, LocalHttpEndpoint { listen: ([127, 0, 0, 1], 7490).into(), speaks_tls: false });
        let text = endpoint.text(folder.path(), Look::PLAIN);
        assert!(text.contains("http://127.0.0.1:7490/v1/filters/clicks/observe # an event"), "{text}");
        let config = made.config(&made.nodes()[0]);
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.split("[http_api]").next().unwrap()).unwrap();
        assert_eq!(made.http_endpoint(), None);
        let said =
            LocalHttpEndpoint { speaks_tls: true, listen: ([0, 0, 0, 0], 1).into() }.text(Path::new("d"), Look::PLAIN);
        assert!(
            said.contains("--cert d/certs/local.client.pem")
                && said.contains("--resolve node.firstseen:1:127.0.0.1 ")
                && said.contains(" https://node.firstseen:1/v1/filters/clicks/observe "),
            "{said}"
        );
    }
}
