// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Specifications made in Rust, by the same rules as documents.

use std::net::Ipv6Addr;
use std::time::Duration;

use guideway::addr::MacAddr;
use guideway::hash::HashSeed;
use guideway::id::InstanceId;
use guideway::service::{
    BackendDraft, BackendState, CidConfigDraft, Fragments, HashOf, LimitsDraft, Mode, Protocol,
    QuicDraft, RootArrayDraft, Routing, ServiceDraft, SourceMac, Spec, SpecDraft, Tracking,
    Unhealthy, UnknownServerId,
};

use super::{EXAMPLE, FULL};

fn example() -> SpecDraft {
    SpecDraft {
        services: vec![ServiceDraft {
            short_dcid_len: Some(8),
            maglev_table_size: Some(4093),
            backends: vec![
                BackendDraft::new(1, "vm-edge-a", "02:00:00:00:01:01"),
                BackendDraft::new(2, "vm-edge-b", MacAddr::new([2, 0, 0, 0, 1, 2])),
            ],
            ..ServiceDraft::new("quic-api", "203.0.113.80", 443)
        }],
        ..SpecDraft::new("1d9016f2-8957-42bc-9dd7-32d684d76446", "edge0")
    }
}

#[test]
fn a_draft_equals_its_document() {
    let spec = Spec::new(&example()).unwrap();
    assert_eq!(spec, Spec::from_json(EXAMPLE.as_bytes()).unwrap());
}

#[test]
fn every_member_of_a_draft_arrives() {
    let instance_id: InstanceId = "1d9016f2-8957-42bc-9dd7-32d684d76446".parse().unwrap();
    let draft = SpecDraft {
        mode: Some(Mode::Generic),
        hash_seed: Some(HashSeed::from_bytes(std::array::from_fn(|index| {
            index as u8
        }))),
        root_array: Some(RootArrayDraft {
            path: "/sys/fs/bpf/roots".into(),
            index: 7,
        }),
        source_mac: Some(SourceMac::Interface),
        events_per_second: Some(0),
        limits: LimitsDraft {
            flows: Some(1024),
            cids: Some(16_777_216),
            slots: Some(4099),
            memory_mib: Some(16),
        },
        services: vec![
            ServiceDraft {
                protocol: Some(Protocol::Tcp),
                maglev_table_size: Some(251),
                hash: Some(HashOf::Source),
                tracking: Some(Tracking::All),
                flow_idle: Some(Duration::from_secs(86_400)),
                cid_idle: Some(Duration::from_secs(600)),
                fragments: Some(Fragments::Route),
                ..ServiceDraft::new("web", Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x50), 80)
            },
            ServiceDraft {
                short_dcid_len: Some(12),
                quic_only: Some(false),
                maglev_table_size: Some(4093),
                hash: Some(HashOf::Source),
                tracking: Some(Tracking::All),
                flow_idle: Some(Duration::from_secs(30)),
                cid_idle: Some(Duration::from_secs(7440)),
                handshake_grace: Some(Duration::ZERO),
                fragments: Some(Fragments::Pass),
                quic: Some(QuicDraft {
                    routing: Some(Routing::ServerId),
                    configs: Some(vec![
                        CidConfigDraft {
                            config_id: 3,
                            server_id_len: 1,
                            nonce_len: 10,
                            ..CidConfigDraft::default()
                        },
                        CidConfigDraft {
                            config_id: 0,
                            server_id_len: 3,
                            nonce_len: 5,
                            extra_len: 3,
                            key: "8f95f09245765f80256934e50c66207f".parse().ok(),
                            encodes_length: true,
                        },
                    ]),
                    unknown_server_id: Some(UnknownServerId::Fallback),
                    unhealthy: Some(Unhealthy::Drop),
                    quarantine: Some(Duration::from_secs(90)),
                }),
                backends: vec![
                    BackendDraft {
                        weight: Some(65_535),
                        state: Some(BackendState::Draining),
                        server_ids: Some(vec!["ed793a".to_owned(), "ff".to_owned()]),
                        ..BackendDraft::new(u32::MAX, "vm-b", "02:00:5e:00:ab:02")
                    },
                    BackendDraft {
                        weight: Some(0),
                        state: Some(BackendState::Unhealthy),
                        server_ids: Some(vec!["0a".to_owned()]),
                        ..BackendDraft::new(7, "vm-a", "02:00:5e:00:ab:01")
                    },
                    BackendDraft::new(9, "vm-a", "02:00:5e:00:ab:01"),
                ],
                ..ServiceDraft::new("quic", "203.0.113.80", 443)
            },
        ],
        ..SpecDraft::new(instance_id, "edge0")
    };
    let expected = Spec::from_json(FULL.as_bytes()).unwrap();
    assert_eq!(Spec::new(&draft).unwrap(), expected);
}

#[test]
fn a_draft_has_the_faults_of_its_document() {
    let mut draft = example();
    draft.interface = "a/b".to_owned();
    draft.services[0].flow_idle = Some(Duration::from_millis(1500));
    draft.services[0].backends[1].id = 1;
    let faults = Spec::new(&draft).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "/interface: is not an interface name (1 to 15 bytes, no '/', no white space), got a/b\n\
         /services/0/flow_idle: must be a duration from 1s to 7d, got 1.500000000s\n\
         /services/0/backends/1/id: id 1 is already used by /services/0/backends/0"
    );
    let faults = Spec::new(&SpecDraft::default()).unwrap_err();
    let pointers: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(pointers, ["/instance_id", "/interface", "/services"]);
}

#[test]
fn a_specification_can_be_changed_and_validated_again() {
    for text in [EXAMPLE, FULL] {
        let spec = Spec::from_json(text.as_bytes()).unwrap();
        assert_eq!(Spec::new(&SpecDraft::from(&spec)).unwrap(), spec);
    }
    let spec = Spec::from_json(EXAMPLE.as_bytes()).unwrap();
    let mut draft = SpecDraft::from(&spec);
    draft.services[0].backends[1].state = Some(BackendState::Draining);
    let drained = Spec::new(&draft).unwrap();
    assert_eq!(
        drained.services()[0].backends[1].state,
        BackendState::Draining
    );
    assert_ne!(drained, spec);
}
