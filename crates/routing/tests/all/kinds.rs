//! Tests every kind of [`Kind::ALL`] in slices and in a cluster. New kinds are included automatically.

use std::num::NonZeroU32;

use firstseen_filter::{Ability, FilterSpec, Kind, Refresh};
use firstseen_routing::{Answer, Durability, FilterPolicies, SlicedDefinition, check};

use crate::common::{self, TestRng, definition, observe};

const EVENTS: usize = 3000;

fn with_verdicts() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !kind.estimates_frequencies())
}

fn spec(kind: Kind) -> FilterSpec {
    FilterSpec { capacity_events: Some(10_000), ..FilterSpec::new(kind, kind.default_window()) }
}

/// Returns the slicings that a kind supports.
fn slicings(kind: Kind) -> &'static [&'static str] {
    if kind.can(Ability::Divide) { &["none", "horizontal:3", "vertical:4"] } else { &["none", "horizontal:3"] }
}

#[test]
fn slices_answer_as_one_filter_does() {
    for kind in with_verdicts() {
        let spec = spec(kind);
        let misses_nothing = spec.resolve().unwrap().cells.misses_nothing();
        for slicing in slicings(kind) {
            let stream = common::stream(&mut TestRng(3), EVENTS, 500, 10, 0);
            let mut filter = common::filter(&spec, slicing);
            let answers = observe(&mut filter, &stream, 100);
            let again = observe(&mut filter, &stream, 100);
            let duplicates = common::count(&again, Answer::Duplicate);
            assert!(common::count(&answers, Answer::FirstSeen) > 400, "kind {kind}, {slicing}");
            assert!(!misses_nothing || duplicates == EVENTS, "kind {kind}, {slicing}: {duplicates} duplicates");
        }
    }
}

#[test]
fn a_cluster_accepts_what_the_kind_can_have() {
    for kind in with_verdicts() {
        for slicing in slicings(kind) {
            let definition: SlicedDefinition = definition(&spec(kind), slicing);
            check::check_definition(&definition).unwrap();
            let has_parts = kind.can(Ability::Parts);
            let durability = check::check_durability(&definition, Durability::Durable);
            assert_eq!(durability.is_ok(), has_parts, "kind {kind}, {slicing}: {durability:?}");
            let copies = check::check_copies(&definition, 1);
            assert_eq!(copies.is_ok(), has_parts, "kind {kind}, {slicing}: {copies:?}");
            let policies = FilterPolicies { claim_lease_max_ms: NonZeroU32::new(10_000), ..FilterPolicies::default() };
            let claims = check::check_claims(&definition, &policies, None);
            let keeps = kind.can(Ability::KeepForWindow) && definition.group.cells.refresh() == Refresh::Fixed;
            assert_eq!(claims.is_ok(), keeps, "kind {kind}, {slicing}: {claims:?}");
        }
    }
}
