// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From whatever there is to what there should be.
//!
//! A state is made of random changes to an empty one: plans for other configurations, whole, broken
//! off or with steps that fail, and rows that nobody should have written. From each, three sweeps
//! are enough, nothing is left to do then, and what is not in line is told.

use std::collections::{BTreeMap, BTreeSet};

use guideway::control::{
    reconcile, Damage, Desired, Known, Mode, Observed, Plan, Problem, Shard, Unreached, Verdict,
};
use guideway::group::{
    Class, Generation, GroupId, HashMode, Incarnation, Publication, Settings, Snapshot, State,
};
use guideway::placement::{Fnv12, Fnv5, HashGroup, HashTable};
use guideway::route::{Block, Key, Origin, Prefix, Route, TableId, Target};
use guideway::srv6::BaseSid;
use guideway::tenant::Tenant;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::fixture::{
    argument, classes, dual, hop, hop_by, limits, list, nat64, observed, prefix_of, senseless, sid,
    stale, tenant, NAT64, OTHER64,
};
use super::world::World;

const THIRD64: &str = "2001:db8:66::/96";
const PREFIXES: [&str; 3] = [NAT64, OTHER64, THIRD64];
/// Tenants, of which the first few have interfaces at first.
const TABLES: u32 = 5;
/// Shards, more than a group has room for.
const SHARDS: u16 = 10;

/// One configuration.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    hashed: bool,
    knowledge: u8,
    prefixes: u8,
    /// What each shard says, by bits.
    shards: Vec<u8>,
    statics: Vec<u16>,
    flows: bool,
    liveness: bool,
    verdict: Option<(u16, bool)>,
}

pub(crate) fn wish() -> impl Strategy<Value = Wish> {
    let shards = prop::collection::vec(any::<u8>(), 0..=usize::from(SHARDS));
    let statics = prop::collection::vec(0..SHARDS + 2, 0..3);
    let verdict = prop::option::of((0..SHARDS, any::<bool>()));
    let rest = (any::<bool>(), any::<bool>(), verdict);
    (any::<bool>(), 0_u8..8, 0_u8..8, shards, statics, rest).prop_map(
        |(hashed, knowledge, prefixes, shards, statics, (flows, liveness, verdict))| Wish {
            hashed,
            knowledge,
            prefixes,
            shards,
            statics,
            flows,
            liveness,
            verdict,
        },
    )
}

impl Wish {
    fn shards(&self) -> Vec<Shard> {
        let shards = self.shards.iter().zip(0..SHARDS);
        let shards = shards.map(|(bits, number)| Shard {
            ipv6: bits & 1 != 0,
            ipv4: bits & 2 != 0,
            nat64_prefix: PREFIXES[usize::from(bits >> 2 & 1)].parse().ok(),
            drain: bits & 0x18 == 0x18,
            ready: bits & 0xe0 != 0xe0,
            ..dual(number)
        });
        shards.collect()
    }

    pub(crate) fn desired(&self) -> Desired {
        let known = list(self.shards());
        let prefixes = PREFIXES.iter().enumerate();
        let prefixes = prefixes.filter(|(bit, _)| self.prefixes >> bit & 1 != 0);
        let prefixes: Vec<_> = prefixes.map(|(_, prefix)| *prefix).collect();
        let mut desired = super::fixture::hashed(match self.knowledge {
            0 => Known::Unknown,
            1 => stale(known),
            _ => known,
        });
        desired.mode = match self.hashed {
            true => Mode::Hashed,
            false => Mode::Ordered,
        };
        desired.classes = classes(&prefixes);
        desired.static_sids = self.statics.iter().map(|number| sid(*number)).collect();
        if self.flows {
            desired.settings = Settings {
                hash_mode: HashMode::Flow,
                reject: true,
                ..Settings::default()
            };
        }
        desired.policy.liveness_before_sync = self.liveness;
        let verdict = self.verdict.map(|(number, alive)| match alive {
            true => (sid(number), Verdict::Alive),
            false => (sid(number), Verdict::Dead),
        });
        desired.overrides.extend(verdict);
        desired
    }
}

/// One change to what there is.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Everything that a wish asks for.
    Settle(Wish),
    /// Of its steps those whose bit is set, and that wait for none that is not done.
    Some(Wish, u16),
    Route(u32, u8, u8, u8),
    NoRoute(u32, u8),
    Senseless(u32, u8, u8),
    Tenant(u32, u8),
    Reach(u16, u8),
    /// A group is another one than it was.
    Group(u8, u8, u32),
    /// What is published of a group is damaged; whether anybody knows whose it is.
    Damage(u8, u8),
    /// The process starts again, and knows no more than what is published.
    Restart,
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let table = || 1..=TABLES;
    prop_oneof![
        4 => wish().prop_map(Change::Settle),
        3 => (wish(), any::<u16>()).prop_map(|(wish, done)| Change::Some(wish, done)),
        6 => (table(), any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(table, prefix, to, more)| Change::Route(table, prefix, to, more)),
        2 => (table(), any::<u8>()).prop_map(|(table, prefix)| Change::NoRoute(table, prefix)),
        1 => (table(), any::<u8>(), any::<u8>())
            .prop_map(|(table, prefix, origin)| Change::Senseless(table, prefix, origin)),
        3 => (table(), any::<u8>()).prop_map(|(table, what)| Change::Tenant(table, what)),
        3 => (0..SHARDS + 2, any::<u8>()).prop_map(|(shard, way)| Change::Reach(shard, way)),
        4 => (0_u8..4, any::<u8>(), any::<u32>())
            .prop_map(|(group, what, number)| Change::Group(group, what, number)),
        1 => (0_u8..4, any::<u8>()).prop_map(|(group, what)| Change::Damage(group, what)),
        1 => Just(Change::Restart),
    ]
}

/// One of the prefixes that routes have here: of classes, of none, and of IPv4.
fn prefix(number: u8) -> Prefix {
    let others = ["2001:db8:7::/48", "2001:db8:64::/97", "0.0.0.0/0"];
    match usize::from(number) % 7 {
        0 => prefix_of(Class::Nat66),
        place @ 1..=3 => prefix_of(nat64(PREFIXES[place - 1])),
        place => others[place - 4].parse().expect("a prefix"),
    }
}

fn class(number: u32) -> Class {
    match number % 4 {
        0 => Class::Nat66,
        place => nat64(PREFIXES[place as usize - 1]),
    }
}

impl Change {
    pub(crate) fn make(&self, world: &mut World) {
        match self {
            Self::Settle(wish) => drop(world.settle(&wish.desired())),
            Self::Some(wish, done) => {
                let plan = reconcile(&world.0, &wish.desired());
                let mut made = BTreeSet::new();
                for (place, planned) in plan.steps.iter().enumerate() {
                    let ready = planned.after.iter().all(|after| made.contains(after));
                    if done >> (place % 16) & 1 != 0 && ready {
                        world.step(&planned.step);
                        made.insert(place);
                    }
                }
            }
            Self::Route(table, place, to, more) => {
                let prefix = prefix(*place);
                let number = u16::from(*more) % (SHARDS + 2);
                let argument = argument(*table + u32::from(more & 1));
                let target = match to % 8 {
                    0 => Target::Pass,
                    1 => Target::Block(Block::Unreachable),
                    2 => Target::Block(Block::Drop),
                    3 | 4 => Target::Shard {
                        argument,
                        sid: sid(number),
                        next_hop: hop_by(number, more >> 7),
                    },
                    _ => Target::Group {
                        argument,
                        group: GroupId::new(u32::from(*more) % 5).expect("an index"),
                        incarnation: Incarnation::new(u32::from(more >> 6) + 1).expect("a number"),
                        fnv5: Fnv5::from_raw(u32::from(*more)),
                        fnv12: Fnv12::from_raw(7),
                    },
                };
                let origin = Origin(u16::from(to >> 7) * 3);
                let key = Key::new(TableId::new(*table), prefix);
                world.0.senseless.remove(&key);
                world.0.routes.insert(key, Route { origin, target });
            }
            Self::NoRoute(table, place) => {
                let key = Key::new(TableId::new(*table), prefix(*place));
                world.0.routes.remove(&key);
            }
            Self::Senseless(table, place, what) => {
                let key = Key::new(TableId::new(*table), prefix(*place));
                let group = GroupId::new(u32::from(*what) % 8).filter(|group| group.get() < 5);
                let row = senseless(&key, Origin(u16::from(what >> 7)), group);
                world.0.routes.remove(&key);
                world.0.senseless.insert(key, row);
            }
            Self::Tenant(table, what) => {
                let row = tenant(*table);
                let row = match what % 6 {
                    0 => {
                        world.0.tenants.remove(&(100 + table));
                        return;
                    }
                    1 => Tenant {
                        enabled: false,
                        ..row
                    },
                    2 => Tenant {
                        argument: argument(table + 50),
                        ..row
                    },
                    3 => Tenant {
                        hash_table: HashTable(u32::from(*what)),
                        ..row
                    },
                    _ => row,
                };
                let second = u32::from(what >> 7);
                world.0.tenants.insert(100 + table + 100 * second, row);
            }
            Self::Reach(number, way) => {
                let way = match way % 5 {
                    0 => Err(Unreached::NoRoute),
                    1 => Err(Unreached::NotUplink("eth9".to_owned())),
                    2 => return drop(world.0.reach.0.remove(&sid(*number))),
                    3 => Ok(hop_by(*number, 1)),
                    _ => Ok(hop(*number)),
                };
                world.0.reach.0.insert(sid(*number), way);
            }
            Self::Group(id, what, number) => {
                let id = GroupId::new(u32::from(*id)).expect("an index");
                let from = world.0.groups.iter().find(|group| group.group == id);
                let from = from.or(world.0.groups.first());
                let Some(from) = from.cloned() else { return };
                let group = altered(Snapshot { group: id, ..from }, *what, *number);
                // Only what the kernel can hold.
                let bytes = group.to_bytes(limits());
                let read = bytes
                    .ok()
                    .map(|bytes| Snapshot::from_bytes(id, &bytes, limits()));
                if let Some(Ok(group)) = read {
                    world.0.damaged.remove(&id);
                    world.0.groups.retain(|other| other.group != id);
                    world.0.groups.push(group);
                }
            }
            Self::Damage(id, what) => {
                let id = GroupId::new(u32::from(*id)).expect("an index");
                let mut groups = world.0.groups.iter_mut();
                let Some(group) = groups.find(|group| group.group == id) else {
                    return;
                };
                group.members.truncate(usize::from(what % 5));
                group.table.fill(0xffff);
                let why = "random".to_owned();
                world.0.damaged.insert(id, Damage { why, remedy: None });
                if what >> 6 == 0 {
                    world.0.groups.retain(|group| group.group != id);
                }
            }
            Self::Restart => world.0.contexts.clear(),
        }
    }
}

fn altered(group: Snapshot, what: u8, number: u32) -> Snapshot {
    let some = number.max(1);
    let mut group = group;
    match what % 12 {
        0 => group.class = class(number),
        1 => group.state = State::Closing,
        2 => group.state = State::Open,
        3 => {
            group.state = State::Disabled;
            group.members.clear();
            group.table.fill(0xffff);
            group.settings = Settings {
                pin_idle: guideway::group::PinIdle::OFF,
                ..Settings::default()
            };
        }
        4 => group.incarnation = Incarnation::new(some).expect("a number"),
        5 => group.next_slot_generation = Generation::new(some).expect("a number"),
        6 => group.publication = Publication::new(u32::MAX).expect("a number"),
        7 => group.hash_group = HashGroup(number as u8),
        8 => group.members.truncate(number as usize % 4),
        9 => {
            for member in &mut group.members {
                member.generation = Generation::new(some).expect("a number");
            }
        }
        10 => {
            for member in &mut group.members {
                member.weight = number % 5;
                member.draining = number & 8 != 0;
            }
        }
        _ => group.table.fill(0xffff),
    }
    group
}

pub(crate) fn start() -> World {
    World(observed([1, 2, 3]))
}

/// Runs `check` on random inputs, always the same ones.
pub(crate) fn play<S: Strategy>(
    cases: u32,
    strategy: &S,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let times = match std::env::var("GW_LONG").is_ok_and(|value| value == "1") {
        true => 10,
        false => 1,
    };
    let config = Config {
        cases: cases * times,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    if let Err(error) = runner.run(strategy, check) {
        panic!("{error}");
    }
}

fn kinds(plan: &Plan, class: Class) -> BTreeSet<&'static str> {
    let about = plan.problems.iter().filter(|problem| match problem {
        Problem::Group { class: of, .. }
        | Problem::HeldGroup { class: of, .. }
        | Problem::Unresolved { class: of, .. }
        | Problem::TooManyCandidates { class: of, .. } => *of == class,
        Problem::NoGroupLeft(error) => error.class == class,
        _ => false,
    });
    about.map(Problem::kind).collect()
}

/// What is in line when nothing is left to do.
struct Line<'a> {
    world: &'a World,
    desired: &'a Desired,
    plan: &'a Plan,
    shards: BTreeSet<BaseSid>,
}

impl Line<'_> {
    fn live(&self, route: &Route) -> Option<&Snapshot> {
        let (group, incarnation) = route.group()?;
        let live = self.world.group(group)?;
        (live.forwards() && live.incarnation == incarnation).then_some(live)
    }

    fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        self.desired.classes.iter().map(|entry| entry.class)
    }

    fn class_of(&self, prefix: Prefix) -> Option<Class> {
        self.classes().find(|class| prefix_of(*class) == prefix)
    }

    fn open(&self, class: Class) -> Option<&Snapshot> {
        let mut groups = self.world.0.groups.iter();
        groups.find(|group| group.class == class && group.state == State::Open)
    }

    /// Whether a lost group may be a class's, so that it has no other.
    fn is_lost(&self, class: Class) -> bool {
        self.lost().any(|group| {
            let routes = self.world.0.routes.iter();
            let named = routes.filter(|(_, route)| self.names(route, group));
            let named: BTreeSet<_> = named
                .filter_map(|(key, _)| self.class_of(key.prefix))
                .collect();
            named.is_empty() || named.contains(&class)
        })
    }

    fn lost(&self) -> impl Iterator<Item = GroupId> + '_ {
        let damaged = self.world.0.damaged.keys().copied();
        damaged.filter(|group| self.world.group(*group).is_none())
    }

    fn names(&self, route: &Route, group: GroupId) -> bool {
        route.group().is_some_and(|(named, _)| named == group)
    }

    fn names_lost(&self, route: &Route) -> bool {
        self.lost().any(|group| self.names(route, group))
    }

    fn has_interface(&self, table: TableId) -> bool {
        self.world.0.tenants.values().any(|row| row.table == table)
    }

    fn groups(&self) {
        for group in self.world.0.groups.iter().filter(|group| group.forwards()) {
            let told = kinds(self.plan, group.class);
            let wanted =
                self.desired.mode == Mode::Hashed && self.classes().any(|one| one == group.class);
            let first = self.open(group.class).map(|open| open.group);
            if wanted && first.is_none_or(|first| first == group.group) {
                let open = group.state == State::Open;
                assert!(open || told.contains("group"), "{group:?} {told:?}");
                continue;
            }
            // It is on its way out, and something keeps it.
            let keeps = ["held-group", "group", "unresolved"];
            let kept = keeps.iter().any(|kind| told.contains(kind));
            assert!(kept, "{group:?} is not needed: {told:?}");
            assert!(
                group.state == State::Closing || told.contains("group"),
                "{group:?}"
            );
        }
        if self.desired.mode == Mode::Ordered {
            return;
        }
        for class in self.classes() {
            let told = kinds(self.plan, class);
            let missing = told.contains("no-group-left") || told.contains("group");
            assert!(
                self.open(class).is_some() || missing || self.is_lost(class),
                "{class} has no group"
            );
        }
    }

    /// The members of each group are the shards that translate its class.
    fn members(&self, shards: &[Shard]) {
        for class in self.classes() {
            let told = kinds(self.plan, class);
            let Some(group) = self.open(class).filter(|_| !told.contains("group")) else {
                continue;
            };
            let able = shards
                .iter()
                .filter(|shard| shard.ready && shard.translates(class));
            let able: BTreeMap<_, _> = able.map(|shard| (shard.sid, shard.drain)).collect();
            let full = told.contains("too-many-candidates");
            assert_eq!(
                full,
                able.len() > usize::from(limits().members()),
                "{class}"
            );
            assert!(
                full || group.members.len() == able.len(),
                "{class}: {group:?}"
            );
            for member in &group.members {
                assert_eq!(
                    able.get(&Some(member.sid)),
                    Some(&member.draining),
                    "{class}"
                );
            }
        }
    }

    fn first_static(&self) -> Option<(BaseSid, guideway::srv6::NextHop)> {
        let hop = |sid: &BaseSid| match self.desired.overrides.get(sid) {
            Some(Verdict::Dead) => None,
            _ => self.world.0.reach.next_hop(*sid),
        };
        self.desired
            .static_sids
            .iter()
            .find_map(|sid| Some((*sid, hop(sid)?)))
    }

    fn routes(&self) {
        let hashed = self.desired.mode == Mode::Hashed;
        let alive = self
            .desired
            .overrides
            .values()
            .any(|one| *one == Verdict::Alive);
        for (key, route) in &self.world.0.routes {
            if route.origin != Origin(0) {
                continue;
            }
            let Some(class) = self.class_of(key.prefix) else {
                let live = route.group().is_none() || self.live(route).is_some();
                assert!(
                    live || self.names_lost(route),
                    "{key} names a group that is not there"
                );
                continue;
            };
            let has_interface = self.has_interface(key.table);
            match route.target {
                Target::Pass => {}
                Target::Group { .. } if self.names_lost(route) => {
                    let stays = match hashed {
                        true => self.open(class).is_none() || !has_interface,
                        false => self.first_static().is_none(),
                    };
                    assert!(stays, "{key} names a lost group");
                }
                Target::Group { .. } => {
                    let named = self.live(route).map(|live| live.class);
                    assert_eq!(named, Some(class), "{key}");
                    let may = hashed || self.first_static().is_none();
                    assert!(may, "{key} is on a group in ordered mode");
                }
                Target::Block(_) if hashed => {
                    let open = self.open(class).is_some() && has_interface;
                    assert!(!open, "{key} is blocked");
                }
                Target::Block(_) => {
                    let led = self.first_static().is_some() && has_interface;
                    assert!(!led, "{key} is blocked");
                }
                Target::Shard { sid, next_hop, .. } if hashed => {
                    let ours =
                        self.shards.contains(&sid) || self.desired.static_sids.contains(&sid);
                    let active = self
                        .open(class)
                        .is_some_and(|group| group.members.iter().any(|member| member.is_active()));
                    assert!(!(ours && active && has_interface), "{key} is on a shard");
                    let dead = self.desired.overrides.get(&sid) == Some(&Verdict::Dead);
                    let hop = self.world.0.reach.next_hop(sid).filter(|_| !dead);
                    let kept = !ours || has_interface || active || hop.is_none();
                    assert!(kept || hop == Some(next_hop), "{key}");
                }
                Target::Shard { sid, next_hop, .. } => {
                    let first = self.first_static();
                    let right = first.is_none_or(|first| first == (sid, next_hop));
                    // A verdict may have led it to a way that only groups know.
                    assert!(right || alive, "{key} leads to {sid}");
                }
            }
        }
        for row in self.world.0.tenants.values().filter(|row| row.enabled) {
            let others = self.world.0.tenants.values();
            let mut others = others.filter(|other| other.table == row.table);
            if others.any(|other| row.contradiction(other).is_some()) {
                continue;
            }
            for class in self.classes() {
                let key = Key::new(row.table, prefix_of(class));
                let senseless = self.world.0.senseless.get(&key);
                let foreign = senseless.is_some_and(|row| row.origin != Origin(0));
                assert!(
                    foreign || self.world.0.routes.contains_key(&key),
                    "{key} is missing"
                );
            }
        }
    }
}

/// Ends in line, within three sweeps.
fn ends_in_line(world: &mut World, wish: &Wish) {
    let desired = wish.desired();
    let before = world.clone();
    world.settle(&desired);
    let plan = reconcile(&world.0, &desired);
    assert!(plan.is_empty());
    for group in world.0.damaged.keys() {
        let is_told = |problem: &Problem| match problem {
            Problem::Damaged { group: told, .. } => told == group,
            _ => false,
        };
        assert!(plan.problems.iter().any(is_told), "{group} is damaged");
    }
    let line = Line {
        world,
        desired: &desired,
        plan: &plan,
        shards: wish.shards().iter().filter_map(|shard| shard.sid).collect(),
    };
    match (desired.mode, &desired.shards) {
        (Mode::Hashed, Known::Unknown) => {
            for (key, route) in &before.0.routes {
                assert_eq!(world.0.routes.get(key), Some(route));
            }
            let added = world.0.routes.iter();
            let mut added = added.filter(|(key, _)| !before.0.routes.contains_key(key));
            assert!(added.all(|(_, route)| route.target == super::world::NOWHERE));
            if !wish.liveness {
                assert_eq!(world.0.groups, before.0.groups);
            }
        }
        (mode, _) => {
            line.groups();
            line.routes();
            if mode == Mode::Hashed {
                line.members(&wish.shards());
            }
        }
    }
}

#[test]
fn three_sweeps_lead_from_anything_to_what_there_should_be() {
    let changes = prop::collection::vec(change(), 0..12);
    play(600, &(changes, wish()), |(changes, wish)| {
        let mut world = start();
        changes.iter().for_each(|change| change.make(&mut world));
        ends_in_line(&mut world, &wish);
        Ok(())
    });
}

/// The text of a plan without the reading order of what it was made from.
fn text(plan: &Plan) -> String {
    format!("{plan:#?}")
}

#[test]
fn the_order_of_what_is_read_does_not_matter() {
    let changes = prop::collection::vec(change(), 0..8);
    play(
        300,
        &(changes, wish(), any::<u64>()),
        |(changes, wish, turn)| {
            let mut world = start();
            changes.iter().for_each(|change| change.make(&mut world));
            let mut desired = wish.desired();
            let first = text(&reconcile(&world.0, &desired));
            assert_eq!(first, text(&reconcile(&world.0, &desired)));
            let by = |len: usize| (turn % len.max(1) as u64) as usize;
            let groups = world.0.groups.len();
            world.0.groups.rotate_left(by(groups));
            world.0.groups.reverse();
            if let Known::Known(list) | Known::Stale { value: list, .. } = &mut desired.shards {
                let shards = list.shards.len();
                list.shards.rotate_left(by(shards));
            }
            assert_eq!(first, text(&reconcile(&world.0, &desired)));
            Ok(())
        },
    );
}

#[test]
fn at_no_step_does_a_prefix_lead_to_another_class() {
    let changes = prop::collection::vec(wish(), 1..6);
    play(250, &(changes, wish()), |(before, wish)| {
        // From what the loop itself makes.
        let mut world = start();
        for earlier in &before {
            world.settle(&earlier.desired());
        }
        let desired = wish.desired();
        for _ in 0..3 {
            let plan = reconcile(&world.0, &desired);
            for planned in &plan.steps {
                let there: BTreeSet<Key> = world.0.routes.keys().copied().collect();
                world.step(&planned.step);
                for entry in desired.classes.iter() {
                    let prefix = prefix_of(entry.class);
                    for key in there.iter().filter(|key| key.prefix == prefix) {
                        let route = world.0.routes.get(key);
                        let route = route.unwrap_or_else(|| panic!("{key} went away"));
                        let Some((group, incarnation)) = route.group() else {
                            continue;
                        };
                        let live = world.group(group).expect("a group");
                        assert!(live.forwards(), "{key} after {}", planned.step.name());
                        assert_eq!((live.class, live.incarnation), (entry.class, incarnation));
                    }
                }
            }
        }
        Ok(())
    });
}

/// Everything that types allow, whether the kernel can hold it or not.
fn absurd(observed: &mut Observed, seeds: &[(u8, u32)]) {
    for (place, (what, number)) in seeds.iter().enumerate() {
        let Some(first) = observed.groups.first().cloned() else {
            return;
        };
        let id = GroupId::new(number % 64).expect("an index");
        let mut group = altered(Snapshot { group: id, ..first }, *what, *number);
        match place % 5 {
            0 => group.members.reverse(),
            1 => {
                let twice = group.members.clone();
                group.members.extend(twice);
            }
            2 => group.table = vec![*number as u16; *what as usize].into(),
            3 => group.state = State::Disabled,
            _ => {
                for member in &mut group.members {
                    member.slot = guideway::group::Slot::new(number % 256).expect("an index");
                }
            }
        }
        observed.groups.push(group);
        let context = observed.contexts.entry(id).or_default();
        context.counters.truncate(usize::from(*what));
    }
}

#[test]
fn nothing_makes_it_fail() {
    let changes = prop::collection::vec(change(), 0..8);
    let seeds = prop::collection::vec(any::<(u8, u32)>(), 0..8);
    play(300, &(changes, seeds, wish()), |(changes, seeds, wish)| {
        let mut world = start();
        changes.iter().for_each(|change| change.make(&mut world));
        absurd(&mut world.0, &seeds);
        let mut desired = wish.desired();
        let _ = reconcile(&world.0, &desired);
        desired.mode = Mode::Hashed;
        let _ = reconcile(&world.0, &desired);
        world.0.limits = guideway::group::Limits::default();
        let _ = reconcile(&world.0, &desired);
        Ok(())
    });
}
