// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan does to packets.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::facts::{Facts, Tenure};
use crate::control::desired::Mode;
use crate::control::effect::{
    ClassEffect, MemberCounts, Part, PinEffect, PredictedEffect, ShardShare,
};
use crate::control::eligible::Pool;
use crate::control::plan::{MoveReason, RouteMove};
use crate::control::problem::Problem;
use crate::egress_spec::{Memory, RouteTarget};
use crate::group::{Class, GroupId, GroupPlan, Member, MemberState, Snapshot};
use crate::route::{Route, TableId, Target};
use crate::srv6::BaseSid;

pub(super) fn effect(facts: &Facts<'_>, draft: &Draft, pool: Option<&Pool<'_>>) -> PredictedEffect {
    let forecast = Forecast::of(facts, draft);
    let configured: Vec<_> = facts
        .desired
        .classes
        .iter()
        .map(|entry| entry.class)
        .collect();
    let forwarding = facts.groups.values().filter(|group| group.forwards());
    let gone: BTreeSet<Class> = forwarding
        .map(|group| group.class)
        .filter(|class| !configured.contains(class))
        .collect();
    let batches = [&draft.liveness, &draft.groups, &draft.closes].map(Vec::len);
    let batch = batches.into_iter().max().unwrap_or(0);
    let batch = batch.max(usize::from(!draft.retirements.is_empty())) as u64;
    PredictedEffect {
        classes: configured
            .iter()
            .map(|class| forecast.class(*class, true, pool))
            .chain(
                gone.into_iter()
                    .map(|class| forecast.class(class, false, pool)),
            )
            .collect(),
        tenants_moved: forecast.tenants_moved(),
        publishing_bytes: batch * Memory::of_snapshot(facts.observed.limits),
    }
}

/// Adds to `problems` which classes are worse served than they should be.
pub(super) fn warn(facts: &Facts<'_>, effect: &PredictedEffect, problems: &mut Vec<Problem>) {
    // In ordered mode no class has members, and that no static SID is reached is told already.
    if facts.desired.mode == Mode::Ordered {
        return;
    }
    for class in effect.classes.iter().filter(|class| class.configured) {
        let minimum = facts.desired.policy.pool_min_active;
        if class.members.active < minimum.into() {
            problems.push(Problem::BelowMinimum {
                class: class.class,
                active: class.members.active,
                minimum,
            });
        }
        if !class.served {
            problems.push(Problem::Unserved { class: class.class });
        }
    }
}

/// What there is, and what it will be.
struct Forecast<'a> {
    facts: &'a Facts<'a>,
    draft: &'a Draft,
    /// Groups afterwards; none for those that are disabled.
    after: BTreeMap<GroupId, Option<&'a Snapshot>>,
    plans: BTreeMap<GroupId, &'a GroupPlan>,
    has_target: bool,
}

impl<'a> Forecast<'a> {
    fn of(facts: &'a Facts<'a>, draft: &'a Draft) -> Self {
        let planned = [&draft.liveness, &draft.groups, &draft.closes];
        let plans: BTreeMap<_, _> = planned
            .into_iter()
            .flatten()
            .map(|plan| (plan.group(), plan))
            .collect();
        let live = facts.groups.iter();
        let mut after: BTreeMap<GroupId, Option<&Snapshot>> = live
            .filter(|(_, live)| live.forwards())
            .map(|(group, live)| (*group, Some(*live)))
            .collect();
        after.extend(
            plans
                .iter()
                .map(|(group, plan)| (*group, Some(plan.snapshot()))),
        );
        after.extend(draft.retirements.iter().map(|one| (one.group, None)));
        Self {
            facts,
            draft,
            after,
            plans,
            has_target: facts.first_static().is_some(),
        }
    }

    /// The group that a class has afterwards.
    fn own(&self, class: Class) -> Option<&'a Snapshot> {
        let groups = self.after.values().flatten();
        let mut own = groups.filter(|group| group.class == class).copied();
        // A class that two claim has the one whose plan is for it.
        let planned = |group: &&Snapshot| {
            let mut groups = self.draft.groups.iter();
            groups.any(|plan| plan.group() == group.group)
        };
        own.clone().find(planned).or_else(|| own.next())
    }

    fn class(&self, class: Class, configured: bool, pool: Option<&Pool<'_>>) -> ClassEffect {
        let own = self.own(class);
        let before = self.facts.groups.values();
        let before = before.filter(|group| group.forwards() && group.class == class);
        let before: Vec<&Snapshot> = before.copied().collect();
        let hashed = self.facts.desired.mode == Mode::Hashed;
        let ineligible = pool.filter(|_| configured && hashed).map(|pool| {
            let names = pool.ineligible(class);
            names.map(|(name, sid)| (name.to_owned(), sid)).collect()
        });
        let ineligible: Vec<_> = ineligible.unwrap_or_default();
        let count = |state| own.map_or(0, |own| own.count(state) as u64);
        let members = MemberCounts {
            active: count(MemberState::Active),
            draining: count(MemberState::Draining),
            unreachable: count(MemberState::Unreachable),
            ineligible: ineligible.len() as u64,
        };
        let group = own.map(|own| own.group);
        let group = group.or_else(|| before.first().map(|before| before.group));
        let plan = group.and_then(|group| self.plans.get(&group));
        let mut routes = RouteEffect::default();
        for moved in self.moves(class) {
            routes.count(self, moved);
        }
        ClassEffect {
            class,
            configured,
            group,
            change: plan.map(|plan| plan.change()),
            served: match hashed {
                true => members.active > 0,
                false => self.has_target,
            },
            members,
            ineligible,
            disruption: plan.map(|plan| plan.disruption().clone()),
            shares: self.shares(class, before.first().copied(), own),
            routes_moved: routes.moved,
            addresses_moved: routes.addresses,
            pins: self.pins(&before),
        }
    }

    fn moves(&self, class: Class) -> impl Iterator<Item = &RouteMove> + '_ {
        let moves = self.draft.moves.iter();
        let moves = moves.filter(move |((reason, of), _)| *of == class && is_elsewhere(*reason));
        moves.flat_map(|(_, moves)| moves)
    }

    fn tenants_moved(&self) -> u64 {
        let moves = self.draft.moves.iter();
        let moves = moves.filter(|((reason, _), _)| is_elsewhere(*reason));
        let tables = moves.flat_map(|(_, moves)| moves.iter().map(|one| one.key.table));
        tables.collect::<BTreeSet<TableId>>().len() as u64
    }

    fn shares(
        &self,
        class: Class,
        before: Option<&Snapshot>,
        after: Option<&Snapshot>,
    ) -> BTreeMap<BaseSid, ShardShare> {
        let mut shares: BTreeMap<BaseSid, ShardShare> = BTreeMap::new();
        for (sid, slots) in before.map(slots).unwrap_or_default() {
            shares.entry(sid).or_default().slots_before = slots;
        }
        for (sid, slots) in after.map(slots).unwrap_or_default() {
            shares.entry(sid).or_default().slots_after = slots;
        }
        for (key, route) in &self.facts.observed.routes {
            if let (Target::Shard { sid, .. }, false) = (route.target, route.origin.is_foreign()) {
                if self.facts.class_of(key.prefix) == Some(class) {
                    let share = shares.entry(sid).or_default();
                    share.routes_before += 1;
                    share.routes_after += 1;
                }
            }
        }
        for moved in self.moves(class) {
            if let Target::Shard { sid, .. } = moved.before.target {
                let share = shares.entry(sid).or_default();
                share.routes_after = share.routes_after.saturating_sub(1);
            }
            if let Some(RouteTarget::Shard { sid, .. }) = moved.to {
                shares.entry(sid).or_default().routes_after += 1;
            }
        }
        let writes = self.draft.writes.iter().flat_map(|(_, routes)| routes);
        for (prefix, to) in writes {
            if let (RouteTarget::Shard { sid, .. }, true) =
                (to, self.facts.class_of(*prefix) == Some(class))
            {
                shares.entry(*sid).or_default().routes_after += 1;
            }
        }
        shares
    }

    fn pins(&self, groups: &[&Snapshot]) -> Option<PinEffect> {
        let pins = self.facts.observed.pins.as_ref()?;
        let mut effect = PinEffect::default();
        for before in groups {
            let after = self.after.get(&before.group).copied().flatten();
            let of_group = |group: &GroupId| *group == before.group;
            for ((_, slot, generation), live) in
                pins.iter().filter(|((group, ..), _)| of_group(group))
            {
                let held = |member: &&Member| member.generation == *generation;
                // What is held by nobody now is no pin in use.
                if before.member(*slot).filter(held).is_none() {
                    continue;
                }
                effect.live += live;
                let settings = after.map(|after| (after.settings, before.settings));
                let counted = match settings {
                    None => &mut effect.released,
                    Some((after, before))
                        if after.hash_mode != before.hash_mode || after.pin_idle.is_off() =>
                    {
                        &mut effect.released
                    }
                    Some(_) => {
                        let member = after.and_then(|after| after.member(*slot));
                        match member.filter(held).map(Member::state) {
                            None => &mut effect.leaving,
                            Some(MemberState::Unreachable) => &mut effect.unreachable,
                            Some(_) => continue,
                        }
                    }
                };
                *counted += live;
            }
        }
        Some(effect)
    }

    /// The shards that a route's addresses are spread over, in slots of a table of its own size;
    /// none if its packets get to no shard.
    fn spread(&self, route: &Route) -> Spread {
        match route.target {
            Target::Shard { sid, .. } => Spread::One(sid),
            Target::Group {
                group, incarnation, ..
            } => match self.facts.tenure(group, incarnation) {
                Tenure::Live(live) => Spread::Table(slots(live)),
                Tenure::Over | Tenure::Lost | Tenure::Dead => Spread::None,
            },
            Target::Pass | Target::Block(_) => Spread::None,
        }
    }

    fn spread_after(&self, to: Option<RouteTarget>) -> Spread {
        match to {
            Some(RouteTarget::Shard { sid, .. }) => Spread::One(sid),
            Some(RouteTarget::Class(class)) => self
                .own(class)
                .map_or(Spread::None, |own| Spread::Table(slots(own))),
            Some(RouteTarget::Pass | RouteTarget::Block(_)) | None => Spread::None,
        }
    }
}

/// Whether routes lead to other shards afterwards, and not to the same ones in another way.
const fn is_elsewhere(reason: MoveReason) -> bool {
    !matches!(reason, MoveReason::NextHop | MoveReason::HashState)
}

/// How many slots of a group's table lead to each of its members.
fn slots(group: &Snapshot) -> BTreeMap<BaseSid, u32> {
    let mut slots: BTreeMap<u16, u32> = BTreeMap::new();
    for slot in &group.table {
        *slots.entry(*slot).or_default() += 1;
    }
    let members = group.members.iter();
    members
        .map(|member| {
            let slots = slots.get(&member.slot.get());
            (member.sid, slots.copied().unwrap_or(0))
        })
        .collect()
}

/// Where addresses go.
enum Spread {
    None,
    One(BaseSid),
    Table(BTreeMap<BaseSid, u32>),
}

/// The routes of a class that are moved.
#[derive(Default)]
struct RouteEffect {
    moved: u64,
    addresses: Part,
}

impl RouteEffect {
    fn count(&mut self, forecast: &Forecast<'_>, moved: &RouteMove) {
        self.moved += 1;
        let size = u64::from(forecast.facts.observed.limits.table_size().get());
        let share = |table: &BTreeMap<BaseSid, u32>, sid: BaseSid| {
            u64::from(table.get(&sid).copied().unwrap_or(0)).min(size)
        };
        let before = forecast.spread(&moved.before);
        let after = forecast.spread_after(moved.to);
        let stay = match (&before, &after) {
            // What got nowhere before does not move.
            (Spread::None, _) => return,
            (_, Spread::None) => 0,
            (Spread::One(one), Spread::One(other)) if one == other => size,
            (Spread::One(_), Spread::One(_)) => 0,
            (Spread::One(sid), Spread::Table(table)) | (Spread::Table(table), Spread::One(sid)) => {
                share(table, *sid)
            }
            (Spread::Table(one), Spread::Table(other)) => {
                let common = one
                    .keys()
                    .map(|sid| share(one, *sid).min(share(other, *sid)));
                common.sum::<u64>().min(size)
            }
        };
        self.addresses.whole += size;
        self.addresses.part += size - stay;
    }
}
