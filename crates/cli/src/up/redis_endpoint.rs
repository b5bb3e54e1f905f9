//! The Redis endpoint of a local cluster, and example commands with which users can try it. The address and the other
//! settings are read from the configuration file of the first node, so changes that a user makes there are respected.

use std::net::SocketAddr;
use std::path::Path;

use crate::node::config_file::NodeFile;
use crate::text::style::Look;

/// Name of the example filter. It is created by the commands in the text that `firstseen up` prints when the cluster is
/// ready.
pub(crate) const CLICKS: &str = "clicks";

/// The Redis endpoint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalRedisEndpoint {
    pub(crate) listen: SocketAddr,
    pub(crate) speaks_tls: bool,
    /// Whether a filter is created when a client first uses it.
    pub(crate) makes_filters: bool,
    /// Prefix of the keys that are events of the filter [`CLICKS`].
    pub(crate) beginning: Option<String>,
}

impl LocalRedisEndpoint {
    /// Returns the Redis endpoint of a node with this configuration. `None` means that the node has no such endpoint.
    pub(crate) fn of(config: &Path) -> Option<Self> {
        let endpoint = NodeFile::read(config, &[]).ok()?.node.redis?;
        let of_clicks = endpoint.prefix.into_iter().find(|prefix| prefix.filter == CLICKS);
        Some(Self {
            listen: endpoint.listen,
            speaks_tls: endpoint.tls,
            makes_filters: endpoint.sandbox,
            beginning: of_clicks.map(|prefix| prefix.beginning),
        })
    }

    /// Returns the example commands for this endpoint. `data` is the folder of the cluster.
    pub(crate) fn text(&self, data: &Path, look: Look) -> String {
        let ip = self.listen.ip();
        let port = self.listen.port();
        let host = if ip.is_loopback() || ip.is_unspecified() { String::new() } else { format!("-h {ip} ") };
        let tls = if self.speaks_tls { format!("--tls {} ", certificate_options(data)) } else { String::new() };
        let with = format!("redis-cli {host}-p {port} {tls}");
        let (filter, why) = if self.makes_filters {
            ("seen", "a filter made by use; docs/reference/redis.md".to_owned())
        } else {
            (CLICKS, format!("an event of filter {CLICKS}; docs/reference/redis.md"))
        };
        let add = format!("{with}BF.ADD {filter} an-event");
        let mut text = format!("{} # {why}\n", look.strong(&format!("{add:<59}")));
        if let Some(beginning) = &self.beginning {
            let set = format!("{with}SET {beginning}an-event 1 NX EX 86400");
            text += &format!("{} # an event of filter {CLICKS}\n", look.strong(&format!("{set:<59}")));
        }
        text
    }
}

/// Returns the options with which `redis-cli` and `curl` present the certificate of the cluster in `data`.
pub(super) fn certificate_options(data: &Path) -> String {
    let certs = data.join("certs");
    let certs = certs.display();
    format!("--cacert {certs}/ca.pem --cert {certs}/local.client.pem --key {certs}/local.client.key")
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
        let memory = Some(ByteSize(1 << 26));
        let asked = Asked {
            nodes: Some(1),
            sites: Vec::new(),
            port: None,
            tls: false,
            redis: Some(6390),
            http_api: None,
            memory,
        };
        let made = Folder::open(folder.path(), asked).unwrap();
        let endpoint = LocalRedisEndpoint {
            listen: ([127, 0, 0, 1], 6390).into(),
            speaks_tls: false,
            makes_filters: true,
            beginning: Some("clicks:".to_owned()),
        };
        assert_eq!(made.endpoint(), Some(endpoint.clone()));
        let text = endpoint.text(folder.path(), Look::PLAIN);
        assert!(text.contains("BF.ADD seen ") && text.contains("-p 6390 SET clicks:an-event 1 NX EX 86400"), "{text}");
        let config = made.config(&made.nodes()[0]);
        let text = fs::read_to_string(&config).unwrap();
        let changed = text.replace("6390", "6391").replace("sandbox = true", "").replace("\"clicks:\"", "\"c:\"");
        fs::write(&config, changed).unwrap();
        let listen = ([127, 0, 0, 1], 6391).into();
        let edited = LocalRedisEndpoint { listen, makes_filters: false, beginning: Some("c:".to_owned()), ..endpoint };
        assert_eq!(made.endpoint().as_ref(), Some(&edited));
        let said = edited.text(folder.path(), Look::PLAIN);
        assert!(
            said.contains("-p 6391 SET c:an-event") && said.contains("BF.ADD clicks ") && !said.contains("seen"),
            "{said}"
        );
        let said = LocalRedisEndpoint { speaks_tls: true, ..edited }.text(Path::new("d"), Look::PLAIN);
        assert!(
            said.contains(" --cert d/certs/local.client.pem") && said.contains("an-event 1 NX EX 86400 # "),
            "{said}"
        );
        fs::write(&config, text.split("[redis]").next().unwrap()).unwrap();
        assert_eq!(made.endpoint(), None);
    }
}
