// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the kernel must be able to do, and this process must be allowed to, tried without an effect.

use crate::kernel::probe::{self, Capability};
use crate::kernel::statedir::StateDir;

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreflightCheck {
    /// What it is: `map type lpm_trie`.
    pub name: &'static str,
    /// Nothing goes without it.
    pub needed: bool,
    /// Why it is not there; none if it is.
    pub missing: Option<String>,
}

/// Tries everything that an instance at `dir` needs. Nothing is left behind.
///
/// Without the rights to try the rest, the rights are all that is tried.
#[must_use]
pub fn preflight(dir: &StateDir) -> Vec<PreflightCheck> {
    let lacked = probe::missing(&[Capability::Bpf, Capability::NetAdmin]);
    let rights = match lacked.as_slice() {
        [] => None,
        lacked => {
            let names: Vec<_> = lacked.iter().map(ToString::to_string).collect();
            Some(format!("this process lacks {}", names.join(" and ")))
        }
    };
    let may_try = rights.is_none();
    let mut checks = vec![
        needed("rights", rights),
        needed("bpffs", dir.exists().err().map(|error| error.to_string())),
        needed(
            "locks on the bpffs",
            dir.can_lock().err().map(|error| error.to_string()),
        ),
    ];
    if may_try {
        checks.extend(
            probe::egress()
                .into_iter()
                .map(|(name, needed, missing)| PreflightCheck {
                    name,
                    needed,
                    missing,
                }),
        );
    }
    checks
}

fn needed(name: &'static str, missing: Option<String>) -> PreflightCheck {
    PreflightCheck {
        name,
        needed: true,
        missing,
    }
}
