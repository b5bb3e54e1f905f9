//! A door for Redis clients: their commands become calls of the client, and verdicts their replies.
//!
//! ```text
//! bytes -- connection --> Command -- session --> Gathered -- filters --> verdicts -- forms --> replies, in order
//! ```
//!
//! The commands of one read are parsed together. Those that ask the same filter the same question become one call. Calls for different
//! questions or filters run at the same time, unless they share an event. The next read begins when all of them have been answered, so a
//! test that follows an observe of the same event sees what that has recorded.
//!
//! Promises: each command gets one reply, in order; a reply about several events never leaves out that one of them is undecided; the
//! memory that all connections use for buffers is bounded. This crate must not depend on consensus, slices or authorization, which [`Host`](firstseen_backend::Host) provides.
#![warn(missing_docs)]

mod batch;
mod confirming;
mod connection;
mod counts;
mod events;
mod form;
mod listen;
mod names;
mod not_asked;
mod outbox;
mod own_claims;
mod sandbox;
mod session;
mod settings;

pub use counts::{CommandCount, DoorCounts};
pub use listen::{Arrival, Attendant, Door};
pub use settings::{
    ClaimRule, DoorSettings, ExpireRule, FilterSettings, ForgetRule, GetRule, MissingRule, NotDoorSettings,
    PrefixSettings, UndecidedRule,
};
