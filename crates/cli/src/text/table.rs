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
    pub fn row<const COLUMNS: usize>(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row.iter().map(|cell| printable(cell)).collect());
    }

    /// The table, each row on a line.
    ///
    /// The last column is not filled up.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let letters = |cell: &String| cell.chars().count();
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(letters).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
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
