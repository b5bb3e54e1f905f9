//! Confirms that a start of a node still counts as up, so that the node may act on its cluster map. A node whose map is
//! outdated cannot determine this on its own, because the other nodes may have marked it as down in the meantime. It
//! therefore asks the leader. The leader first lets a majority confirm that it still leads (Raft's read index), and
//! thereby knows every change that was committed before the question. The answer was true at some moment after the
//! question was asked.

use firstseen_routing::Incarnation;

use crate::asked::Asked;
use crate::command::Outcome;
use crate::error::MetaError;
use crate::membership::NoAnswer;
use crate::meta::Meta;
use crate::types::Applied;

impl Meta {
    /// Asks the leader whether this start of this node counts as up. If it does, the result is the version of a cluster
    /// map that this node has already received, and that contains every change that was committed before the question.
    /// Returns `None` if the start does not count as up. The call makes a single attempt, and fails if no majority of
    /// the nodes answers.
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
