//! What can go wrong beside a verdict: each error says what happened, to what, and what to do.
//!
//! Promises: kinds follow what the caller does next. Must not know: how requests travel.

use firstseen_filter::duration;
use firstseen_wire::net::{ConnectError as AddressError, Mismatch};
use firstseen_wire::tls::TlsError;
use thiserror::Error;

/// Why a client cannot connect.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nothing to start from.
    #[error("no seed was given: name at least one node as host:port")]
    NoSeed,
    /// A seed that can never be reached as it is written.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A limit that allows nothing.
    #[error("{0} must be at least 1")]
    Limit(&'static str),
    /// No source of randomness for the producer's incarnation.
    #[error("no random bytes for the producer's incarnation: {0}; pass them in (ConnectOptions::incarnation)")]
    Random(getrandom::Error),
    /// No node answered in time.
    #[error(
        "no node answered within {} ({tried}): are they running, and is the way to one of them open?",
        duration(*.waited_ms)
    )]
    Unreachable {
        /// How long it was tried.
        waited_ms: u64,
        /// Every address that was tried, with its last error.
        tried: String,
    },
    /// Every seed answers, and none in a way that allows a connection: waiting changes nothing, the settings of one of
    /// the two ends do.
    #[error("{}", settings(.0))]
    Settings(Vec<SeedMismatch>),
}

/// Why a seed cannot be reached as things are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{address} {mismatch}")]
pub struct SeedMismatch {
    /// The seed's address, as it was given.
    pub address: String,
    /// What was seen there, and what to do.
    pub mismatch: Mismatch,
}

fn settings(seeds: &[SeedMismatch]) -> String {
    seeds.iter().map(SeedMismatch::to_string).collect::<Vec<_>>().join("; ")
}

/// Why a filter cannot be used.
#[derive(Debug, Error)]
pub enum FilterError {
    /// No filter of this name.
    #[error(
        "no filter `{name}` in the cluster; {}; make it with `firstseen filter create {name}`, or mend the name",
        filters_there(.there)
    )]
    NotFound {
        /// What was asked for.
        name: String,
        /// The filters of the cluster.
        there: Vec<String>,
    },
    /// The filter's tree has no such leaf.
    #[error("the tree of filter `{name}` has no place `{site}`; {}; name the producer's site", filters_there(.there))]
    NoPlace {
        /// What was asked for.
        name: String,
        /// The client's site.
        site: String,
        /// The places of the tree.
        there: Vec<String>,
    },
    /// A level above would take an event that no leaf knows for a false positive of its own.
    #[error(
        "the tree of filter `{name}` checks in the leaves what it finds above them, so every producer names a leaf; {}",
        filters_there(.leaves)
    )]
    NoLeaf {
        /// What was asked for.
        name: String,
        /// The leaves of the tree.
        leaves: Vec<String>,
    },
    /// A duplicate that is answered here would not start the window again.
    #[error(
        "filter `{name}` refreshes its window with every duplicate, so nodes must see them all: leave local_bytes_max out"
    )]
    Refresh {
        /// What was asked for.
        name: String,
    },
    /// No node could be asked in time.
    #[error(
        "filter `{name}` could not be described within {}: {reason}; try again",
        duration(*.waited_ms)
    )]
    Unreachable {
        /// What was asked for.
        name: String,
        /// How long it was tried.
        waited_ms: u64,
        /// The last error.
        reason: String,
    },
    /// The node will not describe the filter, now or later.
    #[error("the node refuses to describe filter `{name}`: {reason}")]
    Refused {
        /// What was asked for.
        name: String,
        /// What the node says.
        reason: String,
    },
    /// This version cannot use the node's description.
    #[error(
        "the description of filter `{name}` cannot be used: {reason}; does this client's version match the cluster's?"
    )]
    Description {
        /// What was asked for.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The client was dropped.
    #[error("the client is closed: keep it for as long as its filters are used")]
    Closed,
}

/// Names of filters in a message at most.
const NAMES_TOLD_MAX: usize = 12;

fn filters_there(there: &[String]) -> String {
    match there {
        [] => "it has none".to_owned(),
        names if names.len() > NAMES_TOLD_MAX => format!("it has {} others", names.len()),
        names => format!("it has {}", names.join(", ")),
    }
}

/// Why events were not even submitted; nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The window is one of time, and the filter's clock is that of the events.
    #[error(
        "filter `{filter}` judges events by their own times: give them (Event::at, Batch::times_ms), or create it with --clock wall"
    )]
    NeedsTimes {
        /// The filter.
        filter: String,
    },
    /// Verdicts were asked of a filter of frequencies.
    #[error("filter `{filter}` counts frequencies (kind decaying): use count or estimate")]
    Frequencies {
        /// The filter.
        filter: String,
    },
    /// Frequencies were asked of a filter of verdicts.
    #[error("filter `{filter}` tells first from again: use observe or test; count and estimate need kind decaying")]
    Verdicts {
        /// The filter.
        filter: String,
    },
    /// Events of the filter cannot be claimed.
    #[error("events of filter `{filter}` cannot be claimed: create one with --claims 10s")]
    NoClaims {
        /// The filter.
        filter: String,
    },
    /// Nobody holds an event of the filter for so long, or for no time.
    #[error("a lease of {} is refused: 1 ms to {} for filter `{filter}` (--claims)", duration(*.lease_ms), duration(*.most_ms))]
    Lease {
        /// The filter.
        filter: String,
        /// What was asked for, in milliseconds.
        lease_ms: u64,
        /// The greatest, in milliseconds.
        most_ms: u64,
    },
    /// A fence that another filter gave.
    #[error("an event was claimed in another filter than `{filter}`: confirm or release it there")]
    ForeignFence {
        /// The filter that was asked.
        filter: String,
    },
    /// The filter cannot remember an event for the requested time to live.
    #[error("filter `{filter}` cannot keep this time to live: {reason}")]
    Ttl {
        /// The filter.
        filter: String,
        /// Why.
        reason: String,
    },
    /// Lists that belong together differ in length.
    #[error("{events} events with {found} {what}: give one an event")]
    Lengths {
        /// Events.
        events: usize,
        /// The list that should be as long.
        what: &'static str,
        /// How many there are.
        found: usize,
    },
    /// The client was dropped.
    #[error("the client is closed: keep it for as long as its filters are used")]
    Closed,
}
