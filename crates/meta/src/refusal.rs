//! Reasons why a command is rejected. There is a variant for each reason that callers must treat differently. Every
//! error message says what was rejected, and what the caller can do instead.

use firstseen_filter::GenerationNumber;
use firstseen_routing::{FilterId, NodeId, TOKENS_MAX, TokenId};
use firstseen_wire::limits::MAP_FILTERS_BYTES_MAX;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::command::COMMAND_BYTES_MAX;

/// Reason why a command was rejected. Nothing has changed. Repeating the command with the same id is rejected again.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Refusal {
    /// A name or an address is not valid.
    #[error("{what} `{value}` is refused: {rule}")]
    Text {
        /// Kind of text, such as a name or an address.
        what: String,
        /// The given text, shortened so that it can be displayed.
        value: String,
        /// The violated rule.
        rule: String,
    },
    /// The command is too large.
    #[error("the command {command} has {bytes} bytes, at most {COMMAND_BYTES_MAX} are allowed: use shorter names")]
    TooLarge {
        /// Name of the command.
        command: String,
        /// Size of the command in bytes.
        bytes: u64,
    },
    /// A limit of the cluster is reached.
    #[error("the limit of {most} {what} is reached")]
    Full {
        /// Kind of objects that are limited.
        what: String,
        /// Maximum number of these objects.
        most: u64,
    },
    /// The cluster has already been founded.
    #[error("the cluster already has nodes: let this node join it")]
    Founded,
    /// The cluster has not been founded yet.
    #[error("the cluster has no nodes yet: wait until its first node has started")]
    NotFounded,
    /// Another node has the name.
    #[error("node {node} is called `{name}`: choose another name, or let node {node} leave first")]
    NameTaken {
        /// The name.
        name: String,
        /// Node that has the name.
        node: NodeId,
    },
    /// Another node has the address.
    #[error("node {node} is at {address}: choose another address, or let node {node} leave first")]
    AddressTaken {
        /// The address.
        address: String,
        /// Node that has the address.
        node: NodeId,
    },
    /// The node does not exist, or has left the cluster.
    #[error("node {node} is not in the cluster: see the nodes with `status`")]
    NodeUnknown {
        /// The node.
        node: NodeId,
    },
    /// The last node of a cluster cannot leave.
    #[error("node {node} is the last of the cluster and cannot leave: stop it and remove its data instead")]
    LastNode {
        /// The node.
        node: NodeId,
    },
    /// The node owns slices, whose cells would be lost.
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
    /// A filter with this name exists.
    #[error("a filter `{name}` exists: choose another name, or drop it first")]
    FilterExists {
        /// The name.
        name: String,
    },
    /// A filter with this name exists, but has other properties.
    #[error("a filter `{name}` exists with another {differs}: choose another name, or drop it first")]
    FilterDiffers {
        /// The name.
        name: String,
        /// The property that differs.
        differs: String,
    },
    /// The filter does not exist.
    #[error("there is no filter {name}: see the filters with `status`")]
    FilterUnknown {
        /// Name or number of the filter.
        name: String,
    },
    /// The definition is not suitable for a cluster.
    #[error("filter `{name}`: {reason}")]
    Definition {
        /// The filter.
        name: String,
        /// The problem, and what to change.
        reason: String,
    },
    /// The filter tree is not valid.
    #[error("filter `{name}`: {reason}")]
    Tree {
        /// The filter.
        name: String,
        /// The problem, and what to change.
        reason: String,
    },
    /// A level of a filter tree can only be dropped together with its root.
    #[error(
        "filter `{name}` is a level of the tree `{root}`: drop the tree, or remove its place with `firstseen filter \
         place remove`"
    )]
    Level {
        /// The filter.
        name: String,
        /// The root.
        root: String,
    },
    /// The nodes do not have enough memory.
    #[error(
        "filter `{name}` takes {needed_bytes} bytes in slices of {slice_bytes}, and {lacking_bytes} bytes do not fit on \
         the nodes that have started ({free_bytes} bytes free): add nodes, raise their memory, or make the filter \
         smaller"
    )]
    Memory {
        /// The filter.
        name: String,
        /// Size of all its slices with every generation, in bytes.
        needed_bytes: u64,
        /// Size of one slice in bytes.
        slice_bytes: u64,
        /// Size of all slices that could not be placed, in bytes.
        lacking_bytes: u64,
        /// Free memory of the nodes, in bytes.
        free_bytes: u64,
    },
    /// There are too few nodes for the copies, because each copy of a slice needs a separate node.
    #[error(
        "filter `{name}` with {copies} further copies needs {} nodes, but only {nodes} suitable nodes have started: \
         add nodes, or use fewer --copies", copies + 1
    )]
    Copies {
        /// The filter.
        name: String,
        /// Number of copies in addition to the first.
        copies: u32,
        /// Number of nodes that could have a copy.
        nodes: u64,
    },
    /// A slice cannot be moved as requested, or not now.
    #[error("slices of filter `{name}` are not moved: {reason}")]
    Move {
        /// The filter.
        name: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// The filter cannot be altered as requested, or not now.
    #[error("filter `{name}` is not altered: {reason}")]
    Alter {
        /// The filter.
        name: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// A node has recently been marked as down, and may still record events because its lease may not have ended.
    #[error(
        "filter `{name}` is not forgiven: node {node} has gone down in the meantime and may still record events; try \
         again"
    )]
    MayRecord {
        /// The filter.
        name: String,
        /// The node.
        node: NodeId,
    },
    /// The generation is not the next one, or exceeds the maximum number of generations.
    #[error("generation {number} of group {group} of filter {filter}: the newest is {newest}, and {rule}")]
    Generation {
        /// The filter.
        filter: FilterId,
        /// The slice group.
        group: u32,
        /// The requested generation.
        number: GenerationNumber,
        /// The newest generation.
        newest: GenerationNumber,
        /// The rule that says which generation may be opened.
        rule: String,
    },
    /// The node cannot join the cluster.
    #[error("the node at {address} cannot join: {reason}")]
    Candidate {
        /// Address of the node.
        address: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// The filter is not being restored from a backup.
    #[error("filter {filter} is not being restored, or is a level of a tree: see the filters with `status`")]
    NotRestoring {
        /// The filter.
        filter: FilterId,
    },
    /// The cluster map would become too large for one message.
    #[error(
        "filter `{name}` with {slices} slices takes up to {bytes} bytes in the cluster's map, and {free_bytes} of \
         {MAP_FILTERS_BYTES_MAX} are left: use fewer slices, or drop filters that are not needed"
    )]
    MapFull {
        /// The filter.
        name: String,
        /// Number of its slices.
        slices: u32,
        /// Maximum size of its record in bytes, including everything that can change in it.
        bytes: u64,
        /// Number of bytes that are left.
        free_bytes: u64,
    },
    /// Only holders of an operator's certificate could change access rights, because no principal has the right
    /// `security`.
    #[error(
        "access control cannot be enabled before a principal may change access rights: run `firstseen access grant \
         NAME --allow security` first"
    )]
    NoKeeper,
    /// A change names two principals that requested it.
    #[error("a change names two principals that requested it")]
    AskedTwice,
    /// The principal does not exist.
    #[error(
        "there is no principal `{name}`: create it with `firstseen access grant {name} ...`, or list all principals \
         with `firstseen access list`"
    )]
    PrincipalUnknown {
        /// Name of the principal.
        name: String,
    },
    /// The principal does not have the right.
    #[error("`{name}` does not have the right `{right}`: list its rights with `firstseen access list`")]
    NotGranted {
        /// The principal.
        name: String,
        /// The right.
        right: String,
    },
    /// The filters with certain names would exceed the limit that applies to all of them together.
    #[error(
        "the filters named `{names}` may have at most {most} {what} together, and would have {used}: drop some of \
         them, or let a principal with the right `security` raise the limit (firstseen access limit-filters '{names}')"
    )]
    FiltersQuota {
        /// Pattern of the names.
        names: String,
        /// The limited resource.
        what: String,
        /// Amount that the filters would use.
        used: u64,
        /// Maximum amount.
        most: u64,
    },
    /// The token does not exist.
    #[error("token `{id}` not found: list all tokens with `firstseen access token list`")]
    TokenUnknown {
        /// Identifier of the token.
        id: TokenId,
    },
    /// The principal already has the maximum number of tokens.
    #[error(
        "`{name}` already has {TOKENS_MAX} valid tokens, which is the maximum: revoke an unused one with `firstseen \
         access token revoke ID`"
    )]
    TokensFull {
        /// The principal.
        name: String,
    },
    /// A token with this identifier already exists.
    #[error("token `{id}` already exists: create one with another id")]
    TokenTaken {
        /// Identifier of the token.
        id: TokenId,
    },
}
