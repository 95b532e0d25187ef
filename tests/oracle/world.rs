// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Specifications, placed on a made-up machine, and payloads.

use guideway::abi::Counter;
use guideway::affinity::state::State;
use guideway::id::InterfaceName;
use guideway::oracle::{route, Action, Verdict};
use guideway::plan::{plan, Device, Generation, Options, World};
use guideway::reason::{Reason, Rule};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::build::*;

pub(crate) const EDGE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xed];
pub(crate) const OWN_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]];
pub(crate) const EDGE: u32 = 10;
pub(crate) const TARGETS: [u32; 2] = [11, 12];

/// The example of the documentation, as JSON to be changed.
pub(crate) fn example() -> Value {
    serde_json::from_str(include_str!("../data/spec/example.json")).unwrap()
}

/// The example with server IDs of two bytes, `c460` and `d5e7`, in connection IDs of eight.
pub(crate) fn with_server_ids() -> Value {
    let mut spec = example();
    let service = &mut spec["services"][0];
    service["quic"] = json!({
        "routing": "server-id",
        "configs": [{"config_id": 0, "server_id_len": 2, "nonce_len": 5}],
    });
    service["backends"][0]["server_id"] = json!("c460");
    service["backends"][1]["server_id"] = json!("d5e7");
    spec
}

pub(crate) fn generation(spec: &Value) -> Generation {
    let spec = Spec::from_json(spec.to_string().as_bytes()).unwrap();
    let name = |name: &str| name.parse::<InterfaceName>().unwrap();
    let devices = vec![
        Device::new(name("edge0"), EDGE, Some(EDGE_MAC.into()), 1500),
        Device::new(
            name("vm-edge-a"),
            TARGETS[0],
            Some(OWN_MACS[0].into()),
            1500,
        ),
        Device::new(
            name("vm-edge-b"),
            TARGETS[1],
            Some(OWN_MACS[1].into()),
            1500,
        ),
    ];
    let world = World::new(devices, vec![], 1_000_000_000);
    let plan = plan(None, &spec, &world, Options::default()).unwrap();
    plan.generation().clone()
}

/// What becomes of a frame that is the first, when every target is there.
pub(crate) fn run(generation: &Generation, frame: &[u8]) -> Verdict {
    route(generation, &mut State::default(), frame, |_| true)
}

/// A datagram of the client to the first service of the example.
pub(crate) fn to_vip(payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(50000, 443, payload))
}

/// A long header of version 1 with a first byte, a DCID and a SCID of four bytes.
pub(crate) fn long(first: u8, version: u32, dcid: &[u8]) -> Vec<u8> {
    long_from(first, version, dcid, &[0xe1, 0xe2, 0xe3, 0xe4])
}

pub(crate) fn long_from(first: u8, version: u32, dcid: &[u8], scid: &[u8]) -> Vec<u8> {
    let mut payload = vec![first];
    payload.extend(version.to_be_bytes());
    payload.push(dcid.len() as u8);
    payload.extend(dcid);
    payload.push(scid.len() as u8);
    payload.extend(scid);
    payload.extend([0; 20]);
    payload
}

pub(crate) fn short(dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x40];
    payload.extend(dcid);
    payload.extend([0x99; 20]);
    payload
}

#[track_caller]
pub(crate) fn assert_forwarded(verdict: &Verdict, rule: Rule, backend: u32) {
    let found = (
        verdict.reason,
        verdict.rule,
        verdict.backend.map(|(id, _)| id.get()),
    );
    assert_eq!(found, (Reason::Forwarded, Some(rule), Some(backend)));
    let ifindex = TARGETS[backend as usize - 1];
    assert_eq!(verdict.action, Action::Redirect { ifindex });
}

/// Left for this reason, without a backend, and with every byte as it came.
#[track_caller]
pub(crate) fn assert_left(verdict: &Verdict, frame: &[u8], reason: Reason) {
    assert_eq!(
        (verdict.reason, verdict.rule, verdict.backend),
        (reason, None, None)
    );
    let passes = reason.number() < 32;
    let action = if passes { Action::Pass } else { Action::Drop };
    assert_eq!((verdict.action, &verdict.output[..]), (action, frame));
}

/// Whether exactly these counters of the service go up.
#[track_caller]
pub(crate) fn assert_counts(verdict: &Verdict, counters: &[Counter]) {
    let mut expected = counters.to_vec();
    expected.sort_by_key(|counter| counter.0);
    assert_eq!(verdict.counters, expected);
}
