//! The verdict duplicate means that the event is recorded, by whichever submission: within the window of every
//! submission that can have recorded it, no later call gets first-seen, unless events that slices have lost may be
//! first-seen again.
//!
//! There is one exception: an event that no producer got first-seen for, as its recording was given up half-way. Its
//! cells may be set in some copies of a slice and not in others, or in some slices and not in those that did not count
//! then, which the verdict says (degraded). For that, the nodes that answer must have changed while the event was
//! recorded, and again since the duplicate.
//!
//! There is another one: a lookup's find may be lost. That is so if the disk of the node that holds the cells was full,
//! and its process has then ended. The history does not say which node answered, so any node that has all cells counts.

use super::Violation;
use crate::history::{Call, EndOnFullDisk, History};
use firstseen_routing::Decision;

const LAW: &str = "no first-seen after a duplicate: an event that was known was new again within its window";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    let forgets_nothing = history.promises.never_forgets && history.promises.answers_when_set;
    for duplicate in calls.iter().filter(|call| call.verdict == Some(Decision::Duplicate)) {
        let Some(returned_us) = duplicate.returned_us else { continue };
        let recorders: Vec<&Call> = calls
            .iter()
            .filter(|call| call.id != duplicate.id && call.may_have_recorded() && call.began_us < returned_us)
            .copied()
            .collect();
        let is_partial = history.promises.has_copies || duplicate.degraded;
        let first_us = recorders.iter().map(|call| call.began_us).min().unwrap_or(0);
        let is_lost = |first: &Call| {
            let mut lost = history.lost_while_full.iter();
            lost.any(|EndOnFullDisk { from_us, until_us, events, .. }| {
                events.contains(&duplicate.event)
                    && duplicate.began_us <= *until_us
                    && *from_us <= returned_us
                    && first.returned_us.is_none_or(|returned_us| returned_us > *until_us)
            })
        };
        let contradicts = |first: &&&Call| {
            let since_us = first_us..first.returned_us.unwrap_or(u64::MAX);
            let is_same = |call: &&Call| call.name.is_some() && call.name == first.name;
            first.won()
                // A confirm tests nothing: its holder has delivered the event.
                && !first.is_confirm
                && first.began_us > returned_us
                && !recorders.iter().any(is_same)
                && duplicate.name.is_none_or(|name| first.name != Some(name))
                && !recorders.is_empty()
                && !(is_partial && history.may_be_denied(&recorders, duplicate, first))
                && recorders.iter().all(|call| history.are_within_window(call, first))
                && !(duplicate.is_lookup && is_lost(first))
                && !history.is_alone(first)
                && !history
                    .forgiven
                    .iter()
                    .any(|forgiven| forgiven.ended_us >= since_us.start && forgiven.begun_us <= since_us.end)
                && (forgets_nothing || !history.losses.iter().any(|loss| since_us.contains(&loss.time_us)))
        };
        if let Some(first) = calls.iter().find(contradicts) {
            violations.push(Violation::of(LAW, vec![(*duplicate).clone(), (*first).clone()]));
        }
    }
}
