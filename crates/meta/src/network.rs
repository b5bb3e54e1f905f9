//! Sends the messages of this node's openraft instance to other members. Every message contains the cluster and the
//! receiver that it is meant for, so that a wrong receiver can reject it. Every message has a time limit. A member that
//! does not answer in time is reported to openraft as unreachable, so that openraft sends fewer messages to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen_routing::NodeId;
use firstseen_wire::limits::{CONNECT_TIMEOUT, NODES_MAX};
use firstseen_wire::net::{Channel, ConnectError, Connector, meta_client};
use firstseen_wire::proto::meta::RaftMessage;
use firstseen_wire::proto::meta::meta_client::MetaClient;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::Instant;

use crate::codec::{self, CodecError};
use crate::formats::{Formats, said};
use crate::logged_refusals::LoggedRefusals;
use crate::room::FullDisks;
use crate::store::{Identity, Published};
use crate::types::{Member, TypeConfig, Versioned};

/// Reason why a message has no answer.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{}: {}", .0.code(), .0.message())]
    Status(#[from] tonic::Status),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// Opens connections to other members.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) published: Arc<Published>,
    pub(crate) identity: Identity,
    pub(crate) backoff: Duration,
    /// Nodes with nearly full disks, according to their replies.
    pub(crate) short: FullDisks,
    pub(crate) channels: Channels,
    pub(crate) refusals: LoggedRefusals,
    /// Formats that the nodes can read, according to their replies.
    pub(crate) formats: Formats,
}

/// Open channels to other members. They are cached because openraft creates a new client whenever it confirms its
/// leadership.
#[derive(Clone, Default)]
pub(crate) struct Channels(Arc<Mutex<BTreeMap<Member, OpenChannel>>>);

struct OpenChannel {
    channel: Channel,
    /// Time of the last reply on this channel. Before the first reply, this is the time at which the channel was
    /// opened.
    heard: Instant,
}

impl Channels {
    fn of(
        &self,
        member: &Member,
        open: impl FnOnce() -> Result<Channel, ConnectError>,
    ) -> Result<Channel, ConnectError> {
        let mut channels = self.lock();
        if let Some(OpenChannel { channel, .. }) = channels.get(member) {
            return Ok(channel.clone());
        }
        // The removed channels include those of members whose address has changed.
        if channels.len() >= NODES_MAX {
            channels.clear();
        }
        let channel = open()?;
        channels.insert(member.clone(), OpenChannel { channel: channel.clone(), heard: Instant::now() });
        Ok(channel)
    }

    /// Notes that a reply has arrived on the channel to a member.
    fn hear(&self, member: &Member) {
        if let Some(open) = self.lock().get_mut(member) {
            open.heard = Instant::now();
        }
    }

    /// Discards the channel to a member that did not answer in time, so that the next call opens a new connection. The
    /// existing connection may be broken and lose all messages. HTTP/2 detects a broken connection only after ten
    /// seconds, which is too long for the consensus.
    ///
    /// In two cases, this method keeps the channel. If a reply has arrived on the channel within the last
    /// [`CONNECT_TIMEOUT`], the connection works, and the member may just be slow. If the channel was opened within
    /// that time, its connection may not be established yet.
    fn discard(&self, member: &Member) {
        let mut channels = self.lock();
        if channels.get(member).is_some_and(|open| open.heard.elapsed() >= CONNECT_TIMEOUT) {
            channels.remove(member);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Member, OpenChannel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network {
    /// Returns the name and address of node `target`. They come from the cluster map, or from openraft if the map does
    /// not contain the node yet.
    pub(crate) fn member(&self, target: u64, otherwise: &Member) -> Member {
        match self.published.newest().nodes.get(&NodeId(target)) {
            Some(record) => Member { name: record.name.clone(), address: record.address.clone() },
            None => otherwise.clone(),
        }
    }

    pub(crate) fn client(&self, member: &Member) -> Result<MetaClient<Channel>, CallError> {
        let name = (!member.name.is_empty()).then_some(member.name.as_str());
        Ok(meta_client(self.channels.of(member, || self.connector.channel(&member.address, name))?))
    }

    /// Waits for the reply of a member to a call on its channel.
    ///
    /// # Errors
    /// [`CallError::Timeout`] after `limit`. If the member has been silent for a long time, the next call opens a new
    /// connection.
    pub(crate) async fn reply<T>(
        &self,
        member: &Member,
        limit: Duration,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(limit, call).await {
            Ok(reply) => {
                self.channels.hear(member);
                Ok(reply?.into_inner())
            }
            Err(_) => {
                self.channels.discard(member);
                Err(CallError::Timeout(limit))
            }
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, node: &Member) -> Link {
        Link { network: self.clone(), target, fallback: node.clone() }
    }
}

/// The connection to one other member.
pub(crate) struct Link {
    network: Network,
    target: u64,
    fallback: Member,
}

/// The calls that openraft makes.
#[derive(Clone, Copy)]
enum Method {
    Append,
    Vote,
    Snapshot,
}

impl Link {
    async fn ask<Q, A>(&mut self, method: Method, question: &Q, limit: Duration) -> Result<A, CallError>
    where
        Q: Versioned,
        A: DeserializeOwned,
    {
        let message = RaftMessage {
            cluster_id: self.network.identity.cluster.0.to_vec().into(),
            from_node: self.network.identity.node.0,
            to_node: self.target,
            payload: codec::encode_as(question.version(), question)?.into(),
            is_short_of_room: false,
            newest_format: 0,
            holds_format: false,
        };
        let member = self.network.member(self.target, &self.fallback);
        let mut client = self.network.client(&member)?;
        // The time limit is not sent to the peer, which notices it when the call is cancelled. If it were sent, tonic
        // would reply to a late call with a date from the system clock, which a simulation does not control.
        let call = async {
            match method {
                Method::Append => client.append_entries(message).await,
                Method::Vote => client.vote(message).await,
                Method::Snapshot => client.install_snapshot(message).await,
            }
        };
        let reply = self.network.reply(&member, limit, call).await.inspect_err(|error| {
            if let CallError::Status(status) = error {
                self.network.refusals.note(self.target, status);
            }
        })?;
        self.network.refusals.end(self.target);
        self.network.short.note(NodeId(self.target), reply.is_short_of_room);
        let reads = said(reply.newest_format, reply.holds_format);
        self.network.formats.note(NodeId(self.target), reads, Instant::now());
        Ok(codec::decode(&reply.payload)?)
    }

    async fn call<Q, A, E>(
        &mut self,
        method: Method,
        question: Q,
        option: RPCOption,
    ) -> Result<A, RPCError<u64, Member, RaftError<u64, E>>>
    where
        Q: Versioned,
        A: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let answer: Result<A, RaftError<u64, E>> = self
            .ask(method, &question, option.hard_ttl())
            .await
            .map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.target, error)))
    }
}

impl RaftNetwork<TypeConfig> for Link {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        self.call(Method::Append, rpc, option).await
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RPCError<u64, Member, RaftError<u64, InstallSnapshotError>>> {
        self.call(Method::Snapshot, rpc, option).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, Member, RaftError<u64>>> {
        self.call(Method::Vote, rpc, option).await
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(self.network.backoff))
    }
}

#[cfg(test)]
mod tests {
    use firstseen_wire::net::TcpConnector;

    use super::*;

    /// Regression test: a node had no lease for ten seconds although all links worked again. Its connection to the
    /// leader was broken and lost all messages without an error. The node used the same connection for every further
    /// request, until HTTP/2 closed it after ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_channel_that_has_been_silent_for_long_is_opened_again() {
        let channels = Channels::default();
        let member = Member { name: "node-1".to_owned(), address: "127.0.0.1:7400".to_owned() };
        assert!(is_opened(&channels, &member));
        channels.discard(&member);
        assert!(!is_opened(&channels, &member), "it may still be connecting");
        tokio::time::advance(CONNECT_TIMEOUT).await;
        assert!(!is_opened(&channels, &member));
        channels.hear(&member);
        channels.discard(&member);
        assert!(!is_opened(&channels, &member), "a reply came over it just now");
        tokio::time::advance(CONNECT_TIMEOUT).await;
        channels.discard(&member);
        assert!(is_opened(&channels, &member));
    }

    /// Requests the channel to a member, and returns whether a new one was opened.
    fn is_opened(channels: &Channels, member: &Member) -> bool {
        let mut is_opened = false;
        let channel = channels.of(member, || {
            is_opened = true;
            TcpConnector::default().channel(&member.address, None)
        });
        channel.expect("the address is valid");
        is_opened
    }
}
