// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The kernel's tables as plain data, and what each step of a plan does to them.

use std::collections::BTreeMap;

use guideway::control::{reconcile, Desired, Observed, Plan, RouteEnd, Step};
use guideway::egress_spec::RouteTarget;
use guideway::group::{self, Class, Context, GroupId, GroupPlan, Snapshot, State};
use guideway::placement::Scope;
use guideway::route::{Block, Key, Origin, Prefix, Route, Target};
use guideway::tenant::Tenant;

pub(crate) const NOWHERE: Target = Target::Block(Block::Drop);

/// What there is.
#[derive(Debug, Clone)]
pub(crate) struct World(pub(crate) Observed);

impl World {
    /// Plans and does everything; the plan.
    pub(crate) fn sweep(&mut self, desired: &Desired) -> Plan {
        let plan = reconcile(&self.0, desired);
        self.apply(&plan);
        plan
    }

    /// Sweeps until nothing is left to do; the plans that were done.
    pub(crate) fn settle(&mut self, desired: &Desired) -> Vec<Plan> {
        let mut plans = Vec::new();
        loop {
            let plan = self.sweep(desired);
            if plan.is_empty() {
                return plans;
            }
            plans.push(plan);
            assert!(plans.len() <= 3, "no end in sight: {plans:#?}");
        }
    }

    pub(crate) fn apply(&mut self, plan: &Plan) {
        for (place, planned) in plan.steps.iter().enumerate() {
            let before = planned.after.iter().all(|after| *after < place);
            assert!(before, "step {place} waits for a later one");
            self.step(&planned.step);
        }
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::PublishConfig(encap) => self.0.encap = Some(*encap),
            Step::PublishLiveness(plans)
            | Step::PublishGroups(plans)
            | Step::CloseGroups(plans) => {
                plans.iter().for_each(|plan| self.publish(plan));
            }
            Step::WriteRoutes { tenant, routes } => self.write(tenant, routes),
            Step::MoveRoutes { moves, .. } => {
                for moved in moves {
                    let live = self.0.routes.get(&moved.key);
                    assert_eq!(live, Some(&moved.before), "{}", moved.key);
                    let led = moved.to.map(|to| self.led(&moved.key, &moved.before, to));
                    match led {
                        None => drop(self.0.routes.remove(&moved.key)),
                        Some(Some(route)) => drop(self.0.routes.insert(moved.key, route)),
                        Some(None) => panic!("{} cannot lead to {:?}", moved.key, moved.to),
                    }
                }
            }
            Step::Retire {
                group,
                class,
                own,
                others,
            } => self.retire(*group, *class, *own, *others),
            step => panic!("{} is not known", step.name()),
        }
    }

    fn publish(&mut self, plan: &GroupPlan) {
        let live = self.0.groups.iter();
        let live = live.filter(|live| live.group != plan.group());
        let rest: Vec<_> = live.cloned().collect();
        assert!(plan.is_changed());
        assert_eq!(
            plan.base(),
            self.group(plan.group()).map(|live| live.publication)
        );
        let claims = |live: &Snapshot| live.forwards() && live.class == plan.class();
        let opens = matches!(plan.change(), group::Change::Open);
        assert!(!(opens && rest.iter().any(claims)), "two groups of a class");
        let context = self.0.contexts.entry(plan.group()).or_default();
        context.high_water.claim(plan).expect("fresh numbers");
        assert_eq!(plan.repairs(), self.0.damaged.contains_key(&plan.group()));
        self.0.damaged.remove(&plan.group());
        self.0.groups = rest;
        self.0.groups.push(plan.snapshot().clone());
    }

    pub(crate) fn group(&self, id: GroupId) -> Option<&Snapshot> {
        self.0.groups.iter().find(|live| live.group == id)
    }

    /// The group of a class that forwards.
    pub(crate) fn of(&self, class: Class) -> Option<&Snapshot> {
        let mut live = self.0.groups.iter();
        live.find(|live| live.forwards() && live.class == class)
    }

    /// The group that takes routes of a class.
    fn ticket(&self, class: Class) -> Option<&Snapshot> {
        let routes = |live: &Snapshot| {
            let routes = self.0.routes.values();
            let named = routes.filter(|route| route.group().map(|(id, _)| id) == Some(live.group));
            named.count()
        };
        let live = self.0.groups.iter();
        let open = live.filter(|live| live.state == State::Open && live.class == class);
        open.max_by_key(|live| (routes(live), std::cmp::Reverse(live.group)))
    }

    fn tenant(&self, key: &Key) -> Option<Tenant> {
        let mut tenants = self.0.tenants.values();
        tenants.find(|row| row.table == key.table).copied()
    }

    fn led(&self, key: &Key, before: &Route, to: RouteTarget) -> Option<Route> {
        let tenant = self.tenant(key);
        let argument = before.argument().or(tenant.map(|tenant| tenant.argument));
        let target = match to {
            RouteTarget::Pass => Target::Pass,
            RouteTarget::Block(block) => Target::Block(block),
            RouteTarget::Shard { sid, next_hop } => Target::Shard {
                argument: argument?,
                sid,
                next_hop,
            },
            RouteTarget::Class(class) => {
                let group = self.ticket(class).expect("an open group");
                let scope = Scope {
                    table: tenant?.hash_table,
                    group: group.hash_group,
                };
                let (id, incarnation) = (group.group, group.incarnation);
                Target::group(argument?, id, incarnation, scope, key.prefix)
            }
        };
        let origin = before.origin;
        Some(Route { origin, target })
    }

    fn write(&mut self, tenant: &Tenant, routes: &BTreeMap<Prefix, RouteTarget>) {
        for (prefix, to) in routes {
            let key = Key::new(tenant.table, *prefix);
            assert!(!self.0.routes.contains_key(&key), "{key} is there");
            let to = match to {
                RouteTarget::Class(class) if self.ticket(*class).is_none() => {
                    RouteTarget::Block(Block::Drop)
                }
                to => *to,
            };
            let none = Route::new(Target::Pass);
            let route = self.led(&key, &none, to).expect("a known tenant");
            self.0.senseless.remove(&key);
            self.0.routes.insert(key, route);
        }
    }

    fn retire(&mut self, group: GroupId, class: Class, own: RouteEnd, others: RouteEnd) {
        let live = self.group(group).expect("a group").clone();
        assert_eq!((live.state, live.class), (State::Closing, class));
        let names = |route: &Route| route.group().map(|(id, _)| id) == Some(group);
        let ours = |route: &Route| names(route) && route.origin == Origin::default();
        let keys = self.0.routes.iter().filter(|(_, route)| ours(route));
        let keys: Vec<Key> = keys.map(|(key, _)| *key).collect();
        for key in keys {
            let end = match super::fixture::prefix_of(class) == key.prefix {
                true => own,
                false => others,
            };
            let before = self.0.routes[&key];
            match end {
                RouteEnd::Remove => drop(self.0.routes.remove(&key)),
                RouteEnd::Stay => {}
                RouteEnd::To(to) => {
                    let nowhere = Route {
                        target: NOWHERE,
                        ..before
                    };
                    let led = self.led(&key, &before, to).unwrap_or(nowhere);
                    self.0.routes.insert(key, led);
                }
            }
        }
        let rows = self.0.senseless.iter();
        let mended = rows.filter(|(_, row)| row.group == Some(group) && row.origin == Origin(0));
        for key in mended.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.0.senseless.remove(&key);
            self.0.routes.insert(key, Route::new(NOWHERE));
        }
        let mut held = self.0.senseless.values();
        let held = held.any(|row| row.group == Some(group));
        assert!(
            !self.0.routes.values().any(names) && !held,
            "{group} is named"
        );
        let context = self.0.contexts.entry(group).or_default().clone();
        let context = Context {
            limits: self.0.limits,
            high_water: context.high_water,
            counters: &context.counters,
            now_ns: 2,
            rewrite: false,
        };
        let plan = group::disable(&live, &context).expect("a plan");
        self.publish(&plan);
    }
}

/// A world in which this is in force.
pub(crate) fn settled(observed: Observed, desired: &Desired) -> World {
    let mut world = World(observed);
    world.settle(desired);
    world
}
