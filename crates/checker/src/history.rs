//! The history of a run, which contains the calls of producers and their verdicts, in simulated time. This module
//! contains plain data. If a run is repeated, its history is the same, byte by byte.

use std::collections::BTreeSet;
use std::fmt;

use firstseen_routing::{Decision, SubmissionName};

use crate::claims::ClaimRecord;
use crate::fault_periods::FaultPeriods;
use crate::rights::RightsRecord;

/// One call of a producer, from its start to its return.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Number of the call in its history.
    pub id: usize,
    /// The producer that made the call.
    pub producer: u32,
    /// The site of the caller, if the cluster has sites.
    pub site: Option<usize>,
    /// The event of the call.
    pub event: u64,
    /// Time at which the event occurred, in milliseconds since 1970.
    pub time_ms: u64,
    /// The event's own time to live in milliseconds, if it is shorter than the window.
    pub ttl_ms: Option<u64>,
    /// Whether the event was only looked up or claimed.
    pub is_lookup: bool,
    /// Whether the event was claimed. In a filter tree, claims and confirmations are sent to the root from every site.
    pub is_claim: bool,
    /// Whether the consumer that holds the event confirmed it.
    pub is_confirm: bool,
    /// The idempotency key that the caller gave to the submission.
    pub name: Option<SubmissionName>,
    /// Time at which the call began, in simulated microseconds.
    pub began_us: u64,
    /// Time at which the call returned, or `None` if it never returned.
    pub returned_us: Option<u64>,
    /// The verdict, or `None` if the call never returned.
    pub verdict: Option<Decision>,
    /// Whether the verdict may depend on fewer slices or levels than usual. This is known only in filter trees whose
    /// leaves answer alone.
    pub degraded: bool,
}

impl Call {
    /// Creates a call that observes an event, begins now and has no verdict yet. `time_ms` is the time of the event, in
    /// milliseconds since 1970. `began_us` is the time at which the call begins, in simulated microseconds.
    pub fn begun(producer: u32, event: u64, time_ms: u64, began_us: u64) -> Self {
        Self {
            id: 0,
            producer,
            site: None,
            event,
            time_ms,
            ttl_ms: None,
            is_lookup: false,
            is_claim: false,
            is_confirm: false,
            name: None,
            began_us,
            returned_us: None,
            verdict: None,
            degraded: false,
        }
    }

    /// Returns whether this call may have recorded the event.
    pub fn may_have_recorded(&self) -> bool {
        if self.is_lookup {
            return false;
        }
        match self.verdict {
            None | Some(Decision::FirstSeen) => true,
            Some(Decision::Undecided(reason)) => reason.may_have_recorded(),
            // A confirmation may have found the event because its own first try has recorded it.
            Some(Decision::Duplicate) => self.is_confirm,
        }
    }

    /// Returns whether this call got the verdict first-seen and so recorded the event.
    pub fn won(&self) -> bool {
        !self.is_lookup && self.verdict == Some(Decision::FirstSeen)
    }

    /// Returns the time at which the call returned, or the end of time if it never did.
    pub(crate) fn ended_us(&self) -> u64 {
        self.returned_us.unwrap_or(u64::MAX)
    }

    /// Returns whether the call had returned before a moment.
    pub(crate) fn had_returned(&self, before_us: u64) -> bool {
        self.returned_us.is_some_and(|returned_us| returned_us < before_us)
    }

    /// Returns whether two calls are tries of one submission with an idempotency key.
    pub(crate) fn is_same_submission(&self, other: &Self) -> bool {
        self.name.is_some() && self.name == other.name
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, producer, site, event, time_ms, name, began_us, returned_us, verdict, degraded, .. } = self;
        write!(f, "call {id}: producer {producer} event {event} at {time_ms} ms, {began_us}..{returned_us:?} us")?;
        if let Some(ttl_ms) = self.ttl_ms {
            write!(f, ", for {ttl_ms} ms")?;
        }
        if let Some(site) = site {
            write!(f, ", site {site}")?;
        }
        if self.is_claim {
            write!(f, ", claim")?;
        } else if self.is_lookup {
            write!(f, ", lookup")?;
        }
        if self.is_confirm {
            write!(f, ", confirm")?;
        }
        if let Some(name) = name {
            write!(f, ", named {}:{}", name.source, name.number)?;
        }
        write!(f, ": {verdict:?}{}", if *degraded { ", degraded" } else { "" })
    }
}

/// Time in microseconds after which a site that was cut off is fully connected again.
pub const REJOINED_US: u64 = 5_000_000;

/// Time in microseconds for which sets may be in flight although connections break.
const SETS_SENT_US: u64 = 5_000_000;

/// The end of a node's process, with the loss of its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Number of the node.
    pub node: usize,
    /// Time at which the process ended, in simulated microseconds.
    pub time_us: u64,
    /// Time since which the node's memory is lost. Earlier contents survive if the process only stood still.
    pub since_us: u64,
    /// The events that have cells on the node.
    pub events: BTreeSet<u64>,
    /// The events that have more than half of their cells on the node.
    pub most_of: BTreeSet<u64>,
}

impl Loss {
    /// Returns whether the recording by `recorder` may have explained the verdict of `asker` and may have been lost
    /// afterwards.
    fn follows(&self, recorder: &Call, asker: &Call) -> bool {
        asker.returned_us.is_some_and(|returned_us| returned_us <= self.time_us)
            && (recorder.began_us..recorder.ended_us()).contains(&self.time_us)
    }
}

/// The end of a node's process while its disk was full, or before the disk had taken all data that waited for room.
#[derive(Clone, Debug, PartialEq)]
pub struct EndOnFullDisk {
    /// Number of the node.
    pub node: usize,
    /// Time since which the disk was full, in simulated microseconds.
    pub from_us: u64,
    /// Time at which the process ended.
    pub until_us: u64,
    /// The events that have all of their cells on the node.
    pub events: BTreeSet<u64>,
}

/// A time in which one site could not reach the other sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// The site.
    pub site: usize,
    /// Begin of the outage, in simulated microseconds.
    pub from_us: u64,
    /// End of the outage, in simulated microseconds.
    pub until_us: u64,
    /// Whether connections stay open but carry no data.
    pub is_silent: bool,
}

impl Outage {
    /// Returns whether a call began and returned during the outage.
    pub fn has_all_of(&self, call: &Call) -> bool {
        call.began_us >= self.from_us && call.returned_us.is_some_and(|returned_us| returned_us <= self.until_us)
    }

    /// Returns whether a lookup may have been answered at the site while the site did not know that the other sites had
    /// continued without it.
    fn may_hide_from(&self, lookup: &Call) -> bool {
        let away = self.from_us..self.until_us.saturating_add(REJOINED_US);
        lookup.site.is_none_or(|site| site == self.site) && away.contains(&lookup.began_us)
    }
}

/// A command by which losses of the filter were forgiven. An event that was recorded before it may be first-seen after
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgiven {
    /// Time at which the command was sent, in simulated microseconds.
    pub begun_us: u64,
    /// Time at which the command had returned.
    pub ended_us: u64,
}

/// The view of one node: which nodes answer for which slices, as this node believed from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Number of the node.
    pub node: usize,
    /// Earliest time at which the node may have had this view, in simulated microseconds.
    pub after_us: u64,
    /// Time at which the node certainly had this view.
    pub by_us: u64,
    /// The view as a number. Equal views have equal numbers.
    pub answering: u64,
}

/// The clock by which events are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamped {
    /// The producer's clock stamps events. An event that is more than `lateness_ms` late is judged as if it had
    /// occurred later.
    ByProducer {
        /// Time of day when the history began, in milliseconds since 1970.
        began_ms: u64,
        /// The lateness, in milliseconds.
        lateness_ms: u64,
    },
    /// The clock of the node that receives the event stamps it. Clocks of different nodes may differ.
    ByNode {
        /// Maximum difference between clocks, in milliseconds.
        skew_ms: u64,
    },
}

impl Default for Stamped {
    fn default() -> Self {
        Self::ByProducer { began_ms: 0, lateness_ms: u64::MAX }
    }
}

/// A first-seen event whose cells are missing at a level at the end of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Unset {
    /// Number of the call with that verdict.
    pub call: usize,
    /// Place of the level.
    pub place: String,
}

/// Result of comparing the cells of complete copies at the end with the submitted events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellsRead {
    /// Number of complete copies that were read.
    pub copies: u64,
    /// Number of copies that were not read because they lack events.
    pub incomplete_copies: u64,
    /// Number of events whose cells in a copy had to be set, summed over copies.
    pub events_due: u64,
    /// Number of cells that were set.
    pub cells_set: u64,
    /// Descriptions of wrong cells.
    pub wrong: Vec<String>,
}

impl CellsRead {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.copies += other.copies;
        self.incomplete_copies += other.incomplete_copies;
        self.events_due += other.events_due;
        self.cells_set += other.cells_set;
        self.wrong.extend_from_slice(&other.wrong);
    }
}

impl fmt::Display for CellsRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { copies, incomplete_copies, events_due, cells_set, wrong } = self;
        write!(f, "{copies} copies compared ({incomplete_copies} incomplete ones not): {events_due} events due, ")?;
        write!(f, "{cells_set} cells set, {} wrong", wrong.len())
    }
}

/// The end of all failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// Time from which there are no failures and everything is complete, in simulated microseconds.
    pub at_us: u64,
    /// Whether no slice lacks anything at that time. Otherwise a slice may lack events for good.
    pub is_whole: bool,
    /// Description of the state that was still wrong at that time, if there was any.
    pub lacks: Option<String>,
}

/// The guarantees of a filter, as far as laws depend on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// The guaranteed window, in milliseconds.
    pub window_ms: u64,
    /// The window in milliseconds, plus the maximum that rounding can add.
    pub window_at_most_ms: u64,
    /// Maximum time in milliseconds for which an event is known beyond its own time to live, if events have one.
    pub ttl_rounding_ms: u64,
    /// The clock by which events are stamped.
    pub stamped: Stamped,
    /// Whether first-seen is replied only when the cells are set.
    pub answers_when_set: bool,
    /// Whether slices have several copies. Copies may then differ about an event whose recording was abandoned.
    pub has_copies: bool,
    /// Whether events that slices have lost are undecided instead of first-seen again.
    pub never_forgets: bool,
    /// Whether cells on two of three nodes are enough for a verdict.
    pub outlives_a_node: bool,
    /// Whether leaves answer alone while they cannot reach the levels above.
    pub leaves_answer_alone: bool,
    /// Whether levels of a tree refute events that they do not know (top-down checks).
    pub levels_refute: bool,
    /// Whether an event that a leaf answered alone survives the end of its node.
    pub keeps_events_of_leaves: bool,
}

impl Promises {
    /// Returns the guarantees of a filter that keeps everything, for a run that ends long before its window.
    pub fn within_one_window() -> Self {
        Self {
            window_ms: u64::MAX,
            window_at_most_ms: u64::MAX,
            answers_when_set: true,
            never_forgets: true,
            ..Self::default()
        }
    }
}

/// All calls of a run, and the facts about the filter and the failures that the laws need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The guarantees of the filter.
    pub promises: Promises,
    /// The calls, in the order in which they began.
    pub calls: Vec<Call>,
    /// The claims, in the order in which they were answered.
    pub claims: Vec<ClaimRecord>,
    /// The losses, in the order in which they happened.
    pub losses: Vec<Loss>,
    /// The outages, in the order in which they happened.
    pub outages: Vec<Outage>,
    /// The periods in which faults of other kinds lasted.
    pub periods: FaultPeriods,
    /// The commands that forgave losses, in the order in which they happened.
    pub forgiven: Vec<Forgiven>,
    /// Ends of processes whose disks were full. Such a process answered lookups from memory, so it also found events
    /// that it could not write to the disk. These events were lost when the process ended.
    pub lost_while_full: Vec<EndOnFullDisk>,
    /// The views of nodes. Those of one node are sorted by time. If there are none, the view never changed.
    pub views: Vec<View>,
    /// Cells that were expected at the end and are not set.
    pub unset: Vec<Unset>,
    /// The findings in the cells of copies at the end.
    pub cells: CellsRead,
    /// Slices whose copies differed at the end, because one copy lacked an event that another copy had.
    pub lagging: Vec<u32>,
    /// False reports of nodes that they were ready. Each entry contains the time of the report in simulated
    /// microseconds, the node, and a slice of this node that lacked an event which another copy of the slice had.
    pub ready_without: Vec<(u64, usize, u32)>,
    /// Number of copies that have begun to move.
    pub moves_begun: u64,
    /// The end of all failures. `None` if some continue.
    pub healed: Option<Healed>,
    /// What each producer was allowed to do, if the cluster checks access rights.
    pub rights: RightsRecord,
    /// Time at which the last checks had ended, in simulated microseconds, or 0 if there were none.
    pub settled_us: u64,
    /// Number of verdicts that producers got with the mark that a slice is incomplete.
    pub degraded_events: u64,
}

impl History {
    /// Starts a call and returns its number.
    pub fn begin(&mut self, call: Call) -> usize {
        let id = self.calls.len();
        self.calls.push(Call { id, ..call });
        id
    }

    /// Returns whether a call was certainly judged by the time of its event.
    fn is_exact(&self, call: &Call) -> bool {
        let Stamped::ByProducer { began_ms, lateness_ms } = self.promises.stamped else { return true };
        let latest_ms = call.returned_us.map_or(u64::MAX, |returned_us| began_ms.saturating_add(returned_us / 1000));
        latest_ms.saturating_sub(call.time_ms) < lateness_ms
    }

    /// Returns how long the machine of a node was suspended that may have answered the call before it knew of this, in
    /// milliseconds.
    fn suspended_ms(&self, call: &Call) -> u64 {
        self.periods.suspended_us(self.first_attempt_us(call), call.ended_us()).div_ceil(1000)
    }

    /// Returns whether a call had returned before another call was first sent.
    fn precedes(&self, call: &Call, other: &Call) -> bool {
        call.returned_us.is_some_and(|returned_us| returned_us < self.first_attempt_us(other))
    }

    /// Returns for how many milliseconds an event is certainly remembered after two calls have submitted it: the time
    /// to live of the call that recorded it, and at most the window. If one call returned before the other was first
    /// sent, the earlier one recorded the event. Otherwise either may have, so the shorter time to live is used.
    fn recorded_for_ms(&self, first: &Call, second: &Call) -> u64 {
        let ttl_ms = if self.precedes(first, second) {
            first.ttl_ms
        } else if self.precedes(second, first) {
            second.ttl_ms
        } else {
            first.ttl_ms.into_iter().chain(second.ttl_ms).min()
        };
        ttl_ms.map_or(self.promises.window_ms, |ttl_ms| ttl_ms.min(self.promises.window_ms))
    }

    /// Returns whether two submissions of an event, or a lookup and a submission, are certainly within one window.
    pub fn are_within_window(&self, first: &Call, second: &Call) -> bool {
        if self.suspended_ms(first) > 0 || self.suspended_ms(second) > 0 {
            return false;
        }
        let window_ms = self.recorded_for_ms(first, second);
        match self.promises.stamped {
            Stamped::ByProducer { .. } if !self.is_exact(first) || !self.is_exact(second) => false,
            Stamped::ByProducer { .. } => first.time_ms.abs_diff(second.time_ms) < window_ms,
            Stamped::ByNode { .. } => {
                let window_us = window_ms.saturating_mul(1000);
                self.is_answered_within(first, second, window_us) && self.is_answered_within(second, first, window_us)
            }
        }
    }

    /// Returns whether a call returned less than `limit_us` after another call was first sent.
    fn is_answered_within(&self, sent: &Call, answered: &Call, limit_us: u64) -> bool {
        let returned_us = answered.returned_us;
        returned_us.is_some_and(|returned_us| returned_us.saturating_sub(self.first_attempt_us(sent)) < limit_us)
    }

    /// Returns whether an event that `recorder` may have recorded may still be known when `asker` asks about it.
    ///
    /// The result is always `true` if producers stamp the events and the event of `asker` has the earlier time, because
    /// a filter compares such a late event also with events that have later times.
    pub fn may_be_known(&self, recorder: &Call, asker: &Call) -> bool {
        let window_at_most_ms = match recorder.ttl_ms {
            Some(ttl_ms) => ttl_ms.saturating_add(self.promises.ttl_rounding_ms),
            None => self.promises.window_at_most_ms,
        };
        match self.promises.stamped {
            Stamped::ByProducer { .. } => asker.time_ms.saturating_sub(recorder.time_ms) <= window_at_most_ms,
            Stamped::ByNode { skew_ms } => {
                // A call without a reply may take effect at any time. A retry gets the verdict of its first attempt.
                let ended_us = if recorder.won() { recorder.returned_us } else { None };
                let apart_us = ended_us.map_or(0, |ended_us| self.first_attempt_us(asker).saturating_sub(ended_us));
                // A node that does not know yet that its machine was suspended has the time of before.
                let clock_ms = skew_ms.saturating_add(self.suspended_ms(asker));
                apart_us / 1000 <= window_at_most_ms.saturating_add(clock_ms)
            }
        }
    }

    /// Returns whether a leaf alone gave the verdict of a call, so that other leaves may have given the same verdict.
    pub fn is_alone(&self, call: &Call) -> bool {
        self.promises.leaves_answer_alone && call.degraded
    }

    /// Returns whether an event that `call` has recorded may still be unknown at other sites when `lookup` begins. This
    /// is possible if a leaf has called the event first-seen on its own, because it reports the event to the root only
    /// later. If the leaf's node ends before this report and has no journal, other sites never learn of the event.
    pub fn may_be_unknown_elsewhere(&self, call: &Call, lookup: &Call) -> bool {
        let began_us = self.first_attempt_us(call);
        let is_settling = lookup.began_us < self.settled_us;
        let may_be_lost =
            !self.promises.keeps_events_of_leaves && self.losses.iter().any(|loss| loss.time_us >= began_us);
        self.is_alone(call) && (is_settling || may_be_lost)
    }

    /// Returns whether a lookup may have been answered at a site that did not know yet that the other sites had
    /// continued without it.
    pub fn may_be_stale(&self, lookup: &Call) -> bool {
        self.outages.iter().any(|outage| outage.may_hide_from(lookup))
    }

    /// Returns whether `asker` may have found an event that `recorder` had recorded, although the event was lost with a
    /// node afterwards. This is possible only if the node was lost while `recorder` was still in progress. The client
    /// of `recorder` then sent the event again and may have got a verdict that does not show the first recording.
    pub(crate) fn may_have_recorded_in_vain(&self, recorder: &Call, asker: &Call) -> bool {
        !recorder.is_lookup
            && recorder.began_us < asker.returned_us.unwrap_or(0)
            && self.losses.iter().any(|loss| loss.follows(recorder, asker))
    }

    /// Returns whether all nodes had the same view during the whole time between two moments.
    pub(crate) fn is_steady(&self, from_us: u64, until_us: u64) -> bool {
        let held = self.views.iter().enumerate().filter(|(index, view)| {
            let next = self.views[index + 1..].iter().find(|next| next.node == view.node);
            view.after_us <= until_us && next.is_none_or(|next| next.by_us >= from_us)
        });
        let mut answering = held.map(|(_, view)| view.answering);
        let first = answering.next();
        answering.all(|other| Some(other) == first)
    }

    /// Returns whether the call `later` may get first-seen for an event that was called a duplicate before. This is
    /// allowed only if the recording of the event may have been abandoned half-way, which requires the following:
    ///
    /// - No call got first-seen for the event.
    /// - The view of the nodes changed between the begin of the recording and the verdict duplicate.
    /// - The view changed again between the duplicate and the end of the call `later`.
    pub(crate) fn may_be_denied(&self, recorders: &[&Call], duplicate: &Call, later: &Call) -> bool {
        let began_us = recorders.iter().map(|call| call.began_us).min().unwrap_or(duplicate.began_us);
        recorders.iter().all(|call| !call.won())
            && !self.is_steady(began_us, duplicate.ended_us())
            && !self.is_steady(duplicate.began_us, later.ended_us())
    }

    /// Returns whether cells that a call set were lost with one of these nodes.
    pub fn has_lost(&self, call: &Call, nodes: &[usize]) -> bool {
        let began_us = self.first_attempt_us(call);
        let losses = self.losses.iter().filter(|loss| loss.time_us >= began_us);
        let mut concerned = losses.filter(|loss| began_us.saturating_add(SETS_SENT_US) >= loss.since_us);
        concerned.any(|loss| nodes.contains(&loss.node))
    }

    /// Returns whether the recording of one of two calls about an event may have been lost before both calls had
    /// verdicts.
    pub fn may_have_lost(&self, first: &Call, second: &Call) -> bool {
        let began_us = self.first_attempt_us(first).min(self.first_attempt_us(second));
        let last_us = first.ended_us().max(second.ended_us());
        if self.forgiven.iter().any(|forgiven| began_us <= forgiven.ended_us && forgiven.begun_us <= last_us) {
            return true;
        }
        if self.promises.never_forgets {
            // A head may have replied before the other nodes had the cells, so the event may have been lost with the
            // head.
            let replied_us = first.ended_us().min(second.ended_us()).saturating_add(SETS_SENT_US);
            let mut during = self.losses.iter().filter(|loss| (began_us..replied_us).contains(&loss.time_us));
            return !self.promises.answers_when_set && during.any(|loss| loss.events.contains(&first.event));
        }
        let mut lost: Vec<usize> = self.losses.iter().map(|loss| loss.node).collect();
        lost.sort_unstable();
        lost.dedup();
        // The remaining nodes remember the events of a lost node. They alone answer if they have half of an event's
        // cells.
        let is_outlived = self.promises.outlives_a_node && self.promises.answers_when_set && lost.len() == 1;
        let mut during = self.losses.iter().filter(|loss| (began_us..last_us).contains(&loss.time_us));
        during.any(|loss| {
            let concerned = if is_outlived { &loss.most_of } else { &loss.events };
            concerned.contains(&first.event)
        })
    }

    /// Returns when the first call of the same submission began. That call may have recorded the event.
    pub fn first_attempt_us(&self, call: &Call) -> u64 {
        let attempts = self.calls.iter().filter(|other| other.is_same_submission(call));
        attempts.map(|attempt| attempt.began_us).min().unwrap_or(call.began_us)
    }

    /// Ends a call.
    pub fn end(&mut self, id: usize, returned_us: u64, verdict: Decision, degraded: bool) {
        if let Some(call) = self.calls.get_mut(id) {
            call.returned_us = Some(returned_us);
            call.verdict = Some(verdict);
            call.degraded = degraded;
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.iter().try_for_each(|call| writeln!(f, "{call}"))?;
        self.claims.iter().try_for_each(|claim| writeln!(f, "{claim:?}"))?;
        let losses = &mut self.losses.iter();
        losses.try_for_each(|Loss { node, time_us, .. }| writeln!(f, "node {node} lost at {time_us} us"))?;
        self.outages.iter().try_for_each(|Outage { site, from_us, until_us, is_silent }| {
            let silently = if *is_silent { " silently" } else { "" };
            writeln!(f, "site {site} cut off{silently} from {from_us} us to {until_us} us")
        })?;
        self.unset.iter().try_for_each(|Unset { call, place }| writeln!(f, "call {call} is not set at {place}"))?;
        for (time_us, node, slice) in &self.ready_without {
            writeln!(f, "node {node} ready at {time_us} us without slice {slice}")?;
        }
        if let Some(Healed { at_us, lacks, .. }) = &self.healed {
            writeln!(f, "healed at {at_us} us, but for {lacks:?}")?;
        }
        write!(f, "{}", self.rights)?;
        writeln!(f, "{} answers degraded", self.degraded_events)
    }
}
