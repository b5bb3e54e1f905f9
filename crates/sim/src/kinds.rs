//! Scenarios whose filter has a different kind from the one that the seed draws. Everything except the filter stays as
//! the seed determines it.

use firstseen_routing::Slicing;

use crate::alteration::Alteration;
use crate::kind_name::kind_of;
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;
use crate::tree::Tree;

/// Seed of the random numbers for kinds, which are independent of the other random numbers of a run.
const OF_KINDS: u64 = 0x3_14D5 << 32;
/// Slicings that do not divide the positions of an event.
const WHOLE_SLICINGS: [&str; 2] = ["none", "horizontal:5"];

impl Scenario {
    /// Returns the scenario with a filter of kind `kind`. The cells of this kind can neither be divided among slices
    /// nor folded. The function therefore replaces a slicing that would divide the cells, and sets the folds of a tree
    /// to 0.
    ///
    /// If a storm alters the filter, two of three alterations also change the kind. The change is either from `kind` to
    /// the kind `timing`, or in the opposite direction.
    pub fn in_kind(self, kind: &'static str) -> Self {
        let mut rng = SeededRng::new(self.seed ^ OF_KINDS);
        let (former, next) = rng.pick(&[(kind, kind), (kind, "timing"), ("timing", kind)]);
        // A filter without a window cannot be altered, so a storm with such a filter has no alteration. This kind has a
        // window.
        let drawn = if self.nemesis == Nemesis::Storm { Alteration::draw(self.seed) } else { self.alteration };
        let alteration = drawn.map(|alteration| Alteration {
            kind: Some(next),
            slicing: fitting(alteration.slicing, next, &mut rng),
            ..alteration
        });
        let kind = if alteration.is_some() { former } else { kind };
        // Fingerprints cannot be folded.
        let tree = self.tree.map(|tree| Tree { folds: vec![0; tree.folds.len()], ..tree });
        Self { kind, slicing: fitting(self.slicing, kind, &mut rng), alteration, tree, ..self }
    }
}

/// Returns the slicing, or another one that the kind supports.
fn fitting(slicing: &'static str, kind: &str, rng: &mut SeededRng) -> &'static str {
    let divides = slicing.parse::<Slicing>().is_ok_and(Slicing::divides_cells);
    if divides && !kind_of(kind).can(firstseen_filter::Ability::Divide) { rng.pick(&WHOLE_SLICINGS) } else { slicing }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::Kind;

    use super::*;
    use crate::alterations;
    use crate::cluster;
    use crate::family::Family;
    use crate::kind_name::CUCKOO;

    #[test]
    fn every_scenario_can_have_the_kind() {
        let (mut altered_from, mut altered_to) = (0, 0);
        for family in Family::ALL {
            for seed in 0..200 {
                let plain = (family.scenario)(seed);
                let scenario = plain.clone().in_kind(CUCKOO);
                let definition = cluster::definition(&scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"));
                let next = scenario.alteration.map(|alteration| {
                    alterations::definition(&scenario, alteration).unwrap_or_else(|error| panic!("{scenario}: {error}"))
                });
                let kinds =
                    [Some(&definition), next.as_ref()].map(|filter| filter.map(|filter| filter.group.cells.kind()));
                assert!(kinds.contains(&Some(Kind::Cuckoo)), "{scenario}");
                altered_from += u64::from(kinds == [Some(Kind::Cuckoo), Some(Kind::Timing)]);
                altered_to += u64::from(kinds == [Some(Kind::Timing), Some(Kind::Cuckoo)]);
                let Scenario { kind, slicing, alteration, tree, .. } = plain.clone();
                assert_eq!(Scenario { kind, slicing, alteration, tree, ..scenario }, plain, "all else is as it was");
            }
        }
        assert!(altered_from > 5 && altered_to > 5, "{altered_from} {altered_to}");
    }
}
