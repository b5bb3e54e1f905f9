//! What Redis clients do at the Redis endpoints of nodes, and the settings of the endpoints for that.

use std::fmt;
use std::net::Ipv4Addr;

use firstseen_node::RedisEndpointSettings;
use serde_json::json;

/// Port of each node's Redis endpoint.
pub(crate) const DOOR_PORT: u16 = 6379;
/// Prefix of the keys that are events of the filter.
pub(crate) const KEY_PREFIX: &str = "event:";

/// What Redis clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointUse {
    /// Clients set keys with their own times to live (`SET key value NX EX s`).
    OwnTimes,
    /// Clients set keys of a filter with claims, which the endpoints confirm.
    Confirms,
    /// Clients set keys of a filter with claims, and meanwhile lose and regain the right to record.
    Revocations,
}

impl fmt::Display for EndpointUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnTimes => "keys with times of their own",
            Self::Confirms => "claims that endpoints confirm",
            Self::Revocations => "claims that endpoints confirm, with rights",
        })
    }
}

/// Returns the settings of each node's Redis endpoint, which serves one filter.
///
/// # Errors
/// Returns an error if the endpoint's settings no longer have this form.
pub(crate) fn settings(endpoint_use: EndpointUse, filter: &str) -> Result<RedisEndpointSettings, serde_json::Error> {
    let claim = if endpoint_use == EndpointUse::OwnTimes { "explicit" } else { "on-expiry-confirm" };
    serde_json::from_value(json!({
        "listen": format!("{}:{DOOR_PORT}", Ipv4Addr::UNSPECIFIED),
        "prefix": [{ "match": KEY_PREFIX, "filter": filter }],
        "filter": [{ "name": filter, "claim": claim }],
    }))
}
