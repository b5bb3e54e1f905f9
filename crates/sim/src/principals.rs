//! Who comes from which host of the simulated network, where rights are asked for.
//!
//! Promises: a producer and an auditor are principals of the name of their host; nodes are whom a listener without certificates
//! takes everybody for. Must not know: what principals may do.

use std::net::IpAddr;

use firstseen_node::Vouched;
use firstseen_wire::tls::PeerRoles;

/// The producer that has its rights all the time.
pub(crate) const HOLDER: u32 = 0;

/// The name of producer `number`, and of its host.
pub(crate) fn producer_name(number: u32) -> String {
    format!("producer-{number}")
}

/// For whom the network vouches at an address; nobody where a node is.
pub(crate) fn whose(address: IpAddr) -> Option<Vouched> {
    let host = turmoil::reverse_lookup(address)?;
    if host == "operator" {
        // It also looks at the levels of trees, as nodes do.
        let roles = PeerRoles { node: true, client: true, admin: true };
        return Some(Vouched { roles, principal: None });
    }
    let is_client = host.starts_with("producer-") || host.starts_with("auditor-");
    let roles = PeerRoles { node: false, client: true, admin: false };
    is_client.then_some(Vouched { roles, principal: Some(host) })
}
