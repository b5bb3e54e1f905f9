//! A build that is broken on purpose is flagged by an experiment; the sound one is not.

use firstseen_eval::{Broken, Document, Run, Scale, named};

/// The experiment as a sound build and as a broken one find it.
fn sound_and_broken(name: &str, seeds: u32, broken: Broken) -> [Document; 2] {
    let experiment = named(name).unwrap();
    let run = |broken| Run { seed: 1, seeds, scale: Scale::Tiny, logs: &[], progress: &|_, _| (), broken };
    [None, Some(broken)].map(|broken| experiment.run(&run(broken)).unwrap())
}

/// Points that are out, one a line.
fn out(document: &Document) -> Vec<String> {
    let told = |(panel, series, point): (&str, &str, &firstseen_eval::document::Point)| {
        let (x, mean, expected) = (point.x, point.mean, point.expected.unwrap_or(f64::NAN));
        format!("{}, {panel}, {series}, at {x}: {mean:.4e}, not {expected:.4e}", document.name)
    };
    document.out().map(told).collect()
}

#[track_caller]
fn is_flagged(name: &str, seeds: u32, broken: Broken) {
    let [sound, lame] = sound_and_broken(name, seeds, broken).map(|document| out(&document));
    println!("{broken:?}: {} points are out\n{}", lame.len(), lame.join("\n"));
    assert!(sound.is_empty(), "the sound build: {sound:#?}");
    assert!(!lame.is_empty(), "{name} does not notice {broken:?}");
}

#[test]
fn a_hash_position_that_is_reused_is_flagged() {
    is_flagged("landmark", 20, Broken::PositionReused);
}

#[test]
fn timers_that_duplicates_refresh_are_flagged() {
    is_flagged("timers", 4, Broken::TimersRefreshed);
}

#[test]
fn a_threshold_that_is_off_by_one_is_flagged() {
    is_flagged("faults", 4, Broken::ThresholdOffByOne);
}
