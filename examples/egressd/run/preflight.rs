// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A look at the machine before anything is made.

use std::collections::BTreeSet;

use guideway::control::metrics::{Label, Optional};
use guideway::error::ErrorKind;
use guideway::kernel::statedir::StateDir;
use guideway::quiclb::ErrorFault;

use super::config::Config;
use super::log::Log;
use crate::tool::Failure;

/// Makes sure that the kernel can do what is needed, and that this process may. What it lacks of what
/// it can do without.
///
/// # Errors
/// Everything that is missing, at once.
pub(crate) fn preflight(config: &Config, log: &Log) -> Result<BTreeSet<Optional>, Failure> {
    let dir = StateDir::egress_at(&config.state_dir);
    let checks = guideway::egress::preflight(&dir);
    for check in checks.iter().filter(|check| !check.needed) {
        if let Some(why) = &check.missing {
            log.info(
                "preflight",
                &format!("goes on without {}: {why}", check.name),
            );
        }
    }
    let faults: Vec<_> = checks
        .iter()
        .filter_map(|check| {
            let why = check.missing.as_ref().filter(|_| check.needed)?;
            Some(ErrorFault {
                pointer: check.name.to_owned(),
                code: "preflight".to_owned(),
                message: why.clone(),
            })
        })
        .collect();
    if faults.is_empty() {
        let missing = |name| {
            checks
                .iter()
                .any(|one| one.name == name && one.missing.is_some())
        };
        let optional = Optional::ALL.iter().copied();
        return Ok(optional.filter(|one| missing(one.check())).collect());
    }
    let count = faults.len();
    let message = format!(
        "this machine cannot run it: {count} of {} checks failed",
        checks.len()
    );
    Err(Failure::new(ErrorKind::Preflight, message).with_faults(faults))
}
