//! Checks that code which runs in a simulation makes no random choices of its own. Such code must not use `select!`
//! without `biased`, or tokio's `watch` channel, because both wake tasks in a random order. A simulation must be
//! repeatable: its seed must determine everything that happens, including the order in which tasks wake.

use firstseen_tidy::{Source, sources};

/// Crates that run in a simulation.
const SIMULATED: [&str; 6] = [
    "crates/wire/src/",
    "crates/meta/src/",
    "crates/node/src/",
    "crates/client/src/",
    "crates/redis-endpoint/src/",
    "crates/sim/src/",
];

/// File that may use tokio's `watch`. It has a single receiver, so the channel does not choose a random order of
/// receivers.
const ONE_RECEIVER: &str = "crates/node/src/links/incoming.rs";

/// Returns the violations in a source file.
fn faults(source: &Source) -> Vec<String> {
    let Source { path, text } = source;
    let biased = |rest: &str| rest.trim_start().starts_with("biased;");
    let unbiased = text.split("select! {").skip(1).filter(|rest| !biased(rest)).count();
    let draws = |line: &&str| line.contains("use tokio::sync::") && line.contains("watch");
    let watches = text.lines().filter(draws).filter(|_| path != ONE_RECEIVER).count();
    let unbiased = (unbiased > 0).then(|| format!("{path}: {unbiased} `select!` without `biased` draw their order"));
    let watches = (watches > 0).then(|| format!("{path}: tokio's `watch` draws the order of waking, wire's does not"));
    unbiased.into_iter().chain(watches).collect()
}

#[test]
fn nothing_that_is_simulated_draws_its_order() {
    let sources = sources();
    let simulated = sources.iter().filter(|source| SIMULATED.iter().any(|folder| source.path.starts_with(folder)));
    let faults: Vec<String> = simulated.flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_draws_is_found() {
    let source = |text: &str| Source { path: "x.rs".to_owned(), text: text.to_owned() };
    let drawn = ["tokio::select! {\n a = b => {}\n}", "use tokio::sync::{mpsc, watch};"];
    let settled = ["tokio::select! {\n    biased;\n a = b => {}\n}", "use tokio::sync::mpsc;"];
    assert!(drawn.iter().all(|text| faults(&source(text)).len() == 1));
    assert!(settled.iter().all(|text| faults(&source(text)).is_empty()));
}
