//! Whether a start of a node still counts, by all that is agreed on at the time of the question.
//!
//! A node that is behind cannot know by its own map. So it asks the leader, which has a majority confirm that it leads
//! (Raft's read index): the leader then knows everything that was agreed on before the question.
//!
//! Promises: an answer was true at a moment after the question. Must not know: what follows from it.

use firstseen_routing::Incarnation;

use crate::asked::Asked;
use crate::command::Outcome;
use crate::error::MetaError;
use crate::membership::NoAnswer;
use crate::meta::Meta;
use crate::types::Applied;

impl Meta {
    /// Asks once whether this start of this node counts as up. If it does: the version of a map that this node has by
    /// now, and that has all that was agreed on before the question. Where no majority answers, the call lasts for one
    /// attempt only.
    ///
    /// # Errors
    /// [`MetaError`]: no node could say.
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
