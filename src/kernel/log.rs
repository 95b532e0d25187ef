// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What libbpf would print on stderr, caught where it belongs to a call of ours.
//!
//! libbpf has one print function for the whole process. The first [`Capture`] puts ours in its
//! place: messages of a thread that captures go into the capture, all others to the function that
//! was there before. A program that later sets a function of its own gets all messages there.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use libbpf_rs::{get_print, set_print, PrintCallback, PrintLevel};

static PREVIOUS: OnceLock<Option<(PrintLevel, PrintCallback)>> = OnceLock::new();

thread_local! {
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Catches what libbpf says about the calls of this thread. Captures do not nest.
#[derive(Debug)]
pub(super) struct Capture {
    /// The capture belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Capture {
    pub(super) fn start() -> Self {
        CAUGHT.with_borrow_mut(|caught| *caught = Some(String::new()));
        PREVIOUS.get_or_init(|| {
            let previous = get_print();
            set_print(Some((PrintLevel::Info, catch)));
            previous
        });
        Self {
            thread: PhantomData,
        }
    }

    /// The messages, without libbpf's own mark at the start of each.
    pub(super) fn finish(self) -> String {
        let text = CAUGHT.with_borrow_mut(Option::take).unwrap_or_default();
        text.lines()
            .map(|line| line.strip_prefix("libbpf: ").unwrap_or(line))
            // Memory is accounted to the control group; the advice to raise a limit misleads.
            .filter(|line| !line.contains("ulimit"))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        CAUGHT.with_borrow_mut(|caught| *caught = None);
    }
}

/// libbpf-rs calls this with a lock of its own held: nothing here may take a lock that is held
/// while libbpf-rs is called.
fn catch(level: PrintLevel, message: String) {
    let others = CAUGHT.with_borrow_mut(|caught| match caught {
        Some(text) => {
            text.push_str(&message);
            None
        }
        None => Some(message),
    });
    if let Some(message) = others {
        if let Some(Some((lowest, print))) = PREVIOUS.get() {
            if level <= *lowest {
                print(level, message);
            }
        }
    }
}
