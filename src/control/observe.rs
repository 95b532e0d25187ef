// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads what there is, before it is reconciled.

use std::collections::BTreeMap;

use super::kernel::{Failure, Groups, Kernel, Look, Routes, Stage, Tenants};
use super::observed::{GroupContext, Observed, Reachability};
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
    // Also of groups that were never opened: numbers of a publication that failed are not to be used
    // again.
    let contexts = || {
        let groups = (0..kernel.limits().groups().into()).filter_map(GroupId::new);
        let contexts = groups.map(|group| {
            let context = kernel.context(group).map_err(|cause| {
                let object = format!("counters of group {group}");
                Failure::new(Stage::Ownership, object, cause)
            });
            Ok((group, context?))
        });
        contexts.collect()
    };
    read(kernel, with_pins, contexts, reach)
}

/// The same for who publishes nothing: plans that are made of it tell what would be done, and cannot
/// be published.
///
/// # Errors
/// As [`observe`].
pub fn observe_only(
    node: &(impl Look + ?Sized),
    with_pins: bool,
    reach: impl FnOnce(&Observed) -> Reachability,
) -> Result<Observed, Failure> {
    read(node, with_pins, || Ok(BTreeMap::new()), reach)
}

fn read(
    kernel: &(impl Look + ?Sized),
    with_pins: bool,
    contexts: impl FnOnce() -> Result<BTreeMap<GroupId, GroupContext>, Failure>,
    reach: impl FnOnce(&Observed) -> Reachability,
) -> Result<Observed, Failure> {
    let failed = |stage, object| move |cause| Failure::new(stage, object, cause);
    let ownership = |object| failed(Stage::Ownership, object);
    let census = |object| failed(Stage::Census, object);

    let (now, now_ns) = (kernel.now(), kernel.wall_ns());
    let Groups { known, damaged } = kernel.groups().map_err(ownership("groups"))?;
    let contexts = contexts()?;
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
        limits: kernel.limits(),
        groups: known,
        damaged,
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
