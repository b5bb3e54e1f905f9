//! Reads the status of a cluster from the leader of its consensus group. A majority of the group first confirms that
//! the node is still the leader (a linearizable read). A node that has lost its leadership without noticing can
//! therefore not return an outdated status.

use firstseen_routing::NodeId;
use firstseen_wire::proto::admin::StatusRequest;
use tokio::time::{Duration, Instant, sleep};

use super::{ClusterStatus, status};
use crate::cluster::connect::Operator;

/// Pause before the leader is searched again.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// How long the leader may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Returns the status from the leader, based on the cluster map that is committed now. Waits while an election is in
/// progress.
///
/// # Errors
/// Returns an error if no node becomes leader within `patience`, or if no majority of the nodes can be asked.
pub(super) async fn committed(member: &Operator, patience: Duration) -> anyhow::Result<ClusterStatus> {
    let end = Instant::now() + patience;
    loop {
        let known = status::ask(member).await?;
        let asked = match known.leader.and_then(|leader| known.map.nodes.get(&leader)) {
            None => Err(anyhow::anyhow!("the cluster has no leader: without a majority it is not known what is safe")),
            Some(leader) => {
                let leader = member.at(&leader.address).within(ANSWER_MAX.min(patience));
                let request = StatusRequest { committed: true };
                leader.call(async |mut client| client.status(request).await).await
            }
        };
        match asked.and_then(TryInto::try_into) {
            Ok(status) => return Ok(status),
            Err(error) if Instant::now() > end => return Err(error),
            // Another node may have become leader in the meantime.
            Err(_) => sleep(POLL_INTERVAL).await,
        }
    }
}

/// Returns the status from the asked node, together with the leader that a majority confirms. Without such a leader,
/// the leader is `None`.
///
/// # Errors
/// Returns the errors of the node.
pub(super) async fn looked_at(member: &Operator, patience: Duration) -> anyhow::Result<ClusterStatus> {
    let leader: Option<NodeId> = committed(member, patience).await.ok().and_then(|agreed| agreed.leader);
    Ok(ClusterStatus { leader, ..status::ask(member).await? })
}
