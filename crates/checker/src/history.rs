//! The calls of producers and their verdicts, in simulated time.
//!
//! Promises: plain data; the same run gives the same history, byte by byte. Must not know: how verdicts came about.

use std::collections::BTreeSet;
use std::fmt;

use firstseen_routing::{Decision, SubmissionName};

use crate::claims::ClaimRecord;
use crate::rights::RightsRecord;

/// One call of a producer, from its start to its return.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The number of the call in its history.
    pub id: usize,
    /// The producer that called.
    pub producer: u32,
    /// The site of the caller, where there are sites.
    pub site: Option<usize>,
    /// The event of the call.
    pub event: u64,
    /// When the event occurred, in milliseconds since 1970.
    pub time_ms: u64,
    /// How long the event is to be known, in milliseconds, where that is less than the window.
    pub ttl_ms: Option<u64>,
    /// Whether the event was only looked up, or claimed.
    pub is_lookup: bool,
    /// Whether the event was claimed. In a tree claims and confirms are asked at the root, from whichever site.
    pub is_claim: bool,
    /// Whether the event was confirmed by the consumer that holds it.
    pub is_confirm: bool,
    /// The name that the caller gave to the submission.
    pub name: Option<SubmissionName>,
    /// When the call began, in simulated microseconds.
    pub began_us: u64,
    /// When it returned; none if it never did.
    pub returned_us: Option<u64>,
    /// The verdict; none if the call never returned.
    pub verdict: Option<Decision>,
    /// Whether the verdict may rest on fewer slices or levels than usual; known only in trees whose leaves answer
    /// alone.
    pub degraded: bool,
}

impl Call {
    /// An observation of an event that begins now, without a verdict yet. The event occurred at `time_ms`, milliseconds since 1970;
    /// the call begins at `began_us`, in simulated microseconds.
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

    /// Whether the event may have been recorded by this call.
    pub fn may_have_recorded(&self) -> bool {
        if self.is_lookup {
            return false;
        }
        match self.verdict {
            None | Some(Decision::FirstSeen) => true,
            Some(Decision::Undecided(reason)) => reason.may_have_recorded(),
            // A confirm may have found what its own first try has recorded.
            Some(Decision::Duplicate) => self.is_confirm,
        }
    }

    /// Whether this call got the verdict first-seen, and so recorded the event.
    pub fn won(&self) -> bool {
        !self.is_lookup && self.verdict == Some(Decision::FirstSeen)
    }

    /// Returns when the call returned, or the end of time if it never did.
    pub(crate) fn ended_us(&self) -> u64 {
        self.returned_us.unwrap_or(u64::MAX)
    }

    /// Returns whether the call had returned before a moment.
    pub(crate) fn had_returned(&self, before_us: u64) -> bool {
        self.returned_us.is_some_and(|returned_us| returned_us < before_us)
    }

    /// Returns whether two calls try one named submission.
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

/// A node finds out within this time that its machine has stood still: it pings each other node four times a second.
pub const STANDSTILL_NOTICED_US: u64 = 500_000;

/// After so long a site that was cut off is connected again in every respect.
pub const REJOINED_US: u64 = 5_000_000;

/// How long sets may be in flight, though connections break.
const SETS_SENT_US: u64 = 5_000_000;

/// The end of a node's process, and the loss of all that it had in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The number of the node.
    pub node: usize,
    /// When the process ended, in simulated microseconds.
    pub time_us: u64,
    /// From when on its memory is lost: what it had before survives, as its process only stood still.
    pub since_us: u64,
    /// The events that have cells on the node.
    pub events: BTreeSet<u64>,
    /// The events that have more than half of their cells on the node.
    pub most_of: BTreeSet<u64>,
}

impl Loss {
    /// Returns whether the recording by `recorder` may have explained the verdict of `asker`, and then have been lost.
    fn follows(&self, recorder: &Call, asker: &Call) -> bool {
        asker.returned_us.is_some_and(|returned_us| returned_us <= self.time_us)
            && (recorder.began_us..recorder.ended_us()).contains(&self.time_us)
    }
}

/// The end of a node's process while its disk was full, or had not yet taken what had waited for room.
#[derive(Clone, Debug, PartialEq)]
pub struct EndOnFullDisk {
    /// The number of the node.
    pub node: usize,
    /// From when on the disk was full, in simulated microseconds.
    pub from_us: u64,
    /// When the process ended.
    pub until_us: u64,
    /// The events that have all of their cells on the node.
    pub events: BTreeSet<u64>,
}

/// A time in which one site could not reach the other sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// The site.
    pub site: usize,
    /// Its beginning, in simulated microseconds.
    pub from_us: u64,
    /// Its end.
    pub until_us: u64,
    /// Whether connections stay open and carry nothing.
    pub is_silent: bool,
}

impl Outage {
    /// Whether a call began and returned in this time.
    pub fn has_all_of(&self, call: &Call) -> bool {
        call.began_us >= self.from_us && call.returned_us.is_some_and(|returned_us| returned_us <= self.until_us)
    }

    /// Returns whether a lookup may have been answered at the site while that did not know that the others had gone on
    /// without it.
    fn may_hide_from(&self, lookup: &Call) -> bool {
        let away = self.from_us..self.until_us.saturating_add(REJOINED_US);
        lookup.site.is_none_or(|site| site == self.site) && away.contains(&lookup.began_us)
    }
}

/// A forgiveness: an event that was recorded before it may be first-seen after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgiven {
    /// When the command was sent, in simulated microseconds.
    pub begun_us: u64,
    /// When it had returned.
    pub ended_us: u64,
}

/// Which nodes answer for which slices, as one node believed from a moment on (its view).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The number of the node.
    pub node: usize,
    /// The node may have had this view since then, in simulated microseconds.
    pub after_us: u64,
    /// The node had this view at this moment.
    pub by_us: u64,
    /// The view as a number: equal views have equal numbers.
    pub answering: u64,
}

/// The clock by which events are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamped {
    /// The producer's. An event that comes later than by `lateness_ms` is judged as if it had occurred later.
    ByProducer {
        /// The time of day when the history began, in milliseconds since 1970.
        began_ms: u64,
        /// The lateness, in milliseconds.
        lateness_ms: u64,
    },
    /// The clock of the node that an event comes to, which may differ from another node's by so much.
    ByNode {
        /// The greatest difference, in milliseconds.
        skew_ms: u64,
    },
}

impl Default for Stamped {
    fn default() -> Self {
        Self::ByProducer { began_ms: 0, lateness_ms: u64::MAX }
    }
}

/// An event with the verdict first-seen whose cells a level lacks in the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Unset {
    /// The number of the call with that verdict.
    pub call: usize,
    /// The place of the level.
    pub place: String,
}

/// The cells of complete copies in the end, compared with the events that were submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellsRead {
    /// Complete copies, which were read.
    pub copies: u64,
    /// Copies that were not read, as they lack something.
    pub incomplete_copies: u64,
    /// Events whose cells in a copy had to be set, summed over copies.
    pub events_due: u64,
    /// Cells that were set.
    pub cells_set: u64,
    /// What is wrong with the cells.
    pub wrong: Vec<String>,
}

impl CellsRead {
    /// Adds the figures of another run.
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
    /// From when on there are no failures, and everything is complete, in simulated microseconds.
    pub at_us: u64,
    /// Whether no slice lacks anything by then; otherwise one may, for good.
    pub is_whole: bool,
    /// What was still not as it should be by then.
    pub lacks: Option<String>,
}

/// What a filter promises, as laws need to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// The window that the filter promises, in milliseconds.
    pub window_ms: u64,
    /// The window with the most that rounding may add.
    pub window_at_most_ms: u64,
    /// What an event is known longer than its own time at most, in milliseconds, where events have times of their own.
    pub ttl_rounding_ms: u64,
    /// The clock by which events are stamped.
    pub stamped: Stamped,
    /// Whether the reply first-seen is sent only when the cells are set.
    pub answers_when_set: bool,
    /// Whether slices have several copies: then copies may differ about an event whose recording was given up.
    pub has_copies: bool,
    /// Whether events that slices have lost are undecided, and not first-seen again.
    pub never_forgets: bool,
    /// Whether cells on two of three nodes are enough for a verdict.
    pub outlives_a_node: bool,
    /// Whether leaves answer alone when they cannot reach the levels above.
    pub leaves_answer_alone: bool,
}

impl Promises {
    /// Those of a filter that keeps all that it has recorded, for a run that is over long before its window.
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
    /// What the filter promises.
    pub promises: Promises,
    /// The calls, in the order in which they began.
    pub calls: Vec<Call>,
    /// Claims, in the order in which they were answered.
    pub claims: Vec<ClaimRecord>,
    /// The losses, in the order in which they happened.
    pub losses: Vec<Loss>,
    /// The outages, in the order in which they happened.
    pub outages: Vec<Outage>,
    /// The forgivenesses, in the order in which they happened.
    pub forgiven: Vec<Forgiven>,
    /// From when to when the disk of a node hung while nothing else was wrong, in simulated microseconds: only where
    /// every slice has a complete copy on another node.
    pub hangs: Vec<(u64, u64)>,
    /// The ends of nodes on full disks. Lookups are answered from memory meanwhile, and the node has lost afterwards what
    /// its disk did not take.
    pub lost_while_full: Vec<EndOnFullDisk>,
    /// From when to when the clock of a node was wrong, in simulated microseconds.
    pub wrong_clocks: Vec<(u64, u64)>,
    /// From when to when a machine stood still with all its clocks, in simulated microseconds.
    pub standstills: Vec<(u64, u64)>,
    /// The views of nodes, those of one node in the order of their times. Where there are none, the view was the same
    /// all the while.
    pub views: Vec<View>,
    /// Cells that were looked for in the end and are not set.
    pub unset: Vec<Unset>,
    /// The findings in the cells of copies in the end.
    pub cells: CellsRead,
    /// Slices of which one copy lacked in the end what another one had.
    pub lagging: Vec<u32>,
    /// When a node said that it is ready, in simulated microseconds; the node; and a slice of which it then lacked what
    /// another copy had.
    pub ready_without: Vec<(u64, usize, u32)>,
    /// How many copies have begun to move.
    pub moves_begun: u64,
    /// The end of all failures; none where some go on.
    pub healed: Option<Healed>,
    /// Who might do what, where rights are asked for.
    pub rights: RightsRecord,
    /// When the last checks were over, in simulated microseconds; 0 where there were none.
    pub settled_us: u64,
    /// Verdicts that producers got with the mark that a slice is incomplete.
    pub degraded_events: u64,
}

impl History {
    /// Starts a call and returns its number.
    pub fn begin(&mut self, call: Call) -> usize {
        let id = self.calls.len();
        self.calls.push(Call { id, ..call });
        id
    }

    /// Whether a call was certainly judged by the time of its event.
    fn is_exact(&self, call: &Call) -> bool {
        let Stamped::ByProducer { began_ms, lateness_ms } = self.promises.stamped else { return true };
        let latest_ms = call.returned_us.map_or(u64::MAX, |returned_us| began_ms.saturating_add(returned_us / 1000));
        latest_ms.saturating_sub(call.time_ms) < lateness_ms
    }

    /// Whether a call may have been answered by a node that could not know yet that its machine had stood still.
    fn may_be_of_sleeper(&self, call: &Call) -> bool {
        let began_us = self.first_attempt_us(call);
        self.standstills.iter().any(|(from_us, until_us)| {
            began_us <= until_us.saturating_add(STANDSTILL_NOTICED_US) && call.ended_us() >= *from_us
        })
    }

    /// Whether a call had returned before another was first sent.
    fn precedes(&self, call: &Call, other: &Call) -> bool {
        call.returned_us.is_some_and(|returned_us| returned_us < self.first_attempt_us(other))
    }

    /// How long the event of two calls is known, whichever of them recorded it. If one had returned before the other was first sent,
    /// only that one can have recorded the event for the other to find.
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

    /// Whether two submissions of an event, or a lookup and a submission, are certainly less than a window apart.
    pub fn are_within_window(&self, first: &Call, second: &Call) -> bool {
        if self.may_be_of_sleeper(first) || self.may_be_of_sleeper(second) {
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

    /// Returns whether a call returned less than `limit_us` after another was first sent.
    fn is_answered_within(&self, sent: &Call, answered: &Call, limit_us: u64) -> bool {
        let returned_us = answered.returned_us;
        returned_us.is_some_and(|returned_us| returned_us.saturating_sub(self.first_attempt_us(sent)) < limit_us)
    }

    /// Whether an event that `recorder` may have recorded may still be known when `asker` asks. (A recorder whose event
    /// has a later time explains a duplicate, however much later: an asker whose event is late finds what was recorded
    /// before.)
    pub fn may_be_known(&self, recorder: &Call, asker: &Call) -> bool {
        let window_at_most_ms = match recorder.ttl_ms {
            Some(ttl_ms) => ttl_ms.saturating_add(self.promises.ttl_rounding_ms),
            None => self.promises.window_at_most_ms,
        };
        match self.promises.stamped {
            Stamped::ByProducer { .. } => asker.time_ms.saturating_sub(recorder.time_ms) <= window_at_most_ms,
            Stamped::ByNode { skew_ms } => {
                // A call without an answer may take effect at any time; a retry gets the verdict of the first attempt.
                let ended_us = if recorder.won() { recorder.returned_us } else { None };
                let apart_us = ended_us.map_or(0, |ended_us| self.first_attempt_us(asker).saturating_sub(ended_us));
                apart_us / 1000 <= window_at_most_ms.saturating_add(skew_ms)
            }
        }
    }

    /// Whether a leaf alone gave the verdict of a call, so that other leaves may have given the same one.
    pub fn is_alone(&self, call: &Call) -> bool {
        self.promises.leaves_answer_alone && call.degraded
    }

    /// Whether other sites need not know an event yet, when `lookup` begins, that a leaf alone called first-seen: the
    /// leaf has not brought it to the root, and never does where its node ends before that.
    pub fn may_be_unknown_elsewhere(&self, call: &Call, lookup: &Call) -> bool {
        let began_us = self.first_attempt_us(call);
        let is_settling = lookup.began_us < self.settled_us;
        self.is_alone(call) && (is_settling || self.losses.iter().any(|loss| loss.time_us >= began_us))
    }

    /// Whether a lookup may have been answered at a site that did not know yet that the others had gone on without it.
    pub fn may_be_stale(&self, lookup: &Call) -> bool {
        self.outages.iter().any(|outage| outage.may_hide_from(lookup))
    }

    /// Whether the recording of one call may have explained the verdict of another, and then have been lost with a
    /// node, so that its client asked again.
    pub(crate) fn may_have_recorded_in_vain(&self, recorder: &Call, asker: &Call) -> bool {
        !recorder.is_lookup
            && recorder.began_us < asker.returned_us.unwrap_or(0)
            && self.losses.iter().any(|loss| loss.follows(recorder, asker))
    }

    /// Whether all nodes had one and the same view from one moment to another.
    pub(crate) fn is_steady(&self, from_us: u64, until_us: u64) -> bool {
        let held = self.views.iter().enumerate().filter(|(index, view)| {
            let next = self.views[index + 1..].iter().find(|next| next.node == view.node);
            view.after_us <= until_us && next.is_none_or(|next| next.by_us >= from_us)
        });
        let mut answering = held.map(|(_, view)| view.answering);
        let first = answering.next();
        answering.all(|other| Some(other) == first)
    }

    /// Whether a duplicate need not be a duplicate again. That is so where its recording may have been given up before
    /// `duplicate`, as the view had changed since the recording began, and where the view has changed again since.
    pub(crate) fn may_be_denied(&self, recorders: &[&Call], duplicate: &Call, later: &Call) -> bool {
        let began_us = recorders.iter().map(|call| call.began_us).min().unwrap_or(duplicate.began_us);
        recorders.iter().all(|call| !call.won())
            && !self.is_steady(began_us, duplicate.ended_us())
            && !self.is_steady(duplicate.began_us, later.ended_us())
    }

    /// Whether cells that a call set were lost with one of these nodes.
    pub fn has_lost(&self, call: &Call, nodes: &[usize]) -> bool {
        let began_us = self.first_attempt_us(call);
        let losses = self.losses.iter().filter(|loss| loss.time_us >= began_us);
        let mut concerned = losses.filter(|loss| began_us.saturating_add(SETS_SENT_US) >= loss.since_us);
        concerned.any(|loss| nodes.contains(&loss.node))
    }

    /// Whether the recording of one of two calls about an event may have been lost before both had verdicts.
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
        // The other nodes remember the events of one that is lost, and they alone answer, where they have half of an
        // event's cells.
        let is_outlived = self.promises.outlives_a_node && self.promises.answers_when_set && lost.len() == 1;
        let mut during = self.losses.iter().filter(|loss| (began_us..last_us).contains(&loss.time_us));
        during.any(|loss| {
            let concerned = if is_outlived { &loss.most_of } else { &loss.events };
            concerned.contains(&first.event)
        })
    }

    /// When the first call of the same submission began, which may have recorded the event.
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
        let outages = &mut self.outages.iter();
        outages.try_for_each(|Outage { site, from_us, until_us, is_silent }| {
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
