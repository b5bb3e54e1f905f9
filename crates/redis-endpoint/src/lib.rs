//! Redis endpoint of a node. The endpoint translates the commands of Redis clients into calls of the firstseen client,
//! and translates the verdicts into Redis replies.
//!
//! ```text
//! bytes -- connection --> Command -- session --> CollectedEvents -- filters --> verdicts -- forms --> replies, in order
//! ```
//!
//! The endpoint executes all commands that arrive in one read of a connection together. If several commands perform the
//! same operation on the same filter, the endpoint combines them into one call to the cluster. Different calls run
//! concurrently, unless they share an event. The next read begins only when all of these calls have been answered, so a
//! lookup always sees the events that earlier commands have recorded.
//!
//! - Each command gets one reply, in order.
//! - A reply about several events always shows if one of them is undecided.
//! - The memory that all connections use for buffers is bounded.
//!
//! This crate does not depend on consensus, slices or authorization. The node that runs the endpoint provides this
//! functionality through the trait [`Host`](firstseen_backend::Host).
#![warn(missing_docs)]

mod auto_confirm;
mod batch;
mod command_rejected;
mod connection;
mod counts;
mod events;
mod listen;
mod names;
mod outbox;
mod own_claims;
mod reply_shape;
mod sandbox;
mod session;
mod settings;

pub use counts::{CommandCount, RedisEndpointCounts};
pub use listen::{Arrival, ConnectionWorker, RedisEndpoint};
pub use settings::{
    ClaimRule, ExpireRule, FilterSettings, ForgetRule, GetRule, InvalidRedisSettings, MissingRule, PrefixSettings,
    RedisEndpointSettings, UndecidedRule,
};
