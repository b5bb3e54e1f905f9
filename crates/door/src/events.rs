//! Events of commands in a row that ask one filter the same thing: they travel as one call.
//!
//! Promises: events are copied once, into room that is used again; every command that was gathered is replied to, in order. Must
//! not know: what commands are called, connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen_client::{SubmissionName, Verdict};
use firstseen_resp::{ITEMS_MAX, Replies};
use firstseen_routing::{Fence, Hold, Reason};
use tokio::time::Instant;

use crate::confirming::{Claimed, Confirmer};
use crate::counts::DoorCounts;
use crate::filters::{Act, Answers, Asked, Filters};
use crate::form::{Form, reply};
use crate::host::{Guest, Refused};
use crate::not_asked::NotAsked;
use crate::own_claims::{OwnClaim, OwnClaims};
use crate::rules::Rules;
use crate::sandbox::Sandbox;
use crate::settings::{ClaimRule, MissingRule};

/// Bytes of room that a connection keeps for its next events.
const KEPT_BYTES: usize = 64 << 10;

/// What is asked about events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The filter.
    pub(crate) filter: Arc<str>,
    /// What is done with its events.
    pub(crate) act: Act,
    /// When the events occurred, in milliseconds since 1970; now where it is left out.
    pub(crate) at_ms: Option<u64>,
    /// For how long they are remembered, in milliseconds; for the window where it is left out.
    pub(crate) life_ms: Option<u64>,
}

/// A command that waits for its reply.
#[derive(Clone, Copy)]
struct Waiting {
    form: Form,
    events: usize,
}

/// Events that were gathered, and the commands that brought them.
#[derive(Default)]
pub(crate) struct Gathered {
    question: Option<Question>,
    bytes: Vec<u8>,
    /// Where each event ends.
    ends: Vec<usize>,
    names: Vec<SubmissionName>,
    /// The grants of events that are confirmed or released.
    fences: Vec<Fence>,
    waiting: Vec<Waiting>,
}

/// How verdicts are asked for, and what is said where there are none.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) filters: &'a Filters,
    pub(crate) guest: &'a dyn Guest,
    pub(crate) counts: &'a DoorCounts,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) missing: MissingRule,
    /// Where claims wait that nobody will confirm.
    pub(crate) confirmer: &'a Confirmer,
    pub(crate) rules: &'a Rules,
    /// Milliseconds since 1970.
    pub(crate) now_ms: u64,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether claims are among what was gathered: who holds what is known only when they were asked for.
    pub(crate) fn has_claims(&self) -> bool {
        self.question.as_ref().is_some_and(|question| matches!(question.act, Act::Claim(_)))
    }

    /// Whether so many events of a command that asks this can travel with those that are here.
    pub(crate) fn takes(&self, question: &Question, events: usize) -> bool {
        self.question.as_ref().is_none_or(|asked| asked == question) && self.ends.len() + events <= ITEMS_MAX
    }

    /// Adds a command with its events; [`Self::takes`] has said that it can.
    pub(crate) fn add<'a>(&mut self, question: Question, form: Form, events: impl Iterator<Item = &'a [u8]>) {
        let before = self.ends.len();
        for event in events {
            self.bytes.extend_from_slice(event);
            self.ends.push(self.bytes.len());
        }
        self.waiting.push(Waiting { form, events: self.ends.len() - before });
        self.question.get_or_insert(question);
    }

    /// The events of the command that was added last have these names.
    pub(crate) fn name(&mut self, names: impl Iterator<Item = SubmissionName>) {
        self.names.extend(names);
    }

    /// The events of the command that was added last were granted by these fences.
    pub(crate) fn show(&mut self, fences: &[Fence]) {
        self.fences.extend(fences);
    }

    /// Asks, and writes the replies; `own` are the claims of the connection.
    pub(crate) async fn ask(&mut self, desk: Desk<'_>, own: &mut OwnClaims, replies: &mut Replies) {
        let Some(question) = self.question.take() else { return };
        let asked_at = Instant::now();
        match self.answers(&question, desk).await {
            Ok(answers) => {
                if let Some(sandbox) = desk.sandbox.filter(|_| question.act == Act::Observe) {
                    sandbox.count(&question.filter, &answers.verdicts);
                }
                self.keep(&question, &answers, (desk, own, asked_at));
                self.reply(&question, answers, desk, replies);
            }
            Err(refused) => {
                desk.counts.refused.fetch_add(self.waiting.len() as u64, Ordering::Relaxed);
                self.waiting.drain(..).for_each(|_| replies.error(&refused));
            }
        }
        self.clear();
    }

    async fn answers(&self, question: &Question, desk: Desk<'_>) -> Result<Answers, NotAsked> {
        let count = self.ends.len();
        match desk.guest.may(question.act.verb(), &question.filter, u32::try_from(count).unwrap_or(u32::MAX)) {
            Ok(()) => {}
            Err(Refused::Spent(_)) => return Ok(Answers::alike(Verdict::Undecided(Reason::Overloaded), count)),
            Err(refused) => return Err(NotAsked::Refused(refused.to_string())),
        }
        let items: Vec<&[u8]> = (0..count).map(|event| self.item(event)).collect();
        let asked = Asked {
            items: &items,
            names: &self.names,
            fences: &self.fences,
            act: question.act,
            at_ms: question.at_ms.unwrap_or(desk.now_ms),
            life_ms: question.life_ms,
        };
        // What is let go is not to be confirmed meanwhile.
        for (event, fence) in self.fences.iter().enumerate() {
            desk.confirmer.cancel(&question.filter, self.item(event), *fence);
        }
        match desk.filters.ask(&question.filter, &asked).await.map_err(NotAsked::from) {
            Err(NotAsked::NotFound) if desk.missing == MissingRule::Zero && question.act == Act::Test => {
                Ok(Answers::alike(Verdict::FirstSeen, count))
            }
            Err(NotAsked::Undecided(reason)) => Ok(Answers::alike(Verdict::Undecided(reason), count)),
            answered => answered,
        }
    }

    /// Keeps in mind which events the connection holds, and which no more.
    fn keep(&self, question: &Question, answers: &Answers, (desk, own, asked_at): (Desk<'_>, &mut OwnClaims, Instant)) {
        let filter = &question.filter;
        for (event, fence) in self.fences.iter().enumerate() {
            if !matches!(answers.verdicts.get(event), Some(Verdict::Undecided(reason)) if *reason != Reason::Claimed) {
                own.remove(filter, self.item(event), *fence);
            }
        }
        let Act::Claim(lease) = question.act else { return };
        let at_ms = question.at_ms.unwrap_or(desk.now_ms);
        let mut event = 0;
        for Waiting { form, events } in &self.waiting {
            let confirms = !form.is_own() && desk.rules.claim(filter) == ClaimRule::OnExpiryConfirm;
            for event in event..event + events {
                let Some(Hold::Own(fence)) = answers.holds.get(event) else { continue };
                let item = self.item(event);
                let claimed = || Claimed { filter: filter.clone(), item: item.into(), at_ms, fence: *fence };
                // While there is time left, so that nobody else is granted it before.
                if confirms && !desk.confirmer.add(claimed(), asked_at + lease - lease / 8) {
                    // It may be delivered again when the lease is over; to refuse it now would lose it.
                    tracing::warn!(
                        filter = &**filter,
                        "too many claims wait to be confirmed: one is left to its lease"
                    );
                }
                own.add(filter, item, OwnClaim { fence: *fence, at_ms, until: asked_at + lease });
            }
            event += events;
        }
    }

    fn reply(&mut self, question: &Question, answers: Answers, desk: Desk<'_>, replies: &mut Replies) {
        let rule = desk.rules.undecided(&question.filter);
        let Answers { mut verdicts, holds } = answers;
        let (mut rest, mut rest_of_holds) = (&mut verdicts[..], &holds[..]);
        for Waiting { form, events } in self.waiting.drain(..) {
            let (of_command, others) = std::mem::take(&mut rest).split_at_mut_checked(events).unwrap_or_default();
            let (holds, other_holds) = rest_of_holds.split_at_checked(events).unwrap_or_default();
            (rest, rest_of_holds) = (others, other_holds);
            // To who knows no claims, a key that somebody holds is there.
            if matches!(question.act, Act::Claim(_)) && !form.is_own() {
                let is_held = |verdict: &&mut Verdict| **verdict == Verdict::Undecided(Reason::Claimed);
                of_command.iter_mut().filter(is_held).for_each(|verdict| *verdict = Verdict::Duplicate);
            }
            let undecided = reply(replies, form, rule, of_command, holds);
            desk.counts.undecided.fetch_add(undecided as u64, Ordering::Relaxed);
        }
    }

    fn item(&self, event: usize) -> &[u8] {
        let begin = event.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(event).copied().unwrap_or(begin);
        self.bytes.get(begin..end).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.question = None;
        self.bytes.clear();
        self.ends.clear();
        self.names.clear();
        self.fences.clear();
        self.waiting.clear();
    }

    /// Gives back room that was taken for many events.
    pub(crate) fn shed(&mut self) {
        if self.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}
