// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Processes that are killed before and after every step of an exchange.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use guideway::kernel::program::Program;
use nix::sys::signal::{raise, Signal};

const ROLE: &str = "GW_TEST_ROLE";
const STEP: &str = "GW_TEST_KILLED_AT";

/// Runs `test` in a process of its own, which is told who it is and at which step to kill itself;
/// whether it came to that step.
pub(crate) fn killed(test: &str, role: &str, step: usize) -> bool {
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env(STEP, step.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("a child");
    assert!(
        status.success() || status.signal() == Some(9),
        "{role} at step {step}: {status}"
    );
    !status.success()
}

/// Who this process is and how many steps it makes, if it is one of those above.
pub(crate) fn role() -> Option<(String, Steps)> {
    let role = std::env::var(ROLE).ok()?;
    let left = std::env::var(STEP).expect("a step").parse();
    let left = left.expect("a number");
    Some((role, Steps { left }))
}

pub(crate) struct Steps {
    left: usize,
}

impl Steps {
    /// Makes another one, or dies.
    pub(crate) fn go_on(&mut self) {
        if self.left == 0 {
            raise(Signal::SIGKILL).expect("killed");
        }
        self.left -= 1;
    }
}

/// Every name below a directory.
pub(crate) fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.into_string().expect("text"))
        .collect()
}

/// What there is in the kernel of an instance, pinned or not: programs that use its map, the maps of
/// those programs, and links that run them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) programs: BTreeSet<u32>,
    pub(crate) maps: usize,
    pub(crate) links: usize,
}

pub(crate) fn objects(map_id: u32) -> Objects {
    let (mut programs, mut maps) = (BTreeSet::new(), BTreeSet::new());
    let options = libbpf_rs::query::ProgInfoQueryOptions::default().include_map_ids(true);
    for program in libbpf_rs::query::ProgInfoIter::with_query_opts(options) {
        if program.map_ids.contains(&map_id) {
            programs.insert(program.id);
            maps.extend(program.map_ids);
        }
    }
    let links = libbpf_rs::query::LinkInfoIter::default();
    let links = links.filter(|link| programs.contains(&link.prog_id));
    Objects {
        links: links.count(),
        maps: maps.len(),
        programs,
    }
}

/// There are no other programs of the instance than these pinned ones, and as many links. What died
/// with its process goes a little later.
#[track_caller]
pub(crate) fn nothing_leaks(map_id: u32, pinned: &[&Path], links: usize) {
    let ids = pinned.iter().map(|pin| {
        let program = Program::open(pin);
        program.expect("a pinned program").id()
    });
    let ids: BTreeSet<u32> = ids.collect();
    let alone = || {
        let objects = objects(map_id);
        objects.programs == ids && objects.links == links
    };
    assert!(
        crate::netns::within(Duration::from_secs(20), alone),
        "{ids:?}, {links}: {:?}",
        objects(map_id)
    );
}
