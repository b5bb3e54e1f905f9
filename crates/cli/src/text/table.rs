//! Tables for people.
//!
//! Promises: columns line up; text of others cannot move a terminal's cursor. Must not know: what the tables show.

use firstseen_records::printable;

/// Rows under a heading.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// The table, each row on a line.
    ///
    /// The last column is not filled up.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let lines = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["node", "address"]);
        table.row(["long-name".to_owned(), "a:1".to_owned()]);
        table.row(["b\n".to_owned(), "b:2".to_owned()]);
        assert_eq!(table.text(), "node       address\nlong-name  a:1\nb\\n        b:2\n");
    }
}
