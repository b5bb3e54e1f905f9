//! Assigns principals to the hosts of the simulated network. They are needed in runs with access control, in which the
//! rights of a call depend on the principal of its caller.
//!
//! Each producer and each auditor is a principal that has the name of its host. A node is not a principal. The network
//! does not identify it, so it gets the roles that a listener without client certificates gives to any client.

use std::net::IpAddr;

use firstseen_node::Vouched;
use firstseen_wire::tls::PeerRoles;

/// The producer that has its rights all the time.
pub(crate) const HOLDER: u32 = 0;

/// Returns the name of producer `number`, which is also the name of its host.
pub(crate) fn producer_name(number: u32) -> String {
    format!("producer-{number}")
}

/// Returns the principal that the network vouches for at an address, or `None` at the address of a node.
pub(crate) fn whose(address: IpAddr) -> Option<Vouched> {
    let host = turmoil::reverse_lookup(address)?;
    if host == "operator" {
        // The operator also looks at the levels of trees, as nodes do.
        let roles = PeerRoles { node: true, client: true, admin: true };
        return Some(Vouched { roles, principal: None });
    }
    let is_client = host.starts_with("producer-") || host.starts_with("auditor-");
    let roles = PeerRoles { node: false, client: true, admin: false };
    is_client.then_some(Vouched { roles, principal: Some(host) })
}
