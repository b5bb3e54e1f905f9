//! Formats the lines of each pane of the overview as columns of text. The terminal display and the plain text use the
//! same lines. Every line has as many columns as the heading of its pane.

use firstseen_node::{Alarm, FilterLine, NodeLine, Overview, Severity, SliceCounts};

use super::bars::{UNKNOWN, brief, bytes, clean, line, ms, percent, signed_ms};

/// Number of characters in the graph of a series.
const SPARK: usize = 20;

pub(super) const NODES: [&str; 8] = ["node", "site", "state", "events/s", "memory", "slices", "clock", "version"];
pub(super) const FILTERS: [&str; 8] =
    ["filter", "full", "events/s", "new/s", "undec/s", "p99", "slices", "last ten minutes"];

/// How a line is emphasised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Calm,
    Warning,
    Critical,
}

impl From<Severity> for Mark {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Critical => Self::Critical,
            Severity::Warning => Self::Warning,
        }
    }
}

/// Returns the title with the cluster, and the sums over the cluster.
pub(super) fn heading(overview: &Overview) -> (String, String) {
    let Overview { cluster, verdicts, slices, nodes, .. } = overview;
    let leader = cluster
        .leader
        .as_deref()
        .map_or_else(|| "led by nobody".to_owned(), |leader| format!("led by {}", clean(leader)));
    let up = nodes.iter().filter(|node| node.state == "up").count();
    let title = format!("firstseen, as {} sees it, {leader}", clean(&cluster.node));
    let sums = format!(
        "{up} of {} nodes up, {}/{} slices, {} events/s, {} new/s, {} undecided/s",
        nodes.len() + overview.nodes_left_out,
        slices.complete,
        slices.all,
        brief(verdicts.events_per_s()),
        brief(verdicts.first_seen_per_s),
        brief(verdicts.undecided_per_s)
    );
    (title, sums)
}

/// Returns an alarm as one line.
pub(super) fn alarm(alarm: &Alarm) -> (String, Mark) {
    let word = match alarm.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning ",
    };
    (format!("{word}  {}", clean(&alarm.text)), alarm.severity.into())
}

/// Returns the command that helps with an alarm, and the node on which to run it. `None` means that no command helps.
pub(super) fn command(alarm: &Alarm) -> Option<String> {
    let on = alarm.on.as_deref().map_or_else(String::new, |on| format!("on {}: ", clean(on)));
    (!alarm.command.is_empty()).then(|| format!("{on}{}", clean(&alarm.command)))
}

pub(super) fn node(node: &NodeLine) -> ([String; NODES.len()], Mark) {
    let is_late = node.state == "up" && node.ready == Some(false);
    let (state, mark) = match node.state.as_str() {
        "up" if is_late => ("not ready", Mark::Warning),
        "up" => ("up", Mark::Calm),
        "down" => ("down", Mark::Critical),
        "not_reached" => ("not reached", Mark::Warning),
        _ => ("silent", Mark::Warning),
    };
    let name = if node.leader { format!("{}*", clean(&node.name)) } else { clean(&node.name) };
    let columns = [
        name,
        clean(&node.site),
        state.to_owned(),
        brief(node.events_per_s),
        format!("{}/{}", bytes(node.memory_used_bytes), bytes(Some(node.memory_limit_bytes))),
        node.slices.to_string(),
        signed_ms(node.clock_ahead_ms),
        node.version.as_deref().map_or_else(|| UNKNOWN.to_owned(), clean),
    ];
    (columns, mark)
}

pub(super) fn filter(filter: &FilterLine) -> ([String; FILTERS.len()], Mark) {
    let FilterLine { verdicts, slices, .. } = filter;
    let undecided = verdicts.undecided_per_s.is_some_and(|rate| rate > 0.0);
    let mark = match () {
        () if slices.down > 0 || undecided || filter.full >= Some(1.0) => Mark::Critical,
        () if slices.set_only > 0 || filter.full >= Some(0.8) => Mark::Warning,
        () => Mark::Calm,
    };
    let columns = [
        clean(&filter.name),
        percent(filter.full),
        brief(verdicts.events_per_s()),
        brief(verdicts.first_seen_per_s),
        brief(verdicts.undecided_per_s),
        ms(filter.p99_ms),
        states(slices),
        filter.history.as_ref().map_or_else(String::new, |history| line(&history.events_per_s, SPARK)),
    ];
    (columns, mark)
}

/// Returns a text such as `5/6 1down`.
fn states(slices: &SliceCounts) -> String {
    let more = [(slices.down, "down"), (slices.set_only, "set-only"), (slices.moving, "moving")];
    let more = more.into_iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!(" {number} {word}"));
    format!("{}/{}{}", slices.complete, slices.all, more.collect::<String>())
}

/// Returns the lines about running work, and about what each level of a tree finds.
pub(super) fn work(overview: &Overview) -> Vec<String> {
    let under_way = overview.work.iter().map(|line| {
        let left = line.left.map_or_else(String::new, |left| format!(", {left} {} left", line.unit));
        let bytes = line.bytes_left.map_or_else(String::new, |left| format!(", up to {}", bytes(Some(left))));
        format!("{} of {}: {}{left}{bytes}", line.kind, clean(&line.filter), clean(&line.text))
    });
    let places = overview.trees.iter().flat_map(|tree| {
        tree.places.iter().map(|place| {
            let climbs =
                if place.level > 0 { format!(", {}/s climb", brief(place.climbed_per_s)) } else { String::new() };
            let owed = match (place.owed_events, place.owed_oldest_s) {
                (Some(events @ 1..), oldest_s) => {
                    format!(", {events} decided alone and not reported for {} s", oldest_s.unwrap_or(0))
                }
                _ => String::new(),
            };
            format!(
                "{:indent$}{}: {}/s asked, {}/s found here{climbs}{owed}",
                "",
                clean(&place.filter),
                brief(place.asked_per_s),
                brief(place.found_per_s),
                indent = 2 * usize::from(place.level)
            )
        })
    });
    under_way.chain(places).collect()
}
