//! A door for Redis clients: their commands become calls of the client, and verdicts their replies.
//!
//! ```text
//! bytes -- connection --> Command -- session --> Gathered -- filters --> verdicts -- forms --> replies, in order
//! ```
//!
//! What comes in one read is parsed, and those of its commands that ask one filter the same thing travel as one call, beside the calls
//! of other questions and filters, as long as no event is in two of them. Then the next commands are taken up: a connection has one
//! such set of calls under way, so a test that follows an observe of its event sees what that has recorded, and what waits for a
//! connection is what was read of it.
//!
//! Promises: replies come in the order of the commands, one each, whatever happens; a number of events of which some are undecided is
//! never answered as if all were decided; bytes that are held are bounded over all connections. Must not know: agreement, slices, how
//! principals are granted what ([`Host`](firstseen_backend::Host) says).
#![warn(missing_docs)]

mod batch;
mod confirming;
mod connection;
mod counts;
mod desk;
mod events;
mod form;
mod listen;
mod names;
mod not_asked;
mod outbox;
mod own_claims;
mod rules;
mod sandbox;
mod session;
mod settings;
mod turns;

pub use counts::{CommandCount, DoorCounts};
pub use listen::{Arrival, Attendant, Door};
pub use settings::{
    ClaimRule, DoorSettings, ExpireRule, FilterSettings, ForgetRule, GetRule, MissingRule, NotDoorSettings,
    PrefixSettings, UndecidedRule,
};
