//! Events of one call, for which one filter is asked the same question.
//!
//! The events of a call are copied once, into a buffer that later calls reuse.
//!
//! This module does not depend on commands and replies.

use std::collections::BTreeMap;
use std::iter::repeat;
use std::sync::Arc;

use firstseen_backend::{Answers, ClientSession, EventCall, EventOperation, Filters, Patience, Refused};
use firstseen_client::{SubmissionName, Verdict};
use firstseen_routing::{Fence, Hold, Reason};
use tokio::time::Instant;

use crate::auto_confirm::Confirmer;
use crate::command_rejected::CommandRejected;
use crate::counts::RedisEndpointCounts;
use crate::sandbox::Sandbox;
use crate::settings::{MissingRule, Rules};

/// Question that is asked about all events of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// Filter that receives the call.
    pub(crate) filter: Arc<str>,
    /// Other filters that the keys are mapped to. An event that one of them knows is not new.
    pub(crate) others: Arc<[Arc<str>]>,
    /// Operation on the events.
    pub(crate) act: EventOperation,
    /// Time at which the events occurred, in milliseconds since 1970. `None` means now.
    pub(crate) at_ms: Option<u64>,
    /// Time to live of the events, in milliseconds. `None` means the filter's window.
    pub(crate) ttl_ms: Option<u64>,
}

impl Question {
    /// Returns whether the events must be looked up in other filters too.
    pub(crate) fn needs_other_lookups(&self) -> bool {
        !self.others.is_empty()
    }
}

/// Context of a call: the clients that answer it, the user on whose behalf it is made, and the rules that apply.
#[derive(Clone, Copy)]
pub(crate) struct CallContext<'a> {
    pub(crate) filters: &'a Filters,
    /// Limit on how long the call waits for verdicts.
    pub(crate) patience: &'a Patience,
    pub(crate) client_session: &'a Arc<dyn ClientSession>,
    pub(crate) counts: &'a RedisEndpointCounts,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) missing: MissingRule,
    /// Component that confirms claims for Redis clients that do not confirm them themselves.
    pub(crate) confirmer: &'a Confirmer,
    pub(crate) rules: &'a Rules,
    /// Current time of the node, in milliseconds since 1970, or the reason why the node may not stamp events.
    pub(crate) now_ms: Result<u64, Reason>,
    /// Time at which the call began. The leases of claims count from here.
    pub(crate) asked_at: Instant,
}

/// Events of one call, with the question that is asked about them.
pub(crate) struct Batch {
    question: Question,
    bytes: Vec<u8>,
    /// End of each event in `bytes`.
    ends: Vec<usize>,
    names: Vec<SubmissionName>,
    /// Fences of the claims that are confirmed or released.
    fences: Vec<Fence>,
}

impl Batch {
    pub(crate) fn new(question: Question) -> Self {
        Self { question, bytes: Vec::new(), ends: Vec::new(), names: Vec::new(), fences: Vec::new() }
    }

    /// Clears the batch and sets another question. The memory is kept for reuse.
    pub(crate) fn begin(&mut self, question: Question) {
        self.question = question;
        self.bytes.clear();
        self.ends.clear();
        self.names.clear();
        self.fences.clear();
    }

    pub(crate) fn question(&self) -> &Question {
        &self.question
    }

    /// Returns the number of bytes of memory that the batch keeps.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub(crate) fn push(&mut self, event: &[u8]) {
        self.bytes.extend_from_slice(event);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn name(&mut self, names: impl Iterator<Item = SubmissionName>) {
        self.names.extend(names);
    }

    pub(crate) fn show(&mut self, fences: &[Fence]) {
        self.fences.extend(fences);
    }

    /// Returns the fence of an event that is confirmed or released.
    pub(crate) fn fence(&self, event: usize) -> Option<Fence> {
        self.fences.get(event).copied()
    }

    pub(crate) fn item(&self, event: usize) -> &[u8] {
        let begin = event.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(event).copied().unwrap_or(begin);
        self.bytes.get(begin..end).unwrap_or_default()
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|event| self.item(event))
    }

    /// Asks the filter about all events, and returns its answers.
    pub(crate) async fn ask(&self, context: CallContext<'_>) -> Result<Answers, CommandRejected> {
        let Question { filter, act, at_ms, ttl_ms, .. } = &self.question;
        let count = self.ends.len();
        match context.client_session.may(act.verb(), filter, u32::try_from(count).unwrap_or(u32::MAX)) {
            Ok(()) => {}
            Err(Refused::Spent(_)) => return Ok(Answers::alike(Verdict::Undecided(Reason::Overloaded), count)),
            Err(refused) => return Err(refused.into()),
        }
        let known = self.look_up_in_others(context).await?;
        let items: Vec<&[u8]> =
            (0..count).filter(|event| !known.contains_key(event)).map(|event| self.item(event)).collect();
        if items.is_empty() {
            return Ok(merge_known(Answers::alike(Verdict::FirstSeen, 0), &known, count));
        }
        let asked = EventCall {
            names: &self.names,
            fences: &self.fences,
            ttl_ms: *ttl_ms,
            ..EventCall::new(&items, *act, at_ms.map_or(context.now_ms, Ok))
        };
        // A claim that is about to be released must not be confirmed at the same time.
        for (event, fence) in self.fences.iter().enumerate() {
            context.confirmer.cancel(filter, self.item(event), *fence);
        }
        match context.patience.ask(context.filters, filter, &asked).await.map_err(CommandRejected::from) {
            Err(CommandRejected::NotFound) if context.missing == MissingRule::Zero && *act == EventOperation::Test => {
                Ok(Answers::alike(Verdict::FirstSeen, count))
            }
            Err(CommandRejected::Undecided(reason)) => {
                Ok(merge_known(Answers::alike(Verdict::Undecided(reason), items.len()), &known, count))
            }
            answered => answered.map(|answers| merge_known(answers, &known, count)),
        }
    }

    /// Looks up the events of this batch in the other filters that their keys are mapped to. The result contains only
    /// the verdicts that differ from first-seen. Each of them is stored under the index of its event. An event without
    /// an entry is therefore new to all of these filters.
    async fn look_up_in_others(&self, context: CallContext<'_>) -> Result<BTreeMap<usize, Verdict>, CommandRejected> {
        let mut known = BTreeMap::new();
        for filter in &*self.question.others {
            let asked: Vec<usize> = (0..self.ends.len()).filter(|event| !known.contains_key(event)).collect();
            let items: Vec<&[u8]> = asked.iter().map(|event| self.item(*event)).collect();
            let test = EventCall::new(&items, EventOperation::Test, self.question.at_ms.map_or(context.now_ms, Ok));
            let verdicts =
                match context.patience.ask(context.filters, filter, &test).await.map_err(CommandRejected::from) {
                    Ok(answers) => answers.verdicts,
                    Err(CommandRejected::Undecided(reason)) => vec![Verdict::Undecided(reason); items.len()],
                    Err(error) => return Err(error),
                };
            for (event, verdict) in asked.into_iter().zip(verdicts) {
                match verdict {
                    Verdict::FirstSeen => {}
                    // Redis commands do not know claims, so a key that a consumer holds counts as existing.
                    Verdict::Undecided(Reason::Claimed) => drop(known.insert(event, Verdict::Duplicate)),
                    verdict => drop(known.insert(event, verdict)),
                }
            }
        }
        Ok(known)
    }
}

/// Merges the answers of the call with the verdicts that other filters have given on some of the `count` events.
fn merge_known(answers: Answers, known: &BTreeMap<usize, Verdict>, count: usize) -> Answers {
    if known.is_empty() {
        return answers;
    }
    let mut rest = answers.verdicts.into_iter().zip(answers.holds.into_iter().chain(repeat(Hold::None)));
    let mut merged = Answers { verdicts: Vec::with_capacity(count), holds: Vec::with_capacity(count) };
    for event in 0..count {
        let (verdict, hold) = match known.get(&event) {
            Some(verdict) => (*verdict, Hold::None),
            None => rest.next().unwrap_or((Verdict::Undecided(Reason::Unknown), Hold::None)),
        };
        merged.verdicts.push(verdict);
        merged.holds.push(hold);
    }
    merged
}
