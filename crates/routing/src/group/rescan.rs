//! Compares the replicas of a slice, which other systems call anti-entropy. Each complete copy of a slice is compared
//! with the other complete copies in turn. If one copy has a cell that the other copy lacks, the cell is added to the
//! other copy. Such a difference appears, for example, when the recording of an event was abandoned half-way.
//!
//! A difference between two copies is checked twice. During the first check, the request that sets the missing cells
//! may still be on its way to the copy that lacks them, so the difference may disappear without any action. Only cells
//! that are still missing at the second check are scheduled to be added.
//!
//! Missing cells are not added to a copy immediately. A producer may still retry the submission that set these cells on
//! the other copy. If the cells were added first, the retry would find the cells of its own first attempt, and would be
//! called a duplicate of itself. The cells are therefore added only after the retry horizon, when no such retry can
//! arrive any more.
//!
//! # Guarantees
//!
//! - Twice per window, each slice is compared with one of its other copies. All copies get their turn.
//! - Reading stays within the configured rate, and memory is bounded.
//! - A copy that does not reply is skipped.

use std::collections::VecDeque;

use firstseen_filter::{CellRun, PartError, Unit, UnitNumber, WindowRule};

use crate::ids::NodeId;
use crate::protocol::{AskCells, CellParts, CellPlace, MonotonicMs};

/// Minimum and maximum time between two comparisons of all slices, in milliseconds. If the window is measured in time,
/// the comparisons run twice per window, within these limits. Otherwise they run at intervals of the maximum.
const EVERY_MS_MIN: u64 = 1_000;
const EVERY_MS_MAX: u64 = 12 * 3_600_000;
/// Number of different start times. Groups begin their comparisons at different times to spread the load.
const SPREAD: u64 = 64;
/// Time in milliseconds after which an unanswered request is repeated, and the maximum number of tries.
const RETRY_MS: u64 = 1_000;
const TRIES_MAX: u32 = 3;
/// Minimum time in milliseconds between two requests. A request costs the other node a read even if its reply is empty.
const PAUSE_MS: u64 = 20;
/// Time in milliseconds after which sets that were on their way have arrived.
const SETTLED_MS: u64 = 500;
/// Maximum number of differing runs that wait for a second check. While there are this many, no more cells are
/// requested.
const SUSPECTS_MAX: usize = 16;

/// State of the comparison of a group's complete slices with copies on other nodes.
#[derive(Debug)]
pub(crate) struct Rescan {
    every_ms: u64,
    /// Time in milliseconds between the first input and the first comparison.
    first_ms: u64,
    next_ask_ms: Option<MonotonicMs>,
    rounds: u64,
    /// Number of the next slice to compare in this round. All slices with smaller numbers are done.
    next_slice: u32,
    question: Option<CellQuestion>,
    suspects: VecDeque<Suspect>,
    /// Runs of cells that differed in the second check too, and now wait until they may be added.
    missing: VecDeque<Suspect>,
    /// Time in milliseconds after which no retry can come any more.
    horizon_ms: u64,
    mended_runs: u64,
}

/// The request for cells that is currently open.
#[derive(Clone, Copy, Debug)]
struct CellQuestion {
    slice: u32,
    source: NodeId,
    from: Option<CellPlace>,
    tries: u32,
}

/// A run of cells in which something was missing on this node.
#[derive(Debug)]
struct Suspect {
    retry_ms: MonotonicMs,
    /// Time from which the run may be added. By then, no submission from before the run was read can be retried.
    put_ms: MonotonicMs,
    slice: u32,
    run: CellRun,
}

/// Whether a check of a run also adds the missing cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsPut {
    Not,
    Put,
}

impl Rescan {
    /// Creates the schedule for the comparisons of slice group `group`. `horizon_ms` is the retry horizon in
    /// milliseconds. Cells that were found missing are added only after that time. `every_ms` is the interval between
    /// two comparisons, which only tests set. If it is `None`, the interval is derived from the window.
    pub(crate) fn new(rule: &WindowRule, unit: &Unit, group: u32, horizon_ms: u64, every_ms: Option<u64>) -> Self {
        let window_ms = match unit {
            Unit::Milliseconds(unit_ms) => rule.span_units.saturating_mul(*unit_ms),
            _ => u64::MAX,
        };
        let every_ms = every_ms.unwrap_or((window_ms / 2).clamp(EVERY_MS_MIN, EVERY_MS_MAX));
        Self {
            every_ms,
            first_ms: every_ms - every_ms / 2 / SPREAD * (u64::from(group) % SPREAD),
            next_ask_ms: None,
            rounds: 0,
            next_slice: 0,
            question: None,
            suspects: VecDeque::new(),
            missing: VecDeque::new(),
            horizon_ms,
            mended_runs: 0,
        }
    }

    /// Returns the next request for cells that are compared with those of this node, together with the node to which
    /// the request must be sent. Returns `None` if it is too early for a request, or if too many differences still wait
    /// for their second check.
    ///
    /// The parameter `sources` lists the copies to compare with. Each of its pairs names a slice that is complete on
    /// this node, and a different node that has a complete copy of that slice. The pairs are sorted by slice. The
    /// parameter `unit` is the greatest unit of the window that this node has seen, where a unit is the step in which a
    /// window counts time or events.
    pub(crate) fn ask(
        &mut self,
        sources: impl Iterator<Item = (u32, NodeId)>,
        unit: UnitNumber,
        now_ms: MonotonicMs,
    ) -> Option<(NodeId, AskCells)> {
        let next_ask_ms = *self.next_ask_ms.get_or_insert(now_ms.after(self.first_ms));
        if now_ms < next_ask_ms || self.is_full() {
            return None;
        }
        let sources: Vec<(u32, NodeId)> = sources.collect();
        if self.question.take_if(|question| !sources.contains(&(question.slice, question.source))).is_none()
            && let Some(question) = self.question.take_if(|question| question.tries >= TRIES_MAX)
        {
            self.next_slice = question.slice + 1;
        }
        let Some(question) = self.question.or_else(|| self.next_question(&sources)) else {
            self.rounds += 1;
            self.next_slice = 0;
            self.next_ask_ms = Some(now_ms.after(self.every_ms));
            return None;
        };
        self.question = Some(CellQuestion { tries: question.tries + 1, ..question });
        self.next_ask_ms = Some(now_ms.after(RETRY_MS));
        Some((question.source, AskCells { slice: question.slice, unit, from: question.from }))
    }

    /// Returns the first request for the next slice of this round.
    fn next_question(&self, sources: &[(u32, NodeId)]) -> Option<CellQuestion> {
        let mut copies = sources.chunk_by(|one, other| one.0 == other.0);
        let copies = copies.find(|copies| copies[0].0 >= self.next_slice)?;
        let (slice, source) = copies[self.rounds as usize % copies.len()];
        Some(CellQuestion { slice, source, from: None, tries: 0 })
    }

    /// Receives requested cells from another copy. `lacks` returns whether any of them are missing on this node.
    pub(crate) fn hear(
        &mut self,
        parts: CellParts,
        now_ms: MonotonicMs,
        bytes_per_s_max: u64,
        mut lacks: impl FnMut(u32, &CellRun) -> Result<bool, PartError>,
    ) {
        let asked = (parts.slice, parts.asked);
        let Some(question) = self.question.filter(|question| (question.slice, question.from) == asked) else { return };
        let slice = question.slice;
        let mut bytes = 0;
        for run in parts.runs {
            bytes += run.cells.len() as u64;
            // A run that does not fit, because one of the copies has advanced meanwhile, is compared again in the next
            // round.
            if lacks(slice, &run).is_ok_and(|lacks| lacks) {
                let put_ms = now_ms.after(SETTLED_MS.max(self.horizon_ms));
                self.suspects.push_back(Suspect { retry_ms: now_ms.after(SETTLED_MS), put_ms, slice, run });
            }
        }
        self.question = parts.next.map(|next| CellQuestion { from: Some(next), tries: 0, ..question });
        if self.question.is_none() {
            self.next_slice = slice + 1;
        }
        let pause_ms = (bytes * 1000).checked_div(bytes_per_s_max).unwrap_or(RETRY_MS).max(PAUSE_MS);
        self.next_ask_ms = Some(now_ms.after(pause_ms));
    }

    fn is_full(&self) -> bool {
        self.suspects.len() + self.missing.len() >= SUSPECTS_MAX
    }

    /// Checks differences for the second time, and adds missing cells whose waiting time has passed.
    ///
    /// The callback `look` compares a run of cells with the slice of this node, and returns whether the slice lacks
    /// some of these cells. If the last argument of the callback is [`IsPut::Put`], the callback also adds the missing
    /// cells.
    pub(crate) fn mend(
        &mut self,
        now_ms: MonotonicMs,
        mut look: impl FnMut(u32, &CellRun, IsPut) -> Result<bool, PartError>,
    ) {
        // A slice that has moved to another node lacks nothing.
        while let Some(suspect) = self.suspects.pop_front_if(|suspect| suspect.retry_ms <= now_ms) {
            if look(suspect.slice, &suspect.run, IsPut::Not).is_ok_and(|lacks| lacks) {
                self.missing.push_back(suspect);
            }
        }
        while let Some(Suspect { slice, run, .. }) = self.missing.pop_front_if(|missing| missing.put_ms <= now_ms) {
            self.mended_runs += u64::from(look(slice, &run, IsPut::Put).is_ok_and(|lacked| lacked));
        }
    }

    /// Returns the time at which [`Self::ask`] or [`Self::mend`] has work to do.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        let ask_ms = (!self.is_full()).then(|| self.next_ask_ms.unwrap_or(MonotonicMs::START));
        let retry_ms = self.suspects.front().map(|suspect| suspect.retry_ms);
        let put_ms = self.missing.front().map(|missing| missing.put_ms);
        [ask_ms, retry_ms, put_ms].into_iter().flatten().min()
    }

    /// Returns the number of runs that were still missing after the second check and were added.
    pub(crate) fn mended_runs(&self) -> u64 {
        self.mended_runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPIES: [(u32, NodeId); 5] = [(0, NodeId(2)), (0, NodeId(3)), (4, NodeId(2)), (4, NodeId(3)), (5, NodeId(1))];

    fn at(ms: u64) -> MonotonicMs {
        MonotonicMs(ms)
    }

    fn of_ten_seconds() -> Rescan {
        let rule = WindowRule { span_units: 10, lateness_units: 0 };
        Rescan::new(&rule, &Unit::Milliseconds(1_000), 0, 0, None)
    }

    /// Runs one round. Returns which node was asked for which slice, and the time at which the round ended.
    fn round(
        rescan: &mut Rescan,
        mut now_ms: MonotonicMs,
        is_there: impl Fn(NodeId) -> bool,
    ) -> (Vec<(u32, NodeId)>, MonotonicMs) {
        let mut asked = Vec::new();
        while let Some((source, ask)) = rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, now_ms) {
            asked.push((ask.slice, source));
            if is_there(source) {
                let parts = CellParts { slice: ask.slice, ..CellParts::default() };
                rescan.hear(parts, now_ms, 1, |_, _| Ok(false));
            }
            now_ms = rescan.next_ms().expect("it goes on");
        }
        (asked, now_ms)
    }

    #[test]
    fn every_slice_is_read_from_every_other_copy_in_turn() {
        let mut rescan = of_ten_seconds();
        assert_eq!(
            rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, at(100)),
            None,
            "half a window after it has begun"
        );
        assert_eq!(rescan.next_ms(), Some(at(5_100)));
        let (asked, now_ms) = round(&mut rescan, at(5_100), |_| true);
        assert_eq!(asked, [(0, NodeId(2)), (4, NodeId(2)), (5, NodeId(1))]);
        assert_eq!(rescan.next_ms(), Some(now_ms.after(5_000)));
        let (asked, _) = round(&mut rescan, now_ms.after(5_000), |_| true);
        assert_eq!(asked, [(0, NodeId(3)), (4, NodeId(3)), (5, NodeId(1))]);
    }

    #[test]
    fn who_does_not_answer_is_left_out() {
        let mut rescan = of_ten_seconds();
        assert_eq!(rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, at(0)), None);
        let (asked, _) = round(&mut rescan, at(5_000), |node| node != NodeId(2));
        let twice = [(0, NodeId(2)), (4, NodeId(2))];
        assert_eq!(asked[..3], [twice[0]; 3]);
        assert_eq!(asked[3..], [twice[1], twice[1], twice[1], (5, NodeId(1))]);
    }

    #[test]
    fn what_is_on_its_way_is_not_put_in() {
        let mut rescan = of_ten_seconds();
        rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, at(0));
        let (_, ask) = rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, at(5_000)).unwrap();
        let run = |start_bytes| CellRun { start_bytes, ..CellRun::default() };
        let parts = CellParts { slice: ask.slice, runs: vec![run(2), run(4), run(6)], ..CellParts::default() };
        rescan.hear(parts, at(5_000), u64::MAX, |_, run| Ok(run.start_bytes > 2));
        let mut looked_at = Vec::new();
        rescan.mend(at(5_400), |_, _, _| panic!("too soon"));
        rescan.mend(at(5_500), |slice, run, is_put| {
            looked_at.push((slice, run.start_bytes, is_put));
            Ok(run.start_bytes > 4)
        });
        assert_eq!(looked_at, [(0, 4, IsPut::Not), (0, 6, IsPut::Not), (0, 6, IsPut::Put)]);
        assert_eq!(rescan.mended_runs(), 1);
    }

    #[test]
    fn nothing_is_put_in_while_it_may_be_submitted_again() {
        let rule = WindowRule { span_units: 10, lateness_units: 0 };
        let mut rescan = Rescan::new(&rule, &Unit::Milliseconds(1_000), 0, 8_000, None);
        rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, at(0));
        let (_, ask) = rescan.ask(COPIES.into_iter(), UnitNumber::FIRST, at(5_000)).unwrap();
        let parts = CellParts { slice: ask.slice, runs: vec![CellRun::default()], ..CellParts::default() };
        rescan.hear(parts, at(5_000), u64::MAX, |_, _| Ok(true));
        rescan.mend(at(12_999), |_, _, is_put| Ok(is_put == IsPut::Not));
        assert_eq!(rescan.mended_runs(), 0);
        rescan.mend(at(13_000), |_, _, is_put| Ok(is_put == IsPut::Put));
        assert_eq!(rescan.mended_runs(), 1);
    }

    #[test]
    fn nobody_is_asked_where_there_is_nobody() {
        let rule = WindowRule { span_units: 1, lateness_units: 0 };
        let mut rescan = Rescan::new(&rule, &Unit::Endless, 0, 0, None);
        assert_eq!(rescan.ask(std::iter::empty(), UnitNumber::FIRST, at(0)), None);
        assert_eq!(rescan.ask(std::iter::empty(), UnitNumber::FIRST, at(EVERY_MS_MAX)), None);
        assert_eq!(rescan.next_ms(), Some(at(2 * EVERY_MS_MAX)));
    }
}
