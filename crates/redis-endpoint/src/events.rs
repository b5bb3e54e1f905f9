//! Combines the events of all commands of one read into calls. There is one call for each filter and question, and the
//! calls run concurrently.
//!
//! Although several commands share one call to the cluster, each command gets its own reply, in the order of the
//! commands. If two commands perform different operations on the same event, they run in the order in which they
//! arrived.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use firstseen_backend::{Answers, EventOperation};
use firstseen_client::{SubmissionName, Verdict};
use firstseen_resp::{ITEMS_MAX, Replies};
use firstseen_routing::{Fence, Hold, Reason};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::auto_confirm::Claimed;
use crate::batch::CallContext;
use crate::batch::{Batch, Question};
use crate::command_rejected::CommandRejected;
use crate::own_claims::{OwnClaim, OwnClaims, key};
use crate::reply_shape::{ReplyShape, reply};

/// Memory that a connection keeps for its next events, in bytes.
const KEPT_BYTES: usize = 64 << 10;
/// Maximum number of concurrent calls.
const BATCHES_MAX: usize = 64;

/// Command that waits for its reply.
#[derive(Clone, Copy)]
struct Waiting {
    batch: usize,
    form: ReplyShape,
    events: usize,
}

/// Collected events, and the commands that they belong to.
#[derive(Default)]
pub(crate) struct CollectedEvents {
    /// Batches of events. Only the first `used` batches contain events. The other batches keep their memory for later.
    batches: Vec<Batch>,
    used: usize,
    events: usize,
    /// Batch that contains each event. The table exists only if one filter is asked several questions.
    places: Option<HashMap<u128, usize>>,
    waiting: Vec<Waiting>,
}

/// Answers to one batch.
pub(crate) struct Answered {
    outcome: Result<Answers, CommandRejected>,
    /// Number of events in the batch whose commands already have their replies.
    replied: usize,
}

impl CollectedEvents {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of collected events.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Returns whether the collected commands include claims. Only the answers to claims tell which events this
    /// connection holds.
    pub(crate) fn has_claims(&self) -> bool {
        self.batches().iter().any(|batch| matches!(batch.question().act, EventOperation::Claim { .. }))
    }

    /// Adds a command with its events. Returns `false` without adding anything if the collected commands must be
    /// executed first.
    pub(crate) fn add<'a, I>(&mut self, question: &Question, form: ReplyShape, events: I) -> bool
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        let batch = self.batch_of(question);
        let count = events.clone().count();
        let has_room = self.events + count <= ITEMS_MAX && batch < BATCHES_MAX;
        // A command without others before it is always accepted, whatever its size.
        let travels = self.is_empty() || (has_room && self.keeps_order(question, batch, events.clone()));
        if !travels {
            return false;
        }
        if batch == self.used {
            match self.batches.get_mut(batch) {
                Some(kept) => kept.begin(question.clone()),
                None => self.batches.push(Batch::new(question.clone())),
            }
            self.used += 1;
        }
        let Some(into) = self.batches.get_mut(batch) else { return false };
        for event in events {
            into.push(event);
            if let Some(places) = &mut self.places {
                places.insert(key(&question.filter, event), batch);
            }
        }
        self.events += count;
        self.waiting.push(Waiting { batch, form, events: count });
        true
    }

    /// Sets the idempotency keys of the events of the last command.
    pub(crate) fn name(&mut self, names: impl Iterator<Item = SubmissionName>) {
        if let Some(batch) = self.last() {
            batch.name(names);
        }
    }

    /// Sets the fences of the events of the last command.
    pub(crate) fn show(&mut self, fences: &[Fence]) {
        if let Some(batch) = self.last() {
            batch.show(fences);
        }
    }

    /// Makes all calls concurrently, and returns their answers for [`Self::conclude`].
    pub(crate) async fn ask(&self, context: CallContext<'_>) -> Vec<Answered> {
        let outcomes = match self.batches() {
            [batch] => vec![batch.ask(context).await],
            batches => join_all(batches.iter().map(|batch| batch.ask(context))).await,
        };
        outcomes.into_iter().map(|outcome| Answered { outcome, replied: 0 }).collect()
    }

    /// Writes the replies, and updates the list of claims of this connection in `own`.
    pub(crate) fn conclude(
        &mut self,
        mut answered: Vec<Answered>,
        context: CallContext<'_>,
        own: &mut OwnClaims,
        replies: &mut Replies,
    ) {
        let now = Instant::now();
        for (batch, Answered { outcome, .. }) in self.batches().iter().zip(&answered) {
            let Question { filter, act, .. } = batch.question();
            if let (Ok(answers), Some(sandbox), EventOperation::Observe) = (outcome, context.sandbox, act) {
                sandbox.count(filter, &answers.verdicts);
            }
        }
        for waiting in &self.waiting {
            let batch = self.batches.get(waiting.batch);
            let answered = answered.get_mut(waiting.batch);
            if let (Some(batch), Some(answered)) = (batch, answered) {
                conclude(*waiting, batch, answered, context, own, now, replies);
            }
        }
        self.clear();
    }

    /// Frees memory if many events had to be stored.
    pub(crate) fn release_memory(&mut self) {
        if self.is_empty() && self.batches.iter().map(Batch::held_bytes).sum::<usize>() > KEPT_BYTES {
            *self = Self::default();
        }
    }

    fn batches(&self) -> &[Batch] {
        self.batches.get(..self.used).unwrap_or_default()
    }

    fn last(&mut self) -> Option<&mut Batch> {
        self.batches.get_mut(self.waiting.last()?.batch)
    }

    /// Returns the index of the batch with this question, or of a new batch.
    fn batch_of(&self, question: &Question) -> usize {
        self.batches().iter().position(|batch| batch.question() == question).unwrap_or(self.used)
    }

    /// Returns whether events can join the batch with the index `batch`. Each batch becomes a separate call, and the
    /// calls of different batches may complete in any order. If two batches contained the same event, the operations on
    /// this event could therefore be executed in the wrong order.
    ///
    /// To prevent this, events can join the batch only under three conditions:
    ///
    /// - No other batch contains one of these events.
    /// - All batches of the same filter have the same event time. Otherwise a call with a later time could overtake
    ///   another call, and the filter would treat the events of the overtaken call as late.
    /// - If there are other batches, none of the batches needs lookups in further filters.
    fn keeps_order<'a>(
        &mut self,
        question: &Question,
        batch: usize,
        mut events: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        let others = self.batches().iter().enumerate().filter(|(number, _)| *number != batch);
        // A key that is mapped to several filters must be looked up in all of them, so its call cannot be combined with
        // others.
        if others.clone().any(|(_, other)| question.needs_other_lookups() || other.question().needs_other_lookups()) {
            return false;
        }
        let mut of_filter = others.map(|(_, other)| other.question()).filter(|other| other.filter == question.filter);
        // A call with a later time could arrive first. The events of the other call would then count as late.
        match of_filter.next() {
            None => return true,
            Some(other) if other.at_ms != question.at_ms => return false,
            Some(_) => {}
        }
        let used = self.batches.get(..self.used).unwrap_or_default();
        let places = self.places.get_or_insert_with(|| {
            let batches = used.iter().enumerate();
            let places = batches.flat_map(|(number, batch)| {
                batch.items().map(move |item| (key(&batch.question().filter, item), number))
            });
            places.collect()
        });
        events.all(|event| places.get(&key(&question.filter, event)).is_none_or(|place| *place == batch))
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.places = None;
        self.used = 0;
        self.events = 0;
    }
}

/// Writes the reply to a command, and notes which events it has claimed.
fn conclude(
    Waiting { form, events, .. }: Waiting,
    batch: &Batch,
    answered: &mut Answered,
    context: CallContext<'_>,
    own: &mut OwnClaims,
    now: Instant,
    replies: &mut Replies,
) {
    let first = answered.replied;
    answered.replied += events;
    let answers = match &mut answered.outcome {
        Ok(answers) => answers,
        Err(refused) if form.is_of_bloom() => return context.counts.refuse(replies, refused),
        Err(refused) => {
            let error = refused.naming(batch.question().filter.as_bytes());
            (0..form.replies()).for_each(|_| context.counts.refuse(replies, &error));
            return;
        }
    };
    let question = batch.question();
    if let EventOperation::Claim { lease, .. } = question.act
        && context.asked_at + lease <= now
    {
        answers.end_grants(first..first + events);
    }
    for event in first..first + events {
        keep(event, batch, answers, context, own);
    }
    let of_command = answers.verdicts.get_mut(first..first + events).unwrap_or_default();
    let holds = answers.holds.get(first..first + events).unwrap_or_default();
    // Redis commands do not know claims, so a key that a consumer holds counts as existing.
    let is_there_if_held = match question.act {
        EventOperation::Claim { .. } => !form.is_own(),
        _ => form.is_of_keys(),
    };
    if is_there_if_held {
        for verdict in of_command.iter_mut().filter(|verdict| **verdict == Verdict::Undecided(Reason::Claimed)) {
            *verdict = Verdict::Duplicate;
        }
    }
    let undecided = reply(replies, form, context.rules.undecided(&question.filter), of_command, holds);
    context.counts.undecided.fetch_add(undecided as u64, Ordering::Relaxed);
}

/// Notes that the connection holds an event, or no longer holds it.
fn keep(event: usize, batch: &Batch, answers: &Answers, context: CallContext<'_>, own: &mut OwnClaims) {
    let Question { filter, act, at_ms, ttl_ms, .. } = batch.question();
    let item = batch.item(event);
    if let Some(fence) = batch.fence(event) {
        match answers.verdicts.get(event) {
            Some(Verdict::Undecided(reason)) if *reason != Reason::Claimed => {}
            // If another event of the command was undecided, the client sends the command again. It must then get the
            // same reply for this event.
            Some(_) if *act == EventOperation::Confirm => own.ended(filter, item, fence, context.asked_at),
            _ => own.remove(filter, item, fence),
        }
    }
    let (EventOperation::Claim { lease, is_confirmed_by_endpoint }, Some(Hold::Own(fence))) =
        (*act, answers.holds.get(event))
    else {
        return;
    };
    // If events carry their times, a claim without a time is never granted, so the default is never used.
    let at_ms = at_ms.or(context.now_ms.ok()).unwrap_or_default();
    if is_confirmed_by_endpoint {
        let claimed = Claimed {
            filter: filter.clone(),
            item: item.into(),
            at_ms,
            asked_at: context.asked_at,
            ttl_ms: *ttl_ms,
            fence: *fence,
            client_session: context.client_session.clone(),
        };
        // The claim is confirmed while the lease still has some time left, so that no other client is granted the event
        // before.
        if !context.confirmer.add(claimed, context.asked_at + lease - lease / 8) {
            // The event may be delivered again after the lease. Refusing the command now would lose the event.
            tracing::warn!(
                filter = &**filter,
                "too many claims wait to be confirmed: one claim will end with its lease"
            );
        }
    }
    own.add(filter, item, OwnClaim { fence: *fence, at_ms, until: context.asked_at + lease });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn question(filter: &str, act: EventOperation, ttl_ms: Option<u64>) -> Question {
        Question { filter: filter.into(), others: Arc::default(), act, at_ms: None, ttl_ms }
    }

    /// Adds commands with one event each. Returns which of them were accepted, and the number of calls for all of them.
    fn add(
        gathered: &mut CollectedEvents,
        commands: impl IntoIterator<Item = (Question, String)>,
    ) -> (Vec<bool>, usize) {
        let one = |(question, event): (Question, String)| {
            gathered.add(&question, ReplyShape::HowManyThere, [event.as_bytes()].into_iter())
        };
        let added = commands.into_iter().map(one).collect();
        (added, gathered.used)
    }

    #[test]
    fn what_is_asked_of_filters_in_turns_is_a_call_for_each() {
        let mut gathered = CollectedEvents::default();
        let turns = (0..900).map(|number| {
            let (filter, act) =
                [("f", EventOperation::Test), ("g", EventOperation::Observe), ("f", EventOperation::Observe)]
                    [number % 3];
            (question(filter, act, None), number.to_string())
        });
        let (added, calls) = add(&mut gathered, turns);
        assert!(added.iter().all(|added| *added) && calls == 3);
        // Each time to live needs a call of its own.
        let ttls = (0..61).map(|ttl| (question("g", EventOperation::Observe, Some(ttl)), format!("ttl {ttl}")));
        let (added, calls) = add(&mut gathered, ttls);
        assert!(added.iter().all(|added| *added) && calls == BATCHES_MAX);
        assert_eq!(
            add(&mut gathered, [(question("h", EventOperation::Test, None), "x".into())]).0,
            [false],
            "too many calls"
        );
        assert_eq!(add(&mut gathered, [(question("g", EventOperation::Observe, None), "x".into())]).0, [true]);
    }

    #[test]
    fn an_event_that_is_asked_two_things_keeps_its_order() {
        let mut gathered = CollectedEvents::default();
        let ask = |act, filter, event: &str| (question(filter, act, None), event.to_owned());
        let test = EventOperation::Test;
        let observe = EventOperation::Observe;
        let all = [
            (ask(observe, "f", "a"), true),
            (ask(observe, "f", "a"), true),
            (ask(test, "g", "a"), true),
            (ask(test, "f", "b"), true),
            (ask(test, "f", "a"), false),
            (ask(observe, "f", "b"), false),
            (ask(observe, "f", "c"), true),
            (ask(test, "f", "c"), false),
            (ask(observe, "g", "a"), false),
        ];
        for (number, ((question, event), expected)) in all.into_iter().enumerate() {
            assert_eq!(add(&mut gathered, [(question, event)]).0, [expected], "{number}");
        }
        // Events that carry their times must arrive in the order of their commands.
        let at = |at_ms| Question { at_ms, ..question("h", observe, None) };
        assert_eq!(add(&mut gathered, [(at(Some(1)), "x".into()), (at(Some(1)), "y".into())]).0, [true, true]);
        assert_eq!(add(&mut gathered, [(at(Some(2)), "z".into()), (at(None), "z".into())]).0, [false, false]);
        // After the calls have been made, earlier commands no longer restrict later ones.
        gathered.clear();
        assert_eq!(add(&mut gathered, [ask(test, "f", "a"), ask(test, "f", "b")]), (vec![true, true], 1));
        let many = (0..ITEMS_MAX).map(|_| b"e".as_slice());
        assert!(!gathered.add(&question("f", test, None), ReplyShape::Codes, many.clone()), "too many for one round");
        gathered.clear();
        assert!(gathered.add(&question("f", test, None), ReplyShape::Codes, many));
    }
}
