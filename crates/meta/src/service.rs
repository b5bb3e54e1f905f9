//! The calls that other members can make to this node. A message is rejected before its content is read if it is meant
//! for another cluster or another node. It is also rejected if it was not sent by the node that it names as its sender.
//!
//! The server accepts only callers with a node's certificate, so this module does not check who may make calls.

use firstseen_routing::NodeId;
use firstseen_wire::net::meta_server;
use firstseen_wire::proto::meta::meta_server::{Meta as Service, MetaServer};
use firstseen_wire::proto::meta::{Proposal, ProposalReply, RaftMessage};
use firstseen_wire::status::ErrorKind;
use openraft::raft::{AppendEntriesRequest, InstallSnapshotRequest, VoteRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status};

use crate::codec;
use crate::membership::NoAnswer;
use crate::meta::Meta;
use crate::raising::reads;
use crate::running::Running;
use crate::sender::Sender;
use crate::types::{TypeConfig, Vote};

/// The service of a node for other members.
pub struct MetaService {
    meta: Meta,
    /// Whether callers authenticate with certificates.
    is_secure: bool,
}

/// Returns the service of a node for other members. `is_secure` says whether its server requires certificates.
pub fn service(meta: &Meta, is_secure: bool) -> MetaServer<MetaService> {
    meta_server(MetaService { meta: meta.clone(), is_secure })
}

impl MetaService {
    fn running(&self, cluster: &[u8]) -> Result<&Running, Status> {
        let running = self.meta.running().map_err(|error| ErrorKind::NotNow.status(error))?;
        if cluster != running.identity.cluster.0 {
            let other = "the message belongs to another cluster: check the addresses of the nodes; if this cluster was \
                         recovered without the sending node, stop that node, remove its data, and let it join again";
            return Err(ErrorKind::Invalid.status(other));
        }
        // Openraft waits for the disk, so all messages to it would queue behind that wait.
        if self.meta.has_hung_disk() {
            return Err(ErrorKind::Unavailable.status("the disk of this node's consensus log hangs"));
        }
        Ok(running)
    }

    /// Returns the request in a message of `sender`, if the message is addressed to this node.
    fn question<T: NamesSender>(&self, sender: &Sender, message: &RaftMessage) -> Result<(&Running, T), Status> {
        let running = self.running(&message.cluster_id)?;
        let me = running.identity.node;
        let from = NodeId(message.from_node);
        if message.to_node != me.0 {
            let wrong = format!("this is node {me}, not node {}: check the addresses of the nodes", message.to_node);
            return Err(ErrorKind::Invalid.status(wrong));
        }
        if from == me {
            return Err(ErrorKind::Forbidden.status(format!("this is node {me} itself: another process has its data")));
        }
        let patience = self.meta.inner.config.timing.attempt();
        if T::LEADS {
            sender.may_lead(running, from, patience)?
        } else {
            sender.may_be(running, from, patience)?
        }
        let question: T = codec::decode(&message.payload).map_err(|error| ErrorKind::Invalid.status(error))?;
        let voice = question.vote().leader_id.node_id;
        if voice != from.0 {
            return Err(ErrorKind::Forbidden.status(format!("node {from} sent a message in the name of node {voice}")));
        }
        Ok((running, question))
    }
}

/// A request that names its sender through its vote.
trait NamesSender: DeserializeOwned {
    /// Whether only a leader sends this request.
    const LEADS: bool;

    /// Returns the vote, which names the leader or the candidate.
    fn vote(&self) -> &Vote;
}

impl NamesSender for AppendEntriesRequest<TypeConfig> {
    const LEADS: bool = true;

    fn vote(&self) -> &Vote {
        &self.vote
    }
}

impl NamesSender for InstallSnapshotRequest<TypeConfig> {
    const LEADS: bool = true;

    fn vote(&self) -> &Vote {
        &self.vote
    }
}

impl NamesSender for VoteRequest<u64> {
    const LEADS: bool = false;

    fn vote(&self) -> &Vote {
        &self.vote
    }
}

fn answer<T: Serialize>(meta: &Meta, asked: &RaftMessage, answer: &T) -> Result<Response<RaftMessage>, Status> {
    let payload = codec::encode(answer).map_err(|error| ErrorKind::Internal.status(error))?;
    let reads = reads(meta);
    Ok(Response::new(RaftMessage {
        is_short_of_room: meta.is_short_of_room(),
        newest_format: reads.newest.0.into(),
        holds_format: reads.holds,
        cluster_id: asked.cluster_id.clone(),
        from_node: asked.to_node,
        to_node: asked.from_node,
        payload: payload.into(),
    }))
}

#[tonic::async_trait]
impl Service for MetaService {
    async fn append_entries(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let sender = Sender::of(&request, self.is_secure);
        let message = request.into_inner();
        let (running, question) = self.question(&sender, &message)?;
        answer(&self.meta, &message, &running.raft.append_entries(question).await)
    }

    async fn vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let sender = Sender::of(&request, self.is_secure);
        let message = request.into_inner();
        let (running, question) = self.question(&sender, &message)?;
        answer(&self.meta, &message, &running.raft.vote(question).await)
    }

    async fn install_snapshot(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        let sender = Sender::of(&request, self.is_secure);
        let message = request.into_inner();
        let (running, question) = self.question(&sender, &message)?;
        answer(&self.meta, &message, &running.raft.install_snapshot(question).await)
    }

    async fn propose(&self, request: Request<Proposal>) -> Result<Response<ProposalReply>, Status> {
        let sender = Sender::of(&request, self.is_secure);
        let proposal = request.into_inner();
        let running = self.running(&proposal.cluster_id)?;
        sender.must_be(running, NodeId(proposal.from_node))?;
        let question = codec::decode(&proposal.command).map_err(|error| ErrorKind::Invalid.status(error))?;
        if !running.leads() {
            let leader = running.leader().unwrap_or_default().0;
            return Ok(Response::new(ProposalReply { leader, ..ProposalReply::default() }));
        }
        let leader = running.identity.node.0;
        let applied = match self.meta.serve(running, question).await {
            Ok(applied) => applied,
            Err(NoAnswer::Again(reason)) => return Err(ErrorKind::OutcomeUnknown.status(reason)),
            Err(NoAnswer::Stopped(reason)) => return Err(ErrorKind::Unavailable.status(reason)),
            Err(NoAnswer::NoRoom(no_room)) => {
                return Ok(Response::new(ProposalReply { no_room, leader, ..ProposalReply::default() }));
            }
        };
        let outcome = codec::encode(&applied).map_err(|error| ErrorKind::Internal.status(error))?;
        Ok(Response::new(ProposalReply { outcome: outcome.into(), leader, ..ProposalReply::default() }))
    }
}
