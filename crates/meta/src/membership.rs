//! Lets nodes join and leave the consensus group, one at a time.
//!
//! # Guarantees
//! - Only one change of the members is in progress at a time. Each change starts from an agreed state. It is completed
//!   even if a leader fails in the middle of it.
//! - A node has a permanent number before it votes.

use std::collections::BTreeSet;
use std::time::Duration;

use firstseen_routing::NodeId;
use firstseen_wire::net::{Channel, admin_client};
use firstseen_wire::proto::admin::admin_client::AdminClient;
use firstseen_wire::proto::admin::{AdoptRequest, IdentifyReply, IdentifyRequest, Setting};
use openraft::ChangeMembers;
use openraft::error::{ClientWriteError, RaftError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::asked_by::AskedBy;
use crate::change::{Change, NodeProfile};
use crate::codec;
use crate::command::{COMMAND_BYTES_MAX, Command, CommandId, Outcome};
use crate::config::RaftTiming;
use crate::formats::{can_join, said};
use crate::mixed::mixed_128;
use crate::network::{CallError, Network};
use crate::refusal::Refusal;
use crate::slots::{self, VOTERS_MAX};
use crate::types::{Applied, Member, Metrics, Raft};

/// Reason why there is no answer yet.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The command may or may not have been executed. The caller can try again, possibly with another node.
    Again(String),
    /// Openraft has stopped on this node.
    Stopped(String),
    /// A disk is nearly full, and the change can be postponed. Nothing has changed.
    NoRoom(String),
}

pub(crate) type Answer = Result<Applied, NoAnswer>;

/// A change of the members.
#[derive(Debug)]
pub(crate) enum Task {
    Join { asked_by: Option<AskedBy>, id: CommandId, address: String },
    Leave { asked_by: Option<AskedBy>, id: CommandId, node: NodeId },
}

/// A change of the members, and the caller that waits for it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// The task that changes the members while its node is the leader. No other task changes them.
pub(crate) struct Controller {
    pub(crate) raft: Raft,
    pub(crate) network: Network,
    pub(crate) timing: RaftTiming,
    /// Settings that must be the same on all nodes.
    pub(crate) same_on_all: Vec<Setting>,
}

impl Controller {
    pub(crate) async fn run(self, mut jobs: mpsc::Receiver<Job>, stop: CancellationToken) {
        let me = self.network.identity.node.0;
        let mut metrics = self.raft.metrics();
        let mut led = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                job = jobs.recv() => match job {
                    Some(Job { task, answer }) => {
                        // The caller may have stopped waiting, but the change is completed anyway.
                        answer.send(self.limited(self.serve(task)).await).ok();
                    }
                    None => return,
                },
                changed = metrics.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let leads = metrics.borrow_and_update().current_leader == Some(me);
                    if leads && !led && let Err(error) = self.limited(self.finish_what_was_begun()).await {
                        tracing::warn!(?error, "a membership change of an earlier leader could not be completed");
                    }
                    led = leads;
                }
            }
        }
    }

    async fn limited<T>(&self, work: impl Future<Output = Result<T, NoAnswer>>) -> Result<T, NoAnswer> {
        let limit = Duration::from_millis(self.timing.membership_ms);
        match tokio::time::timeout(limit, work).await {
            Ok(done) => done,
            Err(_) => Err(NoAnswer::Again(format!("the members did not agree on the change within {limit:?}"))),
        }
    }

    async fn serve(&self, task: Task) -> Answer {
        match task {
            Task::Join { asked_by, id, address } => self.join(asked_by, id, address).await,
            Task::Leave { asked_by, id, node } => self.leave(asked_by, id, node).await,
        }
    }

    async fn join(&self, asked_by: Option<AskedBy>, id: CommandId, address: String) -> Answer {
        let (mut admin, candidate) = match self.identify(&address).await {
            Ok(found) => found,
            Err(error) => return refused(address, format!("it does not answer ({error}): is it running there?")),
        };
        let format = self.network.published.newest().format;
        if let Err(reason) = can_join(said(candidate.newest_format, false).newest, format, &address) {
            return refused(address, reason);
        }
        if let Some(reason) = unlike(&self.same_on_all, &candidate.same_on_all) {
            return refused(address, reason);
        }
        let cluster = self.network.identity.cluster.0;
        if candidate.cluster_id.is_empty() {
            let profile = NodeProfile {
                name: candidate.name,
                site: candidate.site,
                address: if candidate.address.is_empty() { address.clone() } else { candidate.address },
                memory_bytes: candidate.memory_bytes,
            };
            let member = Member { name: profile.name.clone(), address: profile.address.clone() };
            let added = self.write(Command { id, asked_by, change: Change::AddNode { profile } }).await?;
            let Some(Ok(Outcome::NodeAdded(node))) = added.outcome else { return Ok(added) };
            let adopt = AdoptRequest { cluster_id: cluster.to_vec().into(), node_id: node.0 };
            let adopted = self.ask(admin.adopt(adopt)).await;
            adopted.map_err(|error| NoAnswer::Again(format!("node {node} at {address}: {error}")))?;
            return self.admit(node, member).await;
        }
        let node = NodeId(candidate.node_id);
        if candidate.cluster_id[..] != cluster {
            return refused(address, "it belongs to another cluster: remove its data first".to_owned());
        }
        let Some(record) = self.network.published.newest().nodes.get(&node).cloned() else {
            return refused(
                address,
                format!("it was node {node} and has left the cluster for good: remove its data first"),
            );
        };
        self.admit(node, Member { name: record.name, address: record.address }).await
    }

    /// Asks the node at `address` for its name, and then connects to the address again under that name. If the cluster
    /// uses certificates, the second connection succeeds only if the certificate of the node contains the name. A node
    /// therefore cannot join the cluster under the name of another node.
    async fn identify(&self, address: &str) -> Result<(AdminClient<Channel>, IdentifyReply), CallError> {
        let mut anyone = admin_client(self.network.connector.channel(address, None)?);
        let name = self.ask(anyone.identify(IdentifyRequest {})).await?.name;
        let mut named = admin_client(self.network.connector.channel(address, Some(&name))?);
        let reply = self.ask(named.identify(IdentifyRequest {})).await?;
        Ok((named, reply))
    }

    async fn ask<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CallError> {
        let limit = self.timing.attempt();
        let reply = tokio::time::timeout(limit, call).await.map_err(|_| CallError::Timeout(limit))??;
        Ok(reply.into_inner())
    }

    /// Adds a node that has a number as a follower, and then as a voter.
    async fn admit(&self, node: NodeId, member: Member) -> Answer {
        self.settle().await?;
        let membership = self.membership();
        let mut index = membership.index;
        if !membership.members.contains(&node.0) {
            index = self.raft.add_learner(node.0, member, false).await.map_err(no_answer)?.log_id.index;
        }
        let limit = Some(Duration::from_millis(self.timing.membership_ms));
        let waiting = self.raft.wait(limit);
        let waited = waiting
            .metrics(|metrics| has_caught_up(metrics, node, index), "the new node has caught up with the log")
            .await;
        waited.map_err(|error| NoAnswer::Again(format!("node {node} does not follow the log: {error}")))?;
        let has_place =
            membership.voters.len() < VOTERS_MAX && slots::is_free(node.0, membership.voters.iter().copied());
        if !membership.voters.contains(&node.0) && has_place {
            self.change(ChangeMembers::AddVoterIds(BTreeSet::from([node.0])), true).await?;
        }
        let mut answer = self.show_voter(node).await?;
        answer.outcome = answer.outcome.map(|outcome| outcome.map(|_| Outcome::NodeAdded(node)));
        Ok(answer)
    }

    async fn leave(&self, asked_by: Option<AskedBy>, id: CommandId, node: NodeId) -> Answer {
        let answer = self.write(Command { id, asked_by, change: Change::RemoveNode { node } }).await?;
        // If a leader has failed between the steps, a node that is missing in the map may still be a member.
        if matches!(answer.outcome, Some(Ok(_) | Err(Refusal::NodeUnknown { .. }))) {
            self.settle().await?;
            self.remove_voter(node.0).await?;
        }
        Ok(answer)
    }

    async fn remove_voter(&self, node: u64) -> Result<(), NoAnswer> {
        let membership = self.membership();
        let alone = BTreeSet::from([node]);
        if membership.voters.contains(&node) {
            return self.change(ChangeMembers::RemoveVoters(alone), false).await;
        }
        if membership.members.contains(&node) {
            return self.change(ChangeMembers::RemoveNodes(alone), false).await;
        }
        Ok(())
    }

    /// Completes membership changes that a previous leader has begun but not finished. A membership change consists of
    /// several steps, and a leader may fail between two of them.
    ///
    /// One kind of change is not completed: the addition of a node that has been assigned a number but is not a
    /// follower yet. In that case, the client that requested the addition must send its request again with the same id.
    async fn finish_what_was_begun(&self) -> Result<(), NoAnswer> {
        let ready = self.raft.ensure_linearizable().await;
        ready.map_err(|error| NoAnswer::Again(error.to_string()))?;
        self.settle().await?;
        let map = self.network.published.newest();
        for node in self.membership().members {
            match map.nodes.get(&NodeId(node)) {
                None if self.network.published.has_left(NodeId(node)) => self.remove_voter(node).await?,
                None => {}
                Some(record) if record.voter != self.membership().voters.contains(&node) => {
                    self.show_voter(NodeId(node)).await?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Completes a change that is half done. In this state, the old and the new voters must both agree.
    async fn settle(&self) -> Result<(), NoAnswer> {
        match self.membership().goal {
            Some(goal) => self.change(ChangeMembers::ReplaceAllVoters(goal), false).await,
            None => Ok(()),
        }
    }

    async fn change(&self, change: ChangeMembers<u64, Member>, retain: bool) -> Result<(), NoAnswer> {
        self.raft.change_membership(change, retain).await.map(drop).map_err(no_answer)
    }

    /// Records in the map whether the node votes.
    async fn show_voter(&self, node: NodeId) -> Answer {
        let voter = self.membership().voters.contains(&node.0);
        let version = self.network.published.newest().version;
        let id = mixed_128(&[node.0, u64::from(voter), version]);
        self.write(Command::new(id, Change::SetVoter { node, voter })).await
    }

    async fn write(&self, command: Command) -> Answer {
        write(&self.raft, command).await
    }

    fn membership(&self) -> Membership {
        let stored = std::sync::Arc::clone(&self.raft.metrics().borrow().membership_config);
        let membership = stored.membership();
        let configs = membership.get_joint_config();
        Membership {
            index: stored.log_id().map_or(0, |log_id| log_id.index),
            goal: configs.last().filter(|_| configs.len() > 1).cloned(),
            voters: membership.voter_ids().collect(),
            members: membership.nodes().map(|(node, _)| *node).collect(),
        }
    }
}

/// The members, as this node knows them.
struct Membership {
    index: u64,
    /// The future voters, while a change is in progress.
    goal: Option<BTreeSet<u64>>,
    voters: BTreeSet<u64>,
    members: BTreeSet<u64>,
}

fn refused(address: String, reason: String) -> Answer {
    let refusal = Refusal::Candidate { address, reason };
    Ok(Applied { index: 0, outcome: Some(Err(refusal)) })
}

/// Returns whether `node` has the log up to entry `index`. The result is also `true` if this node is no longer the
/// leader.
fn has_caught_up(metrics: &Metrics, node: NodeId, index: u64) -> bool {
    let matched = metrics.replication.as_ref().and_then(|all| all.get(&node.0).copied().flatten());
    metrics.current_leader != Some(metrics.id) || matched.is_some_and(|log_id| log_id.index >= index)
}

/// Returns the message about a setting that has another value at a candidate. Versions that do not report their
/// settings are accepted.
fn unlike(here: &[Setting], there: &[Setting]) -> Option<String> {
    for Setting { name, value } in here {
        let other = there.iter().find(|setting| setting.name == *name).filter(|other| other.value != *value);
        if let Some(Setting { value: other, .. }) = other {
            return Some(format!(
                "its setting {name} is {other}, but the nodes of this cluster have {value}: use the same value on all \
                 nodes"
            ));
        }
    }
    None
}

/// Appends a command to the leader's log, and waits for its outcome.
pub(crate) async fn write(raft: &Raft, command: Command) -> Answer {
    let bytes = codec::encode(&command).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > COMMAND_BYTES_MAX {
        let refusal = Refusal::TooLarge { command: command.to_string(), bytes: bytes as u64 };
        return Ok(Applied { index: 0, outcome: Some(Err(refusal)) });
    }
    raft.client_write(command).await.map(|written| written.data).map_err(no_answer)
}

fn no_answer(error: RaftError<u64, ClientWriteError<u64, Member>>) -> NoAnswer {
    match error {
        RaftError::Fatal(fatal) => NoAnswer::Stopped(fatal.to_string()),
        RaftError::APIError(error) => NoAnswer::Again(error.to_string()),
    }
}
