//! Formats the figures as Markdown tables for `docs/reference/performance.md`.

use std::fmt::Write;

use super::figures::{Change, ClusterFigures, Figures, Flow};

/// Returns three tables: the costs of events, their load on each node and link, and the costs of clusters.
pub fn markdown(all: &[Figures]) -> String {
    let mut text = String::from(
        "| nodes | slicing | positions | events | visits | messages | bytes | visits a message |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    each_flow(all, |figures, events, flow| row(&mut text, figures, events, flow));
    text.push_str(
        "\n| nodes | slicing | events | visits of a node | busiest node | links | messages of a link | bytes of a link \
         | busiest link |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    each_flow(all, |figures, events, flow| load_row(&mut text, figures, events, flow));
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

fn each_flow(all: &[Figures], mut show: impl FnMut(&Figures, &str, &Flow)) {
    for figures in all {
        show(figures, "new", &figures.new);
        show(figures, "known", &figures.known);
    }
}

fn row(text: &mut String, Figures { nodes, slicing, hashes, .. }: &Figures, events: &str, flow: &Flow) {
    let Flow { visits_per_event, messages_per_event, bytes_per_event, busiest_link, .. } = flow;
    let visits_per_message = or_none(busiest_link.map(|_| flow.visits_per_message()), 1);
    let _ = writeln!(
        text,
        "| {nodes} | `{slicing}` | {hashes} | {events} | {visits_per_event:.2} | {messages_per_event:.4} | {bytes_per_event:.1} \
         | {visits_per_message} |"
    );
}

fn load_row(text: &mut String, Figures { nodes, slicing, .. }: &Figures, events: &str, flow: &Flow) {
    let Flow {
        node_visits_per_1000_events,
        busiest_node,
        links,
        link_messages_per_1000_events,
        link_bytes_per_1000_events,
        busiest_link,
        ..
    } = flow;
    let busiest_node = or_none(*busiest_node, 2);
    let busiest_link = or_none(*busiest_link, 2);
    let messages = or_none(*link_messages_per_1000_events, 2);
    let bytes = or_none(*link_bytes_per_1000_events, 0);
    let _ = writeln!(
        text,
        "| {nodes} | `{slicing}` | {events} | {node_visits_per_1000_events:.0} | {busiest_node} | {links} | {messages} | {bytes} | {busiest_link} |"
    );
}

fn or_none(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:.decimals$}"))
}
