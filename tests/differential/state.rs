// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flow state before frames, and how that of the model and the program's are held side by side.

use std::fmt::Debug;

use guideway::affinity::rules::Level;
use guideway::affinity::state::{Admission, State};
use guideway::affinity::{cid_tag, Binding, CidKey, Origin, Phase};
use guideway::hash::{hash32, FlowHashKey, FlowKey};
use guideway::id::ServiceId;
use guideway::plan::{Generation, PlacedService};
use guideway::quic::Cid;
use guideway::service::HashOf;

use crate::pool::Pool;
use crate::random::Random;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Longer than any test runs.
pub(crate) const LATER_NS: u64 = 10_000 * SECOND;

/// Entries that the program's maps have room for: so few that frames fill them.
pub(crate) const FLOWS: usize = 128;
pub(crate) const CIDS: usize = 64;

/// More services than any specification here has.
pub(crate) const STATS: u32 = 8;

/// State that frames may meet at `now_ns`.
pub(crate) fn random(
    random: &mut Random,
    generation: &Generation,
    pool: &Pool,
    cid_seed: u64,
    now_ns: u64,
) -> State {
    let mut state = State::with_capacity(FLOWS, CIDS);
    state.now_ns = now_ns;
    state.cid_seed = cid_seed;
    state.closing_generation = match random.below(4) {
        0 => Some(generation.number),
        1 => Some(generation.number - 1),
        _ => None,
    };
    state.admissions = (0..STATS)
        .map(|stats| (stats, Admission::default()))
        .collect();
    for (service, placed) in generation.services() {
        let admission = Admission {
            flows: level(random),
            cids: level(random),
            refused_ns: stamp(random, now_ns),
        };
        state.admissions.insert(placed.stats, admission);
        if random.percent(70) {
            flows(random, generation, service.id, pool, &mut state);
        }
    }
    for (index, (service, placed)) in generation.services().enumerate() {
        for cid in &pool.cids[index] {
            if placed.exact && random.percent(50) {
                let key = CidKey::new(service.id, *cid);
                let mut binding = binding(random, placed, now_ns);
                binding.tag = cid_tag(&key.to_abi(), cid_seed);
                binding.origin =
                    *random.pick(&[Origin::Traffic, Origin::Registered, Origin::Imported]);
                if binding.origin == Origin::Registered && random.percent(60) {
                    binding.seen_ns = 0;
                }
                foreign(random, &mut binding);
                // Whether there was room makes no difference.
                let _ = state.cids.insert(key, binding);
            }
        }
    }
    crowd(random, &mut state);
    state
}

fn level(random: &mut Random) -> Level {
    match random.below(7) {
        0 => Level::Reserve,
        1 => Level::None,
        _ => Level::All,
    }
}

/// Long ago, or so far ahead that it is never renewed.
fn stamp(random: &mut Random, now_ns: u64) -> u64 {
    match random.percent(60) {
        true => now_ns - random.between(2, 100) as u64 * SECOND,
        false => now_ns + LATER_NS,
    }
}

fn flows(
    random: &mut Random,
    generation: &Generation,
    id: ServiceId,
    pool: &Pool,
    state: &mut State,
) {
    let mut services = generation.services();
    let (service, placed) = services.find(|(service, _)| service.id == id).unwrap();
    let hasher = FlowHashKey::new(generation.spec.hash_seed());
    for &client in pool.clients(service.vip) {
        for &port in &pool.ports {
            if random.percent(50) {
                continue;
            }
            let key = FlowKey::new(id, port, service.port, client);
            let mut binding = binding(random, placed, state.now_ns);
            binding.tag = hasher.h64(&key, false) as u16;
            binding.hash = hash32(hasher.h64(&key, service.hash == HashOf::Source));
            binding.learned = random.below(9) as u8;
            (binding.fin, binding.rst) = (random.percent(20), random.percent(20));
            foreign(random, &mut binding);
            let _ = state.flows.insert(key, binding);
        }
    }
}

/// An entry that names a backend, a former one, or nobody.
fn binding(random: &mut Random, placed: &PlacedService, now_ns: u64) -> Binding {
    let row = random.below(placed.rows.len() + 2) as u16;
    let incarnation = match placed.backend(row) {
        Some(backend) if random.percent(90) => backend.incarnation,
        _ => random.between(1, 1 << 30) as u32,
    };
    let phase = match random.below(10) {
        0..=6 => Phase::Live,
        7 => Phase::Expiring,
        8 => Phase::Dead,
        _ => Phase::Touched,
    };
    Binding {
        tag: 0,
        row,
        incarnation,
        // Only what has long been idle is about to go.
        seen_ns: match phase {
            Phase::Live => stamp(random, now_ns),
            _ => now_ns - 50 * SECOND,
        },
        phase,
        fin: false,
        rst: false,
        origin: Origin::Traffic,
        learned: 0,
        hash: random.next() as u32,
    }
}

/// Now and then, the tag of another's entry.
fn foreign(random: &mut Random, binding: &mut Binding) {
    if random.percent(6) {
        binding.tag ^= 1 << random.below(16);
    }
}

/// Now and then, entries of nobody that leave little room.
fn crowd(random: &mut Random, state: &mut State) {
    let stranger = |random: &mut Random| Binding {
        tag: random.next() as u16,
        row: 0,
        incarnation: 1,
        seen_ns: 1,
        phase: Phase::Live,
        fin: false,
        rst: false,
        origin: Origin::Traffic,
        learned: 0,
        hash: 0,
    };
    let room = match random.percent(25) {
        true => random.below(5),
        false => usize::MAX,
    };
    for number in state.flows.len()..FLOWS.saturating_sub(room) {
        let key = FlowKey::new(ServiceId::new(1), number as u16, 1, [192, 0, 2, 1].into());
        state.flows.insert(key, stranger(random)).unwrap();
    }
    for number in state.cids.len()..CIDS.saturating_sub(room) {
        let key = CidKey::new(ServiceId::new(1), Cid::new(&[number as u8; 9]).unwrap());
        state.cids.insert(key, stranger(random)).unwrap();
    }
}

/// The first entry or admission that program and model disagree about. When exactly a frame was
/// run is nobody's choice: all stamps from `since_ns` on are equal.
pub(crate) fn difference(model: &State, program: &State, since_ns: u64) -> Option<String> {
    let stamp = |at| match (since_ns..since_ns + LATER_NS / 2).contains(&at) {
        true => u64::MAX,
        false => at,
    };
    let entry = |binding: &Binding| Binding {
        seen_ns: stamp(binding.seen_ns),
        ..*binding
    };
    let admission = |admission: &Admission| Admission {
        refused_ns: stamp(admission.refused_ns),
        ..*admission
    };
    let (flows, cids) = ((&model.flows, &program.flows), (&model.cids, &program.cids));
    first("flow", flows.0.iter(), flows.1.iter(), entry, |key| {
        (flows.0.get(key), flows.1.get(key))
    })
    .or_else(|| {
        first(
            "connection ID",
            cids.0.iter(),
            cids.1.iter(),
            entry,
            |key| (cids.0.get(key), cids.1.get(key)),
        )
    })
    .or_else(|| {
        let (one, two) = (&model.admissions, &program.admissions);
        first("admission", one.iter(), two.iter(), admission, |key| {
            (one.get(key), two.get(key))
        })
    })
}

fn first<'a, K: Debug + 'a, V: PartialEq + Debug + 'a>(
    what: &str,
    model: impl Iterator<Item = (&'a K, &'a V)>,
    program: impl Iterator<Item = (&'a K, &'a V)>,
    undated: impl Fn(&V) -> V,
    both: impl Fn(&K) -> (Option<&'a V>, Option<&'a V>),
) -> Option<String> {
    let mut keys = model.chain(program).map(|(key, _)| key);
    keys.find_map(|key| {
        let (model, program) = both(key);
        let (model, program) = (model.map(&undated), program.map(&undated));
        (model != program)
            .then(|| format!("{what} {key:02x?}:\n  model   {model:?}\n  program {program:?}"))
    })
}
