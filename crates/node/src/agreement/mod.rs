//! What this node and the cluster's agreement have to say to each other.
//!
//! Downwards: [`Follower`] makes a view of every new map, and owners act on it. Upwards: [`propose`] carries what groups want
//! changed; [`report`] says what only this node can know: whom it cannot reach ([`Doubts`]), which of its slices it cannot hold
//! ([`Missing`]), how far it has come with filters that others have followed ([`Closing`]).
//!
//! Promises: what is reported is of this start of the node, and is reported again until the map says so. Must not know: what the
//! cluster makes of it.

mod closing;
mod doubts;
mod follow;
mod missing;
mod propose;
mod report;

pub(crate) use closing::Closing;
pub(crate) use doubts::Doubts;
pub(crate) use follow::Follower;
pub(crate) use missing::Missing;
pub(crate) use propose::propose;
pub(crate) use report::report;
