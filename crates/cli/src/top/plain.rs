//! Formats the overview of a cluster as plain text, for `--once`. The text has no control characters except line ends,
//! so it can be stored in a file or sent to another program.

use std::fmt::Write as _;

use firstseen_node::Overview;

use super::tables::{FILTERS, NODES, alarm, command, filter, heading, node, work};
use crate::text::table::Table;

/// Returns the overview as text.
pub(super) fn text(overview: &Overview) -> String {
    let (title, sums) = heading(overview);
    let mut text = format!("{title}\n{sums}\n");
    if overview.alarms.is_empty() {
        text.push_str("\nno alarms\n");
    } else {
        text.push_str("\nalarms\n");
    }
    for line in &overview.alarms {
        let _ = writeln!(text, "{}", alarm(line).0);
        if let Some(command) = command(line) {
            let _ = writeln!(text, "          {command}");
        }
    }
    let mut nodes = Table::new(&NODES);
    overview.nodes.iter().for_each(|line| nodes.row(node(line).0));
    let mut filters = Table::new(&FILTERS);
    overview.filters.iter().for_each(|line| filters.row(filter(line).0));
    for table in [nodes.text(), filters.text()] {
        let _ = write!(text, "\n{table}");
    }
    let nodes = overview.nodes_left_out;
    let filters = overview.filters_left_out;
    if nodes + filters > 0 {
        let _ = writeln!(text, "left out: {nodes} nodes, {filters} filters");
    }
    let lines = work(overview);
    if !lines.is_empty() {
        let _ = write!(text, "\nunder way, and trees\n{}\n", lines.join("\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::draw::tests::busy;

    #[test]
    fn plain_text_has_all_and_no_control_characters() {
        let mut overview = busy();
        overview.filters[0].name = "evil\u{1b}[2J".to_owned();
        let text = text(&overview);
        for words in [
            "led by node-1",
            "2 of 3 nodes up",
            "critical  node node-2 is down",
            "on node-2: systemctl",
            "87%",
            "visits@athens: 40/s asked",
        ] {
            assert!(text.contains(words), "{words} is not in:\n{text}");
        }
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        assert!(
            text.lines().any(|line| line.starts_with("node-2") && line.contains(" - ")),
            "what is not known is a dash"
        );
    }
}
