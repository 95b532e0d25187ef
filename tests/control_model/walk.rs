// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A random walk of one node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use guideway::control::fake::{Fake, FakeKernel, FakeRoutes, Fault, How};
use guideway::control::kernel::{Look, Operation, Shared, Ticket};
use guideway::control::{
    apply, install, invariants, observe, reconcile, Deadline, Desired, Install, InstallPolicy,
    Known, Mode, Reachability,
};
use guideway::encap::Encap;
use guideway::group::{Class, Classes, GroupId, Incarnation, Limits, Member, Snapshot, State};
use guideway::maglev::TableSize;
use guideway::oracle::egress::World;
use guideway::placement::Scope;
use guideway::route::{Block, Prefix, Route, Target};
use guideway::srv6::BaseSid;

use crate::fixture::*;

const TABLES: [u32; 2] = [1, 2];
const STATIC: u16 = 9;
/// The shard that translates IPv6 only.
const ONLY66: u16 = 3;
const WRITERS: usize = 3;
/// Rounds between two looks at where it all ends.
const STRETCH: u64 = 16;

/// Whether writers keep the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barrier {
    Kept,
    Ignored,
}

/// Two groups, so that a class which replaces another one waits for its group.
fn small() -> Limits {
    Limits::new(2, 4, TableSize::new(7).expect("a prime")).expect("limits")
}

/// How packets of another node are encapsulated.
fn other_encap() -> Encap {
    Encap::standard("2001:db8:ff09:2::".parse().expect("a SID"))
}

/// Whether a shard that is ever listed translates a class: none does behind `OTHER64`.
fn translates(shard: BaseSid, class: Class) -> bool {
    match class {
        Class::Nat66 => true,
        class => class == nat64(NAT64) && shard != sid(ONLY66),
    }
}

/// Numbers without a pattern (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// What happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) rounds: u64,
    failures: u64,
    kills: u64,
    timeouts: u64,
    disabled: u64,
    opened: u64,
    written: u64,
    closed_meanwhile: u64,
    writers_killed: u64,
    installs: u64,
    mode_changes: u64,
    unlisted: u64,
    followed: u64,
    encapsulations: u64,
    damages: u64,
    ends: u64,
}

impl Seen {
    pub(crate) fn counts(&self) -> [(&'static str, u64); 15] {
        [
            ("failures", self.failures),
            ("kills", self.kills),
            ("waits in vain", self.timeouts),
            ("groups disabled", self.disabled),
            ("groups opened", self.opened),
            ("routes by writers", self.written),
            ("groups that closed meanwhile", self.closed_meanwhile),
            ("writers killed", self.writers_killed),
            ("installs", self.installs),
            ("mode changes", self.mode_changes),
            ("starts without a list", self.unlisted),
            ("next hops followed without a list", self.followed),
            ("changes of the encapsulation", self.encapsulations),
            ("damaged groups", self.damages),
            ("ends", self.ends),
        ]
    }
}

/// A class's place as a writer saw it, who may have stopped since.
#[derive(Clone, Copy)]
struct Held {
    group: GroupId,
    incarnation: Incarnation,
    scope: Scope,
}

/// A program that writes a tenant's routes by the rules: ticket, write, look again.
struct Writer {
    routes: FakeRoutes,
    table: u32,
    guard: Option<Box<dyn Shared + Send>>,
    /// What it has still to write, the last one first, and what it has written.
    todo: Vec<(Class, Option<Held>)>,
    done: Vec<(Class, Held)>,
}

/// What everybody shares.
struct Town {
    fake: Fake,
    dice: Dice,
    barrier: Barrier,
    writers: Vec<Writer>,
    /// Classes that have a route in every table, whatever the loop does next.
    steady: Vec<Class>,
    classes: Classes,
    seen: Seen,
    wrong: Option<String>,
}

impl Writer {
    fn new(fake: &Fake, number: usize) -> Self {
        Self {
            routes: fake.routes(),
            table: TABLES[number % TABLES.len()],
            guard: None,
            todo: Vec::new(),
            done: Vec::new(),
        }
    }
}

impl Town {
    fn put(&mut self, writer: &Writer, class: Class, held: Option<Held>) {
        let key = key(writer.table, class);
        let target = match held {
            Some(Held {
                group,
                incarnation,
                scope,
            }) => Target::group(
                argument(writer.table),
                group,
                incarnation,
                scope,
                key.prefix,
            ),
            None if self.dice.one_in(2) => to_shard(writer.table, STATIC).target,
            None => Target::Block(Block::Drop),
        };
        self.fake.put_route(key, Route::new(target));
        self.seen.written += 1;
    }

    /// One step of one writer.
    fn step(&mut self, number: usize) {
        let mut writer =
            std::mem::replace(&mut self.writers[number], Writer::new(&self.fake, number));
        let begun = !writer.todo.is_empty() || !writer.done.is_empty();
        if begun && self.dice.one_in(40) {
            // It dies: what it holds is given back, what it wrote stays.
            self.seen.writers_killed += 1;
            return;
        }
        if !begun {
            if self.barrier == Barrier::Kept {
                match writer.routes.guard(Duration::ZERO) {
                    Ok(guard) => writer.guard = Some(guard),
                    Err(_) => {
                        self.writers[number] = writer;
                        return;
                    }
                }
            }
            let classes: Vec<Class> = self.classes.iter().map(|entry| entry.class).collect();
            let tickets = classes
                .into_iter()
                .map(|class| (class, self.ticket(&writer, class)));
            writer.todo = tickets.collect();
            writer
                .todo
                .sort_by_key(|(class, _)| Prefix::from(*class).bits());
        } else if let Some((class, held)) = writer.todo.pop() {
            self.put(&writer, class, held);
            writer.done.extend(held.map(|held| (class, held)));
            if writer.todo.is_empty() && writer.done.is_empty() {
                writer.guard = None;
            }
        } else {
            // It looks again, and gives the barrier back.
            for (class, held) in std::mem::take(&mut writer.done) {
                if self
                    .ticket(&writer, class)
                    .map(|now| (now.group, now.incarnation))
                    != Some((held.group, held.incarnation))
                {
                    self.seen.closed_meanwhile += 1;
                    if self.barrier == Barrier::Kept {
                        self.put(&writer, class, None);
                    }
                }
            }
            writer.guard = None;
        }
        self.writers[number] = writer;
    }

    /// The group that takes routes of a class.
    fn ticket(&self, writer: &Writer, class: Class) -> Option<Held> {
        let scope = |group| Scope {
            table: tenant(writer.table).hash_table,
            group,
        };
        let found = match &writer.guard {
            Some(guard) => match guard.ticket(class).expect("nothing fails here") {
                Ticket::Open { group, incarnation } => Some((group, incarnation)),
                _ => None,
            },
            None => self.fake.world(|world| {
                let mut open = world.groups.values();
                let open = open.find(|one| one.class == class && one.state == State::Open);
                open.map(|one| (one.group, one.incarnation))
            }),
        };
        let (group, incarnation) = found?;
        let hash_group = self.fake.world(|world| world.groups[&group].hash_group);
        Some(Held {
            group,
            incarnation,
            scope: scope(hash_group),
        })
    }

    /// Notes the first thing that must not be.
    fn look(&mut self, when: impl std::fmt::Display) {
        if self.wrong.is_some() {
            return;
        }
        let steady = &self.steady;
        let wrong = self.fake.world(|world| {
            for (key, route) in &world.routes {
                let Some((group, incarnation)) = route.group() else {
                    continue;
                };
                let live = world.groups.get(&group);
                let live = live.filter(|live| live.incarnation == incarnation && live.forwards());
                let Some(live) = live else {
                    return Some(format!(
                        "{key} leads to group {group}, which forwards nothing"
                    ));
                };
                if Prefix::from(live.class) != key.prefix {
                    return Some(format!("{key} leads to the group of {}", live.class));
                }
            }
            for group in world.groups.values() {
                for member in &group.members {
                    if !translates(member.sid, group.class) {
                        let (group, class, sid) = (group.group, group.class, member.sid);
                        return Some(format!("group {group} of {class} has {sid}"));
                    }
                }
            }
            for table in TABLES {
                for class in steady {
                    if !world.routes.contains_key(&key(table, *class)) {
                        return Some(format!("table {table} has no route for {class}"));
                    }
                }
            }
            None
        });
        self.wrong = wrong.map(|wrong| format!("{when}: {wrong}"));
    }

    /// Notes what a round changed in groups before anybody had listed shards, but for the next hops of
    /// members if these are to be followed.
    fn compare(&mut self, before: &BTreeMap<GroupId, Snapshot>, follows: bool) {
        let is_same = self.fake.world(|world| {
            let same = |old: &Snapshot, new: &Snapshot| match follows {
                true => but_for_liveness(new, old) == *old,
                false => new == old,
            };
            let ids = before.keys().eq(world.groups.keys());
            let mut pairs = before.values().zip(world.groups.values());
            ids && pairs.all(|(old, new)| same(old, new))
        });
        if !is_same {
            let wrong = "groups changed without a list".to_owned();
            self.wrong.get_or_insert(wrong);
        }
    }

    /// What a steady class's routes do not lead to in the end although they should.
    fn astray(&self, desired: &Desired) -> Option<String> {
        let led = |world: &World, table, class| {
            let route = world.routes.get(&key(table, class))?;
            let mut groups = world.groups.values();
            let group = groups.find(|group| group.class == class && group.state == State::Open)?;
            // Nothing moves a route from a shard to a group that serves nobody.
            let waits = matches!(route.target, Target::Shard { .. })
                && !group.members.iter().any(Member::is_active);
            (waits || route.group() == Some((group.group, group.incarnation))).then_some(())
        };
        self.fake.world(|world| {
            if world.encap != Some(desired.encap) {
                return Some("packets are encapsulated otherwise".to_owned());
            }
            if desired.mode == Mode::Ordered || desired.shards == Known::Unknown {
                return None;
            }
            let mut routes = TABLES
                .into_iter()
                .flat_map(|table| self.steady.iter().map(move |class| (table, *class)));
            let (table, class) =
                routes.find(|&(table, class)| led(world, table, class).is_none())?;
            Some(format!("{class} of table {table} is not led to its group"))
        })
    }

    /// Lets somebody act between two operations of the loop.
    fn between(&mut self, operation: &Operation) {
        self.look(operation);
        while self.dice.one_in(3) {
            let number = self.dice.roll(WRITERS as u64) as usize;
            self.step(number);
            self.look("after a writer's step");
        }
    }

    fn finish_writers(&mut self) {
        for number in 0..WRITERS {
            while self.writers[number].guard.is_some() || !self.writers[number].todo.is_empty() {
                self.step(number);
                self.look("after a writer's step");
            }
            self.writers[number].done.clear();
        }
    }
}

/// A node, and what is wanted of it.
pub(crate) struct Walk {
    fake: Fake,
    town: Arc<Mutex<Town>>,
    kernel: FakeKernel,
    desired: Desired,
    reach: Reachability,
}

fn locked(town: &Mutex<Town>) -> std::sync::MutexGuard<'_, Town> {
    town.lock().expect("nobody panicked")
}

fn classes_of(prefix: Option<&str>) -> Classes {
    let entries = prefix.map(|prefix| nat64(prefix).into());
    Classes::new(entries, small()).expect("classes")
}

impl Walk {
    pub(crate) fn new(seed: u64, barrier: Barrier) -> Self {
        let fake = Fake::new(small());
        for table in TABLES {
            fake.put_tenant(100 + table, tenant(table));
        }
        let desired = Desired {
            classes: classes_of(Some(NAT64)),
            static_sids: vec![sid(STATIC)],
            ..hashed(list([dual(1), dual(2)]))
        };
        let writers = (0..WRITERS).map(|number| Writer::new(&fake, number));
        let town = Town {
            fake: fake.clone(),
            dice: Dice(seed << 32),
            barrier,
            writers: writers.collect(),
            steady: Vec::new(),
            classes: desired.classes.clone(),
            seen: Seen::default(),
            wrong: None,
        };
        let town = Arc::new(Mutex::new(town));
        let shared = town.clone();
        fake.set_hook(move |_, operation| {
            // What the town does itself is not told to it.
            if let Ok(mut town) = shared.try_lock() {
                town.between(operation);
            }
        });
        Self {
            kernel: fake.kernel(),
            town,
            desired,
            reach: reach((0..16).map(|number| (number, true))),
            fake,
        }
    }

    /// So many rounds; what was wrong, if anything was.
    pub(crate) fn run(mut self, rounds: u64) -> Result<Seen, String> {
        for number in 0..rounds {
            self.change();
            self.round();
            if number % STRETCH == STRETCH - 1 {
                self.end()?;
            }
            let mut town = locked(&self.town);
            town.seen.rounds += 1;
            if let Some(wrong) = town.wrong.take() {
                return Err(format!("round {number}: {wrong}"));
            }
        }
        self.fake.clear_hook();
        let seen = locked(&self.town).seen.clone();
        Ok(seen)
    }

    fn roll(&self, sides: u64) -> u64 {
        locked(&self.town).dice.roll(sides)
    }

    /// Something else is wanted, or there are other ways.
    fn change(&mut self) {
        match self.roll(8) {
            0 | 1 => {
                self.desired.mode = match self.desired.mode {
                    Mode::Ordered => Mode::Hashed,
                    Mode::Hashed => Mode::Ordered,
                };
                locked(&self.town).seen.mode_changes += 1;
            }
            2 => {
                let prefixes = [None, Some(NAT64), Some(OTHER64)];
                self.desired.classes = classes_of(prefixes[self.roll(3) as usize]);
            }
            3 => {
                let shards = [dual(1), dual(2), shard66(ONLY66), dual(4)];
                let picked = self.roll(16);
                let shards = shards.into_iter().enumerate();
                let shards = shards.filter(|(place, _)| picked & (1 << place) != 0);
                self.desired.shards = list(shards.map(|(_, shard)| shard));
            }
            4 => {
                let lost = self.roll(16);
                self.reach = reach((0..16).map(|number| {
                    let reached = number >= 5 || lost & (1 << number) != 0;
                    (number, reached)
                }));
            }
            5 if self.roll(4) == 0 => self.damage(),
            6 if self.roll(4) == 0 => {
                let encaps = [encap(), other_encap()];
                self.desired.encap = encaps[self.roll(2) as usize];
            }
            // A process that starts anew follows next hops before anybody has listed shards. One is
            // lost.
            6 if self.roll(4) == 0 => {
                self.kernel = self.fake.kernel();
                self.unlist(true);
                let lost = 1 + self.roll(4) as u16;
                self.reach = reach((0..16).map(|number| (number, number != lost)));
            }
            5 => {
                let shards = std::mem::replace(&mut self.desired.shards, Known::Unknown);
                self.desired.shards = shards.lost(Duration::ZERO, "refused");
            }
            _ => {}
        }
        let mut town = locked(&self.town);
        town.classes = self.desired.classes.clone();
        let classes = &self.desired.classes;
        town.steady.retain(|class| classes.contains(*class));
    }

    /// Nobody has listed shards yet, as far as a process knows.
    fn unlist(&mut self, follows: bool) {
        self.desired.shards = Known::Unknown;
        self.desired.policy.liveness_before_sync = follows;
        locked(&self.town).seen.unlisted += 1;
    }

    /// A row of a group's member makes no sense any more.
    fn damage(&self) {
        let picked = self.roll(2);
        let rest = self.fake.world(|world| {
            let mut groups = world.groups.values().filter(|group| group.forwards());
            let mut rest = groups.nth(picked as usize)?.clone();
            rest.members.pop();
            rest.table.fill(0xffff);
            Some(rest)
        });
        if let Some(rest) = rest {
            self.fake.damage(rest.group, Some(rest));
            locked(&self.town).seen.damages += 1;
        }
    }

    /// One round, in which something may fail.
    fn round(&mut self) {
        if self.roll(4) == 0 {
            let how = How::ALL[self.roll(4) as usize];
            let at = self.kernel.operations() + self.roll(60);
            self.kernel.set_fault(Some(Fault { at, how }));
        }
        if self.roll(8) == 0 {
            self.install();
        }
        let Ok(observed) = observe(&self.kernel, false, |_| self.reach.clone()) else {
            locked(&self.town).seen.failures += 1;
            return self.restart();
        };
        let plan = reconcile(&observed, &self.desired);
        let deadline = Deadline::at(self.kernel.now() + Duration::from_secs(60));
        let deadline = deadline.patient(Duration::from_millis(self.roll(3)));
        let unlisted = self.desired.shards == Known::Unknown && self.desired.mode == Mode::Hashed;
        let before = unlisted.then(|| self.fake.world(|world| world.groups.clone()));
        let applied = apply(&plan, &mut self.kernel, &deadline);
        {
            let mut town = locked(&self.town);
            town.look("after a round");
            if let Some(before) = before {
                town.compare(&before, self.desired.policy.liveness_before_sync);
                town.seen.followed += u64::from(!applied.published.is_empty());
            }
            town.seen.encapsulations += u64::from(applied.encap);
            town.seen.failures += u64::from(applied.failures().next().is_some());
            town.seen.timeouts += applied.timeouts;
            town.seen.disabled += applied.disabled.len() as u64;
            let opened =
                |one: &&guideway::egress::Published| one.change == guideway::group::Change::Open;
            town.seen.opened += applied.published.iter().filter(opened).count() as u64;
        }
        self.restart();
    }

    /// Another process, if this one is dead.
    fn restart(&mut self) {
        if self.kernel.is_killed() {
            self.kernel = self.fake.kernel();
            locked(&self.town).seen.kills += 1;
            // The new one has to hear of the shards first.
            if self.roll(3) == 0 {
                let follows = self.roll(2) == 0;
                self.unlist(follows);
            }
        }
    }

    /// The library's own writer, which others act beside.
    fn install(&mut self) {
        let policies = InstallPolicy::ALL;
        let policy = policies[self.roll(policies.len() as u64) as usize];
        let tenant = tenant(TABLES[self.roll(2) as usize]);
        let request = Install::new(&tenant, &self.desired.classes, self.desired.mode);
        let ordered = (self.roll(2) == 0).then(|| (sid(STATIC), hop(STATIC)));
        let request = request.policy(policy).ordered(ordered);
        let routes = self.fake.routes();
        let done = install(&routes, &request, Duration::ZERO);
        let mut town = locked(&self.town);
        town.look("after an install");
        town.seen.installs += u64::from(done.is_ok());
    }

    /// Nobody acts any more: everything is as it should be after a few rounds.
    fn end(&mut self) -> Result<(), String> {
        {
            let mut town = locked(&self.town);
            town.finish_writers();
            if let Some(wrong) = town.wrong.take() {
                return Err(wrong);
            }
            town.seen.ends += 1;
        }
        self.kernel.set_fault(None);
        self.fake.set_hook(|_, _| {});
        for _ in 0..4 {
            let observed = observe(&self.kernel, false, |_| self.reach.clone());
            let observed = observed.map_err(|failure| failure.to_string())?;
            let plan = reconcile(&observed, &self.desired);
            if plan.is_empty() {
                let found = invariants(&observed, &self.desired.classes);
                if !found.hold() {
                    return Err(format!("at an end: {found:?}"));
                }
                let mut town = locked(&self.town);
                let classes = self.desired.classes.iter();
                town.steady = classes.map(|entry| entry.class).collect();
                town.look("at an end");
                if let Some(wrong) = town.astray(&self.desired) {
                    return Err(format!("at an end: {wrong}"));
                }
                drop(town);
                let shared = self.town.clone();
                self.fake.set_hook(move |_, operation| {
                    if let Ok(mut town) = shared.try_lock() {
                        town.between(operation);
                    }
                });
                return Ok(());
            }
            let deadline = Deadline::at(self.kernel.now() + Duration::from_secs(60));
            let applied = apply(&plan, &mut self.kernel, &deadline);
            if !applied.is_complete() {
                return Err(format!("at an end: {applied:?}"));
            }
        }
        Err("no end in sight".to_owned())
    }
}
