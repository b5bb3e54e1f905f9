//! Lets a node check whether the cluster still counts it as up. If the other nodes have marked the node as down, it
//! must no longer act on its cluster map. The node may not see this change in its own map, because that map may be
//! outdated. It therefore asks the leader.
//!
//! The answer of the leader is based on every change that was committed before the question. To ensure this, the leader
//! first lets a majority of the nodes confirm that it still leads (Raft's read index). The answer was true at some
//! moment after the question was asked.

use firstseen_routing::Incarnation;

use crate::asked::Asked;
use crate::command::Outcome;
use crate::error::MetaError;
use crate::membership::NoAnswer;
use crate::meta::Meta;
use crate::types::Applied;

impl Meta {
    /// Asks the leader whether this node still counts as up in its present incarnation. If it does, the result is a
    /// version of the cluster map that contains every change that was committed before the question. Returns `None` if
    /// the node does not count as up.
    ///
    /// The call makes a single attempt. It fails if no majority of the nodes answers.
    ///
    /// # Errors
    /// [`MetaError`]: no node could answer.
    pub async fn confirm_up(&self, incarnation: Incarnation) -> Result<Option<u64>, MetaError> {
        let running = self.running()?;
        let asked = Asked::Confirm { node: running.identity.node, incarnation };
        let answered = async {
            let Applied { index, outcome } = self.attempt(running, &asked).await?;
            self.inner.published.shows(index).await;
            let is_up = matches!(outcome, Some(Ok(Outcome::Confirmed { is_up: true })));
            Ok(is_up.then(|| self.inner.published.newest().version))
        };
        let timing = &self.inner.config.timing;
        let last = match tokio::time::timeout(timing.attempt(), answered).await {
            Ok(Ok(confirmed)) => return Ok(confirmed),
            Ok(Err(NoAnswer::Stopped(reason))) => return Err(MetaError::Stopped { reason }),
            Ok(Err(NoAnswer::Again(reason) | NoAnswer::NoRoom(reason))) => reason,
            Err(_) => "no answer in time".to_owned(),
        };
        let what = "whether this node counts as up".to_owned();
        Err(MetaError::Unknown { what, waited_ms: timing.attempt_ms, last })
    }
}
