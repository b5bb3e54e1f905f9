//! Compares plans with the filters that they describe.

use clap::Parser;
use firstseen_embedded::Stamps;
use firstseen_filter::rates::{failures, plain};
use firstseen_filter::{
    Digest, FilterSecret, FilterSlice, FilterSpec, GrowthSpec, Kind, Limit, Stamp, UnitNumber, Verdict, Window,
};
use firstseen_routing::SlicedDefinition;
use serde_json::Value;

use super::costs::Costs;
use super::{PlanArgs, run};
use crate::filter::CreateArgs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: PlanArgs,
}

fn plan(line: &str) -> Result<String, String> {
    let words = std::iter::once("plan").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    run(&line.args, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

fn json(line: &str) -> Value {
    serde_json::from_str(&plan(&format!("{line} --json")).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn spec(kind: Kind, window: &str, events: u64) -> FilterSpec {
    FilterSpec { capacity_events: Some(events), ..FilterSpec::new(kind, window.parse().unwrap()) }
}

/// A window that a single node must count.
const COUNTED: &str = "50000events";

/// Returns every kind that finds duplicates, combined with each of these windows that the kind supports.
fn kinds() -> impl Iterator<Item = (Kind, &'static str)> {
    Kind::ALL.into_iter().filter(|kind| !kind.estimates_frequencies()).flat_map(|kind| {
        ["unbounded", "landmark:1d", "24h", COUNTED].into_iter().filter_map(move |text| {
            let window: Window = text.parse().unwrap();
            (kind.nearest_window(&window) == Some(window)).then_some((kind, text))
        })
    })
}

#[test]
fn memory_is_that_of_the_filter_that_is_built() {
    for (kind, window) in kinds() {
        let definition = spec(kind, window, 50_000).resolve().unwrap();
        let planned = definition.bytes();
        let built = FilterSlice::build(&definition).unwrap().bytes();
        let lines = 64 * (8 + definition.rule.span_units.min(256));
        assert!(planned <= built && built <= planned + lines, "{kind} {window}: {planned} planned, {built} built");
    }
}

#[test]
fn the_planned_rate_is_the_target() {
    for (kind, window) in kinds() {
        let costs = Costs::of(&spec(kind, window, 50_000)).unwrap();
        let tolerance = if matches!(kind, Kind::Counting) { 1.0001 } else { 1.0 + 1e-9 };
        assert!(costs.rate_worst <= 0.01 * tolerance, "{kind} {window}: {}", costs.rate_worst);
        // Small jumps leave more room for the random variation of their loads, which lowers the rate.
        let least = match kind {
            Kind::Generations => 0.0075,
            // Fingerprints have a whole number of bits, and buckets fill whole regions, so the rate is lower than
            // requested.
            Kind::Cuckoo => 0.005,
            _ => 0.0099,
        };
        assert!(costs.rate_worst > least && costs.rate_mean <= costs.rate_worst, "{kind} {window}: {costs:?}");
        assert!((costs.false_positives_per_window - costs.rate_mean * 50_000.0).abs() < 1e-9);
    }
}

fn digests(count: u64) -> Vec<Digest> {
    let secret = FilterSecret::from_seed(5);
    (0..count).map(|event: u64| secret.digest(&event.to_le_bytes())).collect()
}

/// Sends only new events to a filter, at `factor` times the planned load, until three windows have passed. Returns the
/// greatest number of generations that existed at the same time, and whether the filter gave a verdict on every event.
fn overloaded(spec: &FilterSpec, factor: u64, events: u64) -> (usize, bool) {
    let definition = spec.resolve().unwrap();
    let mut slice = FilterSlice::build(&definition).unwrap();
    let window_units = definition.rule.span_units - 1;
    let per_unit = (factor * events / window_units) as usize;
    let mut generations = 0;
    let mut answered = true;
    for (unit, digests) in digests(3 * factor * events).chunks(per_unit).enumerate() {
        let mut verdicts = vec![Verdict::Undecided; digests.len()];
        slice.observe_batch(digests, &vec![Stamp::on_time(UnitNumber(unit as u64)); digests.len()], &mut verdicts);
        generations = generations.max(slice.generations());
        answered &= !verdicts.contains(&Verdict::Undecided);
    }
    (generations, answered)
}

#[test]
fn a_sliding_filter_grows_as_planned_and_no_less_would_do() {
    for kind in [Kind::Timing, Kind::Cuckoo] {
        grows_as_planned(&spec(kind, "24h", 20_000));
    }
}

fn grows_as_planned(planned_for: &FilterSpec) {
    for load in &Costs::of(planned_for).unwrap().loads[1..] {
        let generations_max = load.grown.as_ref().unwrap().generations;
        let growth = |generations_max| FilterSpec {
            growth: Some(GrowthSpec { limit: Limit::Cardinality, generations_max, ratio: 1.0 }),
            ..planned_for.clone()
        };
        let (generations, answered) = overloaded(&growth(generations_max), load.factor.into(), 20_000);
        assert!(answered && generations as u32 <= generations_max, "{load:?}: {generations}, {answered}");
        let (_, answered) = overloaded(&growth(generations_max - 2), load.factor.into(), 20_000);
        assert!(!answered, "{load:?}");
    }
}

#[test]
fn a_filter_that_may_not_grow_refuses_as_planned() {
    for kind in [Kind::Timing, Kind::Cuckoo] {
        let planned_for = spec(kind, "24h", 20_000);
        assert!(overloaded(&planned_for, 1, 20_000).1, "{kind}");
        assert!(!overloaded(&planned_for, 2, 20_000).1, "{kind}");
        let shares: Vec<f64> = Costs::of(&planned_for).unwrap().loads.iter().map(|load| load.refused_share).collect();
        assert_eq!(shares, [0.0, 0.5, 0.9]);
    }
}

#[test]
fn an_unbounded_filter_doubles_under_its_rate() {
    let costs = Costs::of(&spec(Kind::Bloom, "unbounded", 20_000)).unwrap();
    let grown: Vec<u32> = costs.loads[1..].iter().map(|load| load.grown.as_ref().unwrap().generations).collect();
    assert_eq!(grown, [2, 4]);
    let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 16, ratio: 2.0 });
    let definition = FilterSpec { growth, ..spec(Kind::Bloom, "unbounded", 20_000) }.resolve().unwrap();
    let mut slice = FilterSlice::build(&definition).unwrap();
    for digests in digests(200_000).chunks(1000) {
        slice.observe_batch(digests, &[Stamp::on_time(UnitNumber::FIRST); 1000], &mut [Verdict::Undecided; 1000]);
    }
    let planned = costs.loads[2].grown.as_ref().unwrap();
    assert_eq!(slice.generations() as u32, planned.generations);
    assert!(slice.bytes().abs_diff(planned.memory_bytes) < 4096, "{} {planned:?}", slice.bytes());
}

#[test]
fn the_text_has_the_figures_and_fits_a_terminal() {
    let text = plan("--capacity 10M --kind timing --window 24h --nodes 8 --failures 1").unwrap();
    for part in [
        "timing, window 1d: 10,000,000 events, false positives at most 1 %",
        "bits an event",
        "1d from its first sighting, and up to 11m 15s more",
        "(ticks of 11m 15s)",
        "50 % if new",
        "by equal:",
        "on 8 nodes, a slice each",
        "13.4 %",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let every_kind = kinds().map(|(kind, window)| {
        let nodes = if window == COUNTED { "" } else { "--nodes 512 --failures 100" };
        format!("--capacity 50000 --kind {kind} --window {window} {nodes}")
    });
    let compared = ["24h", "200000000000events", "unbounded", "landmark:week"].map(|window| match window {
        "200000000000events" => format!("--window {window}"),
        _ => format!("--capacity 10G --window {window}"),
    });
    for line in every_kind.chain(compared) {
        let text = plan(&line).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{line}\n{text}");
    }
}

#[derive(Parser)]
struct Create {
    #[command(flatten)]
    args: CreateArgs,
}

/// Returns the definition that the command in the last lines of a plan asks for, parsed as a shell would parse it.
fn asked_for(text: &str, seed: u64) -> SlicedDefinition {
    let start = text.find("firstseen filter create ").unwrap_or_else(|| panic!("no command in\n{text}"));
    let command = text[start..].replace("\\\n", " ");
    assert_eq!(command.lines().count(), 1, "it is the last that is said:\n{text}");
    let args = Create::try_parse_from(command.split_whitespace().skip(2)).unwrap_or_else(|e| panic!("{e}")).args;
    let window = args.filter.window(&args.policies.tz).unwrap();
    let slicing = args.filter.slicing.expect("--slicing");
    args.filter.meant(window, seed, slicing, Stamps::OfEvents).definition(slicing, None).unwrap()
}

#[test]
fn the_last_lines_make_what_was_planned() {
    for (kind, window) in kinds().chain([(Kind::Bloom, "landmark:day@Europe/Athens")]) {
        for (nodes, slicing) in [(1, "none"), (3, "horizontal:3")] {
            let line = format!("--capacity 50000 --fpr 0.002 --kind {kind} --window {window} --nodes {nodes}");
            if window == COUNTED && nodes > 1 {
                let refused = plan(&line).unwrap_err();
                assert!(refused.contains("counts events") && refused.contains("none"), "{refused}");
                continue;
            }
            let text = plan(&line).unwrap();
            let planned = FilterSpec { rate: 0.002, ..spec(kind, window, 50_000) };
            let definition = SlicedDefinition::new(&planned, slicing.parse().unwrap()).unwrap();
            assert_eq!(asked_for(&text, planned.seed), definition, "{line}");
            let mut command = text.lines().skip_while(|line| !line.starts_with("firstseen filter create"));
            assert!(command.all(|line| line.chars().count() <= 80), "{text}");
            let create = json(&line)["create"].as_str().expect("a command").to_owned();
            assert_eq!(asked_for(&create, planned.seed), definition, "{line}");
        }
    }
    // Without --nodes, the command is for the machines that the plan recommends to buy.
    let compared = plan("--capacity 50000").unwrap();
    let bought = spec(Kind::Cuckoo, "24h", 50_000);
    let definition = SlicedDefinition::new(&bought, "horizontal:3".parse().unwrap()).unwrap();
    assert_eq!(asked_for(&compared, bought.seed), definition, "{compared}");
    assert!(compared.contains("On 3 machines") && compared.contains("--copies 1"), "{compared}");
}

#[test]
fn a_load_and_copies_are_planned_for() {
    let by_rate = plan("--rate 50k/day --window 24h --nodes 3 --replicas 2").unwrap();
    let by_capacity = plan("--capacity 50000 --window 24h --nodes 3 --copies 1").unwrap();
    assert_eq!(by_rate, by_capacity);
    assert!(by_rate.contains("2 copies of each slice") && by_rate.contains("--copies 1"), "{by_rate}");
    assert_eq!(plan("--events 7k").unwrap(), plan("--capacity 7k").unwrap());
    let refused = plan("--rate 5/s --window 1000events").unwrap_err();
    assert!(refused.contains("is no time") && refused.contains("--capacity"), "{refused}");
    assert!(plan("--rate 5").unwrap_err().contains("5000/s"));
    assert_eq!(plan("--capacity 50k --copies 1").unwrap(), plan("--capacity 50k --nodes 3 --copies 1").unwrap());
    assert_eq!(plan("--capacity 50k --replicas 1").unwrap(), plan("--capacity 50k").unwrap());
}

#[test]
fn json_is_one_document_with_the_same_figures() {
    let plan = json("--capacity 1e6 --fpr 0.001 --kind generations --nodes 4");
    let costs = &plan["filters"][0];
    assert_eq!(
        (&plan["window"], &costs["kind"], plan["filters"].as_array().map(Vec::len)),
        (&"1d".into(), &"generations".into(), Some(1))
    );
    assert_eq!((number(&plan["events_per_window"]), number(&plan["fpr"])), (1e6, 0.001));
    assert_eq!(costs["retention"]["rule"], "jumping");
    assert_eq!(number(&costs["retention"]["beyond_most"]), 86_400_000.0 / 6.0);
    assert_eq!(number(&costs["bits_per_event"]), number(&costs["memory_bytes"]) * 8.0 / 1e6);
    let loads: Vec<f64> = (0..3).map(|index| number(&costs["loads"][index]["rate_if_all_recorded"])).collect();
    assert!(loads[0] <= 0.001 && loads[0] > 0.0009 && loads[1] > 10.0 * loads[0] && loads[2] > 0.9, "{loads:?}");
    let per_node = number(&plan["spread"]["horizontal"]["on_nodes"]["memory_bytes_per_node"]);
    let share = 4.0 * per_node / number(&costs["memory_bytes"]);
    assert!(share > 1.0 && share < 1.02, "{share}");
}

#[test]
fn spreading_follows_the_papers_formulas() {
    let plan = json("--capacity 1M --kind bloom --nodes 16 --failures 2 --max-fpr 0.2");
    let vertical = &plan["spread"]["vertical"];
    let horizontal = &plan["spread"]["horizontal"];
    let on_nodes = &vertical["on_nodes"];
    let size = plain::size(1e6, 0.01).unwrap();
    let cells = (size.cells as f64 / 16.0).ceil() * 16.0;
    let hashes = f64::from(size.hashes);
    assert_eq!(number(&on_nodes["wire_bits_per_event"]), hashes * ((cells / 16.0).log2() + 4.0));
    assert_eq!(number(&on_nodes["memory_bytes_per_node"]), (cells / 16.0 / 8.0).ceil());
    let touched = 16.0 * (1.0 - (15.0f64 / 16.0).powf(hashes));
    assert!((number(&on_nodes["visits_duplicate"]) - touched).abs() < 1e-9);
    assert!(number(&on_nodes["visits_new"]) > 1.5 && number(&on_nodes["visits_new"]) < 2.0);
    let fill = plain::fill(cells, size.hashes, 1e6);
    let down = failures::vertical_as_duplicate(0.125, fill, size.hashes);
    assert!((number(&vertical["rate_under_failures"]) / down - 1.0).abs() < 1e-6);
    let rate = number(&horizontal["on_nodes"]["rate_worst"]);
    assert!((number(&horizontal["rate_under_failures"]) - (0.125 + 0.875 * rate)).abs() < 1e-12);
    assert_eq!(number(&horizontal["slices_for_failures"]), (2.0 * (1.0 - rate) / (0.2 - rate)).ceil());
    assert!(number(&vertical["slices_for_failures"]) < number(&horizontal["slices_for_failures"]));
}

#[test]
fn what_slices_alone_cannot_survive_copies_can() {
    let create = |more: &str| {
        let plan = json(&format!("--capacity 1M --failures 1 {more}"));
        plan["create"].as_str().unwrap().to_owned()
    };
    let too_few = create("--nodes 3 --max-fpr 0.05");
    assert!(too_few.contains("--copies 1") && !too_few.contains("--when-lost"), "{too_few}");
    let enough = create("--nodes 30 --max-fpr 0.05");
    assert!(enough.contains("--when-lost duplicate") && !enough.contains("--copies"), "{enough}");
}

/// Returns the number and its unit in the first line of a plan that begins with `name`.
fn row(text: &str, name: &str) -> String {
    let mut lines = text.lines().map(str::trim_start);
    let values = lines.find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no `{name}` in\n{text}"));
    values.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Regression test. The command that the plan printed had copies, and above it stood the false positives of a filter
/// without copies, and that what is down is answered by `duplicate`.
#[test]
fn the_report_describes_the_filter_of_its_command() {
    let load = "--capacity 30M --window 24h --nodes 3";
    let copied = plan(&format!("{load} --failures 1")).unwrap();
    assert!(copied.contains("any 1 may fail") && copied.contains("--copies 1"), "{copied}");
    let up = row(&copied, "false positives, all nodes up");
    assert_eq!(row(&copied, "false positives with 1 down"), up, "copies keep the rate:\n{copied}");
    assert!(copied.contains("false positives with 1 down, no copies"), "{copied}");
    assert!(!copied.contains("What is down is answered") && !copied.contains("--when-lost"), "{copied}");
    let one = plan(load).unwrap();
    let copied_mib: f64 = row(&copied, "memory a node, with copies").strip_suffix(" MiB").unwrap().parse().unwrap();
    let one_mib: f64 = row(&one, "memory a node").strip_suffix(" MiB").unwrap().parse().unwrap();
    assert!((1.9..=2.1).contains(&(copied_mib / one_mib)), "{copied}\n{one}");
    let lost = plan(&format!("{load} --failures 1 --max-fpr 0.5")).unwrap();
    assert!(lost.contains("--when-lost duplicate") && lost.contains("What is down is answered"), "{lost}");
    assert!(!lost.contains("copies") || lost.contains("one copy of each slice"), "{lost}");
}

#[test]
fn generations_under_failures_are_judged_one_by_one() {
    let rate_of = |failures: u32| {
        let plan = json(&format!("--capacity 1M --kind generations --nodes 64 --failures {failures}"));
        number(&plan["spread"]["vertical"]["rate_under_failures"])
    };
    assert!((0.009..=0.01).contains(&rate_of(0)), "{}", rate_of(0));
    assert!(rate_of(4) > rate_of(0) && rate_of(4) < 0.03, "{}", rate_of(4));
    let none = json("--capacity 1M --kind counting --nodes 4");
    assert!(none["spread"]["vertical"].is_null());
    assert!(none["spread"]["no_vertical"].as_str().unwrap().contains("kind counting cannot be sliced"));
}

#[test]
fn kinds_are_compared_where_none_is_chosen() {
    let plan = json("--capacity 1M");
    let kinds: Vec<&str> = plan["filters"].as_array().unwrap().iter().filter_map(|f| f["kind"].as_str()).collect();
    assert_eq!(kinds, ["bloom", "cuckoo", "generations", "timing", "counting"]);
    assert_eq!(plan["references"][1]["memory_bytes"], 130_000_000);
    let memory: Vec<f64> = (0..4).map(|index| number(&plan["filters"][index]["memory_bytes"])).collect();
    assert!(memory.is_sorted() && memory[3] < 38e6, "{memory:?}");
    let traits = |index: usize| [&plan["filters"][index]["when_full"], &plan["filters"][index]["speed"]];
    assert_eq!(traits(1), [&Value::from("refuses"), &Value::from("medium")]);
    assert_eq!(traits(4), [&Value::from("refuses"), &Value::from("slow")]);
}

#[test]
fn a_kind_is_recommended_with_its_command_and_figures() {
    for (rate, bits) in [("0.005", 18.1), ("0.001", 20.6), ("1e-8", 41.8)] {
        let plan = json(&format!("--capacity 10M --fpr {rate}"));
        let recommended = &plan["recommended"];
        let cuckoo = &plan["filters"][1];
        assert_eq!(
            (&recommended["kind"], &cuckoo["kind"], &plan["buy_kind"]),
            (&"cuckoo".into(), &"cuckoo".into(), &"cuckoo".into())
        );
        assert!((bits - 0.2..bits).contains(&number(&cuckoo["bits_per_event"])), "{rate}: {cuckoo}");
        assert!(number(&recommended["with_lateness"]["bits_per_event"]) < 1.22 * bits, "{recommended}");
        let command = recommended["command"].as_str().unwrap();
        assert!(command.starts_with("firstseen dedup --kind cuckoo --window 1d --fpr "), "{command}");
    }
    let kind = |line: &str| json(line)["recommended"]["kind"].as_str().unwrap().to_owned();
    assert_eq!(kind("--capacity 1k"), "timing");
    assert_eq!(kind("--capacity 10M --fpr 1e-9"), "timing");
    assert_eq!(kind("--capacity 10M --window unbounded"), "bloom");
    assert_eq!(kind("--window 1000000events"), "cuckoo");
    let fine = json("--capacity 10M --ticks 80 --lateness 10m");
    assert!(fine["recommended"]["command"].as_str().unwrap().ends_with("--lateness 10m --ticks 80"), "{fine}");
    let text = plan("--capacity 10M --fpr 0.005").unwrap();
    for part in
        ["Recommended: kind cuckoo.", "\nfirstseen dedup --kind cuckoo --window 1d", "add --lateness 3h", "says so"]
    {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_window_of_events_says_how_many() {
    let plan = json("--window 1000events --kind counting");
    assert_eq!((&plan["events_per_window"], &plan["filters"][0]["loads"]), (&1000.into(), &Value::Array(vec![])));
    assert_eq!(number(&plan["filters"][0]["retention"]["beyond_most"]), 0.0);
    assert!(Window::Events(1000).to_string() == plan["window"]);
}

#[test]
fn what_cannot_be_planned_is_refused_by_name() {
    let expected = [
        ("", "--capacity"),
        ("--capacity 0", "zero"),
        ("--capacity -5", "negative"),
        ("--capacity many", "not a size"),
        ("--capacity 1M --fpr 0", "rate of 0"),
        ("--capacity 1M --fpr 1", "rate of 1"),
        ("--capacity 1M --fpr -0.5", "rate of -0.5"),
        ("--capacity 1M --fpr nan", "rate of NaN"),
        ("--capacity 1M --window 0s", "window `0s` is empty"),
        ("--capacity 1M --window -1h", "window `-1h` is not understood"),
        ("--capacity 1M --window 24h --kind bloom", "kind bloom has no window `1d`"),
        ("--capacity 5 --window 6events", "brings 6 events, not 5"),
        ("--capacity 1000T", "cells"),
        ("--capacity 1M --kind timing --nodes 0", "0 nodes"),
        ("--capacity 1M --kind timing --nodes 5000", "5000 slices"),
        ("--capacity 1M --kind timing --nodes 3 --failures 3", "3 of 3 nodes fail"),
        ("--capacity 1M --kind timing --failures 1 --max-fpr 0.01", "above --fpr"),
        ("--capacity 1M --nodes 2 --copies 2", "2 further copies of each slice on 2 nodes"),
        ("--capacity 1M --nodes 1 --replicas 2", "on 1 node: every copy needs a node of its own"),
        ("--capacity 1M --nodes 3 --copies 5", "a filter can have 2 at most"),
        ("--capacity 1M --copies 3", "a filter can have 2 at most"),
    ];
    for (line, part) in expected {
        let refusal = plan(line).unwrap_err();
        assert!(refusal.contains(part), "`{line}`: {refusal}");
    }
}

#[test]
fn a_plan_begins_with_what_to_buy() {
    let day = "--capacity 1000M --fpr 1e-6 --window 24h";
    let text = plan(day).unwrap();
    assert!(text.starts_with("Buy 3 machines of "), "{text}");
    let bought = text.replace('\n', " ");
    assert!(bought.contains("(any 1 may fail)") && bought.contains("Or 1 machine of "), "{text}");
    assert!(text.contains("false positives at most 1e-6"), "{text}");
    assert!(text.contains("for kind cuckoo.") && !text.contains("instead of"), "none is half as large:\n{text}");
    let timers = plan("--capacity 1000M --fpr 1e-9 --window 24h").unwrap().replace('\n', " ");
    assert!(timers.contains("for kind timing.") && timers.contains("Kind generations takes "), "{timers}");
    let text = plan(&format!("{day} --nodes 8 --failures 1")).unwrap();
    assert!(text.starts_with("Buy 8 machines of ") && text.contains("(--copies 1)"), "{text}");
    assert!(text.contains("too many") && !text.contains("111,0"), "{text}");
    let document = json(&format!("{day} --nodes 8 --failures 1"));
    let cells = &document["buy"][0]["cells_bytes"];
    let slice = &document["spread"]["horizontal"]["on_nodes"];
    assert_eq!(number(cells), 2.0 * number(&slice["memory_bytes_per_node"]), "copies are in it");
    let wild = plan("--capacity 1G --window 1ms").unwrap();
    assert!(
        wild.starts_with("No machine does this: it takes 2,666,668 cores on each of 3.") && !wild.contains("Buy"),
        "{wild}"
    );
    assert!(plan("--capacity 1").unwrap().contains("1 MiB for cells"));
    let lines = text.lines().filter(|line| !line.contains("firstseen")).map(|line| line.chars().count()).max();
    assert!(lines <= Some(80), "{text}");
}

#[cfg(feature = "full")]
#[test]
fn a_picture_shows_every_kind_that_is_possible_and_takes_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    plan(&format!("--capacity 10M --window 24h --plot {}", path("all.svg"))).unwrap();
    let picture = std::fs::read_to_string(path("all.svg")).unwrap();
    for name in ["cuckoo, window", "timing, window", "generations, window", "bloom, window", "Redis SET", "10,000,000"]
    {
        assert!(picture.contains(name), "{name}: {picture}");
    }
    plan(&format!("--capacity 10M --window 24h --kind timing --plot {}", path("one.svg"))).unwrap();
    let picture = std::fs::read_to_string(path("one.svg")).unwrap();
    assert!(picture.contains("timing, window") && !picture.contains("cuckoo, window"), "{picture}");
    std::fs::write(path("access.log"), "a record").unwrap();
    let refused = plan(&format!("--capacity 10M --plot {}", path("access.log"))).unwrap_err();
    assert!(refused.contains("access.log.svg"), "{refused}");
    assert_eq!(std::fs::read_to_string(path("access.log")).unwrap(), "a record");
    let refused = plan(&format!("--capacity 10M --plot {}", path("no/folder.svg"))).unwrap_err();
    assert!(refused.contains("cannot write"), "{refused}");
}
