// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One frame, by the program and by its model.

use std::fmt::Debug;

use guideway::abi::{self, TraceFlag};
use guideway::affinity::rules::{Slot, SlotKind};
use guideway::affinity::state::State;
use guideway::affinity::{Binding, CidKey};
use guideway::flow::parse;
use guideway::kernel::clock::monotonic_coarse_ns;
use guideway::oracle::{route, Action, Verdict};
use guideway::plan::Generation;
use guideway::reason::{Reason, Rule};

use crate::kernel::{Machine, Outcome};
use crate::specs::hex;
use crate::state::{difference, CIDS, FLOWS};

/// Counters that a frame may move.
#[derive(PartialEq, Eq)]
struct Counters {
    reasons: Vec<u64>,
    /// Packets, bytes, rules, counters of each service.
    services: Vec<Vec<u64>>,
    /// Packets and bytes of each backend of each service.
    backends: Vec<Vec<(u64, u64)>>,
}

/// What becomes of a frame of which `linear` bytes lie in one piece, or what program and model
/// disagree about. `state` is what earlier frames left, of which the first was run at `since_ns`.
pub(crate) fn agree(
    machine: &mut Machine,
    generation: &Generation,
    state: &mut State,
    since_ns: u64,
    (frame, linear): (&[u8], usize),
) -> Result<Verdict, String> {
    state.now_ns = monotonic_coarse_ns();
    let before = state.clone();
    let model = route(generation, state, frame, |ifindex| {
        machine.can_redirect(ifindex)
    });
    let mut expected = counters(machine, generation);
    let outcome = machine.run(frame, linear);
    count(&mut expected, generation, &model, frame.len());
    let after = counters(machine, generation);
    let found = first_difference(&[
        decision(generation, &model, &outcome),
        differs("reason counters", &expected.reasons, &after.reasons),
        services_differ(&expected.services, &after.services),
        differs("backend counters", &expected.backends, &after.backends),
        difference(state, &machine.state(), since_ns),
    ]);
    match found {
        None => Ok(model),
        Some(difference) => {
            let mut model = model;
            model.output.clear();
            Err(format!(
                "{difference}\nframe {}\n{model:?}\nits flow {:?}\nits connection IDs {:02x?}",
                hex(frame),
                flow_met(&before, generation, frame),
                bindings_met(&before, frame),
            ))
        }
    }
}

/// Runs a frame that meets no state and leaves none.
pub(crate) fn alone(
    machine: &mut Machine,
    generation: &Generation,
    frame: &[u8],
    linear: usize,
) -> Result<Verdict, String> {
    let mut state = State::with_capacity(FLOWS, CIDS);
    // Where there is none to be compared, the counters of services that there are not are zero.
    state.admissions = machine.state().admissions;
    agree(
        machine,
        generation,
        &mut state,
        u64::MAX / 2,
        (frame, linear),
    )
}

fn first_difference(differences: &[Option<String>]) -> Option<String> {
    differences.iter().flatten().next().cloned()
}

fn differs<T: PartialEq + Debug>(what: &str, model: &T, program: &T) -> Option<String> {
    (model != program).then(|| format!("{what}: model {model:?}, program {program:?}"))
}

/// The first counter of a service that program and model disagree about.
fn services_differ(model: &[Vec<u64>], program: &[Vec<u64>]) -> Option<String> {
    let rules = abi::Rule::GW_RULES.0 as usize;
    let both = model.iter().zip(program).enumerate();
    let mut all = both.flat_map(|(service, (model, program))| {
        let counters = model.iter().zip(program).enumerate();
        counters.map(move |(at, (model, program))| (service, at, model, program))
    });
    let (service, at, model, program) = all.find(|(_, _, model, program)| model != program)?;
    let what = match at {
        0 => "packets".to_owned(),
        1 => "bytes".to_owned(),
        at if at < 2 + rules => format!("rule {}", Rule::ALL[at - 2]),
        at => format!("counter {}", at - 2 - rules),
    };
    Some(format!(
        "{what} of service {service}: model {model}, program {program}"
    ))
}

fn decision(generation: &Generation, model: &Verdict, outcome: &Outcome) -> Option<String> {
    let note = &outcome.note;
    let flag = |flag: TraceFlag| note.flags & flag.0 as u8 != 0;
    let hashed = flag(TraceFlag::GW_TRACE_HASHED);
    let start = flag(TraceFlag::GW_TRACE_START_KNOWN).then(|| flag(TraceFlag::GW_TRACE_START));
    let known = |number: u32| (number != 0).then_some(number);
    first_difference(&[
        differs(
            "reason",
            &model.reason,
            &Reason::from_number(note.reason).unwrap(),
        ),
        differs("action", &action(model.action), &outcome.action),
        differs("generation", &generation.number, &note.generation),
        differs("rule", &model.rule, &Rule::from_number(note.rule)),
        differs(
            "service",
            &model.service.map(|id| id.get()),
            &known(note.service_id),
        ),
        differs(
            "backend",
            &model.backend.map(|(id, row)| (id.get(), row)),
            &known(note.backend_id).map(|id| (id, note.row)),
        ),
        differs("hash", &model.hash, &hashed.then_some(note.hash)),
        differs("slot", &model.slot, &hashed.then_some(note.slot)),
        differs(
            "slot kind",
            &model.slot_kind,
            &hashed.then(|| kind(note.base)),
        ),
        differs("flow start", &model.flow_start, &start),
        differs(
            "created",
            &(model.created.flow, model.created.cid),
            &(
                flag(TraceFlag::GW_TRACE_CREATED_FLOW),
                flag(TraceFlag::GW_TRACE_CREATED_CID),
            ),
        ),
        differs("output", &&model.output[..], &&outcome.output[..]),
    ])
}

/// The entry of the frame's flow.
fn flow_met(state: &State, generation: &Generation, frame: &[u8]) -> Option<Binding> {
    let flow = parse(frame).ok()?.flow();
    let mut services = generation.spec.services().iter();
    let service = services.find(|service| {
        (service.vip, service.protocol, service.port) == (flow.vip, flow.protocol, flow.vip_port)
    })?;
    state.flows.get(&flow.key(service.id)).copied()
}

/// The bindings of connection IDs that the frame may carry.
fn bindings_met<'a>(state: &'a State, frame: &[u8]) -> Vec<(&'a CidKey, &'a Binding)> {
    let is_in_frame = |key: &CidKey| frame.windows(key.cid.len()).any(|bytes| bytes == &*key.cid);
    let bindings = state.cids.iter();
    bindings.filter(|(key, _)| is_in_frame(key)).collect()
}

fn kind(base: u16) -> SlotKind {
    Slot::from_abi(abi::Slot { owner: 0, base }).kind
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

fn counters(machine: &Machine, generation: &Generation) -> Counters {
    let services = generation.services.iter();
    Counters {
        reasons: machine.reasons().to_vec(),
        services: services
            .clone()
            .map(|placed| {
                let stats = machine.service_stats(placed.stats);
                let mut all = vec![stats.packets, stats.bytes];
                all.extend(stats.rules);
                all.extend(stats.counters);
                all
            })
            .collect(),
        backends: services
            .map(|placed| {
                let rows = placed.rows.iter().flatten();
                rows.map(|backend| machine.backend_stats(backend.stats))
                    .collect()
            })
            .collect(),
    }
}

/// Adds what the model says that a frame of `bytes` counts.
fn count(counters: &mut Counters, generation: &Generation, model: &Verdict, bytes: usize) {
    let bytes = bytes as u64;
    counters.reasons[usize::from(model.reason.number())] += 1;
    let services = generation.spec.services().iter();
    let Some(index) = services
        .map(|service| Some(service.id))
        .position(|id| id == model.service)
    else {
        return;
    };
    let service = &mut counters.services[index];
    service[0] += 1;
    service[1] += bytes;
    let rules = abi::Rule::GW_RULES.0 as usize;
    if let Some(rule) = model.rule {
        service[2 + usize::from(rule.number())] += 1;
        let (id, _) = model.backend.unwrap();
        let rows = generation.services[index].rows.iter().flatten();
        let position = rows.map(|backend| backend.id).position(|other| other == id);
        let backend = &mut counters.backends[index][position.unwrap()];
        *backend = (backend.0 + 1, backend.1 + bytes);
    }
    for counter in &model.counters {
        service[2 + rules + counter.0 as usize] += 1;
    }
}
