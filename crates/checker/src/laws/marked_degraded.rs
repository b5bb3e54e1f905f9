//! Law: if an event is called first-seen again because a node was lost, the verdict is marked as degraded. The mark
//! tells the producer that a slice was incomplete.
//!
//! A producer learns only how many of its verdicts are marked, not which ones. The law therefore compares two numbers:
//! there must be at least as many marked verdicts as events that were first-seen again.

use std::collections::BTreeMap;

use super::{Violation, one_winner};
use crate::history::{Call, History};

const LAW: &str = "marked degraded: more events were first-seen again after a loss than were marked";

pub(super) fn check(history: &History, by_event: &BTreeMap<u64, Vec<&Call>>, violations: &mut Vec<Violation>) {
    // If an event was lost with its head before it was set on other nodes, no node can mark it.
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
