// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random histories of a group, compared with a model that is as simple as it can be.
//!
//! The model knows no counter: it remembers every tenure that was published, and every pin that
//! packets may have made. What the planner does is right if no number stands for two tenures,
//! and if nobody finds a pin that somebody else made.

use std::collections::{BTreeMap, BTreeSet};

use guideway::group::{Candidate, Change, Class, GroupPlan, Snapshot, State};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::reference;
use crate::support::*;

/// Shards that there may be, more than slots.
const SHARDS: u8 = 9;
const SLOTS: u32 = 5;
const TABLE: u32 = 13;
const STEPS: usize = 30;
const CLASSES: [&str; 2] = ["nat66", "64:ff9b::/96"];

#[derive(Debug, Clone, Copy)]
enum Step {
    Add(u8),
    Remove(u8),
    /// It drains, or does not any more.
    Drain(u8),
    /// Nothing reaches it, or something does again.
    Fail(u8),
    Weigh(u8, u32),
    /// A publication that nobody sees: which of its steps fails makes no difference.
    Broken,
    /// A publication, tried again if the last one failed.
    Publish,
    /// Another process, before anything is published.
    Restart,
    /// Closed, and opened again in the same tenure.
    Reopen,
    /// Closed and disabled, and open again with the next publication, for one of two classes.
    Disable(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let shard = || 0..SHARDS;
    prop_oneof![
        6 => shard().prop_map(Step::Add),
        4 => shard().prop_map(Step::Remove),
        2 => shard().prop_map(Step::Drain),
        2 => shard().prop_map(Step::Fail),
        1 => (shard(), 0_u32..4).prop_map(|(shard, weight)| Step::Weigh(shard, weight)),
        4 => Just(Step::Broken),
        8 => Just(Step::Publish),
        2 => Just(Step::Restart),
        1 => Just(Step::Reopen),
        1 => (0_u8..2).prop_map(Step::Disable),
    ]
}

/// One shard in one slot, from one publication to another.
type Tenure = usize;

struct World {
    group: Group,
    wanted: BTreeMap<u8, Candidate>,
    /// Who is where, as the model has it.
    tenures: BTreeMap<String, (u16, Tenure)>,
    /// The tenure that each published generation stood for, as long as a pin may name it.
    carried: BTreeMap<u32, Tenure>,
    /// What pins name, and whose they are.
    pins: BTreeMap<(u16, u32), Tenure>,
    /// Generations of publications that failed in this process: whoever saw them may have made pins.
    burnt: BTreeSet<u32>,
    next_tenure: Tenure,
    incarnations: BTreeSet<u32>,
    is_open: bool,
    tally: Tally,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    published: u64,
    unchanged: u64,
    broken: u64,
    reused_slots: u64,
    rounds: u64,
    refused: u64,
}

impl World {
    /// From nothing, or from a group whose counter is about to begin a new round.
    fn new(left_of_round: Option<u8>) -> Self {
        let mut world = Self {
            group: Group::of(SLOTS),
            wanted: BTreeMap::new(),
            tenures: BTreeMap::new(),
            carried: BTreeMap::new(),
            pins: BTreeMap::new(),
            burnt: BTreeSet::new(),
            next_tenure: 0,
            incarnations: BTreeSet::new(),
            is_open: false,
            tally: Tally::default(),
        };
        world.group.limits = limits(8, SLOTS, TABLE);
        if let Some(left) = left_of_round {
            for shard in 0..3 {
                world.wanted.insert(shard, active(&node(shard)));
            }
            world.publish().expect("three shards");
            let published = world.group.published.as_mut().expect("published");
            let next = u32::MAX - u32::from(left);
            published.next_slot_generation = guideway::group::Generation::new(next).expect("not 0");
            world.group.restart();
        }
        world
    }

    fn spec(&self) -> guideway::group::GroupSpec {
        spec(&self.wanted.values().copied().collect::<Vec<_>>())
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Add(shard) => {
                let new = active(&node(shard));
                self.wanted.entry(shard).or_insert(new);
            }
            Step::Remove(shard) => drop(self.wanted.remove(&shard)),
            Step::Drain(shard) => {
                if let Some(one) = self.wanted.get_mut(&shard) {
                    one.draining = !one.draining;
                }
            }
            Step::Fail(shard) => {
                if let Some(one) = self.wanted.get_mut(&shard) {
                    one.next_hop = match one.next_hop {
                        Some(_) => None,
                        None => Some(hop(1)),
                    };
                }
            }
            Step::Weigh(shard, weight) => {
                if let Some(one) = self.wanted.get_mut(&shard) {
                    one.weight = weight;
                }
            }
            Step::Broken => {
                if self.fits() {
                    let plan = self.group.fail(&self.spec());
                    // How far it got: pins may have been removed.
                    self.remove_pins(&plan);
                    let joined = plan.joined().iter();
                    self.burnt
                        .extend(joined.map(|member| member.generation.get()));
                    self.tally.broken += 1;
                }
            }
            Step::Publish => self.publish()?,
            Step::Restart => {
                self.group.restart();
                self.burnt.clear();
            }
            Step::Reopen => {
                if self.is_open {
                    let incarnation = self.group.snapshot().incarnation;
                    let members = self.group.members();
                    self.group.close();
                    same(
                        "members of a closing group",
                        &self.group.members(),
                        &members,
                    )?;
                    if !self.fits() {
                        self.wanted.clear();
                    }
                    self.publish()?;
                    let now = self.group.snapshot().incarnation;
                    same("incarnation after closing", &now, &incarnation)?;
                }
            }
            Step::Disable(class) => {
                if self.is_open {
                    let next = self.group.snapshot().next_slot_generation;
                    self.group.close();
                    let plan = self.group.disable();
                    self.remove_pins(&plan);
                    let left = &self.group.snapshot().members;
                    same("members of a disabled group", &left.len(), &0)?;
                    if next.is_after(self.group.snapshot().next_slot_generation) {
                        return Err("the counter went back".into());
                    }
                    self.tenures.clear();
                    self.is_open = false;
                    self.group.place.class = match CLASSES[usize::from(class)] {
                        "nat66" => Class::Nat66,
                        prefix => nat64(prefix),
                    };
                }
            }
        }
        Ok(())
    }

    fn fits(&self) -> bool {
        self.wanted.len() <= SLOTS as usize
    }

    fn remove_pins(&mut self, plan: &GroupPlan) {
        if let Some(kept) = plan.purge() {
            let kept: Vec<_> = kept.iter().map(|(s, g)| (s.get(), g.get())).collect();
            self.pins.retain(|pin, _| kept.contains(pin));
            // Of the round that ends, only these can still be found somewhere.
            let named = |generation: &u32| kept.iter().any(|(_, kept)| kept == generation);
            self.carried.retain(|generation, _| named(generation));
            self.tally.rounds += 1;
        }
    }

    fn publish(&mut self) -> Result<(), String> {
        if !self.fits() {
            let before = self.group.published.clone();
            let refused = self.group.plan(&self.spec());
            self.tally.refused += 1;
            return match refused {
                Ok(_) => Err("too many members were accepted".into()),
                Err(_) => same("what is published", &self.group.published, &before),
            };
        }
        let before = self.group.published.clone();
        let was_open = self.is_open;
        let plan = self.group.publish(&self.spec());
        self.remove_pins(&plan);
        self.is_open = true;
        let after = self.group.snapshot().clone();
        match plan.is_changed() {
            true => self.tally.published += 1,
            false => self.tally.unchanged += 1,
        }
        if let (Some(before), false) = (&before, plan.is_changed()) {
            same("an unchanged group", &after, before)?;
        }
        if !was_open {
            same("change", &plan.change(), &Change::Open)?;
            if !self.incarnations.insert(after.incarnation.get()) {
                return Err(format!("incarnation {} again", after.incarnation));
            }
        }
        same("state", &after.state, &State::Open)?;
        self.follow();
        self.compare(&after)?;
        self.number(&after)?;

        // The same once more, in another order and for another process, is nothing new.
        let mut reversed = self.spec();
        reversed.candidates.reverse();
        let again = self
            .group
            .plan(&reversed)
            .map_err(|error| error.to_string())?;
        same("the same again", &again.change(), &Change::Unchanged)
    }

    /// Who gets which slot: the rules, word for word.
    fn follow(&mut self) {
        let wanted: BTreeSet<String> = self.wanted.keys().map(|&shard| text(shard)).collect();
        let before = self.tenures.clone();
        self.tenures.retain(|shard, _| wanted.contains(shard));
        let held = |tenures: &BTreeMap<String, (u16, Tenure)>| -> BTreeSet<u16> {
            tenures.values().map(|&(slot, _)| slot).collect()
        };
        for shard in wanted {
            if self.tenures.contains_key(&shard) {
                continue;
            }
            let (held, freed) = (held(&self.tenures), held(&before));
            let mut free = (0..SLOTS as u16).filter(|slot| !held.contains(slot));
            let long = free.clone().find(|slot| !freed.contains(slot));
            let slot = long.or_else(|| free.next()).expect("it fits");
            self.tenures.insert(shard, (slot, self.next_tenure));
            self.next_tenure += 1;
        }
    }

    /// Slots, states and table are those of the model.
    fn compare(&self, after: &Snapshot) -> Result<(), String> {
        let slots: BTreeMap<_, _> = after
            .members
            .iter()
            .map(|member| (member.sid.to_string(), member.slot.get()))
            .collect();
        let expected: BTreeMap<_, _> = self
            .tenures
            .iter()
            .map(|(shard, &(slot, _))| (shard.clone(), slot))
            .collect();
        same("slots", &slots, &expected)?;
        let mut sharing = Vec::new();
        for (&shard, wanted) in &self.wanted {
            let member = after.member_by_sid(wanted.sid).ok_or("no member")?;
            same("candidate", &member.candidate(), wanted)?;
            if !wanted.draining && wanted.next_hop.is_some() {
                sharing.push((text(shard), wanted.weight));
            }
        }
        let keys: Vec<_> = sharing
            .iter()
            .map(|(key, weight)| (key.as_bytes(), *weight))
            .collect();
        let owners = reference::build(TABLE, &keys);
        let slot = |owner: &Option<&[u8]>| {
            let owner = owner.map(|key| String::from_utf8_lossy(key).into_owned());
            owner.map_or(0xffff, |owner| slots[&owner])
        };
        let table: Vec<_> = owners.iter().map(slot).collect();
        same("table", &after.table.to_vec(), &table)
    }

    /// No number stands for two tenures, and no pin leads to another one than it was made for.
    fn number(&mut self, after: &Snapshot) -> Result<(), String> {
        let shown = || format!("{:?}", members(after));
        for member in &after.members {
            let (slot, generation) = (member.slot.get(), member.generation.get());
            let (_, tenure) = self.tenures[&member.sid.to_string()];
            if self.burnt.contains(&generation) {
                return Err(format!("generation {generation} was burnt: {}", shown()));
            }
            let known = *self.carried.entry(generation).or_insert_with(|| {
                if self.pins.keys().any(|&(used, _)| used == slot) {
                    self.tally.reused_slots += 1;
                }
                tenure
            });
            if known != tenure {
                return Err(format!("generation {generation} came again: {}", shown()));
            }
            let pinned = *self.pins.entry((slot, generation)).or_insert(tenure);
            if pinned != tenure {
                return Err(format!("slot {slot} inherited pins: {}", shown()));
            }
            if generation == 0 {
                return Err(format!("generation 0: {}", shown()));
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: {got:?}, not {expected:?}"))
    }
}

/// Node IDs whose texts sort in another order than their numbers.
fn node(shard: u8) -> String {
    format!("{:x}", 7 + 3 * u32::from(shard))
}

fn text(shard: u8) -> String {
    format!("2001:db8:ff09:{}:e000::", node(shard))
}

fn play(runs: u32, left_of_round: impl Strategy<Value = Option<u8>>) -> Tally {
    let config = Config {
        cases: runs,
        failure_persistence: None,
        ..Config::default()
    };
    // Without optimisation the default takes longer than all plans together.
    let rng = TestRng::deterministic_rng(RngAlgorithm::XorShift);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tally = std::cell::RefCell::new(Tally::default());
    let steps = prop::collection::vec(step(), STEPS);
    let result = runner.run(&(left_of_round, steps), |(left_of_round, steps)| {
        let mut world = World::new(left_of_round);
        for step in steps {
            world.step(step).map_err(TestCaseError::fail)?;
        }
        let mut all = tally.borrow_mut();
        all.published += world.tally.published;
        all.unchanged += world.tally.unchanged;
        all.broken += world.tally.broken;
        all.reused_slots += world.tally.reused_slots;
        all.rounds += world.tally.rounds;
        all.refused += world.tally.refused;
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    tally.into_inner()
}

fn runs() -> u32 {
    match std::env::var("GW_LONG").is_ok_and(|value| value == "1") {
        true => 100_000,
        false => 10_000,
    }
}

#[test]
fn random_histories_inherit_nothing() {
    let runs = runs();
    let tally = play(runs, Just(None));
    // Histories in which nothing happens would prove nothing.
    let each = u64::from(runs);
    assert!(tally.published > 3 * each, "{tally:?}");
    assert!(tally.unchanged > each / 2, "{tally:?}");
    assert!(tally.broken > 2 * each, "{tally:?}");
    assert!(tally.reused_slots > each, "{tally:?}");
    assert!(tally.refused > each / 100, "{tally:?}");
    assert_eq!(tally.rounds, 0);
}

/// The same while numbers begin a new round, with members that were there before.
#[test]
fn random_histories_inherit_nothing_when_numbers_go_round() {
    let runs = runs() / 4;
    let tally = play(runs, (0_u8..12).prop_map(Some));
    assert!(tally.rounds > u64::from(runs) / 2, "{tally:?}");
    assert!(tally.reused_slots > u64::from(runs), "{tally:?}");
}
