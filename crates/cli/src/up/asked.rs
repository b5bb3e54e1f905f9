//! Settings of a local cluster that the flags of `firstseen up` ask for, and the checks of these settings that need no
//! folder.

use std::net::{Ipv4Addr, SocketAddr};

use firstseen_node::NodeConfig;

use super::ports::{following, is_free};
use crate::exit::UsageError;
use crate::text::size::ByteSize;

/// Default number of nodes of a new folder.
const NODES: usize = 3;
/// Default memory of a node of a new folder for cells.
pub(super) const MEMORY: ByteSize = ByteSize(1 << 30);
/// Site of nodes if no flag names a site.
const SITE: &str = "default";

/// Settings of a folder that the flags ask for. Without flags, an existing folder stays as it is.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Number of nodes.
    pub nodes: Option<usize>,
    /// Site of each node. The list is empty if no flag names sites.
    pub sites: Vec<String>,
    /// First port of the nodes.
    pub port: Option<u16>,
    /// Whether nodes require certificates.
    pub tls: bool,
    /// Port of the Redis endpoint.
    pub redis: Option<u16>,
    /// Port of the HTTP endpoint.
    pub http_api: Option<u16>,
    /// Memory of a node for cells.
    pub memory: Option<ByteSize>,
}

impl Asked {
    /// Checks the flags before anything is written.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or(1)));
        let sites = self.sites();
        for site in &sites {
            let node = NodeConfig::new("node", loopback, "data");
            let node = NodeConfig { memory_max_bytes: self.memory.unwrap_or(MEMORY).0, site: site.clone(), ..node };
            node.check().map_err(|error| UsageError(error.to_string()))?;
        }
        if let Some(first) = self.port {
            let ports = following(first, 2 * sites.len())?;
            for (port, flag) in [(self.redis, "--redis"), (self.http_api, "--http-api")] {
                if let Some(port) = port.filter(|port| ports.contains(port)) {
                    return Err(UsageError(format!(
                        "{flag} {port} is one of the ports {first} to {} that the nodes use (--port): name another port",
                        ports.last().unwrap_or(&first)
                    )));
                }
            }
        }
        if let Some(port) = self.redis.filter(|port| self.http_api == Some(*port)) {
            return Err(UsageError(format!("--redis and --http-api name the same port {port}: name two ports")));
        }
        Ok(())
    }

    /// Checks that no other program listens on the ports of a new folder's nodes.
    pub(super) fn check_free(&self) -> Result<(), UsageError> {
        let ports = match self.port {
            Some(first) => following(first, 2 * self.sites().len())?,
            None => Vec::new(),
        };
        if let Some(port) = ports.into_iter().find(|port| !is_free(*port)) {
            let why = "end that one, or name other ports with --port";
            return Err(UsageError(format!(
                "port {port} is in use by another program, perhaps another cluster: {why}"
            )));
        }
        for (port, flag) in [(self.redis, "--redis"), (self.http_api, "--http-api")] {
            if let Some(port) = port.filter(|port| !is_free(*port)) {
                return Err(UsageError(format!(
                    "port {port} is in use by another program: end that one, or name another port with {flag}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the site of each node of a new folder.
    pub(super) fn sites(&self) -> Vec<String> {
        if self.sites.is_empty() { vec![default_site(); self.nodes.unwrap_or(NODES)] } else { self.sites.clone() }
    }
}

/// Returns the site of a node if no flag names a site.
pub(super) fn default_site() -> String {
    SITE.to_owned()
}
