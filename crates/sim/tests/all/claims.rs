//! Scenarios with consumers that claim events: every law is kept.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::carried_out;
use firstseen_routing::{Decision, Reason};
use firstseen_sim::asked::Asked;

/// The families that are carried out with consumers.
const FAMILIES: [&str; 6] = ["--seeds", "--moves", "--copies", "--durable", "--hung-disks", "--storms"];
/// The seeds that are carried out.
const SEEDS: Range<u64> = 0..1;

/// How often consumers were told what.
fn keep_the_laws(seeds: Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut told = BTreeMap::new();
    for family in FAMILIES {
        for seed in seeds.clone() {
            let args = [family.to_owned(), format!("{seed}..{}", seed + 1), "--claims".to_owned()];
            let asked = Asked::parse(args.into_iter()).expect("arguments");
            let scenario = asked.scenario(seed);
            let (run, fault) = carried_out(&scenario);
            assert_eq!(fault, None, "{scenario}\nagain: cargo run -p firstseen-sim -- {}", asked.again(seed));
            let claims = &run.history.claims;
            *told.entry("granted").or_default() += claims.iter().filter(|claim| claim.grant.is_some()).count() as u64;
            *told.entry("in progress").or_default() +=
                claims.iter().filter(|claim| claim.is_in_progress).count() as u64;
            for call in run.history.calls.iter().filter(|call| call.is_confirm) {
                let what = match call.verdict {
                    Some(Decision::FirstSeen) => "confirmed",
                    Some(Decision::Duplicate) => "recorded before",
                    Some(Decision::Undecided(Reason::Claimed)) => "lost",
                    _ => "undecided",
                };
                *told.entry(what).or_default() += 1;
            }
        }
    }
    println!("{told:?}");
    told
}

#[test]
fn some_consumers_keep_the_laws() {
    let told = keep_the_laws(SEEDS);
    assert!(told["granted"] > 100 && told["confirmed"] > 50 && told["in progress"] > 10, "{told:?}");
}
