//! Checks that alerts fire if the clock of a node differs from the clocks of the other nodes, or is wrong.

use super::fires::{greatest, rules};
use super::recording::{Recording, has_promtool};
use crate::clock_ahead::AheadClock;
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

#[test]
fn alerts_fire_when_a_clock_is_apart_and_when_it_is_wrong() {
    let folder = Folder::new();
    let Some(clock) = AheadClock::build(&folder).filter(|_| has_promtool()) else { return };
    // The warning threshold is half of `clock_skew_max_ms`, which is 500.
    for (ahead_ms, fire) in [
        (750, &["FirstseenClockIsApart"][..]),
        (60_000, &["FirstseenClockIsApart", "FirstseenClockIsWrong", "FirstseenNodeNotReady"]),
    ] {
        let http = free_ports(1);
        let ahead =
            OwnNode::start_with(clock.environment(ahead_ms), "ahead", &format!("http_listen = \"127.0.0.1:{http}\"\n"));
        let others = ["b", "c"].map(|name| OwnNode::start(name, ""));
        let form = format!("cluster form {} {} {}", others[0].address, others[1].address, ahead.address);
        eventually("a cluster", || others[0].folder.run(&form).code == Some(0));
        let scraped = format!("127.0.0.1:{http}");
        eventually("its clock is measured", || {
            let is_wrong = f64::from(u8::from(fire.len() > 1));
            greatest(&scraped, "firstseen_clock_apart") == 1.0
                && greatest(&scraped, "firstseen_clock_wrong") == is_wrong
                && greatest(&scraped, "firstseen_ready") == 1.0 - is_wrong
                && greatest(&scraped, "firstseen_peer_unreachable") == 0.0
        });
        let mut recording = Recording::of(&[scraped]);
        recording.scrape(0);
        recording.scrape(20);
        recording.assert_alerts(&rules(), &[(0, &[]), (19, fire)]);
    }
}
