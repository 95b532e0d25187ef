// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tables and bars for people, readable without colours.

use std::fmt::Display;

/// Lines of cells, printed with aligned columns.
pub(crate) struct Table {
    indent: usize,
    right: &'static [usize],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings; the columns `right` are aligned to the right.
    pub(crate) fn new(indent: usize, headings: &[&str], right: &'static [usize]) -> Self {
        let headings = headings
            .iter()
            .map(|heading| (*heading).to_owned())
            .collect();
        Self {
            indent,
            right,
            rows: vec![headings],
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [&dyn Display; N]) {
        self.rows
            .push(cells.iter().map(ToString::to_string).collect());
    }

    pub(crate) fn write(&self, text: &mut String) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        // Headings may be missing altogether.
        let lines = self
            .rows
            .iter()
            .filter(|row| row.iter().any(|cell| !cell.is_empty()));
        for row in lines {
            let mut line = " ".repeat(self.indent);
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                if self.right.contains(&column) {
                    line.push_str(&format!("{cell:>width$}  "));
                } else {
                    line.push_str(&format!("{cell:<width$}  "));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

/// Characters of a full bar.
const BAR: usize = 24;

/// A fraction from 0 to 1 as a bar.
pub(crate) fn bar(fraction: f64) -> String {
    // Between 0 and BAR, so the cast is exact.
    let full = (fraction.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "#".repeat(full), ".".repeat(BAR - full))
}

pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.2} %", fraction * 100.0)
}

/// A value, or a dash.
pub(crate) fn or_dash<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A block of lines that each begin with how they ended; nothing if there are none.
pub(crate) fn checks<'a>(
    text: &mut String,
    heading: &str,
    lines: impl IntoIterator<Item = (&'a str, String, &'a str, String, Option<&'a str>)>,
) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_none() {
        return;
    }
    text.push_str(&format!("\n{heading}\n"));
    for (result, code, object, message, remedy) in lines {
        text.push_str(&format!("  {result:<8} {code} {object}: {message}\n"));
        if let Some(remedy) = remedy {
            text.push_str(&format!("           -> {remedy}\n"));
        }
    }
}
