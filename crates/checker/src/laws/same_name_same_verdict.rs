//! Law: all submissions with one idempotency key get the same verdict, however often they are sent.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "same name, same verdict: a submission was called both first-seen and duplicate";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let mut answered: BTreeMap<_, &Call> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| !call.is_lookup) {
        let Some(name) = call.name else { continue };
        let Some(Decision::FirstSeen | Decision::Duplicate) = call.verdict else { continue };
        let earlier = answered.entry(name).or_insert(call);
        if earlier.verdict != call.verdict {
            violations.push(Violation::of(LAW, vec![(*earlier).clone(), call.clone()]));
        }
    }
}
