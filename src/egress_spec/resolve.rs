// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Names of interfaces become what the datapath has in their place.

use std::collections::{BTreeMap, HashMap};

use super::spec::{
    ClassSpec, InterfaceSpec, NextHopSpec, RouteSpec, RouteTo, ShardSpec, Spec, TenantSpec,
};
use crate::addr::MacAddr;
use crate::document::fault::FaultCode::{self, Capacity, Duplicate, Mac, NoInterface, Range};
use crate::document::fault::Faults;
use crate::document::reader::{all, Checked, Report, Reported};
use crate::encap::Encap;
use crate::group::{Candidate, Class, Classes, ConfiguredClass, GroupSpec};
use crate::id::InterfaceName;
use crate::route::{Block, Prefix};
use crate::srv6::{BaseSid, Mtu, NextHop, NextHopError};
use crate::tenant::Tenant;

/// What is to be known of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Its index; never 0.
    pub ifindex: u32,
    /// Its link-layer address; zeros if it has none.
    pub mac: MacAddr,
    /// The greatest packet that it takes, in bytes.
    pub mtu: u32,
}

/// A specification for the interfaces of one machine, in the datapath's own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved {
    /// How packets are encapsulated and answered.
    pub encap: Encap,
    /// The configured classes, in their order.
    pub classes: Classes,
    /// What the group of each class should be, in the order of `classes`.
    pub groups: Vec<(Class, GroupSpec)>,
    /// The tenants in the order of their tables.
    pub tenants: Vec<ResolvedTenant>,
}

/// A tenant of a [`Resolved`] specification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedTenant {
    /// What is the same at all of its interfaces; without gateway addresses.
    pub tenant: Tenant,
    /// What each of its interfaces, by index, has in the map of tenants.
    pub interfaces: BTreeMap<u32, Tenant>,
    /// Its routes beside those of the classes, or in their place.
    pub routes: BTreeMap<Prefix, RouteTarget>,
}

impl ResolvedTenant {
    /// All routes of the tenant's table: its own, and for the prefix of each configured class
    /// without one, a route to the class.
    #[must_use]
    pub fn with_classes(&self, classes: &Classes) -> BTreeMap<Prefix, RouteTarget> {
        let mut routes: BTreeMap<_, _> = classes
            .iter()
            .filter_map(|entry| {
                let (address, bits) = entry.class.prefix();
                let prefix = Prefix::new(address.into(), bits.into()).ok()?;
                Some((prefix, RouteTarget::Class(entry.class)))
            })
            .collect();
        routes.extend(&self.routes);
        routes
    }
}

/// Where a route leads. As [`Target`](crate::route::Target), but for the class in place of its
/// group, which only a publication knows, and without the tenant's Argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteTarget {
    /// To the next program, untouched.
    Pass,
    /// Nowhere.
    Block(Block),
    /// To one shard, encapsulated.
    Shard {
        /// The shard.
        sid: BaseSid,
        /// The way to it.
        next_hop: NextHop,
    },
    /// To that shard of a class which pin or table name, encapsulated.
    Class(Class),
}

impl Spec {
    /// Puts in place of each interface's name what `interfaces` knows of it, `None` for one that
    /// does not exist. It is asked once for each name.
    ///
    /// # Errors
    /// Every fault, in the order of the document: interfaces that do not exist, two names of one
    /// interface of tenants, and interfaces whose own address or MTU a next hop cannot have.
    pub fn resolve(
        &self,
        interfaces: impl Fn(&InterfaceName) -> Option<InterfaceFacts>,
    ) -> Result<Resolved, Faults> {
        let mut report = Report::default();
        let resolved = Resolver {
            interfaces: &interfaces,
            known: HashMap::new(),
            owners: HashMap::new(),
            report: &mut report,
        }
        .spec(self);
        report.finish(resolved)
    }
}

/// Where a value stands: its number in reading order, and its pointer.
type At<'a> = (u32, &'a str);

struct Resolver<'a> {
    interfaces: &'a dyn Fn(&InterfaceName) -> Option<InterfaceFacts>,
    /// What was said of each name, so that it is one thing for all that have it.
    known: HashMap<InterfaceName, Option<InterfaceFacts>>,
    /// Pointers to the tenants' interfaces, by index.
    owners: HashMap<u32, String>,
    report: &'a mut Report,
}

impl Resolver<'_> {
    fn spec(&mut self, spec: &Spec) -> Checked<Resolved> {
        let configured = spec.classes.iter().map(|class| ConfiguredClass {
            class: class.class,
            hash_group: class.hash_group,
        });
        let classes = Classes::new(configured, spec.limits.groups).map_err(|error| {
            // The document has each class once, and no more than groups.
            self.report
                .fault(0, "/classes", Capacity, error.to_string())
        });
        let groups = all(spec.classes.iter().map(|class| self.group(class)));
        let tenants = all(spec.tenants.iter().map(|tenant| self.tenant(tenant)));
        Ok(Resolved {
            encap: spec.encap,
            classes: classes?,
            groups: groups?,
            tenants: tenants?,
        })
    }

    fn group(&mut self, class: &ClassSpec) -> Checked<(Class, GroupSpec)> {
        let shards = class.shards.iter();
        let spec = GroupSpec {
            settings: class.settings,
            candidates: all(shards.map(|shard| self.candidate(class, shard)))?,
            ineligible: 0,
        };
        Ok((class.class, spec))
    }

    fn candidate(&mut self, class: &ClassSpec, shard: &ShardSpec) -> Checked<Candidate> {
        let next_hop = match &shard.next_hop {
            Some(next_hop) => {
                let pointer = format!("{}/next_hop", class.shard_pointer(shard));
                Some(self.next_hop((shard.origin.0.at, &pointer), next_hop)?)
            }
            None => None,
        };
        Ok(Candidate {
            sid: shard.sid,
            weight: shard.weight,
            draining: shard.draining,
            next_hop,
        })
    }

    fn tenant(&mut self, spec: &TenantSpec) -> Checked<ResolvedTenant> {
        let interfaces = spec.interfaces.iter();
        let interfaces = all(interfaces.map(|interface| self.interface(spec, interface)));
        let routes = all(spec.routes.iter().map(|route| self.route(spec, route)));
        Ok(ResolvedTenant {
            tenant: spec.tenant(),
            interfaces: interfaces?.into_iter().collect(),
            routes: routes?.into_iter().collect(),
        })
    }

    fn interface(&mut self, tenant: &TenantSpec, spec: &InterfaceSpec) -> Checked<(u32, Tenant)> {
        let pointer = tenant.interface_pointer(spec);
        let at = (spec.origin.0.at, pointer.as_str());
        let ifindex = self.facts(at, &spec.name)?.ifindex;
        if let Some(first) = self.owners.get(&ifindex) {
            let name = &spec.name;
            let message = format!("interface {name} is the one of {first} (ifindex {ifindex})");
            return Err(self.fault(at, Duplicate, message));
        }
        self.owners.insert(ifindex, pointer);
        let row = Tenant {
            gateway6: spec.gateway6,
            gateway4: spec.gateway4,
            ..tenant.tenant()
        };
        Ok((ifindex, row))
    }

    fn route(&mut self, tenant: &TenantSpec, spec: &RouteSpec) -> Checked<(Prefix, RouteTarget)> {
        let target = match &spec.to {
            RouteTo::Pass => RouteTarget::Pass,
            RouteTo::Block(block) => RouteTarget::Block(*block),
            RouteTo::Class(class) => RouteTarget::Class(*class),
            RouteTo::Shard { sid, next_hop } => {
                let pointer = format!("{}/to/next_hop", tenant.route_pointer(spec));
                RouteTarget::Shard {
                    sid: *sid,
                    next_hop: self.next_hop((spec.origin.0.at, &pointer), next_hop)?,
                }
            }
        };
        Ok((spec.prefix, target))
    }

    fn next_hop(&mut self, (at, pointer): At<'_>, spec: &NextHopSpec) -> Checked<NextHop> {
        let name = &spec.interface;
        let interface = format!("{pointer}/interface");
        let interface = (at, interface.as_str());
        let facts = self.facts(interface, name)?;
        let mtu = match spec.mtu {
            Some(mtu) => Ok(mtu),
            None => self.own_mtu(interface, name, facts.mtu),
        };
        let source = spec.source.unwrap_or(facts.mac);
        let next_hop = NextHop::new(
            facts.ifindex,
            source,
            spec.destination,
            mtu.unwrap_or_default(),
        )
        .map_err(|error| match error {
            NextHopError::Source => {
                let message =
                    format!("interface {name} has no link-layer address: source must say one");
                self.fault(interface, Mac, message)
            }
            error => self.fault(interface, NoInterface, format!("interface {name}: {error}")),
        });
        mtu.and(next_hop)
    }

    /// The interface's own MTU, which must leave enough for the packets inside.
    fn own_mtu(&mut self, at: At<'_>, name: &InterfaceName, mtu: u32) -> Checked<Mtu> {
        // Of 0, which no link has, nothing would be checked.
        let fitting = Mtu::new(mtu).ok().filter(|&mtu| mtu != Mtu::UNCHECKED);
        fitting.ok_or_else(|| {
            let message = format!(
                "interface {name} has an MTU of {mtu}, less than {} (1280 and 40 of encapsulation)",
                Mtu::MIN
            );
            self.fault(at, Range, message)
        })
    }

    fn facts(&mut self, at: At<'_>, name: &InterfaceName) -> Checked<InterfaceFacts> {
        let facts = match self.known.get(name) {
            Some(known) => *known,
            None => {
                let facts = (self.interfaces)(name).filter(|facts| facts.ifindex != 0);
                self.known.insert(name.clone(), facts);
                facts
            }
        };
        facts.ok_or_else(|| {
            let message = format!("interface {name} does not exist");
            self.fault(at, NoInterface, message)
        })
    }

    fn fault(&mut self, (at, pointer): At<'_>, code: FaultCode, message: String) -> Reported {
        self.report.fault(at, pointer, code, message)
    }
}
