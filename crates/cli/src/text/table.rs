//! Formats tables for users, with aligned columns. A cell may contain a text from another user, such as the name of a
//! filter. Control characters in a cell are therefore escaped, so that the text cannot move the cursor of the terminal.

use firstseen_records::printable;

/// A table of rows below a heading.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Returns the table as text, with one row per line. The last column is not padded.
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
