//! Copies tables into pages.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::kept::Figures;
use crate::bench::Content;

/// Pages that contain tables.
const PAGES: [&str; 2] = ["README.md", "docs/reference/performance.md"];
const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// Replaces the tables of all pages.
pub(super) fn rewrite(root: &Path, figures: &Figures) -> anyhow::Result<()> {
    for page in PAGES {
        let path = root.join(page);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let rewritten = rewritten(&text, figures).with_context(|| page.to_owned())?;
        fs::write(&path, rewritten).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn rewritten(page: &str, figures: &Figures) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(name) = line.trim_start().strip_prefix(BEGIN) else { continue };
        let name = name.trim_end_matches(" -->");
        let Some(kept) = figures.tables.get(name) else { bail!("docs/figures.json has no table `{name}`") };
        let indent = &line[..line.len() - line.trim_start().len()];
        for row in markdown(&kept.table) {
            text.push_str(&format!("{indent}{row}\n"));
        }
        let Some(end) = lines.find(|line| line.trim_start() == END) else { bail!("table `{name}` has no end") };
        text.push_str(end);
        text.push('\n');
    }
    Ok(text)
}

/// Returns the lines of a table in Markdown.
fn markdown(table: &Content) -> Vec<String> {
    let mut lines = vec![row(&table.heading), format!("|{}", "---|".repeat(table.heading.len()))];
    lines.extend(table.rows.iter().map(|cells| row(cells)));
    lines
}

fn row(cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") });
    format!("|{}", cells.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_where_it_stands() {
        let table = r#"{"command": "c", "made": "2026-01-01", "machine": null,
            "table": {"heading": ["", "a"], "rows": [["x", "1"], ["", "2"]]}}"#;
        let figures = format!(r#"{{"tables": {{"one": {table}}}}}"#);
        let figures: Figures = serde_json::from_str(&figures).unwrap();
        let page = "before\n  <!-- figures: one -->\n  | old |\n  <!-- end of figures -->\nafter\n";
        let expected = "before\n  <!-- figures: one -->\n  | | a |\n  |---|---|\n  | x | 1 |\n  | | 2 |\n  \
                        <!-- end of figures -->\nafter\n";
        assert_eq!(rewritten(page, &figures).unwrap(), expected);
        assert_eq!(rewritten(expected, &figures).unwrap(), expected);
        assert!(rewritten("<!-- figures: two -->\n", &figures).is_err());
    }
}
