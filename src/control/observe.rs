// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads what there is, before it is reconciled.

use std::collections::BTreeMap;

use super::kernel::{Failure, Kernel, Routes, Stage, Tenants};
use super::observed::{Observed, Reachability};
use crate::group::GroupId;

/// Reads all of what there is. `reach` finds the ways to the shards that it is given in the groups and
/// routes, and to whatever others it knows of; what it is given lacks only that. `with_pins` counts
/// live pins, which takes a look at each of them and serves the predicted effect alone.
///
/// # Errors
/// Something cannot be read to its end: nothing is to be done in this round. The stage is
/// [`Stage::Ownership`] for the groups, [`Stage::Census`] for the rest.
pub fn observe(
    kernel: &(impl Kernel + ?Sized),
    with_pins: bool,
    reach: impl FnOnce(&Observed) -> Reachability,
) -> Result<Observed, Failure> {
    let failed = |stage, object| move |cause| Failure::new(stage, object, cause);
    let ownership = |object| failed(Stage::Ownership, object);
    let census = |object| failed(Stage::Census, object);

    let (now, now_ns) = (kernel.now(), kernel.wall_ns());
    let groups = kernel.groups().map_err(ownership("groups"))?;
    let mut contexts = BTreeMap::new();
    // Also of groups that were never opened: numbers of a publication that failed are not to be used
    // again.
    let limits = kernel.limits();
    for group in (0..limits.groups().into()).filter_map(GroupId::new) {
        let context = kernel.context(group);
        let context = context.map_err(|cause| {
            let object = format!("counters of group {group}");
            Failure::new(Stage::Ownership, object, cause)
        })?;
        contexts.insert(group, context);
    }
    let encap = kernel.encap().map_err(ownership("configuration"))?;
    let Routes {
        by_key: routes,
        senseless,
        mut unreadable,
    } = kernel.routes().map_err(census("routes"))?;
    let Tenants {
        by_interface: tenants,
        unreadable: no_tenants,
    } = kernel.tenants().map_err(census("interfaces of tenants"))?;
    unreadable.extend(no_tenants);
    let pins = match with_pins {
        true => Some(kernel.pins().map_err(census("pins"))?),
        false => None,
    };
    let mut observed = Observed {
        encap,
        limits,
        groups,
        contexts,
        routes,
        senseless,
        unreadable,
        tenants,
        reach: Reachability::default(),
        pins,
        now,
        now_ns,
    };
    observed.reach = reach(&observed);
    Ok(observed)
}
