//! Runs one experiment and prints the points that are outside their bands: `judge NAME SEED RUNS tiny|quick|full`.
//!
//! The program prints one line for each point that is out, and fails if there is at least one. It does not depend on
//! what is measured.

use std::process::ExitCode;

use firstseen_eval::{Run, Scale, named};

const USAGE: &str = "judge NAME SEED RUNS tiny|quick|full";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, seed, runs, scale] = &arguments[..] else { return refuse(USAGE) };
    let scale = match scale.as_str() {
        "tiny" => Scale::Tiny,
        "quick" => Scale::Quick,
        "full" => Scale::Full,
        _ => return refuse(USAGE),
    };
    let (Some(experiment), Ok(seed), Ok(runs)) = (named(name), seed.parse(), runs.parse()) else {
        return refuse(USAGE);
    };
    let begun = std::time::Instant::now();
    let clock_ns = || begun.elapsed().as_nanos() as u64;
    let document = match experiment.run(&Run { clock_ns: &clock_ns, ..Run::alone(seed, runs, scale) }) {
        Ok(document) => document,
        Err(error) => return refuse(&error.to_string()),
    };
    for (panel, series, point) in document.out() {
        let expected = point.expected.unwrap_or(f64::NAN);
        println!("{name}, {panel}, {series}, at {}: {:.4e}, not {expected:.4e}", point.x, point.mean);
    }
    let out = document.out().count();
    println!("{name}: {out} of {} points are out, {:.1} s", document.points().count(), begun.elapsed().as_secs_f64());
    if out == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}
