//! An event that is first-seen again because a node was lost is marked: its verdict says that a slice is incomplete. (A
//! producer gets only the number of such marks.)

use std::collections::BTreeMap;

use super::{Violation, one_winner};
use crate::history::{Call, History};

const LAW: &str = "marked degraded: more events were first-seen again for a loss than were marked";

pub(super) fn check(history: &History, by_event: &BTreeMap<u64, Vec<&Call>>, violations: &mut Vec<Violation>) {
    // No node can mark an event that was lost with its head before it was set elsewhere.
    if history.promises.never_forgets || !history.promises.answers_when_set {
        return;
    }
    let rivals = by_event.values().flat_map(|calls| one_winner::rivals(history, calls));
    let lost = rivals.filter(|(first, second)| history.may_have_lost(first, second));
    let again: BTreeMap<usize, &Call> = lost.map(|(_, second)| (second.id, second)).collect();
    if again.len() as u64 > history.degraded_events {
        violations.push(Violation::of(LAW, again.into_values().cloned().collect()));
    }
}
