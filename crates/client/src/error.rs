//! Errors of the client. Each error message says what happened, to which object, and what the user can do.
//!
//! Each error variant stands for one reaction of the caller, for example to retry or to change the settings. Errors
//! with different causes but the same reaction therefore share a variant.

use firstseen_filter::duration;
use firstseen_wire::net::{ConnectError as AddressError, Mismatch};
use firstseen_wire::tls::TlsError;
use thiserror::Error;

/// Error returned when a client cannot connect to a cluster.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The options name no seed node to connect to.
    #[error("no seed was given: name at least one node as host:port")]
    NoSeed,
    /// The address of a seed node is malformed, so the seed can never be reached.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The certificates in the options cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The option with this name is 0, which would allow nothing.
    #[error("{0} must be at least 1")]
    Limit(&'static str),
    /// The operating system has no source of randomness, which the client needs for its incarnation number.
    #[error("no random bytes for the producer's incarnation: {0}; pass them in (ConnectOptions::incarnation)")]
    Random(getrandom::Error),
    /// No node answered before the deadline.
    #[error(
        "no node answered within {} ({tried}): are they running, and is the way to one of them open?",
        duration(*.waited_ms)
    )]
    Unreachable {
        /// Time that the client waited, in milliseconds.
        waited_ms: u64,
        /// All addresses that the client tried, each with its last error.
        tried: String,
    },
    /// Every seed node replied in a way that makes a connection impossible. For example, the nodes require TLS but the
    /// client speaks plain text. Waiting does not help: the settings of the client or of the nodes must be changed.
    #[error("{}", settings(.0))]
    Settings(Vec<SeedMismatch>),
}

/// Reason why one seed cannot be used with the present settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{address} {mismatch}")]
pub struct SeedMismatch {
    /// Address of the seed, as it was written in the options.
    pub address: String,
    /// What the client found at this address, and what to do about it.
    pub mismatch: Mismatch,
}

fn settings(seeds: &[SeedMismatch]) -> String {
    seeds.iter().map(SeedMismatch::to_string).collect::<Vec<_>>().join("; ")
}

/// Error returned when a filter cannot be opened.
#[derive(Debug, Error)]
pub enum FilterError {
    /// The cluster has no filter with this name.
    #[error(
        "no filter `{name}` in the cluster; {}; make it with `firstseen filter create {name}`, or mend the name",
        filters_there(.there)
    )]
    NotFound {
        /// Name of the filter that was requested.
        name: String,
        /// Names of the filters that the cluster has.
        there: Vec<String>,
    },
    /// The tree of this filter has no leaf for the client's site.
    #[error("the tree of filter `{name}` has no place `{site}`; {}; name the producer's site", filters_there(.there))]
    NoPlace {
        /// Name of the filter that was requested.
        name: String,
        /// Site of the client, as set in its options.
        site: String,
        /// Names of the places in the tree, one for each level of the tree.
        there: Vec<String>,
    },
    /// The filter belongs to a tree in which producers must send their events to a leaf, but no leaf is known for this
    /// client. The client has no site setting that would assign it to a leaf.
    ///
    /// The leaves are needed because this tree checks duplicates: if an upper level finds an event, the event counts as
    /// a duplicate only if a leaf knows it too. Events that a client sent directly to an upper level would be unknown
    /// to all leaves. The tree would then wrongly call every repetition of such an event new.
    #[error(
        "the tree of filter `{name}` checks in the leaves what it finds above them, so every producer names a leaf; {}",
        filters_there(.leaves)
    )]
    NoLeaf {
        /// Name of the filter that was requested.
        name: String,
        /// Names of the leaves of the tree.
        leaves: Vec<String>,
    },
    /// The client has a local memory (`local_bytes_max`) that this filter does not permit. The filter extends the life
    /// of an event whenever a duplicate of the event arrives, so its nodes must see all duplicates. A local memory
    /// would answer duplicates without the nodes.
    #[error(
        "filter `{name}` refreshes its window with every duplicate, so nodes must see them all: leave local_bytes_max out"
    )]
    Refresh {
        /// Name of the filter that was requested.
        name: String,
    },
    /// No node described the filter before the deadline.
    #[error(
        "filter `{name}` could not be described within {}: {reason}; try again",
        duration(*.waited_ms)
    )]
    Unreachable {
        /// Name of the filter that was requested.
        name: String,
        /// Time that the client waited, in milliseconds.
        waited_ms: u64,
        /// Error of the last attempt.
        reason: String,
    },
    /// The node refuses to describe the filter, and a retry would be refused too.
    #[error("the node refuses to describe filter `{name}`: {reason}")]
    Refused {
        /// Name of the filter that was requested.
        name: String,
        /// Reason that the node gave.
        reason: String,
    },
    /// This version of the client cannot use the node's description of the filter.
    #[error(
        "the description of filter `{name}` cannot be used: {reason}; does this client's version match the cluster's?"
    )]
    Description {
        /// Name of the filter that was requested.
        name: String,
        /// What is wrong with the description.
        reason: String,
    },
    /// The client was dropped.
    #[error("the client is closed: keep it for as long as its filters are used")]
    Closed,
}

/// Maximum number of names that one error message lists.
const NAMES_LISTED_MAX: usize = 12;

fn filters_there(there: &[String]) -> String {
    match there {
        [] => "it has none".to_owned(),
        names if names.len() > NAMES_LISTED_MAX => format!("it has {} others", names.len()),
        names => format!("it has {}", names.join(", ")),
    }
}

/// Error returned when events were not submitted at all. Nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The filter judges events by the times at which they occurred, but the events of the call carry no times.
    #[error(
        "filter `{filter}` judges events by their own times: give them (Event::at, Batch::times_ms), or create it with --clock wall"
    )]
    NeedsTimes {
        /// Name of the filter.
        filter: String,
    },
    /// The call asks for verdicts, but the filter counts frequencies.
    #[error("filter `{filter}` counts frequencies (kind decaying): use count or estimate")]
    Frequencies {
        /// Name of the filter.
        filter: String,
    },
    /// The call asks for frequencies, but the filter gives verdicts.
    #[error("filter `{filter}` gives verdicts: use observe or test; count and estimate need a filter of kind decaying")]
    Verdicts {
        /// Name of the filter.
        filter: String,
    },
    /// Events of this filter cannot be claimed.
    #[error("events of filter `{filter}` cannot be claimed: create one with --claims 10s")]
    NoClaims {
        /// Name of the filter.
        filter: String,
    },
    /// The requested lease is zero, or longer than the filter allows.
    #[error("a lease of {} is refused: 1 ms to {} for filter `{filter}` (--claims)", duration(*.lease_ms), duration(*.most_ms))]
    Lease {
        /// Name of the filter.
        filter: String,
        /// Requested lease, in milliseconds.
        lease_ms: u64,
        /// Longest lease that the filter allows, in milliseconds.
        most_ms: u64,
    },
    /// A fence in the call was granted by another filter.
    #[error("an event was claimed in another filter than `{filter}`: confirm or release it there")]
    ForeignFence {
        /// Name of the filter that was called.
        filter: String,
    },
    /// The filter cannot remember an event for the requested time to live.
    #[error("filter `{filter}` cannot keep this time to live: {reason}")]
    Ttl {
        /// Name of the filter.
        filter: String,
        /// Reason why the time to live cannot be used.
        reason: String,
    },
    /// Two lists of the same batch differ in length.
    #[error("{events} events with {found} {what}: give one for each event")]
    Lengths {
        /// Number of events in the batch.
        events: usize,
        /// Name of the list that has the wrong length.
        what: &'static str,
        /// Number of entries in that list.
        found: usize,
    },
    /// The client was dropped.
    #[error("the client is closed: keep it for as long as its filters are used")]
    Closed,
}
