// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program does with packets, beside the model and beside the program that runs on CPUs.

use std::collections::{BTreeMap, BTreeSet};

use guideway::abi;
use guideway::affinity::state::State;
use guideway::kernel::object;
use guideway::kernel::publish::{self, Slot};
use guideway::kernel::run::Run;
use guideway::oracle::{route, Action, Verdict};
use guideway::plan::{plan, Device, Generation, Image, Options, World};
use guideway::reason::{Reason, Rule};
use guideway::service::{BackendState, Spec};
use serde_json::{json, Value};

use crate::machine::{Machine, FLOWS};
use crate::netns::isolated;
use crate::pool::Pool;
use crate::random::Random;
use crate::specs::{self, INGRESS, TARGETS};
use crate::{build, frames};

const FRAMES: usize = 120;
/// What a test run gives a program in one piece, as a card does with every frame.
const LINEAR: usize = 3000;

fn frame(random: &mut Random, generation: &Generation, pool: &Pool) -> Vec<u8> {
    let mut frame = frames::frame(random, generation, pool);
    frame.truncate(LINEAR);
    frame
}

/// A random specification of what a card can do, most of it behind the port.
fn document(random: &mut Random) -> Value {
    let mut document = specs::document(random, false);
    for service in document["services"].as_array_mut().expect("services") {
        if service["quic"]["routing"] == "learned" {
            service["quic"]["routing"] = json!("tuple");
        }
        for backend in service["backends"].as_array_mut().expect("backends") {
            if random.percent(80) {
                backend["interface"] = json!(INGRESS);
            }
        }
    }
    document
}

fn world() -> World {
    let names = [INGRESS].into_iter().chain(TARGETS);
    let devices = (2..).zip(names).map(|(index, name)| {
        let mac = [2, 0xee, 0, 0, 0, index as u8];
        Device::new(name.parse().unwrap(), index, Some(mac.into()), 1500)
    });
    World::new(devices.collect(), vec![], 1_000_000_000)
}

fn generation(random: &mut Random, document: &Value) -> Generation {
    let spec = Spec::from_json(document.to_string().as_bytes())
        .unwrap_or_else(|faults| panic!("{faults}\n{document:#}"));
    let plan = plan(None, &spec, &world(), Options::default())
        .unwrap_or_else(|faults| panic!("{faults}\n{document:#}"));
    let mut generation = plan.generation().clone();
    generation.number = random.next().max(2);
    specs::quarantine(random, &mut generation);
    generation
}

/// Backends that fail, drain, go or are followed by others in their rows.
fn disturb(random: &mut Random, generation: &mut Generation) {
    generation.number = generation.number.wrapping_add(1).max(2);
    for placed in &mut generation.services {
        let owners: BTreeSet<_> = placed.slots.iter().map(|slot| slot.owner).collect();
        for row in &mut placed.rows {
            let Some(backend) = row else { continue };
            match random.below(6) {
                0 => backend.state = BackendState::Draining,
                1 => backend.state = BackendState::Unhealthy,
                2 => backend.incarnation += 1,
                3 if !owners.contains(&backend.row) => *row = None,
                _ => backend.state = BackendState::Ready,
            }
        }
    }
}

#[test]
fn random_frames_go_where_the_model_says() {
    isolated("offload::random_frames", || {
        let machine = Machine::new();
        let long = std::env::var("GW_LONG").is_ok_and(|value| value == "1");
        let mut seeds = Random::new(0x6f66_666c_6f61_6421);
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for _ in 0..if long { 1500 } else { 60 } {
            let seed = seeds.next();
            let mut random = Random::new(seed);
            let document = document(&mut random);
            let mut generation = generation(&mut random, &document);
            let pool = Pool::new(&mut random, &generation);
            let mut state = State::with_capacity(FLOWS, FLOWS);
            machine.forget_flows();
            for part in 0..2 {
                machine.publish(&generation);
                machine.set_epoch(random.next() as u32);
                for number in 0..FRAMES / 2 {
                    let frame = frame(&mut random, &generation, &pool);
                    let verdict = agree(&machine, &generation, &mut state, &frame).unwrap_or_else(
                        |difference| {
                            panic!(
                                "frame {number} of part {part} under seed {seed:#x}: {difference}\n\
                                 {}\n{document}",
                                specs::hex(&frame)
                            )
                        },
                    );
                    note(&mut seen, &verdict);
                }
                disturb(&mut random, &mut generation);
            }
        }
        assert_complete(&seen);
    });
}

/// What becomes of a frame, or what program and model disagree about.
fn agree(
    machine: &Machine,
    generation: &Generation,
    state: &mut State,
    frame: &[u8],
) -> Result<Verdict, String> {
    let model = route(generation, state, frame, |_| false);
    let mut expected = counters(machine, generation);
    let ran = machine.run(frame);
    count(&mut expected, generation, &model, frame.len());
    same("action", &action(model.action), &ran.action)?;
    same("output", &model.output, &ran.frame)?;
    same("counters", &expected, &counters(machine, generation))?;
    let bound: BTreeMap<_, _> = machine
        .flows()
        .into_iter()
        .map(|(key, entry)| (*key.as_bytes(), (entry.tag, entry.row, entry.incarnation)))
        .collect();
    let modelled = state.flows.iter().map(|(key, entry)| {
        let entry = entry.to_abi();
        (*key.as_bytes(), (entry.tag, entry.row, entry.incarnation))
    });
    same("flows", &modelled.collect(), &bound)?;
    Ok(model)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, model: &T, program: &T) -> Result<(), String> {
    match model == program {
        true => Ok(()),
        false => Err(format!("{what}: model {model:?}, program {program:?}")),
    }
}

fn action(action: Action) -> u32 {
    match action {
        Action::Abort => libbpf_sys::XDP_ABORTED,
        Action::Drop => libbpf_sys::XDP_DROP,
        Action::Pass => libbpf_sys::XDP_PASS,
        Action::Transmit => libbpf_sys::XDP_TX,
        Action::Redirect { .. } => libbpf_sys::XDP_REDIRECT,
    }
}

/// Reasons, services, backends.
type Counters = (Vec<u64>, Vec<Vec<u64>>, Vec<Vec<(u64, u64)>>);

fn counters(machine: &Machine, generation: &Generation) -> Counters {
    let services = generation.services.iter();
    (
        machine.reasons(),
        machine.service_stats(),
        services
            .map(|placed| {
                let rows = placed.rows.iter().flatten();
                rows.map(|backend| machine.backend_stats(backend.stats))
                    .collect()
            })
            .collect(),
    )
}

fn count(counters: &mut Counters, generation: &Generation, model: &Verdict, bytes: usize) {
    let (reasons, services, backends) = counters;
    let bytes = bytes as u64;
    reasons[usize::from(model.reason.number())] += 1;
    let mut known = generation
        .spec
        .services()
        .iter()
        .map(|service| Some(service.id));
    let Some(index) = known.position(|id| id == model.service) else {
        return;
    };
    let service = &mut services[generation.services[index].stats as usize];
    service[0] += 1;
    service[1] += bytes;
    let rules = abi::Rule::GW_RULES.0 as usize;
    if let Some(rule) = model.rule {
        service[2 + usize::from(rule.number())] += 1;
        let (id, _) = model.backend.expect("of a forwarded frame");
        let mut rows = generation.services[index].rows.iter().flatten();
        let position = rows.position(|backend| backend.id == id).expect("its row");
        let backend = &mut backends[index][position];
        *backend = (backend.0 + 1, backend.1 + bytes);
    }
    for counter in &model.counters {
        service[2 + rules + counter.0 as usize] += 1;
    }
}

fn note(seen: &mut BTreeMap<String, u64>, verdict: &Verdict) {
    *seen
        .entry(format!("reason {}", verdict.reason))
        .or_default() += 1;
    if let Some(rule) = verdict.rule {
        *seen.entry(format!("rule {rule}")).or_default() += 1;
    }
    for counter in &verdict.counters {
        *seen.entry(format!("counter {}", counter.0)).or_default() += 1;
    }
}

/// The frames must have met everything that the profile has.
fn assert_complete(seen: &BTreeMap<String, u64>) {
    use abi::Counter as C;
    let without = [Reason::NoGeneration, Reason::Internal];
    let reasons = Reason::ALL.iter().filter(|of| !without.contains(of));
    let rules = [Rule::ServerId, Rule::Flow, Rule::Table, Rule::Reselect];
    let outcomes = [
        C::GW_COUNTER_PLAIN,
        C::GW_COUNTER_HIT,
        C::GW_COUNTER_RESELECTED,
        C::GW_COUNTER_ALL_INSERTED,
        C::GW_COUNTER_REFUSED_FULL,
        C::GW_COUNTER_AT_RISK,
        C::GW_COUNTER_NO_ENTRY,
        C::GW_COUNTER_NO_BACKEND,
        C::GW_COUNTER_UNKNOWN_SERVER_ID,
        C::GW_COUNTER_QUARANTINED_SERVER_ID,
    ];
    let expected = reasons
        .map(|reason| format!("reason {reason}"))
        .chain(rules.map(|rule| format!("rule {rule}")))
        .chain(outcomes.map(|counter| format!("counter {}", counter.0)));
    let missing: Vec<_> = expected.filter(|name| !seen.contains_key(name)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}\n{seen:?}");
}

#[test]
fn random_frames_go_where_the_program_on_cpus_sends_them() {
    isolated("offload::beside_cpus", || {
        let card = Machine::new();
        let mut cpu = object::Options::default()
            .load()
            .unwrap_or_else(|error| panic!("{error}"));
        let slot = Slot::new(cpu.take_map("gw_ql_gen").unwrap()).unwrap();
        let mut random = Random::new(0x6265_7369_6465);
        let mut transmitted = 0;
        for _ in 0..30 {
            let mut document = document(&mut random);
            for service in document["services"].as_array_mut().expect("services") {
                service["tracking"] = json!("exceptions");
                for backend in service["backends"].as_array_mut().expect("backends") {
                    backend["interface"] = json!(INGRESS);
                }
            }
            let generation = generation(&mut random, &document);
            let pool = Pool::new(&mut random, &generation);
            let image = Image::build(&generation).unwrap();
            let cells = publish::Generation::create("gw_ql_cells", image.bytes().len()).unwrap();
            cells.fill(image.bytes()).unwrap();
            cells.freeze().unwrap();
            slot.swap(&cells).unwrap();
            card.publish(&generation);
            for _ in 0..60 {
                let frame = frame(&mut random, &generation, &pool);
                let ours = card.run(&frame);
                let theirs = Run::new(&frame).run(&cpu.program).unwrap();
                assert_eq!(
                    (ours.action, &ours.frame),
                    (theirs.action, &theirs.frame),
                    "{}\n{document}",
                    specs::hex(&frame)
                );
                transmitted += u32::from(ours.action == libbpf_sys::XDP_TX);
            }
        }
        assert!(transmitted > 100, "{transmitted}");
    });
}

#[test]
fn every_cut_of_a_frame_goes_where_the_model_says() {
    isolated("offload::cuts", || {
        let machine = Machine::new();
        let mut random = Random::new(0x6375_7473);
        for _ in 0..12 {
            let document = document(&mut random);
            let generation = generation(&mut random, &document);
            let pool = Pool::new(&mut random, &generation);
            let mut state = State::with_capacity(FLOWS, FLOWS);
            machine.forget_flows();
            machine.publish(&generation);
            let frame = frame(&mut random, &generation, &pool);
            for bytes in crate::LEAST_FRAME..=frame.len().min(160) {
                agree(&machine, &generation, &mut state, &frame[..bytes]).unwrap_or_else(
                    |difference| panic!("{bytes} bytes of {}: {difference}", specs::hex(&frame)),
                );
            }
        }
    });
}

#[test]
fn without_an_active_generation_everything_passes() {
    isolated("offload::no_generation", || {
        let machine = Machine::new();
        let frame = build::ethernet(&[], 0x0800, &[0x45; 46]);
        let ran = machine.run(&frame);
        assert_eq!((ran.action, &ran.frame), (libbpf_sys::XDP_PASS, &frame));
        assert_eq!(
            machine.reasons()[usize::from(Reason::NoGeneration.number())],
            1
        );
    });
}
