// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the kernel's LRU hash tables do to live flows, beside plain hash tables, which refuse what
//! they have no room for.
//!
//! Flows are inserted, looked up and written by programs on chosen CPUs; survivors are counted from
//! user space, which marks nothing as used. Each number is printed beside that of an earlier
//! measurement, and at the end stands what is true of what is said about LRU tables. Writes
//! `target/lru.svg`. Needs root, two CPUs and 1 GiB of memory; `GW_QUICK=1` uses small tables.

#[path = "../common/measure.rs"]
mod measure;
#[path = "../../tests/common/netns.rs"]
mod netns;
#[path = "../../tests/common/programs.rs"]
mod programs;
#[path = "../../examples/common/svg.rs"]
mod svg;

mod costs;
mod flood;
mod occupancy;
mod plot;
mod report;
mod show;
mod signals;
mod table;

use std::path::PathBuf;

use guideway::kernel::probe;
use report::Report;

/// How much is measured, and where.
struct Extent {
    /// Tables that are filled in every way.
    sizes: &'static [u32],
    /// A table that is filled in a few ways.
    large: u32,
    flooded: u32,
    /// Units of the table's size.
    flood: f64,
    rounds: usize,
    /// Flows that get a timer.
    timers: u32,
    all_cpus: Vec<usize>,
    /// Two of them.
    cpus: [usize; 2],
    possible_cpus: u32,
}

impl Extent {
    fn new(quick: bool) -> Self {
        let full = Self {
            sizes: &[16_384, 65_536],
            large: 1 << 20,
            flooded: 65_536,
            flood: 8.0,
            rounds: 3,
            timers: 10_000,
            all_cpus: table::cpus(),
            cpus: table::two_cpus().expect("two CPUs"),
            possible_cpus: probe::possible_cpus().expect("the number of CPUs") as u32,
        };
        if !quick {
            return full;
        }
        Self {
            sizes: &[4096],
            large: 32_768,
            flooded: 16_384,
            flood: 2.0,
            rounds: 3,
            timers: 1000,
            ..full
        }
    }
}

fn main() {
    // `cargo test` builds and runs benches too: that they run is enough there.
    let quick = !std::env::args().any(|argument| argument == "--bench")
        || std::env::var_os("GW_QUICK").is_some();
    if !netns::require_kernel("benches/lru") {
        return;
    }
    let extent = Extent::new(quick);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    println!(
        "Linux {}, {} possible CPUs\n",
        release.trim(),
        extent.possible_cpus
    );
    let mut report = Report::new(!quick);
    let fillings = show::filling::fill_up(&extent, &mut report);
    show::filling::small_tables(&extent, &mut report);
    show::filling::updates(&extent, &mut report);
    let floods = show::floods::flood_all(&extent, &mut report);
    show::costs::compare(&extent, &mut report);
    show::signals::visible(&extent, &mut report);
    println!();
    report.print_claims();
    if quick {
        return;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/target").into());
    let picture = target.join("lru.svg");
    std::fs::write(&picture, plot::draw(&floods, &fillings)).expect("the picture is written");
    println!("\n{}", picture.display());
}
