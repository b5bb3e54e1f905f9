//! What tests of scenarios share.

use firstseen_checker::laws::check;
use firstseen_sim::run::{Run, run};
use firstseen_sim::scenario::Scenario;

/// A run, and the first law that it breaks.
pub(crate) fn carried_out(scenario: &Scenario) -> (Run, Option<String>) {
    let run = run(scenario).unwrap_or_else(|error| panic!("{scenario}: {error}"));
    let fault = check(&run.history).first().map(ToString::to_string);
    (run, fault)
}
