//! Checks that the tables of measurements in the pages are equal to those in docs/figures.json, which `firstseen-lab
//! figures` writes.

use std::collections::BTreeSet;
use std::fs;

use firstseen_tidy::root;
use serde_json::Value;

const FILE: &str = "docs/figures.json";
const PAGES: [&str; 2] = ["README.md", "docs/reference/performance.md"];
const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns a row of a table in Markdown.
fn row(cells: &Value) -> String {
    let cells = cells.as_array().expect("cells").iter().filter_map(Value::as_str);
    let cells = cells.map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") });
    format!("|{}", cells.collect::<String>())
}

#[test]
fn tables_of_pages_are_those_of_the_file() {
    let file: Value = serde_json::from_str(&text(FILE)).expect(FILE);
    let tables = file["tables"].as_object().expect("tables");
    let mut shown = BTreeSet::new();
    for page in PAGES {
        let page_text = text(page);
        let mut lines = page_text.lines().map(str::trim_start);
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix(BEGIN) else { continue };
            let name = name.trim_end_matches(" -->");
            let kept = tables.get(name).unwrap_or_else(|| panic!("{page}: {FILE} has no table `{name}`"));
            let table = &kept["table"];
            let columns = table["heading"].as_array().expect("a heading").len();
            let mut expected = vec![row(&table["heading"]), format!("|{}", "---|".repeat(columns))];
            expected.extend(table["rows"].as_array().expect("rows").iter().map(row));
            let found: Vec<&str> = lines.by_ref().take_while(|line| *line != END).collect();
            assert_eq!(found, expected, "{page}, table `{name}`: run `firstseen-lab figures --pages-only`");
            shown.insert(name.to_owned());
        }
    }
    let unused: Vec<_> = tables.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(unused.is_empty(), "no page shows {unused:?}");
}
