//! Why a command is not done.
//!
//! Promises: a refusal says what was refused, and what can be done instead; kinds are told apart by what the caller
//! does next. Must not know: how commands are carried out.

use firstseen_filter::GenerationNumber;
use firstseen_routing::{FilterId, NodeId, TOKENS_MAX, TokenId};
use firstseen_wire::limits::MAP_FILTERS_BYTES_MAX;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::command::COMMAND_BYTES_MAX;

/// Why a command was refused. Nothing has changed, and asking again under its id is refused again.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// A name or an address that cannot be one.
    #[error("{what} `{value}` is refused: {rule}")]
    Text {
        /// The kind of text.
        what: String,
        /// The text that was given, cut to a length that can be shown.
        value: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// Too much at once.
    #[error("the command {command} has {bytes} bytes, at most {COMMAND_BYTES_MAX} are allowed: use shorter names")]
    TooLarge {
        /// What was asked for.
        command: String,
        /// Its bytes.
        bytes: u64,
    },
    /// The limit is reached.
    #[error("the cluster has {most} {what}, and that is the most")]
    Full {
        /// The things that are limited.
        what: String,
        /// How many there may be.
        most: u64,
    },
    /// The cluster has been founded.
    #[error("the cluster has nodes already: let this node join it")]
    Founded,
    /// Nothing may change before a cluster is founded.
    #[error("the cluster has no nodes yet: wait until its first node has started")]
    NotFounded,
    /// A living node has the name.
    #[error("node {node} is called `{name}`: choose another name, or let node {node} leave first")]
    NameTaken {
        /// The name.
        name: String,
        /// Who has it.
        node: NodeId,
    },
    /// A living node has the address.
    #[error("node {node} is at {address}: choose another address, or let node {node} leave first")]
    AddressTaken {
        /// The address.
        address: String,
        /// Who has it.
        node: NodeId,
    },
    /// There is no such node, or there is no more.
    #[error("node {node} is not in the cluster: see the nodes with `status`")]
    NodeUnknown {
        /// The node.
        node: NodeId,
    },
    /// A cluster needs a node.
    #[error("node {node} is the last of the cluster and cannot leave: stop it and remove its data instead")]
    LastNode {
        /// The node.
        node: NodeId,
    },
    /// The node's cells would be lost.
    #[error(
        "node {node} owns slices of {}: move them to other nodes with `firstseen cluster drain`, or drop those filters",
        filters.join(", ")
    )]
    NodeOwnsSlices {
        /// The node.
        node: NodeId,
        /// Names of the filters.
        filters: Vec<String>,
    },
    /// A filter of this name exists.
    #[error("a filter `{name}` exists: choose another name, or drop it first")]
    FilterExists {
        /// The name.
        name: String,
    },
    /// A filter of this name exists and is another.
    #[error("a filter `{name}` exists with another {differs}: choose another name, or drop it first")]
    FilterDiffers {
        /// The name.
        name: String,
        /// What differs.
        differs: String,
    },
    /// There is no such filter.
    #[error("there is no filter {name}: see the filters with `status`")]
    FilterUnknown {
        /// Its name or number.
        name: String,
    },
    /// The definition cannot live in a cluster.
    #[error("filter `{name}`: {reason}")]
    Definition {
        /// The filter.
        name: String,
        /// What is wrong, and what to change.
        reason: String,
    },
    /// The tree cannot be.
    #[error("filter `{name}`: {reason}")]
    Tree {
        /// The filter.
        name: String,
        /// What is wrong, and what to change.
        reason: String,
    },
    /// A level of a tree lives and dies with its root.
    #[error("filter `{name}` is a level of the tree `{root}`: drop that")]
    Level {
        /// The filter.
        name: String,
        /// The root.
        root: String,
    },
    /// The nodes have no room.
    #[error(
        "filter `{name}` takes {needed_bytes} bytes in slices of {slice_bytes}, and {lacking_bytes} bytes do not fit on \
         the nodes that have started ({free_bytes} bytes free): add nodes, raise their memory, or make the filter \
         smaller"
    )]
    Memory {
        /// The filter.
        name: String,
        /// Bytes of all its slices, with every generation.
        needed_bytes: u64,
        /// Bytes of one slice.
        slice_bytes: u64,
        /// Bytes of all slices that found no place.
        lacking_bytes: u64,
        /// Bytes that the nodes have left.
        free_bytes: u64,
    },
    /// Copies of a slice are on nodes of their own.
    #[error(
        "filter `{name}` with {copies} further copies needs {} nodes, and {nodes} have started there: add nodes, or ask for \
         fewer --copies", copies + 1
    )]
    Copies {
        /// The filter.
        name: String,
        /// Copies beside the first.
        copies: u32,
        /// Nodes that could have one.
        nodes: u64,
    },
    /// A slice cannot move there, or not now.
    #[error("slices of filter `{name}` are not moved: {reason}")]
    Move {
        /// The filter.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The filter cannot be altered so, or not now.
    #[error("filter `{name}` is not altered: {reason}")]
    Alter {
        /// The filter.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A node that has gone down just now may still record by a lease that is not over.
    #[error(
        "filter `{name}` is not forgiven: node {node} has gone down meanwhile, and may still answer beside the others; do it again"
    )]
    MayRecord {
        /// The filter.
        name: String,
        /// The node.
        node: NodeId,
    },
    /// Not the next generation, or one too many.
    #[error("generation {number} of group {group} of filter {filter}: the newest is {newest}, and {rule}")]
    Generation {
        /// The filter.
        filter: FilterId,
        /// The group.
        group: u32,
        /// The generation asked for.
        number: GenerationNumber,
        /// The newest.
        newest: GenerationNumber,
        /// What may be opened.
        rule: String,
    },
    /// A node that should join cannot.
    #[error("the node at {address} cannot join: {reason}")]
    Candidate {
        /// Where it was asked.
        address: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The filter is not one of a backup that waits for its cells.
    #[error("filter {filter} is not being restored, or is a level of a tree: see the filters with `status`")]
    NotRestoring {
        /// The filter.
        filter: FilterId,
    },
    /// The map would be too large for a message.
    #[error(
        "filter `{name}` with {slices} slices takes up to {bytes} bytes in the cluster's map, and {free_bytes} of \
         {MAP_FILTERS_BYTES_MAX} are left: use fewer slices, or drop filters that are not needed"
    )]
    MapFull {
        /// The filter.
        name: String,
        /// Its slices.
        slices: u32,
        /// Bytes of its record, with all that changes in it.
        bytes: u64,
        /// Bytes that are left.
        free_bytes: u64,
    },
    /// Nobody could change who may do what any more, but for the holders of certificates of the role.
    #[error(
        "rights are not asked for before somebody may change them: `firstseen access grant NAME --allow security` first"
    )]
    NoKeeper,
    /// Nobody can ask for another.
    #[error("a change names two that have asked for it")]
    AskedTwice,
    /// There is no such principal.
    #[error(
        "there is no principal `{name}`: `firstseen access grant {name} ...` makes one, and `firstseen access list` shows them"
    )]
    PrincipalUnknown {
        /// Its name.
        name: String,
    },
    /// A principal does not have the right.
    #[error("`{name}` does not have the right `{right}`: see what it has with `firstseen access list`")]
    NotGranted {
        /// The principal.
        name: String,
        /// The right.
        right: String,
    },
    /// The filters of some names would take more than they may together.
    #[error(
        "the filters named `{names}` may have {most} {what} together, and would have {used}: drop some, or \
         let who has the right `security` raise the limit (firstseen access limit-filters '{names}')"
    )]
    FiltersQuota {
        /// The names.
        names: String,
        /// Of what they would have too much.
        what: String,
        /// How much they would have.
        used: u64,
        /// How much they may have.
        most: u64,
    },
    /// There is no such token.
    #[error("there is no token `{id}`: see them with `firstseen access token list`")]
    TokenUnknown {
        /// Its id.
        id: TokenId,
    },
    /// A principal has as many tokens as it may have.
    #[error(
        "`{name}` has {TOKENS_MAX} tokens that are valid: take one back with `firstseen access token revoke ID` once nobody \
         shows it"
    )]
    TokensFull {
        /// The principal.
        name: String,
    },
    /// There is a token of this id.
    #[error("there is a token `{id}`: make one with another id")]
    TokenTaken {
        /// Its id.
        id: TokenId,
    },
}
