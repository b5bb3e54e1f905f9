//! Events of commands in a row that ask one filter the same thing: they travel as one call.
//!
//! Promises: events are copied once, into room that is used again; every command that was gathered is replied to, in order. Must
//! not know: what commands are called, connections.

use std::sync::Arc;

use firstseen_client::{FilterError, SubmissionName, Verdict};
use firstseen_resp::{ITEMS_MAX, Replies};
use firstseen_routing::{FilterVerb, Reason};

use crate::counts::DoorCounts;
use crate::filters::{Asked, Filters};
use crate::form::{Form, reply};
use crate::host::{Guest, Refused};
use crate::sandbox::Sandbox;
use crate::settings::{MissingRule, UndecidedRule};

/// Bytes of room that a connection keeps for its next events.
const KEPT_BYTES: usize = 64 << 10;

/// What is asked about events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The filter.
    pub(crate) filter: Arc<str>,
    /// Whether events are recorded.
    pub(crate) records: bool,
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
    waiting: Vec<Waiting>,
}

/// How verdicts are asked for, and what is said where there are none.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) filters: &'a Filters,
    pub(crate) guest: &'a dyn Guest,
    pub(crate) counts: &'a DoorCounts,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) undecided: UndecidedRule,
    pub(crate) missing: MissingRule,
    /// Milliseconds since 1970.
    pub(crate) now_ms: u64,
}

/// Why nothing was asked.
enum Unasked {
    Filter(FilterError),
    Refused(Refused),
}

impl From<FilterError> for Unasked {
    fn from(error: FilterError) -> Self {
        Self::Filter(error)
    }
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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

    /// Asks, and writes the replies.
    pub(crate) async fn ask(&mut self, desk: Desk<'_>, replies: &mut Replies) {
        let Some(question) = self.question.take() else { return };
        let verdicts = self.verdicts(&question, desk).await;
        match verdicts {
            Ok(verdicts) => {
                if let Some(sandbox) = desk.sandbox.filter(|_| question.records) {
                    sandbox.count(&question.filter, &verdicts);
                }
                let mut rest = verdicts.as_slice();
                for Waiting { form, events } in self.waiting.drain(..) {
                    let (own, others) = rest.split_at_checked(events).unwrap_or((rest, &[]));
                    rest = others;
                    let undecided = reply(replies, form, desk.undecided, own);
                    desk.counts.undecided.fetch_add(undecided as u64, std::sync::atomic::Ordering::Relaxed);
                }
            }
            Err(error) => {
                let is_zero = matches!(error, Unasked::Filter(FilterError::NotFound { .. }))
                    && desk.missing == MissingRule::Zero
                    && !question.records;
                for Waiting { form, events } in self.waiting.drain(..) {
                    if is_zero {
                        reply(replies, form, desk.undecided, &vec![Verdict::FirstSeen; events]);
                    } else {
                        desk.counts.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        match &error {
                            Unasked::Filter(error) => refuse(replies, error),
                            Unasked::Refused(refused) => replies.error(refused),
                        }
                    }
                }
            }
        }
        self.clear();
    }

    async fn verdicts(&self, question: &Question, desk: Desk<'_>) -> Result<Vec<Verdict>, Unasked> {
        let count = self.ends.len();
        let verb = if question.records { FilterVerb::Observe } else { FilterVerb::Lookup };
        match desk.guest.may(verb, &question.filter, u32::try_from(count).unwrap_or(u32::MAX)) {
            Ok(()) => {}
            Err(Refused::Spent(_)) => return Ok(vec![Verdict::Undecided(Reason::Overloaded); count]),
            Err(refused) => return Err(Unasked::Refused(refused)),
        }
        let mut items = Vec::with_capacity(count);
        let mut begin = 0;
        for end in &self.ends {
            items.push(self.bytes.get(begin..*end).unwrap_or_default());
            begin = *end;
        }
        let at_ms = question.at_ms.unwrap_or(desk.now_ms);
        let asked =
            Asked { items: &items, names: &self.names, records: question.records, at_ms, life_ms: question.life_ms };
        Ok(desk.filters.ask(&question.filter, &asked).await?)
    }

    fn clear(&mut self) {
        self.question = None;
        self.bytes.clear();
        self.ends.clear();
        self.names.clear();
        self.waiting.clear();
    }

    /// Gives back room that was taken for many events.
    pub(crate) fn shed(&mut self) {
        if self.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}

/// Says why a filter cannot be asked.
pub(crate) fn refuse(replies: &mut Replies, error: &FilterError) {
    match error {
        // What clients of RedisBloom compare with.
        FilterError::NotFound { .. } => replies.error("ERR not found"),
        FilterError::Refused { reason, .. } => replies.error(format_args!("NOPERM {reason}")),
        FilterError::Unreachable { .. } | FilterError::Closed => {
            replies.error(format_args!("UNDECIDED NotReady: {error}"));
        }
        error => replies.error(format_args!("ERR {error}")),
    }
}
