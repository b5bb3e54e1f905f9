//! Decides about the events of one input partition. This module performs no I/O and reads no clock.
//!
//! # Order of recording and delivery
//!
//! [`PartitionFilter::decide`] tests and records a batch in one step, exactly as `firstseen dedup` does. The batch is
//! then *pending*: its events are in the filter, and their delivery is not committed yet. Only two things can happen to
//! a pending batch:
//!
//! - Its delivery is committed, and the owner of the filter calls [`PartitionFilter::delivered`]. An attempt that was
//!   aborted is repeated with the same outcomes, which the owner keeps, so the batch is never tested a second time.
//! - The owner loses the partition or the process. It then drops the filter, which is rebuilt from the log.
//!
//! A filter with a pending batch cannot be saved, and cannot decide about another batch. Whatever outlives the process
//! or the batch therefore contains delivered events only. `docs/decisions/61-pipes.md` compares this order with a test
//! that is followed by a separate recording.

use std::io::{self, Read, Write};

use firstseen_embedded::{Access, Judge};
use firstseen_filter::{AHEAD_EVENTS_MAX, Unit, Window};
use firstseen_routing::{Answer, SlicedBuildError, SlicedDefinition, SlicedFilter};

use crate::outcome::Outcome;
use crate::reader::{Events, MessageKind};

/// Filter of one input partition.
pub struct PartitionFilter {
    judge: Judge,
    answers: Vec<Answer>,
    is_pending: bool,
    /// How far ahead of other events a time is accepted without confirmation. `None` if the window needs no times.
    step_ms: Option<u64>,
}

impl PartitionFilter {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// Returns an error if memory is not available.
    pub fn build(definition: &SlicedDefinition) -> Result<Self, SlicedBuildError> {
        Ok(Self::of(Judge::build(definition)?, definition))
    }

    fn of(judge: Judge, definition: &SlicedDefinition) -> Self {
        let step_ms = judge.filter().needs_time().then_some(definition.group.future_max_ms);
        Self { judge, answers: Vec::new(), is_pending: false, step_ms }
    }

    /// Decides about a batch, and replaces the content of `outcomes` with one outcome for each message. `present_ms` is
    /// the time of day in milliseconds since 1970, which helps to recognize times that are wrong.
    ///
    /// # Panics
    /// Panics if the batch before is still pending, because its events would be lost if it were dropped now.
    pub fn decide(&mut self, events: &Events, present_ms: u64, outcomes: &mut Vec<Outcome>) {
        assert!(!self.is_pending, "a batch is decided after the one before was delivered");
        self.observe(events, events.digests.len(), present_ms);
        self.is_pending = true;
        outcomes.clear();
        let mut answers = self.answers.iter();
        outcomes.extend(events.kinds.iter().map(|kind| match kind {
            MessageKind::Event => answers.next().copied().unwrap_or_default().into(),
            MessageKind::Tombstone => Outcome::Tombstone,
            MessageKind::Rejected(rejection) => Outcome::Rejected(rejection.clone()),
        }));
    }

    /// Notes that the delivery of the pending batch is committed.
    pub fn delivered(&mut self) {
        self.is_pending = false;
    }

    /// Returns whether a batch was decided whose delivery is not committed.
    pub fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Records the events of the first `messages` messages, whose delivery was committed before, in the order of the
    /// log. The verdicts are not used. The times of the events after them help to recognize times that are wrong.
    pub fn record_history(&mut self, events: &Events, messages: usize, present_ms: u64) {
        self.observe(events, events.events_before(messages), present_ms);
    }

    fn observe(&mut self, events: &Events, count: usize, present_ms: u64) {
        self.judge.filter_mut().show_present_ms(present_ms);
        self.answers.clear();
        self.answers.resize(count, Answer::Undecided);
        self.judge.answer(Access::Observe, &events.digests[..count], &events.times_ms, &mut self.answers);
    }

    /// Returns the number of messages that can be decided before further messages are known. A time that is far ahead of
    /// the times before it may be wrong, and only the events after it can show that. If fewer events follow than the
    /// clock compares, the event and everything after it should wait for a moment.
    pub(crate) fn decidable(&self, events: &Events) -> usize {
        let Some(step_ms) = self.step_ms.filter(|_| !events.times_ms.is_empty()) else { return events.messages() };
        let mut reached_ms = self.judge.filter().now_ms();
        let mut times_ms = events.times_ms.iter();
        let mut followers = events.times_ms.len();
        for (message, kind) in events.kinds.iter().enumerate() {
            if *kind != MessageKind::Event {
                continue;
            }
            let Some(time_ms) = times_ms.next() else { break };
            followers -= 1;
            let is_near = reached_ms.is_some_and(|reached_ms| *time_ms <= reached_ms.saturating_add(step_ms));
            if !is_near && followers < AHEAD_EVENTS_MAX {
                return message;
            }
            reached_ms = if is_near { reached_ms.max(Some(*time_ms)) } else { reached_ms.or(Some(*time_ms)) };
        }
        events.messages()
    }

    /// Returns the memory of the filter in bytes.
    pub fn bytes(&self) -> u64 {
        self.judge.filter().bytes()
    }

    /// Writes the state of the filter.
    ///
    /// # Errors
    /// Returns the errors of the sink, and an error if a batch is pending.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        if self.is_pending {
            return Err(io::Error::other("a filter with undelivered events is not saved"));
        }
        self.judge.filter().write_body(sink)
    }

    /// Creates the filter that [`Self::write_body`] wrote.
    ///
    /// # Errors
    /// Returns an error if the source does not contain the state of such a filter.
    pub fn read_body(definition: &SlicedDefinition, source: &mut dyn Read) -> io::Result<Self> {
        let mut filter = SlicedFilter::build(definition).map_err(io::Error::other)?;
        filter.read_body(source)?;
        Ok(Self::of(Judge::of(filter, definition), definition))
    }
}

/// Returns how far before the time of the last delivered event the history begins that a filter needs, in milliseconds.
/// `None` means that the filter needs the whole history, because its window does not depend on time or has no end.
///
/// The clock of a filter can be ahead of the events by the greatest step that it accepts, and late events are judged by
/// the lateness before it.
pub(crate) fn history_ms(definition: &SlicedDefinition) -> Option<u64> {
    let group = &definition.group;
    let window_ms = match &group.window {
        Window::Duration(ms) | Window::LandmarkDuration(ms) => *ms,
        Window::LandmarkCalendar(_) => CALENDAR_MS,
        Window::Unbounded | Window::Events(_) | Window::LandmarkEvents(_) => return None,
    };
    let lateness_ms = match group.unit {
        Unit::Milliseconds(unit_ms) => unit_ms.saturating_mul(group.rule.lateness_units + 1),
        _ => 0,
    };
    Some(window_ms.saturating_add(lateness_ms).saturating_add(group.future_max_ms))
}

/// Length of the longest window of a calendar, which is a week with a change of daylight saving time.
const CALENDAR_MS: u64 = (7 * 24 + 2) * 3_600_000;
