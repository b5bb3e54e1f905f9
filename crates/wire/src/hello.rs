//! The first messages of a producer's stream.
//!
//! Promises: what a node allows is never above what the protocol allows. Must not know: what happens on the stream.

use firstseen_routing::{Incarnation, NodeId};

use crate::error::{WireError, check_length};
use crate::limits::{BATCH_EVENTS_MAX, INFLIGHT_BATCHES_MAX, PROTOCOL_VERSION};
use crate::proto::producer as proto;
use crate::proto::producer::{observe_reply, observe_request};

/// The limits of a node on a stream, and the start of the node that sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The node.
    pub node: NodeId,
    /// Its start.
    pub incarnation: Incarnation,
    /// Events of a batch.
    pub batch_events_max: u32,
    /// Batches that may be unanswered at once.
    pub inflight_batches_max: u32,
}

/// The first message of a producer's stream.
pub fn hello(producer: u128) -> proto::ObserveRequest {
    let hello = proto::Hello { protocol_version: PROTOCOL_VERSION, producer: producer.to_le_bytes().to_vec().into() };
    proto::ObserveRequest { message: Some(observe_request::Message::Hello(hello)) }
}

/// The producer whose first message this is.
///
/// # Errors
/// [`WireError`] where it is another message or of another version.
pub fn accept_hello(request: &proto::ObserveRequest) -> Result<u128, WireError> {
    let Some(observe_request::Message::Hello(hello)) = &request.message else {
        return Err(WireError::Missing { field: "hello" });
    };
    check_version(hello.protocol_version)?;
    check_length("producer", hello.producer.len(), 16)?;
    let mut producer = [0; 16];
    producer.copy_from_slice(&hello.producer);
    Ok(u128::from_le_bytes(producer))
}

/// The first message of the stream back.
pub fn welcome(credit: &Credit) -> proto::ObserveReply {
    let welcome = proto::Welcome {
        protocol_version: PROTOCOL_VERSION,
        node_id: credit.node.0,
        incarnation: credit.incarnation.0,
        batch_events_max: credit.batch_events_max.min(BATCH_EVENTS_MAX),
        inflight_batches_max: credit.inflight_batches_max.min(INFLIGHT_BATCHES_MAX),
    };
    proto::ObserveReply { message: Some(observe_reply::Message::Welcome(welcome)) }
}

/// The limits of the node whose first message this is.
///
/// # Errors
/// [`WireError`] where it is another message, of another version, or allows nothing.
pub fn accept_welcome(reply: &proto::ObserveReply) -> Result<Credit, WireError> {
    let Some(observe_reply::Message::Welcome(welcome)) = &reply.message else {
        return Err(WireError::Missing { field: "welcome" });
    };
    check_version(welcome.protocol_version)?;
    if welcome.batch_events_max == 0 || welcome.inflight_batches_max == 0 {
        return Err(WireError::Missing { field: "welcome.inflight_batches_max" });
    }
    Ok(Credit {
        node: NodeId(welcome.node_id),
        incarnation: Incarnation(welcome.incarnation),
        batch_events_max: welcome.batch_events_max.min(BATCH_EVENTS_MAX),
        inflight_batches_max: welcome.inflight_batches_max.min(INFLIGHT_BATCHES_MAX),
    })
}

fn check_version(theirs: u32) -> Result<(), WireError> {
    if theirs == PROTOCOL_VERSION { Ok(()) } else { Err(WireError::Version { theirs, ours: PROTOCOL_VERSION }) }
}
