//! Alerts that fire when the clock of a node is apart from those of the others, or wrong. What a node reads of the time of day goes
//! through a library that is loaded before the system's: no test can set the clock of the machine.

use std::path::PathBuf;
use std::process::Command;

use super::fires::{greatest, rules};
use super::recording::{Recording, has_promtool};
use crate::local_cluster::eventually;
use crate::own_node::OwnNode;
use crate::ports::free_ports;
use crate::run::Folder;

/// The system's clock, `AHEAD_MS` later.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*system)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = system(clock, now);
    if (!failed && clock == CLOCK_REALTIME) {
        long long ns = now->tv_nsec + atoll(getenv("AHEAD_MS")) * 1000000;
        now->tv_sec += ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return failed;
}
"#;

/// The library; none where there is no compiler.
fn clock(folder: &Folder) -> Option<PathBuf> {
    folder.write("clock.c", CLOCK);
    let library = folder.path("clock.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(folder.path("clock.c")).status();
    let is_built = built.is_ok_and(|status| status.success());
    if !is_built {
        eprintln!("no C compiler: alerts of clocks are not caused");
    }
    is_built.then_some(library)
}

#[test]
fn alerts_fire_when_a_clock_is_apart_and_when_it_is_wrong() {
    let folder = Folder::new();
    let Some(clock) = clock(&folder).filter(|_| has_promtool()) else { return };
    // Half of `clock_skew_max_ms` is 500.
    for (ahead_ms, fire) in [
        ("750", &["FirstseenClockIsApart"][..]),
        ("60000", &["FirstseenClockIsApart", "FirstseenClockIsWrong", "FirstseenNodeNotReady"]),
    ] {
        let environment = || vec![("LD_PRELOAD", clock.display().to_string()), ("AHEAD_MS", ahead_ms.to_owned())];
        let http = free_ports(1);
        let ahead = OwnNode::start_with(environment(), "ahead", &format!("http_listen = \"127.0.0.1:{http}\"\n"));
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
        recording.must_fire(&rules(), &[(0, &[]), (19, fire)]);
    }
}
