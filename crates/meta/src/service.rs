//! What other members may ask of this one.
//!
//! Promises: a message for another cluster or another node, or from a node that has left, is refused before it is
//! read. Must not know: certificates (the server checks who may call at all).

use firstseen_routing::NodeId;
use firstseen_wire::proto::meta::meta_server::Meta as Service;
use firstseen_wire::proto::meta::{Proposal, ProposalReply, RaftMessage};
use firstseen_wire::status::ErrorKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status};

use crate::codec;
use crate::membership::NoAnswer;
use crate::meta::{Meta, Running};

/// The service of a node.
pub struct MetaService {
    meta: Meta,
}

impl MetaService {
    pub(crate) fn new(meta: Meta) -> Self {
        Self { meta }
    }

    fn running(&self, cluster: &[u8]) -> Result<&Running, Status> {
        let running = self.meta.running().map_err(|error| ErrorKind::NotNow.status(error))?;
        if cluster != running.identity.cluster.0 {
            return Err(
                ErrorKind::Invalid.status("the message is for another cluster: check the addresses of the nodes")
            );
        }
        Ok(running)
    }

    /// What a message asks, if it is for this node.
    fn question<T: DeserializeOwned>(&self, message: &RaftMessage) -> Result<(&Running, T), Status> {
        let running = self.running(&message.cluster_id)?;
        let me = running.identity.node;
        if message.to_node != me.0 {
            let wrong = format!("this is node {me}, not node {}: check the addresses of the nodes", message.to_node);
            return Err(ErrorKind::Invalid.status(wrong));
        }
        if message.from_node == me.0 || self.meta.published().has_left(NodeId(message.from_node)) {
            let gone = format!("node {} has left the cluster: stop it and remove its data", message.from_node);
            return Err(ErrorKind::Forbidden.status(gone));
        }
        let question = codec::decode(&message.payload).map_err(|error| ErrorKind::Invalid.status(error))?;
        Ok((running, question))
    }
}

fn answer<T: Serialize>(asked: &RaftMessage, answer: &T) -> Result<Response<RaftMessage>, Status> {
    let payload = codec::encode(answer).map_err(|error| ErrorKind::Internal.status(error))?;
    Ok(Response::new(RaftMessage {
        cluster_id: asked.cluster_id.clone(),
        from_node: asked.to_node,
        to_node: asked.from_node,
        payload: payload.into(),
    }))
}

#[tonic::async_trait]
impl Service for MetaService {
    async fn append_entries(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (running, question) = self.question(&message)?;
        answer(&message, &running.raft.append_entries(question).await)
    }

    async fn vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (running, question) = self.question(&message)?;
        answer(&message, &running.raft.vote(question).await)
    }

    async fn install_snapshot(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let message = request.into_inner();
        let (running, question) = self.question(&message)?;
        answer(&message, &running.raft.install_snapshot(question).await)
    }

    async fn propose(&self, request: Request<Proposal>) -> Result<Response<ProposalReply>, Status> {
        let proposal = request.into_inner();
        let running = self.running(&proposal.cluster_id)?;
        let question = codec::decode(&proposal.command).map_err(|error| ErrorKind::Invalid.status(error))?;
        let leader = running.leader();
        if leader != Some(running.identity.node) {
            let leader = leader.unwrap_or_default().0;
            return Ok(Response::new(ProposalReply { outcome: Vec::new().into(), leader }));
        }
        let applied = self.meta.serve(running, question).await.map_err(|error| match error {
            NoAnswer::Again(reason) => ErrorKind::OutcomeUnknown.status(reason),
            NoAnswer::Stopped(reason) => ErrorKind::Unavailable.status(reason),
        })?;
        let outcome = codec::encode(&applied).map_err(|error| ErrorKind::Internal.status(error))?;
        Ok(Response::new(ProposalReply { outcome: outcome.into(), leader: running.identity.node.0 }))
    }
}
