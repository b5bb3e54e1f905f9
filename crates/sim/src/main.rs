//! Runs scenarios: `cargo run -p firstseen-sim -- --seeds 0..100`.

use std::process::ExitCode;

use firstseen_sim::laws::check;
use firstseen_sim::producers::undecided;
use firstseen_sim::run::run;
use firstseen_sim::scenario::Scenario;

fn main() -> ExitCode {
    let Some(seeds) = seeds(std::env::args().skip(1)) else {
        eprintln!("usage: firstseen-sim --seeds FIRST..END");
        return ExitCode::from(2);
    };
    let mut failed = 0;
    for seed in seeds {
        let scenario = Scenario::new(seed);
        match run(&scenario) {
            Ok(history) => {
                let violations = check(&history);
                let calls = history.calls.len();
                println!("{scenario}: {calls} calls, undecided {:?}, {} faults", undecided(&history), violations.len());
                violations.iter().for_each(|violation| println!("{violation}"));
                failed += usize::from(!violations.is_empty());
            }
            Err(error) => {
                println!("{scenario}: the run did not end: {error}");
                failed += 1;
            }
        }
        if failed > 0 {
            println!("again: cargo run -p firstseen-sim -- --seeds {seed}..{}", seed + 1);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn seeds(mut args: impl Iterator<Item = String>) -> Option<std::ops::Range<u64>> {
    let (flag, value) = (args.next()?, args.next()?);
    let (first, end) = value.split_once("..")?;
    (flag == "--seeds" && args.next().is_none()).then_some(first.parse().ok()?..end.parse().ok()?)
}
