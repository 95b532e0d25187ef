// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What works but may not be what was meant, as far as the document alone tells.

use std::collections::HashMap;

use super::spec::{ClassSpec, RouteTo, Spec, TenantSpec};
use crate::document::choice::choice;
use crate::document::fault;
use crate::group::{self, HashMode};
use crate::id::InterfaceName;
use crate::maglev::TableSize;
use crate::tenant::PinQuota;

choice! {
    /// Machine name of a warning.
    #[non_exhaustive]
    pub enum WarningCode {
        /// No shard of a class takes new addresses.
        NoActiveShard = "no-active-shard",
        /// Addresses of a draining shard move at once.
        DrainsUnpinned = "drains-unpinned",
        /// Tenants may have more pins than there are.
        OverCommit = "over-commit",
        /// The table is small for its number of shards.
        SmallTable = "small-table",
        /// No interface brings a tenant's packets.
        NoInterfaces = "no-interfaces",
        /// Nobody can answer a tenant.
        NoGateway = "no-gateway",
        /// A member changes nothing.
        NoEffect = "no-effect",
        /// Packets leave by an interface of a tenant.
        TenantUplink = "tenant-uplink",
    }
}

/// What is missing where nobody can answer a tenant, and what follows.
pub(crate) const UNANSWERED: &str = "no gateway address that could answer: packets that are too \
                                     big, or may go nowhere, are dropped without a word";

/// Something that works but may not be what was meant.
pub type Warning = fault::Warning<WarningCode>;

impl Spec {
    /// The warnings that follow from the document alone: class by class, then tenant by tenant, each
    /// in the document's order. None of them refuses the specification.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let owners = self.owners();
        for class in &self.classes {
            of_class(class, self.limits.groups, &mut warnings);
            let mut shards: Vec<_> = class.shards.iter().collect();
            shards.sort_by_key(|shard| shard.origin.0.index);
            for shard in shards {
                if let Some(next_hop) = &shard.next_hop {
                    let pointer = || class.shard_pointer(shard);
                    tenant_uplink(&owners, &next_hop.interface, pointer, &mut warnings);
                }
            }
        }
        if let Some(message) = self.over_commit() {
            warnings.push(Warning::new("/tenants", WarningCode::OverCommit, message));
        }
        let mut tenants: Vec<_> = self.tenants.iter().collect();
        tenants.sort_by_key(|tenant| tenant.origin.0.index);
        for tenant in tenants {
            self.of_tenant(tenant, &mut warnings);
            let mut routes: Vec<_> = tenant.routes.iter().collect();
            routes.sort_by_key(|route| route.origin.0.index);
            for route in routes {
                if let RouteTo::Shard { next_hop, .. } = &route.to {
                    let pointer = || format!("{}/to", tenant.route_pointer(route));
                    tenant_uplink(&owners, &next_hop.interface, pointer, &mut warnings);
                }
            }
        }
        warnings
    }

    /// Pointers to the tenants' interfaces.
    fn owners(&self) -> HashMap<&InterfaceName, String> {
        let tenants = self.tenants.iter();
        let interfaces = tenants.flat_map(|tenant| {
            let interfaces = tenant.interfaces.iter();
            interfaces.map(|interface| (&interface.name, tenant.interface_pointer(interface)))
        });
        interfaces.collect()
    }

    /// What there is to say if tenants may have more pins than there are.
    fn over_commit(&self) -> Option<String> {
        let pinned = |class: &&ClassSpec| !class.settings.pin_idle.is_off();
        let pinned: Vec<_> = self.classes.iter().filter(pinned).collect();
        let uses = |mode| pinned.iter().any(|class| class.settings.hash_mode == mode);
        let mut pins = 0;
        let mut of = Vec::new();
        if uses(HashMode::Source) {
            pins += u64::from(self.limits.pins);
            of.push("limits.pins");
        }
        if uses(HashMode::Flow) {
            pins += u64::from(self.limits.flow_pins);
            of.push("limits.flow_pins");
        }
        let tenants = self.tenants.len();
        let quotas = self.tenants.iter().map(|tenant| tenant.pin_quota);
        // One tenant alone takes nothing from others.
        if of.is_empty() || tenants < 2 {
            return None;
        }
        let of = of.join(" and ");
        let without_limit = quotas.clone().filter(|&quota| quota == PinQuota::UNLIMITED);
        let without_limit = without_limit.count();
        let then = "one tenant can keep others from making pins";
        if without_limit > 0 {
            return Some(format!(
                "{without_limit} of {tenants} tenants may have any number of {pins} pins ({of}): \
                 {then}"
            ));
        }
        let sum: u64 = quotas.map(|PinQuota(quota)| u64::from(quota)).sum();
        (sum > pins).then(|| {
            format!(
                "the quotas of {tenants} tenants add up to {sum}, more than {pins} pins ({of}): \
                 {then}"
            )
        })
    }

    fn of_tenant(&self, tenant: &TenantSpec, warnings: &mut Vec<Warning>) {
        let table = tenant.table;
        let mut push = |pointer: String, code, message: String| {
            warnings.push(Warning::new(pointer, code, message));
        };
        if tenant.interfaces.is_empty() {
            push(
                format!("{}/interfaces", tenant.pointer()),
                WarningCode::NoInterfaces,
                format!("no interface brings packets of tenant {table}"),
            );
        }
        if tenant.mss && self.encap.mss.is_none() {
            push(
                format!("{}/mss", tenant.pointer()),
                WarningCode::NoEffect,
                format!("no segment size of tenant {table} is lowered, as encap.mss says none"),
            );
        }
        let mute: Vec<_> = tenant
            .interfaces
            .iter()
            .filter(|interface| interface.gateway6.is_none() && interface.gateway4.is_none())
            .collect();
        if let Some(first) = mute.first().filter(|_| tenant.icmp) {
            push(
                format!("{}/interfaces", tenant.pointer()),
                WarningCode::NoGateway,
                format!(
                    "{} of {} interfaces of tenant {table} ({} first) have {UNANSWERED}",
                    mute.len(),
                    tenant.interfaces.len(),
                    first.name
                ),
            );
        }
    }
}

fn of_class(class: &ClassSpec, limits: group::Limits, warnings: &mut Vec<Warning>) {
    let pointer = match class.origin.0 {
        Some(_) => format!("{}/shards", class.pointer()),
        None => class.pointer(),
    };
    let (name, active, size) = (class.class, class.active(), limits.table_size());
    if active == 0 {
        let shards = class.shards.len();
        let message = format!(
            "none of {shards} shards of {name} takes new addresses: packets without a pin are \
             dropped"
        );
        warnings.push(Warning::new(&pointer, WarningCode::NoActiveShard, message));
    }
    if size.below_rule(active) {
        let recommended = TableSize::recommended(active).map(TableSize::get);
        let recommended = recommended.filter(|&size| size <= group::Limits::MAX_TABLE_SIZE);
        let advice = match recommended {
            Some(size) => format!("limits.table_size {size} would do"),
            None => "no size would do".to_owned(),
        };
        let message = format!(
            "a table of {} slots has fewer than 100 for each of {active} active shards of {name}, \
             so that equal shares differ by more than 1 %; {advice}",
            size.get()
        );
        warnings.push(Warning::new(&pointer, WarningCode::SmallTable, message));
    }
    if class.settings.pin_idle.is_off() {
        let mut draining: Vec<_> = class.shards.iter().filter(|shard| shard.draining).collect();
        draining.sort_by_key(|shard| shard.origin.0.index);
        for shard in draining {
            let message = format!(
                "shard {} drains, and all its addresses move at once, as {name} has no pins",
                shard.sid
            );
            let pointer = class.shard_pointer(shard);
            warnings.push(Warning::new(pointer, WarningCode::DrainsUnpinned, message));
        }
    }
}

fn tenant_uplink(
    owners: &HashMap<&InterfaceName, String>,
    interface: &InterfaceName,
    pointer: impl Fn() -> String,
    warnings: &mut Vec<Warning>,
) {
    if let Some(owner) = owners.get(interface) {
        let message =
            format!("encapsulated packets leave by {interface}, which brings a tenant's ({owner})");
        let pointer = format!("{}/next_hop/interface", pointer());
        warnings.push(Warning::new(pointer, WarningCode::TenantUplink, message));
    }
}
