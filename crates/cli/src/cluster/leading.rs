//! The status of the node that leads the agreement, confirmed by a majority (a linearizable read).
//!
//! Promises: a node that has failed, or that no majority confirms, is never taken for the leader. Must not know: what
//! the status is for.

use firstseen_routing::NodeId;
use firstseen_wire::proto::admin::StatusRequest;
use tokio::time::{Duration, Instant, sleep};

use super::{ClusterStatus, status};
use crate::cluster::connect::Operator;

/// The pause before the next look.
const ASK: Duration = Duration::from_millis(300);
/// How long the leader may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The status as the leader sends it, by the map that is agreed on now; waits while an election goes on.
///
/// # Errors
/// That no node leads within `patience`, and no majority of the nodes can be asked.
pub(super) async fn committed(member: &Operator, patience: Duration) -> anyhow::Result<ClusterStatus> {
    let end = Instant::now() + patience;
    loop {
        let known = status::ask(member).await?;
        let asked = match known.leader.and_then(|leader| known.map.nodes.get(&leader)) {
            None => Err(anyhow::anyhow!("nobody leads the cluster: without a majority nobody can say what is safe")),
            Some(leader) => {
                let leader = member.at(&leader.address).within(ANSWER_MAX.min(patience));
                let request = StatusRequest { committed: true };
                leader.call(async |mut client| client.status(request).await).await
            }
        };
        match asked.and_then(TryInto::try_into) {
            Ok(status) => return Ok(status),
            Err(error) if Instant::now() > end => return Err(error),
            // Another node may lead by now.
            Err(_) => sleep(ASK).await,
        }
    }
}

/// The status as the asked node sends it, with the leader that a majority confirms: none where there is none.
///
/// # Errors
/// Those of the node.
pub(super) async fn looked_at(member: &Operator, patience: Duration) -> anyhow::Result<ClusterStatus> {
    let leader: Option<NodeId> = committed(member, patience).await.ok().and_then(|agreed| agreed.leader);
    Ok(ClusterStatus { leader, ..status::ask(member).await? })
}
