//! First messages on the stream of a producer.
//!
//! In the greeting, a node tells a producer how many events and batches the producer may send. These limits never
//! exceed the limits of the protocol.

use firstseen_routing::{Incarnation, NodeId};

use crate::error::{WireError, check_length};
use crate::limits::{BATCH_EVENTS_MAX, INFLIGHT_BATCHES_MAX, PROTOCOL_VERSION};
use crate::proto::producer as proto;
use crate::proto::producer::{observe_reply, observe_request};

/// Limits that a node sets for a stream, and the incarnation of the node that sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Node that sets the limits.
    pub node: NodeId,
    /// Incarnation of the node, which changes with each start.
    pub incarnation: Incarnation,
    /// Maximum number of events in a batch.
    pub batch_events_max: u32,
    /// Maximum number of batches that may be unanswered at the same time.
    pub inflight_batches_max: u32,
}

/// Creates the first message of a producer's stream.
pub fn hello(producer: u128) -> proto::ObserveRequest {
    let hello = proto::Hello {
        protocol_version: PROTOCOL_VERSION,
        producer: producer.to_le_bytes().to_vec().into(),
        protocol_version_max: PROTOCOL_VERSION,
    };
    proto::ObserveRequest { message: Some(observe_request::Message::Hello(hello)) }
}

/// Decodes the first message of a stream, and returns the incarnation of the producer.
///
/// # Errors
/// Returns [`WireError`] if this is a different message, or if the producer speaks another version of the protocol.
pub fn accept_hello(request: &proto::ObserveRequest) -> Result<u128, WireError> {
    let Some(observe_request::Message::Hello(hello)) = &request.message else {
        return Err(WireError::Missing { field: "hello" });
    };
    check_versions(hello.protocol_version, hello.protocol_version_max)?;
    check_length("producer", hello.producer.len(), 16)?;
    let mut producer = [0; 16];
    producer.copy_from_slice(&hello.producer);
    Ok(u128::from_le_bytes(producer))
}

/// Creates the first message that a node sends on the stream.
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

/// Decodes the first message of a node, and returns the limits that the node sets.
///
/// # Errors
/// Returns [`WireError`] if this is a different message, if the node speaks another version of the protocol, or if a
/// limit is 0.
pub fn accept_welcome(reply: &proto::ObserveReply) -> Result<Credit, WireError> {
    let Some(observe_reply::Message::Welcome(welcome)) = &reply.message else {
        return Err(WireError::Missing { field: "welcome" });
    };
    check_versions(welcome.protocol_version, 0)?;
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

/// Checks whether a peer speaks the protocol version of this crate. The peer speaks all versions from `least` to
/// `greatest`. If `greatest` is 0, the peer speaks only the version `least`.
///
/// # Errors
/// Returns [`WireError::Version`] if the peer does not speak this version.
pub(crate) fn check_versions(least: u32, greatest: u32) -> Result<(), WireError> {
    if (least..=greatest.max(least)).contains(&PROTOCOL_VERSION) {
        return Ok(());
    }
    Err(WireError::Version { theirs: least, ours: PROTOCOL_VERSION })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_speaks_our_version_among_others_is_taken() {
        for (least, greatest, is_taken) in
            [(1, 0, true), (1, 1, true), (1, 7, true), (0, 1, true), (2, 0, false), (2, 3, false)]
        {
            assert_eq!(check_versions(least, greatest).is_ok(), is_taken, "{least} to {greatest}");
        }
        assert!(check_versions(0, 0).is_err(), "a peer without versions must be rejected");
    }
}
