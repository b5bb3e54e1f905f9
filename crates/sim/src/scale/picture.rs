//! Draws the figures as a picture with one line per slicing over the number of nodes.

use firstseen_picture::{Axis, Line, Panel};

use super::figures::Figures;

/// Returns the picture as SVG.
///
/// # Errors
/// Returns the errors of the drawing library.
pub fn svg(all: &[Figures]) -> Result<String, String> {
    let panels = vec![
        panel(all, "Bytes between nodes, for a known event", "bytes", |figures| figures.known.bytes_per_event),
        panel(all, "Visits of a message, known events", "visits", |Figures { known, .. }| {
            if known.links == 0 { f64::NAN } else { known.visits_per_message() }
        }),
        panel(all, "Links that carry events", "ordered pairs of nodes", |figures| figures.known.links as f64),
        panel(all, "Bytes of one change of the map, between nodes", "bytes", |figures| figures.cluster.change.bytes),
    ];
    firstseen_picture::svg(&panels)
}

fn panel(all: &[Figures], title: &str, unit: &str, value: impl Fn(&Figures) -> f64) -> Panel {
    let mut lines: Vec<Line> = Vec::new();
    for figures in all {
        let value = value(figures);
        if !value.is_finite() || value <= 0.0 {
            continue;
        }
        let way = figures.slicing.split(':').next().unwrap_or_default();
        let point = (figures.nodes as f64, value);
        match lines.iter_mut().find(|line| line.name == way) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: way.to_owned(), points: vec![point] }),
        }
    }
    Panel { title: title.to_owned(), x: Axis::log("nodes"), y: Axis::log(unit), series: Vec::new(), lines }
}
