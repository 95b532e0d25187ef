// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What can be seen of evictions, and timers.

use serde_json::json;

use crate::report::{Report, Truth};
use crate::signals;
use crate::Extent;

/// Traceable functions and timers.
pub(crate) fn visible(extent: &Extent, report: &mut Report) {
    if let Some(found) = signals::traceable() {
        let texts = signals::FUNCTIONS.iter().zip(found);
        let texts =
            texts.map(|(name, found)| format!("{name}: {}", if found { "yes" } else { "no" }));
        report.claim(
            "Evictions can be seen by tracing bpf_lru_list_pop_free_to_local",
            (
                Truth::Refuted,
                "inlined; bpf_lru_pop_free and htab_lru_map_update_elem are there",
            ),
            (Truth::of(found[0]), texts.collect::<Vec<_>>().join(", ")),
        );
    }
    let timers = signals::timers(extent.timers);
    report.row(
        "timers",
        json!({"made": timers.made, "refused": timers.refused, "errno": timers.errno}),
    );
    report.claim(
        "A kernel timer in each entry is no way to forget idle flows",
        (Truth::Holds, "-ENOMEM for ever after 213 to 437 timers"),
        (
            Truth::of(timers.refused > 0),
            format!(
                "{} timers made, {} refused, errno {}",
                timers.made, timers.refused, timers.errno
            ),
        ),
    );
}
