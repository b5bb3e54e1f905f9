//! Tests disks that neither fail nor respond. First the journal syncs of one node hang for one to sixty seconds, and
//! later the journal syncs of another node. During each hang, every slice has a complete copy on another node, so calls
//! must still get verdicts.

use std::ops::Range;

use crate::common::{OtherSeeds, carried_out, first_found};
use firstseen_checker::laws::judged_of_hung_disks;
use firstseen_routing::rules::Rule;
use firstseen_sim::family::Family;

const SEEDS: Range<u64> = 0..12;
/// Seeds within which a broken rule must be detected.
const BROKEN_SEEDS: Range<u64> = 0..20;

#[test]
#[ignore = "minutes"]
fn every_law_is_kept_and_other_copies_answer() {
    let (mut hangs, mut judged) = (0, 0);
    let hung = Family::named("--hung-disks").expect("hung disks");
    for seed in SEEDS {
        let scenario = hung.without(None, seed);
        let (run, fault) = carried_out(&scenario);
        if let Some(fault) = fault {
            panic!(
                "{scenario}: {fault}\nagain: cargo run -p firstseen-lab -- simulate --hung-disks {seed}..{}",
                seed + 1
            );
        }
        hangs += run.history.periods.hangs.len();
        judged += judged_of_hung_disks(&run.history).count();
    }
    println!("{hangs} disks hung, {judged} calls were made meanwhile");
    assert!(hangs as u64 >= SEEDS.end && judged > 100, "{hangs} hung, {judged} calls meanwhile");
}

#[test]
fn a_node_that_waits_for_its_disk_is_found() {
    let hung = Family::named("--hung-disks").expect("hung disks");
    let found = first_found(2, BROKEN_SEEDS, OtherSeeds::Refused, |seed| {
        let fault = carried_out(&hung.without(Some(Rule::AbandonsHungDisks), seed)).1?;
        Some(fault.lines().next().unwrap_or_default().to_owned())
    });
    let (seed, fault) = found.expect("nobody misses that a disk hangs");
    println!("AbandonsHungDisks: --hung-disks {seed}: {fault}");
    assert!(fault.starts_with("hung disk"), "{fault}");
}
