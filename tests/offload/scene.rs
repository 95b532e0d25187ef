// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance on a card, held by the kernel.

use std::time::Duration;

use guideway::kernel::run::{Ran, Run};
use guideway::quiclb::{
    HardwareAcknowledged, HardwareLb, HardwareLoader, HardwareWriter, Loader, Options, StateDir,
    StateRoot,
};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::build;

pub(crate) const PORT: &str = "gw-card";

/// A specification for a card, with backends of these ids.
pub(crate) fn document(ids: &[u32]) -> Value {
    let backends: Vec<_> = ids
        .iter()
        .map(|id| json!({"id": id, "interface": PORT, "mac": format!("02:00:00:00:00:{id:02x}")}))
        .collect();
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": PORT,
        "mode": "offload",
        "hash_seed": "000102030405060708090a0b0c0d0e0f",
        "events_per_second": 0,
        "limits": {"flows": 1024},
        "services": [{
            "name": "dns", "vip": build::VIP4, "port": 53, "quic_only": false, "tracking": "all",
            "flow_idle": 20, "maglev_table_size": 251, "backends": backends,
        }],
    })
}

pub(crate) fn spec(document: &Value) -> Spec {
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

pub(crate) fn dir() -> StateDir {
    StateRoot::default().quiclb(spec(&document(&[1])).instance_id())
}

pub(crate) fn loader() -> HardwareLoader {
    let acknowledged = HardwareAcknowledged::the_card_runs_it_or_nothing_does();
    Loader::new(&dir(), spec(&document(&[1])).limits()).hardware(acknowledged)
}

/// Makes or opens the instance, in the kernel and without a grace interval.
pub(crate) fn opened() -> HardwareWriter {
    loader()
        .grace(Duration::ZERO)
        .load_in_kernel()
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn publish(card: &mut HardwareWriter, ids: &[u32]) -> u64 {
    let plan = card
        .plan(&spec(&document(ids)), Options::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let published = card
        .publish(&plan)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(published.untidy.is_none(), "{:?}", published.untidy);
    published.generation
}

/// A query of the client with this number.
pub(crate) fn query(client: u16) -> Vec<u8> {
    build::ipv4(
        17,
        &build::udp(1024 + client, 53, b"some payload of a query"),
    )
}

pub(crate) fn send(card: &HardwareLb, client: u16) -> Ran {
    Run::new(&query(client)).run(card.program()).unwrap()
}

/// The backend that the client's query goes to, by its id.
pub(crate) fn backend(card: &HardwareLb, client: u16) -> u8 {
    let ran = send(card, client);
    assert_eq!(ran.action, libbpf_sys::XDP_TX);
    assert_eq!(&ran.frame[..5], [2, 0, 0, 0, 0]);
    ran.frame[5]
}
