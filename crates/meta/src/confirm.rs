//! Whether a start of a node still counts, by all that is agreed on at the time of the question.
//!
//! A node that is behind cannot know by its own map. So it asks the leader, which has a majority confirm that it leads
//! (Raft's read index): the leader then knows everything that was agreed on before the question.
//!
//! Promises: an answer was true at a moment after the question. Must not know: what follows from it.

use firstseen_routing::{Incarnation, NodeId};

use crate::asked::Asked;
use crate::command::Outcome;
use crate::error::MetaError;
use crate::membership::{Answer, NoAnswer};
use crate::meta::{Meta, Running};
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
        let unknown = |last: String| MetaError::Unknown {
            what: "whether this node counts as up".to_owned(),
            waited_ms: self.config().timing.attempt_ms,
            last,
        };
        let answered = async {
            let Applied { index, outcome } =
                self.attempt(running, &asked).await.map_err(|no_answer| match no_answer {
                    NoAnswer::Again(reason) | NoAnswer::NoRoom(reason) => unknown(reason),
                    NoAnswer::Stopped(reason) => MetaError::Stopped { reason },
                })?;
            self.published().shows(index).await;
            let is_up = matches!(outcome, Some(Ok(Outcome::Confirmed { is_up: true })));
            Ok(is_up.then(|| self.published().newest().version))
        };
        let limited = tokio::time::timeout(self.config().timing.attempt(), answered).await;
        limited.unwrap_or_else(|_| Err(unknown("no answer in time".to_owned())))
    }
}

/// The answer by the state of this node, the leader, once a majority has confirmed that it leads.
pub(crate) async fn by_majority(running: &Running, node: NodeId, incarnation: Incarnation) -> Answer {
    let read = running.raft.ensure_linearizable().await.map_err(|error| NoAnswer::Again(error.to_string()))?;
    let index = read.map_or(0, |log_id| log_id.index);
    let published = &running.network.published;
    published.shows(index).await;
    let is_up = published.newest().nodes.get(&node).is_some_and(|record| {
        let is_this = record.incarnation == incarnation;
        is_this && !record.is_down
    });
    Ok(Applied { index, outcome: Some(Ok(Outcome::Confirmed { is_up })) })
}
