//! Law: if an event got the verdict duplicate, no later call gets first-seen for it within the window. A duplicate
//! shows that some submission has recorded the event, but the history does not state which one. The law is therefore
//! violated only if the later first-seen lies within the window of every submission that may have recorded the event.
//!
//! This law does not apply if the filter's policy allows lost events to be first-seen again.
//!
//! There are four exceptions in which an event may be first-seen after a duplicate.
//!
//! The first exception is an event whose recording was abandoned half-way, so that no producer got first-seen for it.
//! In that case, only some of its cells or only some copies of a slice may have been set, and different nodes can reach
//! different verdicts. The exception therefore applies only if the answering nodes changed twice: between the begin of
//! the recording and the duplicate, and again after the duplicate.
//!
//! The second exception is an event that a lookup found on a node with a full disk, where the event existed only in
//! memory. If the node's process ends before the event is written to the disk, the event is lost and may be first-seen
//! again. The history does not state which node answered the lookup. The exception therefore applies if any node that
//! had all cells of the event has lost its process in this way.
//!
//! The third exception is an event of a filter tree that a leaf has decided alone while its site was cut off. The leaf
//! itself calls further submissions duplicates, but the other sites can call the event first-seen until the leaf has
//! reported it to the root. The event is then delivered twice, which trees with `CutOff::Local` accept.
//!
//! The fourth exception is an event of a tree with top-down checks whose recording was abandoned after the root and before
//! the leaf had recorded it, because the root replied too late or a node ended. No producer got first-seen for it. The
//! root calls it a duplicate as long as some leaf is incomplete, or is still deciding about it. Then all leaves refute
//! it, and it is first-seen.

use super::Violation;
use crate::history::{Call, EndOnFullDisk, History};
use firstseen_routing::Decision;

const LAW: &str = "no first-seen after a duplicate: a known event was new again within its window";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    for duplicate in calls.iter().filter(|call| call.verdict == Some(Decision::Duplicate)) {
        let Some(returned_us) = duplicate.returned_us else { continue };
        let recorders: Vec<&Call> = calls
            .iter()
            .filter(|call| call.id != duplicate.id && call.may_have_recorded() && call.began_us < returned_us)
            .copied()
            .collect();
        let known = Known { history, duplicate, returned_us, recorders };
        if let Some(first) = calls.iter().find(|first| known.is_contradicted_by(first)) {
            violations.push(Violation::of(LAW, vec![(*duplicate).clone(), (*first).clone()]));
        }
    }
}

/// An event that was reported as known to a call.
struct Known<'a> {
    history: &'a History,
    duplicate: &'a Call,
    /// Time at which that call returned.
    returned_us: u64,
    /// The calls that may have recorded the event for it.
    recorders: Vec<&'a Call>,
}

impl Known<'_> {
    /// Returns whether `first` called the event new although it was certainly still known.
    fn is_contradicted_by(&self, first: &Call) -> bool {
        let Self { history, duplicate, recorders, .. } = self;
        let is_partial = history.promises.has_copies || duplicate.degraded;
        first.won()
            // A confirmation tests nothing, because its holder has already delivered the event.
            && !first.is_confirm
            && first.began_us > self.returned_us
            && !recorders.iter().any(|call| call.is_same_submission(first))
            && !duplicate.is_same_submission(first)
            && !recorders.is_empty()
            && !(is_partial && history.may_be_denied(recorders, duplicate, first))
            && !self.may_be_refuted()
            && recorders.iter().all(|call| history.are_within_window(call, first))
            && !(duplicate.is_lookup && self.is_lost_on_full_disk(first))
            && !history.is_alone(first)
            && !self.is_unreported(first)
            && !self.may_be_forgotten(first)
    }

    /// Returns whether the duplicate may rest on an event that a leaf at another site than that of `first` has decided
    /// alone and has not reported to the root.
    fn is_unreported(&self, first: &Call) -> bool {
        let mut elsewhere = self.recorders.iter().filter(|recorder| recorder.site != first.site);
        elsewhere.any(|recorder| self.history.may_be_unknown_elsewhere(recorder, first))
    }

    /// Returns whether the levels of a tree may refute the event, because its recording was abandoned between two of
    /// them. No call got first-seen for it then.
    fn may_be_refuted(&self) -> bool {
        self.history.promises.levels_refute && self.recorders.iter().all(|call| !call.won())
    }

    /// Returns whether the lookup was answered from the memory of a node that then ended on a full disk.
    fn is_lost_on_full_disk(&self, first: &Call) -> bool {
        self.history.lost_while_full.iter().any(|EndOnFullDisk { from_us, until_us, events, .. }| {
            events.contains(&self.duplicate.event)
                && self.duplicate.began_us <= *until_us
                && *from_us <= self.returned_us
                && first.returned_us.is_none_or(|returned_us| returned_us > *until_us)
        })
    }

    /// Returns whether losses were forgiven, or cells were lost, between the first recording and the end of `first`.
    fn may_be_forgotten(&self, first: &Call) -> bool {
        let Self { history, recorders, .. } = self;
        let from_us = recorders.iter().map(|call| call.began_us).min().unwrap_or(0);
        let until_us = first.ended_us();
        let mut forgiven = history.forgiven.iter();
        if forgiven.any(|forgiven| forgiven.ended_us >= from_us && forgiven.begun_us <= until_us) {
            return true;
        }
        let forgets_nothing = history.promises.never_forgets && history.promises.answers_when_set;
        !forgets_nothing && history.losses.iter().any(|loss| (from_us..until_us).contains(&loss.time_us))
    }
}
