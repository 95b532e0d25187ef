// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One frame, by the program and by its model.

use std::fmt::Debug;

use guideway::abi::{self, TraceFlag};
use guideway::affinity::state::State;
use guideway::oracle::{route, Action, Verdict};
use guideway::plan::Generation;
use guideway::reason::{Reason, Rule};

use crate::kernel::{Machine, Outcome};
use crate::specs::hex;

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
/// disagree about.
pub(crate) fn agree(
    machine: &mut Machine,
    generation: &Generation,
    frame: &[u8],
    linear: usize,
) -> Result<Verdict, String> {
    let model = route(generation, &mut State::default(), frame, |ifindex| {
        machine.can_redirect(ifindex)
    });
    let mut expected = counters(machine, generation);
    let outcome = machine.run(frame, linear);
    count(&mut expected, generation, &model, frame.len());
    let found = counters(machine, generation);
    let difference = first_difference(&[
        decision(generation, &model, &outcome),
        differs("reason counters", &expected.reasons, &found.reasons),
        differs("service counters", &expected.services, &found.services),
        differs("backend counters", &expected.backends, &found.backends),
    ]);
    match difference {
        None => Ok(model),
        Some(difference) => Err(format!("{difference}\nframe {}\n{model:?}", hex(frame))),
    }
}

fn first_difference(differences: &[Option<String>]) -> Option<String> {
    differences.iter().flatten().next().cloned()
}

fn differs<T: PartialEq + Debug>(what: &str, model: &T, program: &T) -> Option<String> {
    (model != program).then(|| format!("{what}: model {model:?}, program {program:?}"))
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
        differs("flow start", &model.flow_start, &start),
        differs("output", &&model.output[..], &&outcome.output[..]),
    ])
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
