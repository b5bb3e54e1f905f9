//! What whoever leads the cluster says, by the word of a majority.
//!
//! Promises: a leader that is gone, or whom no majority answers, is never taken for one. Must not know: what is asked for.

use firstseen_routing::NodeId;
use firstseen_wire::proto::admin::StatusRequest;
use tokio::time::{Duration, Instant, sleep};

use super::{ClusterStatus, status};
use crate::cluster::connect::Operator;

/// How often is looked again.
const ASK: Duration = Duration::from_millis(300);
/// How long a leader that is asked may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The status that the leader tells, by the map as it is agreed on now; one that is just being elected is waited for.
///
/// # Errors
/// That nobody leads within `patience`, and no majority of the nodes can be asked.
pub(super) async fn committed(member: &Operator, patience: Duration) -> anyhow::Result<ClusterStatus> {
    let end = Instant::now() + patience;
    loop {
        let known = status(member).await?;
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
            // Perhaps another one leads by now.
            Err(_) => sleep(ASK).await,
        }
    }
}

/// The status as the node that is asked tells it, and who leads by the word of a majority: none where there is none.
///
/// # Errors
/// What the node says.
pub(super) async fn looked_at(member: &Operator, patience: Duration) -> anyhow::Result<ClusterStatus> {
    let leader: Option<NodeId> = committed(member, patience).await.ok().and_then(|agreed| agreed.leader);
    Ok(ClusterStatus { leader, ..status(member).await? })
}
