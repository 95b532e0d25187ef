// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A picture in the terminal: redrawn in place, or in plain snapshots where there is none.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Without a terminal, a snapshot this often.
const SNAPSHOT: Duration = Duration::from_secs(5);

/// The terminal, or what stands in for it.
pub(crate) struct Screen {
    terminal: bool,
    started: Instant,
    /// Lines of the picture that the next one replaces.
    drawn: usize,
    last: Instant,
}

impl Screen {
    pub(crate) fn new() -> Screen {
        let now = Instant::now();
        Screen {
            terminal: io::stdout().is_terminal(),
            started: now,
            drawn: 0,
            last: now,
        }
    }

    /// Prints text that stays, below what was drawn last.
    pub(crate) fn say(&mut self, text: &str) {
        self.drawn = 0;
        print(&format!("{text}\n"));
    }

    /// Shows the picture of this moment. `render` makes it, of the time since the start.
    pub(crate) fn draw(&mut self, render: impl FnOnce(Duration) -> String) {
        if self.terminal {
            self.replace(render);
        } else if self.last.elapsed() >= SNAPSHOT {
            self.keep(render);
            self.say("");
        }
    }

    /// Shows the picture that ends a step and leaves it on the screen.
    pub(crate) fn keep(&mut self, render: impl FnOnce(Duration) -> String) {
        self.replace(render);
        self.drawn = 0;
        self.last = Instant::now();
    }

    fn replace(&mut self, render: impl FnOnce(Duration) -> String) {
        let text = render(self.started.elapsed());
        let up = match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        };
        self.drawn = text.lines().count();
        print(&format!("{up}{text}"));
    }
}

/// Not `print!`, which panics when the reader has gone.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A bar as long as `value`, with a mark where `plan` would end it; both are fractions of `cells`.
pub(crate) fn bar(value: f64, plan: f64, cells: usize) -> String {
    let cell = |fraction: f64| (fraction * cells as f64).round() as usize;
    let (end, mark) = (cell(value), cell(plan));
    (0..=cells)
        .map(|n| match (n < end, n == mark && plan > 0.0) {
            (true, true) => '▒',
            (true, false) => '█',
            (false, true) => '│',
            (false, false) => ' ',
        })
        .collect()
}
