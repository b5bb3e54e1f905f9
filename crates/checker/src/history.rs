//! What producers asked and were told, in simulated time.
//!
//! Promises: plain data; the same run gives the same history, byte by byte. Must not know: how answers came about.

use std::collections::BTreeSet;
use std::fmt;

use firstseen_routing::{Decision, SubmissionName};

/// One call of a producer, from its start to its return.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The number of the call in its history.
    pub id: usize,
    /// Who called.
    pub producer: u32,
    /// The site of the caller, where there are sites.
    pub site: Option<usize>,
    /// The event that was asked about.
    pub event: u64,
    /// When the event occurred, in milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it was only looked up.
    pub is_lookup: bool,
    /// The name that the caller gave to the submission.
    pub name: Option<SubmissionName>,
    /// When the call began, in simulated microseconds.
    pub began_us: u64,
    /// When it returned; none if it never did.
    pub returned_us: Option<u64>,
    /// What was told; none if the call never returned.
    pub told: Option<Decision>,
    /// What was told may be so for want of slices or levels; known in trees that tell without the levels above.
    pub degraded: bool,
}

impl Call {
    /// Whether the event may have been recorded by this call.
    pub fn may_have_recorded(&self) -> bool {
        if self.is_lookup {
            return false;
        }
        match self.told {
            None | Some(Decision::FirstSeen) => true,
            Some(Decision::Undecided(reason)) => reason.may_have_recorded(),
            Some(Decision::Duplicate) => false,
        }
    }

    /// Whether this call was told that the event was new, and recorded it.
    pub fn won(&self) -> bool {
        !self.is_lookup && self.told == Some(Decision::FirstSeen)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, producer, site, event, time_ms, is_lookup, name, began_us, returned_us, told, degraded } = self;
        write!(f, "call {id}: producer {producer} event {event} at {time_ms} ms, {began_us}..{returned_us:?} us")?;
        if let Some(site) = site {
            write!(f, ", site {site}")?;
        }
        if *is_lookup {
            write!(f, ", lookup")?;
        }
        if let Some(name) = name {
            write!(f, ", named {}:{}", name.source, name.number)?;
        }
        write!(f, ": {told:?}{}", if *degraded { ", degraded" } else { "" })
    }
}

/// After so long a site that was cut off belongs to the others again.
pub const REJOINED_US: u64 = 5_000_000;

/// How long sets may be on their way, though connections break.
const SETS_SENT_US: u64 = 5_000_000;

/// The end of a node's process, and of all that it had in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The number of the node.
    pub node: usize,
    /// When, in simulated microseconds.
    pub time_us: u64,
    /// What it had before that is not lost: its process goes on, and was only away.
    pub since_us: u64,
    /// The events that have cells there.
    pub events: BTreeSet<u64>,
    /// Those that have more than half of their cells there.
    pub most_of: BTreeSet<u64>,
}

/// A time in which one site could not reach the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// The site.
    pub site: usize,
    /// Its beginning, in simulated microseconds.
    pub from_us: u64,
    /// Its end.
    pub until_us: u64,
    /// Connections outlive it.
    pub is_silent: bool,
}

impl Outage {
    /// Whether a call began and returned in this time.
    pub fn has_all_of(&self, call: &Call) -> bool {
        call.began_us >= self.from_us && call.returned_us.is_some_and(|returned_us| returned_us <= self.until_us)
    }
}

/// A time in which what the filter has lost was forgiven: what was recorded before it may be new after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgiven {
    /// Its beginning, in simulated microseconds.
    pub begun_us: u64,
    /// Its end.
    pub ended_us: u64,
}

/// What a node believed from a moment on of who answers for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The number of the node.
    pub node: usize,
    /// It may have believed it since then, in simulated microseconds.
    pub after_us: u64,
    /// It did at this moment.
    pub by_us: u64,
    /// What it believed: others that believed the same have the same number here.
    pub answering: u64,
}

/// Who says when an event occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamped {
    /// Who asks about it. One that comes later than this is judged as if it had occurred later.
    ByProducer {
        /// The time of day when the history began, in milliseconds since 1970.
        began_ms: u64,
        /// In milliseconds.
        lateness_ms: u64,
    },
    /// The node that it comes to, whose clock and another node's may differ by so much.
    ByNode {
        /// In milliseconds.
        skew_ms: u64,
    },
}

impl Default for Stamped {
    fn default() -> Self {
        Self::ByProducer { began_ms: 0, lateness_ms: u64::MAX }
    }
}

/// A delivery of which a level has no cells in the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Unset {
    /// The number of the call that was told first-seen.
    pub call: usize,
    /// The place of the level.
    pub place: String,
}

/// What the cells of complete copies are in the end, compared with what was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellsRead {
    /// Copies that were read.
    pub copies: u64,
    /// Copies that were not, as they lack something.
    pub incomplete_copies: u64,
    /// Events that had to have all their cells of a copy set, one by one copy.
    pub events_due: u64,
    /// Cells that were set.
    pub cells_set: u64,
    /// What is wrong with them.
    pub wrong: Vec<String>,
}

impl CellsRead {
    /// Adds what was found in another run.
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

/// All calls of a run, and what the checker must know of the filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// In the order in which they began.
    pub calls: Vec<Call>,
    /// In the order in which they happened.
    pub losses: Vec<Loss>,
    /// In the order in which they happened.
    pub outages: Vec<Outage>,
    /// In the order in which they happened.
    pub forgiven: Vec<Forgiven>,
    /// From when to when the disk of a node hung though all was well else, in simulated microseconds: only where every
    /// slice has a complete copy elsewhere.
    pub hangs: Vec<(u64, u64)>,
    /// From when to when the clock of a node was wrong, in simulated microseconds.
    pub wrong_clocks: Vec<(u64, u64)>,
    /// What nodes believed of who answers for what, those of a node in the order of their times. Where there are none, it was
    /// the same all the while.
    pub views: Vec<View>,
    /// What was looked for in the end and is not there.
    pub unset: Vec<Unset>,
    /// What was found in the cells of copies in the end.
    pub cells: CellsRead,
    /// Slices of which a copy lacked in the end what another had.
    pub lagging: Vec<u32>,
    /// When a node said that it is ready, in simulated microseconds, the node, and a slice of which it lacked then what another
    /// copy had.
    pub ready_without: Vec<(u64, usize, u32)>,
    /// Copies that have begun to move.
    pub moves_begun: u64,
    /// Who says when events occurred.
    pub stamped: Stamped,
    /// When nothing went wrong any more and everything was complete, in simulated microseconds.
    pub healed_us: Option<u64>,
    /// No slice lacks anything by then; otherwise one may, for good.
    pub ends_whole: bool,
    /// What was not as it should have been by then.
    pub unhealed: Option<String>,
    /// When that was over, in simulated microseconds; 0 where nothing was looked for.
    pub settled_us: u64,
    /// First-seen is told when the cells are set.
    pub told_when_set: bool,
    /// Slices have copies: what is known of an event whose recording was given up may differ.
    pub has_copies: bool,
    /// Of what slices have lost, events are undecided, and not first-seen again.
    pub never_forgets: bool,
    /// Cells on two of three nodes are enough for a verdict.
    pub outlives_a_node: bool,
    /// Leaves tell without the levels above when they cannot be reached.
    pub tells_alone: bool,
    /// Answers that producers were given with the mark that a slice is incomplete.
    pub degraded_events: u64,
    /// The window that is promised, in milliseconds.
    pub window_ms: u64,
    /// The window with everything that rounding may add.
    pub window_at_most_ms: u64,
}

impl History {
    /// Starts a call and returns its number.
    pub fn begin(&mut self, call: Call) -> usize {
        let id = self.calls.len();
        self.calls.push(Call { id, ..call });
        id
    }

    /// Whether a call was certainly judged by the time at which its event occurred.
    fn is_exact(&self, call: &Call) -> bool {
        let Stamped::ByProducer { began_ms, lateness_ms } = self.stamped else { return true };
        let latest_ms = call.returned_us.map_or(u64::MAX, |returned_us| began_ms.saturating_add(returned_us / 1000));
        latest_ms.saturating_sub(call.time_ms) < lateness_ms
    }

    /// Whether two submissions of an event, or a lookup and a submission, are certainly less than a window apart.
    pub fn are_within_window(&self, first: &Call, second: &Call) -> bool {
        match self.stamped {
            Stamped::ByProducer { .. } if !self.is_exact(first) || !self.is_exact(second) => false,
            Stamped::ByProducer { .. } => first.time_ms.abs_diff(second.time_ms) < self.window_ms,
            Stamped::ByNode { .. } => {
                let most_us =
                    |from: &Call, to: &Call| Some(to.returned_us?.saturating_sub(self.first_attempt_us(from)));
                let apart_us = most_us(first, second).zip(most_us(second, first)).map(|(one, other)| one.max(other));
                apart_us.is_some_and(|apart_us| apart_us < self.window_ms.saturating_mul(1000))
            }
        }
    }

    /// Whether an event that `recorder` may have recorded may still be known when `asker` asks. (One that occurred later
    /// explains a duplicate however much later: who comes late finds what was recorded before him.)
    pub fn may_be_known(&self, recorder: &Call, asker: &Call) -> bool {
        match self.stamped {
            Stamped::ByProducer { .. } => asker.time_ms.saturating_sub(recorder.time_ms) <= self.window_at_most_ms,
            Stamped::ByNode { skew_ms } => {
                // What has no answer may take effect at any time; who asks again is told what he was to be told first.
                let ended_us = if recorder.won() { recorder.returned_us } else { None };
                let apart_us = ended_us.map_or(0, |ended_us| self.first_attempt_us(asker).saturating_sub(ended_us));
                apart_us / 1000 <= self.window_at_most_ms.saturating_add(skew_ms)
            }
        }
    }

    /// Whether a call was told by a leaf alone, and others may have been told the same.
    pub fn is_alone(&self, call: &Call) -> bool {
        self.tells_alone && call.degraded
    }

    /// Whether what a leaf told alone need not be known elsewhere when `lookup` begins: it has not been brought up, and
    /// never is where a node ends before that.
    pub fn may_be_unknown_elsewhere(&self, call: &Call, lookup: &Call) -> bool {
        let began_us = self.first_attempt_us(call);
        let is_lost = || self.losses.iter().any(|loss| loss.time_us >= began_us);
        self.is_alone(call) && (lookup.began_us < self.settled_us || is_lost())
    }

    /// Whether a lookup may have been answered at a site that did not know yet that the others had gone on without it.
    pub fn may_be_stale(&self, lookup: &Call) -> bool {
        let has_not_heard = |outage: &Outage| {
            let away = outage.from_us..outage.until_us.saturating_add(REJOINED_US);
            lookup.site.is_none_or(|site| site == outage.site) && away.contains(&lookup.began_us)
        };
        self.outages.iter().any(has_not_heard)
    }

    /// Whether what a call has recorded may have explained what another was told, and then have gone with a node, so that its
    /// client asked again.
    pub(crate) fn may_have_recorded_in_vain(&self, recorder: &Call, asker: &Call) -> bool {
        let until_us = recorder.returned_us.unwrap_or(u64::MAX);
        let is_explained = |loss: &Loss| {
            asker.returned_us.is_some_and(|returned_us| returned_us <= loss.time_us)
                && (recorder.began_us..until_us).contains(&loss.time_us)
        };
        !recorder.is_lookup
            && recorder.began_us < asker.returned_us.unwrap_or(0)
            && self.losses.iter().any(is_explained)
    }

    /// Whether all nodes believed the same of who answers for what, from one moment to another.
    pub(crate) fn is_steady(&self, from_us: u64, until_us: u64) -> bool {
        let ended_us = |index: usize| {
            let node = self.views[index].node;
            let next = self.views[index + 1..].iter().find(|view| view.node == node);
            next.map_or(u64::MAX, |next| next.by_us)
        };
        let held = self.views.iter().enumerate();
        let held = held.filter(|(index, view)| view.after_us <= until_us && ended_us(*index) >= from_us);
        let mut answering = held.map(|(_, view)| view.answering);
        let first = answering.next();
        answering.all(|other| Some(other) == first)
    }

    /// Whether what was found of an event need not be found again: its recording may have been given up by `duplicate`, as others
    /// answered then than when it began, and others answer again than those who had found it.
    pub(crate) fn may_be_denied(&self, recorders: &[&Call], duplicate: &Call, later: &Call) -> bool {
        let until_us = |call: &Call| call.returned_us.unwrap_or(u64::MAX);
        let began_us = recorders.iter().map(|call| call.began_us).min().unwrap_or(duplicate.began_us);
        recorders.iter().all(|call| !call.won())
            && !self.is_steady(began_us, until_us(duplicate))
            && !self.is_steady(duplicate.began_us, until_us(later))
    }

    /// Whether cells that a call set went with one of these nodes.
    pub fn has_lost(&self, call: &Call, nodes: &[usize]) -> bool {
        let began_us = self.first_attempt_us(call);
        let concerned =
            |loss: &&Loss| loss.time_us >= began_us && began_us.saturating_add(SETS_SENT_US) >= loss.since_us;
        self.losses.iter().filter(concerned).any(|loss| nodes.contains(&loss.node))
    }

    /// Whether what one of two calls about an event recorded may have been lost before both were told of it.
    pub fn may_have_lost(&self, first: &Call, second: &Call) -> bool {
        let began_us = self.first_attempt_us(first).min(self.first_attempt_us(second));
        let returned_us = |call: &Call| call.returned_us.unwrap_or(u64::MAX);
        let last_us = returned_us(first).max(returned_us(second));
        if self.forgiven.iter().any(|forgiven| began_us <= forgiven.ended_us && forgiven.begun_us <= last_us) {
            return true;
        }
        if self.never_forgets {
            // But what a head had told before others had its cells may have gone with it.
            let told_us = returned_us(first).min(returned_us(second)).saturating_add(SETS_SENT_US);
            let went = |loss: &Loss| (began_us..told_us).contains(&loss.time_us) && loss.events.contains(&first.event);
            return !self.told_when_set && self.losses.iter().any(went);
        }
        let during = began_us..last_us;
        let mut lost: Vec<usize> = self.losses.iter().map(|loss| loss.node).collect();
        lost.sort_unstable();
        lost.dedup();
        // What one node has lost the others remember, and they alone vote, where they have half of an event's cells.
        let is_outlived = self.outlives_a_node && self.told_when_set && lost.len() == 1;
        let concerned = |loss: &Loss| {
            if is_outlived { loss.most_of.contains(&first.event) } else { loss.events.contains(&first.event) }
        };
        self.losses.iter().any(|loss| during.contains(&loss.time_us) && concerned(loss))
    }

    /// When the first call of the same submission began, which may have recorded the event.
    pub fn first_attempt_us(&self, call: &Call) -> u64 {
        let is_same = |other: &&Call| other.name.is_some() && other.name == call.name;
        let attempts = self.calls.iter().filter(is_same).map(|attempt| attempt.began_us);
        attempts.min().unwrap_or(call.began_us)
    }

    /// Ends a call.
    pub fn end(&mut self, id: usize, returned_us: u64, told: Decision, degraded: bool) {
        if let Some(call) = self.calls.get_mut(id) {
            (call.returned_us, call.told, call.degraded) = (Some(returned_us), Some(told), degraded);
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.iter().try_for_each(|call| writeln!(f, "{call}"))?;
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
        if let Some(healed_us) = self.healed_us {
            writeln!(f, "healed at {healed_us} us, but for {:?}", self.unhealed)?;
        }
        writeln!(f, "{} answers degraded", self.degraded_events)
    }
}
