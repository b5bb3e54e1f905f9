//! What Redis clients do at the doors of nodes, and the settings of doors for that.

use std::fmt;
use std::net::Ipv4Addr;

use firstseen_node::DoorSettings;
use serde_json::json;

/// The port of each node's door.
pub(crate) const DOOR_PORT: u16 = 6379;
/// Keys that begin so are events of the filter.
pub(crate) const KEY_PREFIX: &str = "event:";

/// What Redis clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorUse {
    /// They set keys with times of their own (`SET key value NX EX s`).
    OwnTimes,
    /// They set keys of a filter with claims, which the doors confirm.
    Confirms,
    /// The same, while clients lose and regain the right to record.
    Revocations,
}

impl fmt::Display for DoorUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnTimes => "keys with times of their own",
            Self::Confirms => "claims that doors confirm",
            Self::Revocations => "claims that doors confirm, with rights",
        })
    }
}

/// The settings of each node's door, which is for one filter.
///
/// # Errors
/// The door's settings no longer have this form.
pub(crate) fn settings(door_use: DoorUse, filter: &str) -> Result<DoorSettings, serde_json::Error> {
    let claim = if door_use == DoorUse::OwnTimes { "explicit" } else { "on-expiry-confirm" };
    serde_json::from_value(json!({
        "listen": format!("{}:{DOOR_PORT}", Ipv4Addr::UNSPECIFIED),
        "prefix": [{ "match": KEY_PREFIX, "filter": filter }],
        "filter": [{ "name": filter, "claim": claim }],
    }))
}
