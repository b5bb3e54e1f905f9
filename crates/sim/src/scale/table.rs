//! The figures as tables.
//!
//! Promises: Markdown, as `docs/performance.md` has it. Must not know: how figures are counted.

use std::fmt::Write;

use super::figures::{Change, ClusterFigures, Figures, Flow};

/// One table of what events cost, and one of what clusters do.
pub(super) fn markdown(all: &[Figures]) -> String {
    let mut text = String::from(
        "| nodes | slicing | positions | events | visits | messages | bytes | visits a message | busiest node | links | busiest \
         link |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for figures in all {
        row(&mut text, figures, "new", &figures.new);
        row(&mut text, figures, "known", &figures.known);
    }
    text.push_str(
        "\n| nodes | slicing | connections | bytes/s of a node at rest | map, bytes | a change, bytes | to a producer \
         | ms |\n|---|---|---|---|---|---|---|---|\n",
    );
    for Figures { nodes, slicing, cluster, .. } in all {
        let ClusterFigures { connections, at_rest_bytes_per_s, map_bytes, change } = cluster;
        let Change { bytes, bytes_to_a_producer, ms } = change;
        let _ = writeln!(
            text,
            "| {nodes} | `{slicing}` | {connections} | {at_rest_bytes_per_s:.0} | {map_bytes} | {bytes:.0} \
             | {bytes_to_a_producer:.0} | {ms} |"
        );
    }
    text
}

fn row(text: &mut String, Figures { nodes, slicing, hashes, .. }: &Figures, events: &str, flow: &Flow) {
    let Flow { visits_per_event, messages_per_event, bytes_per_event, busiest_node, links, busiest_link, .. } = flow;
    let or_none = |value: Option<f64>, decimals: usize| match value {
        Some(value) => format!("{value:.decimals$}"),
        None => "none".to_owned(),
    };
    let visits_per_message = or_none(busiest_link.map(|_| flow.visits_per_message()), 1);
    let (busiest_node, busiest_link) = (or_none(*busiest_node, 2), or_none(*busiest_link, 2));
    let _ = writeln!(
        text,
        "| {nodes} | `{slicing}` | {hashes} | {events} | {visits_per_event:.2} | {messages_per_event:.4} | {bytes_per_event:.1} \
         | {visits_per_message} | {busiest_node} | {links} | {busiest_link} |"
    );
}
