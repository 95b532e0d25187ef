// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of an instance is not as it should be.

use std::collections::{BTreeMap, BTreeSet};

use super::collect::{quota, Look};
use super::finding::{Finding, FindingCode};
use crate::egress::LoopMode;
use crate::group::{MemberState, State};
use crate::reason::egress::End;

/// Of a table of pins, the tenths from which on it is said that it fills.
const FULL_TENTHS: u64 = 9;

impl Look {
    /// Everything that is not as it should be.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some((pin, message)) = &self.encap_lost {
            findings.push(Finding::new(FindingCode::LostPin, pin, message.as_str()));
        } else if self.encap.is_none() {
            let message = "no configuration is published: packets pass untouched";
            findings.push(Finding::new(
                FindingCode::NoConfiguration,
                "configuration",
                message,
            ));
        }
        self.of_kernel(&mut findings);
        self.of_keeper(&mut findings);
        self.of_groups(&mut findings);
        self.of_routes(&mut findings);
        self.of_interfaces(&mut findings);
        self.of_tenants(&mut findings);
        self.of_pins(&mut findings);
        self.of_program(&mut findings);
        for end in [End::BadSnapshot, End::MemberDead] {
            let count = self.stats.ends.get(&end).copied().unwrap_or(0);
            if count > 0 {
                let message = format!("{count} packets: {}", end.explanation());
                findings.push(Finding::new(FindingCode::Internal, end, message));
            }
        }
        findings
    }

    fn of_kernel(&self, findings: &mut Vec<Finding>) {
        for check in &self.preflight {
            if let Some(why) = &check.missing {
                let (code, name) = (FindingCode::MissingFeature, check.name);
                findings.push(Finding::new(code, name, why.clone()));
            }
        }
    }

    /// What the loop says of itself, and groups against what it was told.
    fn of_keeper(&self, findings: &mut Vec<Finding>) {
        let mut find =
            |code, object: &str, message| findings.push(Finding::new(code, object, message));
        let report = match &self.keeper {
            Ok(Some(report)) => report,
            Ok(None) => return,
            Err(error) => return find(FindingCode::UnknownRows, "loop", error.clone()),
        };
        if let Some(ago) = report.stale(self.now_ns) {
            let message = format!("no sweep has succeeded for {} s", ago.as_secs());
            find(FindingCode::StaleSweep, "loop", message);
        }
        for failure in &report.failures {
            find(FindingCode::FailingSweep, "loop", failure.clone());
        }
        if let Some(why) = &report.unsynced {
            find(FindingCode::Unsynced, "loop", why.clone());
        }
        if report.mode != LoopMode::Hashed {
            for (class, why) in &report.unserved {
                find(FindingCode::UnservedClass, class, why.clone());
            }
            return;
        }
        let minimum = report.pool_min_active;
        for class in &report.classes {
            let mut groups = self.groups.iter().filter(|group| group.forwards());
            let Some(group) = groups.find(|group| group.class.to_string() == *class) else {
                let message = "no group forwards for it: packets of its routes are dropped";
                find(FindingCode::UnservedClass, class, message.to_owned());
                continue;
            };
            let active = group.count(MemberState::Active);
            // That there is none at all is found of every group.
            if active > 0 && (active as u64) < u64::from(minimum) {
                let message = format!("{active} active members, fewer than {minimum}");
                find(FindingCode::BelowMinimum, class, message);
            }
        }
    }

    fn of_groups(&self, findings: &mut Vec<Finding>) {
        for (group, error) in &self.damaged {
            let code = FindingCode::DamagedGroup;
            let is_known = self.groups.iter().any(|known| known.group == *group);
            let remedy = match is_known {
                true => Some("egressd run in hashed mode publishes what is left of it anew"),
                false => error.remedy(),
            };
            findings.push(Finding {
                remedy,
                ..Finding::new(code, format!("group {group}"), error.to_string())
            });
        }
        let mut classes = BTreeMap::new();
        for group in self.groups.iter().filter(|group| group.forwards()) {
            let mut find = |code, message| findings.push(Finding::new(code, group.class, message));
            if let Some(first) = classes.insert(group.class, group.group) {
                let message = format!("groups {first} and {} forward for it", group.group);
                find(FindingCode::DuplicateClass, message);
            }
            if group.state == State::Closing {
                let routes = self.census.of(group.group);
                let foreign = self.census.foreign_of(group.group);
                let message = format!(
                    "group {} closes, and {routes} routes lead to it, {foreign} of them of others",
                    group.group
                );
                find(FindingCode::ClosingGroup, message);
            }
            if !group
                .members
                .iter()
                .any(|member| member.is_active() && member.weight > 0)
            {
                let message = format!(
                    "none of {} members takes new addresses: packets without a pin are dropped",
                    group.members.len()
                );
                find(FindingCode::NobodyActive, message);
            }
            for member in &group.members {
                if member.state() == MemberState::Unreachable {
                    let message = format!("nothing reaches shard {}", member.sid);
                    find(FindingCode::UnreachableShard, message);
                }
            }
        }
    }

    fn of_routes(&self, findings: &mut Vec<Finding>) {
        if self.census.dead > 0 {
            let message = format!(
                "{} routes lead to a group that is gone: their packets are dropped",
                self.census.dead
            );
            findings.push(Finding::new(FindingCode::DeadRoutes, "routes", message));
        }
        if let Some(first) = self.census.unknown.first() {
            let message = format!("{}, the first: {first}", self.census.unknown.len());
            findings.push(Finding::new(FindingCode::UnknownRows, "routes", message));
        }
    }

    fn of_interfaces(&self, findings: &mut Vec<Finding>) {
        let attached = self.attachments.iter();
        let attached = attached.filter(|view| self.is_alive(view));
        let mut attached: BTreeSet<_> = attached.map(|view| view.ifindex).collect();
        for link in &self.unpinned {
            attached.insert(link.ifindex);
            let message = format!(
                "link {} holds program {} and is not pinned there: it ends with whatever keeps it",
                link.link_id, link.program_id
            );
            let name = self.interfaces.name(link.ifindex);
            findings.push(Finding::new(FindingCode::UnpinnedLink, name, message));
        }
        for (ifindex, tenant) in &self.tenants {
            let name = self.interfaces.name(*ifindex);
            let whose = format!("an interface of tenant {}", tenant.table);
            if self.interface(*ifindex, &whose, findings) && !attached.contains(ifindex) {
                let message = format!("{whose}, and the program is not on it: its packets pass");
                findings.push(Finding::new(FindingCode::NotAttached, name, message));
            }
        }
        for advice in self.interfaces.advice(self.tenants.keys()) {
            let (name, message) = (advice.interface, advice.message);
            findings.push(Finding::new(FindingCode::LargeSegments, name, message));
        }
        for view in &self.attachments {
            if !self.tenants.contains_key(&view.ifindex) {
                let message = "the program is attached there, and it is no tenant's";
                let name = self.interfaces.name(view.ifindex);
                findings.push(Finding::new(FindingCode::AttachedForNobody, name, message));
            }
        }
        let forwarding = self.groups.iter().filter(|group| group.forwards());
        let members = forwarding.flat_map(|group| &group.members);
        let hops = members.filter_map(|member| member.next_hop);
        let uplinks: BTreeSet<_> = hops.map(|hop| hop.ifindex()).collect();
        for ifindex in uplinks {
            self.uplink(ifindex, findings);
        }
    }

    fn uplink(&self, ifindex: u32, findings: &mut Vec<Finding>) {
        let name = self.interfaces.name(ifindex);
        let (code, what) = match self.interfaces.get(ifindex) {
            None => (FindingCode::NoInterface, "does not exist any more"),
            Some(interface) if !interface.up => (FindingCode::UplinkDown, "is down"),
            Some(interface) if !interface.carrier => (FindingCode::UplinkDown, "has no carrier"),
            Some(_) => return,
        };
        let message = format!("the interface to shards {what}: packets to them are lost");
        let finding = Finding::new(code, name, message);
        let remedy = match code {
            // No tenant's.
            FindingCode::NoInterface => Some(
                "apply a specification that names interfaces which are there; egressd run finds other \
                 ways by itself",
            ),
            _ => finding.remedy,
        };
        findings.push(Finding { remedy, ..finding });
    }

    /// Whether the interface is there.
    fn interface(&self, ifindex: u32, what: &str, findings: &mut Vec<Finding>) -> bool {
        let name = self.interfaces.name(ifindex);
        match self.interfaces.get(ifindex) {
            None => {
                let message = format!("{what} does not exist any more");
                findings.push(Finding::new(FindingCode::NoInterface, name, message));
                false
            }
            Some(interface) => {
                if !interface.up {
                    let message = format!("{what} is down");
                    findings.push(Finding::new(FindingCode::InterfaceDown, name, message));
                }
                true
            }
        }
    }

    fn of_tenants(&self, findings: &mut Vec<Finding>) {
        for table in self.tables() {
            let object = format!("tenant {table}");
            let Some((_, tenant)) = self.rows(table).next() else {
                let routes = self.census.tables.get(&table).copied().unwrap_or(0);
                let pins = self.tenant_pins(table).pins.total();
                let message = format!("no interface, {routes} routes, {pins} pins");
                findings.push(Finding::new(FindingCode::AbandonedTenant, object, message));
                continue;
            };
            let pins = self.tenant_pins(table);
            let quota = quota(tenant).filter(|&quota| quota > 0).map(u64::from);
            if quota.is_some_and(|quota| pins.counted >= Some(quota)) {
                let message = format!(
                    "has all {} pins that it may have; {} were refused ever",
                    pins.counted.unwrap_or(0),
                    pins.refused
                );
                findings.push(Finding::new(FindingCode::QuotaReached, object, message));
            }
        }
    }

    fn of_program(&self, findings: &mut Vec<Finding>) {
        let object = format!("program {}", self.program);
        if !self.is_of_this_build {
            let message = match &self.build {
                Some(build) => format!("is of build {build}, which is not this tool's"),
                None => "nothing tells of which build it is".to_owned(),
            };
            findings.push(Finding::new(FindingCode::OtherBuild, &object, message));
        }
        let of = |id| {
            let views = self.attachments.iter();
            views.filter(|view| view.program_id == Some(id)).count()
        };
        let this = of(self.program);
        let message = match (self.next_program, self.previous_program) {
            (Some(next), _) => format!(
                "{} interfaces run program {next}, which is to follow, and {this} this one",
                of(next)
            ),
            (None, Some(previous)) if of(previous) > 0 => format!(
                "{} interfaces run program {previous}, which was before, and {this} this one",
                of(previous)
            ),
            _ => return,
        };
        findings.push(Finding::new(FindingCode::OpenExchange, &object, message));
    }

    fn of_pins(&self, findings: &mut Vec<Finding>) {
        for (table, drift) in &self.drift {
            let pins = self.tenant_pins(*table);
            let message = format!(
                "{} pins are counted, {} are there: {drift:+}",
                pins.counted.unwrap_or(0),
                pins.pins.total()
            );
            let object = format!("tenant {table}");
            findings.push(Finding::new(FindingCode::PinDrift, object, message));
        }
        if self.pins.unreadable > 0 {
            let message = format!("{} pins make no sense", self.pins.unreadable);
            findings.push(Finding::new(FindingCode::UnknownRows, "pins", message));
        }
        let tables = [
            (
                "pins of addresses",
                self.pins.by_source,
                self.pins.source_capacity,
            ),
            ("pins of flows", self.pins.by_flow, self.pins.flow_capacity),
        ];
        for (what, used, capacity) in tables {
            if used * 10 >= u64::from(capacity) * FULL_TENTHS {
                let message =
                    format!("{used} of {capacity} are in use; a full table takes no more");
                findings.push(Finding::new(FindingCode::PinsFill, what, message));
            }
        }
    }
}
