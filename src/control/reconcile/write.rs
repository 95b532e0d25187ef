// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes that tenants lack.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::facts::{Facts, TenantFacts};
use crate::control::plan::Repair;
use crate::egress_spec::RouteTarget;
use crate::group::Class;
use crate::route::Key;

/// Drafts a route for each configured prefix that a tenant has none for: without one its packets
/// would follow a shorter prefix, to shards that do not translate them. Rows without sense are
/// written over if `rewrite` says so.
pub(super) fn missing(
    facts: &Facts<'_>,
    draft: &mut Draft,
    rewrite: bool,
    to: impl Fn(Class) -> RouteTarget,
) {
    let routed = facts.observed.routes.keys();
    let known: BTreeSet<_> = routed
        .filter_map(|key| facts.class_of(key.prefix))
        .collect();
    let writable = facts.tenants.iter();
    for (table, tenant) in writable.filter(|(_, tenant)| TenantFacts::is_writable(tenant)) {
        let mut routes = BTreeMap::new();
        for (prefix, class) in facts.prefixes() {
            let key = Key::new(*table, prefix);
            let senseless = facts.observed.senseless.contains_key(&key);
            let there = facts.observed.routes.contains_key(&key)
                || (senseless && !(rewrite && facts.is_rewritten(&key)));
            if there {
                continue;
            }
            routes.insert(prefix, to(class));
            // Of a class that nobody has a route for yet, none is missing: it is new.
            if senseless || known.contains(&class) {
                draft.repaired(Repair::Missing);
            }
        }
        if !routes.is_empty() {
            draft.writes.push((tenant.tenant, routes));
        }
    }
}
