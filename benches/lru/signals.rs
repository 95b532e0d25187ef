// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What there is to see of an eviction, and what becomes of timers in entries.

use libbpf_rs::{MapCore, MapFlags, ObjectBuilder, ProgramInput};

/// Functions that are said to be traced to see evictions: which of them this kernel has. Inlined
/// ones are not there to be traced.
pub(crate) const FUNCTIONS: [&str; 3] = [
    "bpf_lru_list_pop_free_to_local",
    "bpf_lru_pop_free",
    "htab_lru_map_update_elem",
];

/// Whether each of [`FUNCTIONS`] can be traced, if the kernel lists its functions.
pub(crate) fn traceable() -> Option<[bool; FUNCTIONS.len()]> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").ok()?;
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let found = FUNCTIONS.map(|function| names.contains(&function));
    found.contains(&true).then_some(found)
}

/// Timers in the entries of a plain table of 1,048,576.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timers {
    pub(crate) made: u64,
    pub(crate) refused: u64,
    /// The last error, 0 if there was none.
    pub(crate) errno: i64,
}

/// Inserts so many flows with a timer each.
pub(crate) fn timers(flows: u32) -> Timers {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/lru_timer.bpf.o"));
    let open = ObjectBuilder::default()
        .open_memory(bytes)
        .expect("the object opens");
    let object = open.load().expect("the program loads");
    let program = object.progs_mut().next().expect("a program");
    let frame = [0; 64];
    let input = ProgramInput {
        data_in: Some(&frame),
        repeat: flows,
        ..Default::default()
    };
    const DROP: u32 = 1;
    let ran = program.test_run(input).expect("the program runs");
    assert_eq!(ran.return_value, DROP, "a flow has no entry");
    let mut maps = object.maps();
    let map = maps.find(|map| map.name() == "lru_timers").expect("a map");
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let value = value.expect("readable").expect("an array has all entries");
    let word = |index: usize| {
        let bytes = &value[8 * index..8 * (index + 1)];
        i64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    };
    let timers = Timers {
        made: word(0) as u64,
        refused: word(1) as u64,
        errno: -word(2),
    };
    assert_eq!(timers.made + timers.refused, u64::from(flows));
    timers
}
