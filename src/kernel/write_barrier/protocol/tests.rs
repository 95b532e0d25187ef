// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every interleaving of the protocol with three takers who come again and again, die or give up at
//! any step, and the locks modelled. As a control the same without the gate, and with a gate that
//! who is alone does not close.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use super::*;

const TAKERS: usize = 3;

/// Locks as flock(2) has them: who holds which, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Table {
    gate: [Option<Mode>; TAKERS],
    routes: [Option<Mode>; TAKERS],
}

impl Table {
    fn at(&mut self, place: Place) -> &mut [Option<Mode>; TAKERS] {
        match place {
            Place::Gate => &mut self.gate,
            Place::Routes => &mut self.routes,
        }
    }
}

/// What is wrong with a protocol that is modelled as a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Nobody minds the gate.
    NoGate,
    /// Who takes the barrier alone goes through the gate like the others.
    SharedGate,
    /// The routes are not locked.
    NoRoutes,
}

/// The locks as one taker sees them.
struct View<'a> {
    table: &'a mut Table,
    who: usize,
    fault: Fault,
}

impl Locks for View<'_> {
    type Error = Infallible;

    fn try_lock(&mut self, place: Place, mode: Mode) -> Result<bool, Infallible> {
        let mode = match (self.fault, place) {
            (Fault::NoGate, Place::Gate) | (Fault::NoRoutes, Place::Routes) => return Ok(true),
            (Fault::SharedGate, Place::Gate) => Mode::Shared,
            _ => mode,
        };
        let held = self.table.at(place);
        let others = (0..TAKERS).filter(|&other| other != self.who);
        let free = others
            .filter_map(|other| held[other])
            .all(|theirs| mode == Mode::Shared && theirs == Mode::Shared);
        if free {
            held[self.who] = Some(mode);
        }
        Ok(free)
    }

    fn unlock(&mut self, place: Place) -> Result<(), Infallible> {
        self.table.at(place)[self.who] = None;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Taker {
    Taking(Taking),
    Holding,
    /// The routes are given back, the gate is not yet.
    Leaving,
}

/// What one of three takers does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    /// It tried in vain.
    Blocked(Place),
    /// It did something.
    Done,
    /// It died or gave up: all its locks are gone.
    Died,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    modes: [Mode; TAKERS],
    takers: [Taker; TAKERS],
    table: Table,
}

impl World {
    fn new(modes: [Mode; TAKERS]) -> Self {
        Self {
            modes,
            takers: modes.map(|mode| Taker::Taking(Taking::new(mode))),
            table: Table::default(),
        }
    }

    /// The world after a taker did what it does next.
    fn step(mut self, who: usize, fault: Fault) -> (Self, Move) {
        let mut view = View {
            table: &mut self.table,
            who,
            fault,
        };
        let mut made = Move::Done;
        self.takers[who] = match self.takers[who] {
            Taker::Taking(mut taking) => match taking.step(&mut view) {
                Ok(Step::Taken) => Taker::Holding,
                Ok(Step::Advanced) => Taker::Taking(taking),
                Ok(Step::Blocked(place)) => {
                    made = Move::Blocked(place);
                    Taker::Taking(taking)
                }
                Err(never) => match never {},
            },
            Taker::Holding => {
                self.table.routes[who] = None;
                Taker::Leaving
            }
            Taker::Leaving => {
                self.table.gate[who] = None;
                Taker::Taking(Taking::new(self.modes[who]))
            }
        };
        (self, made)
    }

    fn die(mut self, who: usize) -> Self {
        self.table.gate[who] = None;
        self.table.routes[who] = None;
        self.takers[who] = Taker::Taking(Taking::new(self.modes[who]));
        self
    }

    fn stage(&self, who: usize) -> Option<Stage> {
        match self.takers[who] {
            Taker::Taking(taking) => Some(taking.stage),
            _ => None,
        }
    }

    fn holders(&self, mode: Mode) -> usize {
        let held = (0..TAKERS).filter(|&who| self.takers[who] == Taker::Holding);
        held.filter(|&who| self.modes[who] == mode).count()
    }
}

/// A fault that the search found, in words.
type Finding = &'static str;

/// Goes through every reachable world. Gives what is wrong anywhere, and how many worlds there are.
fn search(modes: [Mode; TAKERS], fault: Fault) -> (HashSet<Finding>, usize) {
    let mut findings = HashSet::new();
    let mut edges: HashMap<World, Vec<(usize, Move, World)>> = HashMap::new();
    let mut open = vec![World::new(modes)];
    while let Some(world) = open.pop() {
        if edges.contains_key(&world) {
            continue;
        }
        let alone = world.holders(Mode::Exclusive);
        if alone > 1 || (alone == 1 && world.holders(Mode::Shared) > 0) {
            findings.insert("somebody is inside beside one who is alone");
        }
        let inside = |who: &usize| world.takers[*who] == Taker::Holding;
        if (0..TAKERS)
            .filter(inside)
            .any(|who| modes[who] == Mode::Shared && world.table.gate[who].is_some())
        {
            findings.insert("who is inside shared keeps the gate");
        }
        let steps = (0..TAKERS).map(|who| {
            let (next, made) = world.step(who, fault);
            (who, made, next)
        });
        let steps: Vec<_> = steps.collect();
        if steps.iter().all(|(_, made, _)| *made != Move::Done) {
            findings.insert("everybody waits");
        }
        for (who, made, _) in &steps {
            if *made == Move::Blocked(Place::Routes) && modes[*who] == Mode::Shared {
                findings.insert("who has passed the gate shared waits");
            }
        }
        let deaths = (0..TAKERS).map(|who| (who, Move::Died, world.die(who)));
        let all: Vec<_> = steps.into_iter().chain(deaths).collect();
        open.extend(all.iter().map(|(_, _, next)| *next));
        edges.insert(world, all);
    }
    if starves(&edges, modes) {
        findings.insert("others go in and out for ever while one waits at the routes");
    }
    (findings, edges.len())
}

/// Whether one who waits alone for the routes can find them held at whatever moment it tries, for
/// ever: a circle of worlds, through steps of the others, in all of which it is blocked.
fn starves(edges: &HashMap<World, Vec<(usize, Move, World)>>, modes: [Mode; TAKERS]) -> bool {
    (0..TAKERS)
        .filter(|&who| modes[who] == Mode::Exclusive)
        .any(|victim| {
            let blocked = |world: &World| {
                world.stage(victim) == Some(Stage::AtGate)
                    && edges[world].iter().any(|(who, made, _)| {
                        *who == victim && *made == Move::Blocked(Place::Routes)
                    })
            };
            let mut left: HashSet<World> = edges.keys().copied().filter(blocked).collect();
            // Worlds without a way to stay blocked are taken away until all that remain have one.
            loop {
                let ends: Vec<World> = left
                    .iter()
                    .filter(|world| {
                        !edges[*world].iter().any(|(who, made, next)| {
                            *who != victim && *made == Move::Done && left.contains(next)
                        })
                    })
                    .copied()
                    .collect();
                if ends.is_empty() {
                    return !left.is_empty();
                }
                ends.iter().for_each(|world| {
                    left.remove(world);
                });
            }
        })
}

use Mode::{Exclusive as X, Shared as S};

const MIXES: [[Mode; TAKERS]; 4] = [[S, S, S], [S, S, X], [S, X, X], [X, X, X]];

#[test]
fn no_interleaving_is_wrong() {
    for modes in MIXES {
        let (findings, worlds) = search(modes, Fault::None);
        assert_eq!(findings, HashSet::new(), "{modes:?}");
        // With nobody shared at least: nobody in, or one of three at one of four steps.
        assert!(worlds >= 13, "{modes:?}: {worlds} worlds are not all");
    }
}

#[test]
fn two_are_inside_together_only_shared() {
    for modes in MIXES {
        let mut open = vec![World::new(modes)];
        let mut seen = HashSet::new();
        while let Some(world) = open.pop() {
            if seen.insert(world) {
                open.extend((0..TAKERS).map(|who| world.step(who, Fault::None).0));
            }
        }
        let most = seen.iter().map(|world| world.holders(S)).max();
        let shared = modes.iter().filter(|mode| **mode == S).count();
        assert_eq!(most, Some(shared), "all that may be inside together can");
    }
}

#[test]
fn faults_are_found() {
    let starving = "others go in and out for ever while one waits at the routes";
    let (findings, _) = search([S, S, X], Fault::NoGate);
    assert!(findings.contains(starving), "{findings:?}");
    let (findings, _) = search([S, S, X], Fault::SharedGate);
    assert!(findings.contains(starving), "{findings:?}");
    let mixed = "somebody is inside beside one who is alone";
    let (findings, _) = search([S, S, X], Fault::NoRoutes);
    assert!(findings.contains(mixed), "{findings:?}");
}

#[test]
fn the_model_of_the_locks_is_that_of_flock() {
    let mut table = Table::default();
    let mut lock = |who, place, mode| {
        let mut view = View {
            table: &mut table,
            who,
            fault: Fault::None,
        };
        view.try_lock(place, mode) == Ok(true)
    };
    assert!(lock(0, Place::Gate, S) && lock(1, Place::Gate, S));
    assert!(!lock(2, Place::Gate, X));
    assert!(!lock(0, Place::Gate, X), "not beside another who shares it");
    assert!(lock(2, Place::Routes, X), "each by itself");
    assert!(!lock(0, Place::Routes, S) && !lock(1, Place::Routes, X));
}
