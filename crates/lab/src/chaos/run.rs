//! Runs a scenario of `firstseen-lab chaos`. The module starts producers in a separate process, and executes each step
//! of the scenario at its time, in the order of the file. While the scenario runs, the module prints one line for each
//! second, with the number of replies for each verdict in that second.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firstseen_routing::Decision;

use super::RunArgs;
use super::containers::{self, Containers};
use super::judgement::{Judgement, judge};
use super::local::Local;
use super::producer::CallLine;
use super::scenario::{Action, Scenario, Step};
use super::stage::Stage;
use firstseen_cli::exit::{FAILED, UsageError};

const FILTER: &str = "chaos";
/// Maximum number of producer output lines that wait to be read.
const LINES_MAX: usize = 1 << 16;
/// Time for which a producer still waits for answers after the end of the run.
const LAST_ANSWERS: Duration = Duration::from_secs(20);
/// Maximum time from the start of a node until it is ready. A restarted node is ready only when its copies of slices
/// have fetched their cells. If no other copy can send the replies to recent requests, the node also waits until these
/// requests can no longer be retried, but for at most a minute (`NAMES_AWAITED_MS_MAX`).
const READY_MAX: Duration = Duration::from_secs(180);
/// Interval between two checks whether a node is ready.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between two checks whether all slices are complete.
const SLICES_POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::read(args.scenarios.as_deref(), &args.name)?;
    if scenario.needs_containers && !args.containers {
        let text = format!("`{}` needs the network or the disk of containers: say --containers", args.name);
        return Err(UsageError(text).into());
    }
    if scenario.needs_older && args.older.is_none() {
        let text = format!("`{}` begins with an earlier version: name its binary with --older", args.name);
        return Err(UsageError(text).into());
    }
    if !args.json {
        println!("{}: {}", args.name, scenario.about);
    }
    let mut stage: Box<dyn Stage> = if args.containers {
        Box::new(Containers::start(scenario.compose.as_deref())?)
    } else {
        Box::new(Local::start(args.older.as_deref().filter(|_| scenario.needs_older))?)
    };
    let clock = if scenario.broken_clocks.is_empty() { "wall" } else { "event" };
    let create: Vec<&str> =
        ["filter", "create", FILTER, "--clock", clock].into_iter().chain(scenario.filter.split_whitespace()).collect();
    containers::finish(&mut stage.command(&create, None))?;
    let calls = execute(&mut *stage, &scenario, args.json)?;
    let complete_after = complete(&*stage, &scenario)?;
    let judgement = judge(&scenario, &calls, complete_after);
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&judgement)?)?
    } else {
        out.write_all(judgement.text().as_bytes())?
    }
    Ok(if judgement.holds() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Verdicts of one second.
#[derive(Default)]
struct Second {
    first_seen: u64,
    duplicates: u64,
    undecided: u64,
}

/// Runs the scenario, and returns every call that has returned.
fn execute(stage: &mut dyn Stage, scenario: &Scenario, is_quiet: bool) -> anyhow::Result<Vec<CallLine>> {
    let seconds = scenario.seconds.to_string();
    let clocks = scenario.broken_clocks();
    let mut asks = vec!["chaos", "produce", FILTER, "--seconds", &seconds];
    if !clocks.is_empty() {
        asks.extend(["--broken-clocks", &clocks]);
    }
    let (mut producer, lines) = produce(stage.producer(&asks)?)?;
    let mut calls: Vec<CallLine> = Vec::new();
    // Containers take a moment to start, so the time of the scenario begins with the first call.
    let first = lines.recv_timeout(LAST_ANSWERS).context("the producer has not sent any event")?;
    calls.push(first);
    let begun = Instant::now();
    let mut printed = 0;
    let mut steps = scenario.steps.iter();
    let mut next = steps.next();
    loop {
        while let Some(Step { action, nodes, .. }) = next.filter(|step| begun.elapsed().as_secs() >= step.at_s) {
            for node in nodes {
                if !is_quiet {
                    println!("{:>4} s  {action:?} {}", begun.elapsed().as_secs(), stage.name_of(*node));
                }
                act(stage, *action, *node)?;
                // The callers have continued during the step, however long it took.
                calls.extend(lines.try_iter());
            }
            next = steps.next();
        }
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => calls.push(line),
            Err(RecvTimeoutError::Timeout)
                if begun.elapsed() > Duration::from_secs(scenario.seconds) + LAST_ANSWERS =>
            {
                let _ = producer.kill();
                bail!("the producer has not ended in time");
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if !is_quiet && begun.elapsed().as_secs() > printed {
            print_second(&calls, printed);
            printed += 1;
        }
    }
    for second in (printed..scenario.seconds).filter(|_| !is_quiet) {
        print_second(&calls, second);
    }
    if producer.wait()?.success() { Ok(calls) } else { bail!("the producer has failed") }
}

fn act(stage: &mut dyn Stage, action: Action, node: usize) -> anyhow::Result<()> {
    match action {
        Action::Drain => {
            let name = stage.name_of(node);
            containers::finish(&mut stage.command(&["cluster", "drain", &name], Some(node)))?;
            containers::finish(&mut stage.command(&["cluster", "leave", &name], Some(node)))
        }
        Action::Finalize => containers::finish(&mut stage.command(&["cluster", "upgrade", "finalize"], None)),
        Action::RestartWhenReady => {
            stage.act(Action::Restart, node)?;
            let begun = Instant::now();
            while let Some(reason) = stage.not_ready(node) {
                let name = stage.name_of(node);
                anyhow::ensure!(begun.elapsed() < READY_MAX, "{name} is not ready after {READY_MAX:?}: {reason}");
                std::thread::sleep(READY_POLL_INTERVAL);
            }
            Ok(())
        }
        action => stage.act(action, node),
    }
}

fn produce(mut command: Command) -> anyhow::Result<(Child, Receiver<CallLine>)> {
    let mut producer = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("no producer")?;
    let out = producer.stdout.take().context("the producer has no output")?;
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        for line in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok((producer, lines))
}

fn print_second(calls: &[CallLine], second: u64) {
    let mut counts = Second::default();
    for call in calls.iter().filter(|call| !call.has_broken_clock && call.returned_us / 1_000_000 == second) {
        *match call.verdict {
            Decision::FirstSeen => &mut counts.first_seen,
            Decision::Duplicate => &mut counts.duplicates,
            Decision::Undecided(_) => &mut counts.undecided,
        } += 1;
    }
    let Second { first_seen, duplicates, undecided } = counts;
    println!("{second:>4} s  first-seen {first_seen:>5}  duplicate {duplicates:>5}  undecided {undecided:>5}");
}

/// Returns the time from the end of the run until all slices are complete. `None` means that this takes longer than
/// promised.
fn complete(stage: &dyn Stage, scenario: &Scenario) -> anyhow::Result<Option<Duration>> {
    let begun = Instant::now();
    let limit = Duration::from_secs(scenario.promises.complete_within_s);
    loop {
        let output = stage.command(&["filter", "describe", FILTER, "--json"], None).stdin(Stdio::null()).output()?;
        let described: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let slices = described["slices"].as_array().cloned().unwrap_or_default();
        if !slices.is_empty() && slices.iter().all(|slice| slice["complete"] == true) {
            return Ok(Some(begun.elapsed()));
        }
        if begun.elapsed() > limit {
            return Ok(None);
        }
        std::thread::sleep(SLICES_POLL_INTERVAL);
    }
}

impl Judgement {
    /// Returns the result as text.
    fn text(&self) -> String {
        let Self { calls, first_seen, duplicates, undecided, undecided_seconds, complete_after_s, broken, .. } = self;
        let Self { broken_clock_calls, .. } = self;
        let complete = match complete_after_s {
            Some(after_s) => format!("all slices complete {after_s:.1} s after the end"),
            None => "slices are incomplete".to_owned(),
        };
        let mut text = format!(
            "{calls} calls: {first_seen} first-seen, {duplicates} duplicates, {undecided} undecided in \
             {undecided_seconds} seconds; {complete}\n"
        );
        if *broken_clock_calls > 0 {
            text.push_str(&format!("{broken_clock_calls} more calls of callers whose clocks are off\n"));
        }
        for promise in broken {
            text.push_str(&format!("BROKEN: {promise}\n"));
        }
        text.push_str(if broken.is_empty() { "every promise was kept\n" } else { "" });
        text
    }
}
