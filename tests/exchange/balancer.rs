// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A load balancer on veths, with connections that only their entries keep where they are.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use guideway::kernel::attach::{NetlinkAttachment, XdpLink};
use guideway::kernel::keys;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::Section;
use guideway::quiclb::{Loader, Mode, Options, Spec, StateDir, StateRoot, Writer};
use serde_json::json;

use crate::netns::{self, ifindex, veth, without_ipv6};
use crate::traffic::{load_other, Marks, Sink, Source};

const EDGE: &str = "edge0";
const CLIENT: &str = "client0";
const TARGET: &str = "be0";
const END: &str = "be1";
const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
const PORT: u16 = 443;
pub(crate) const FLOWS: u16 = 512;

/// How the program is on the interface.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Link(Mode),
    Netlink(Mode),
}

pub(crate) struct Balancer {
    pub(crate) writer: Writer,
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    /// Where each flow went before anything was exchanged.
    places: BTreeMap<u16, u16>,
}

pub(crate) fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).quiclb(spec(2).instance_id())
}

pub(crate) fn spec(backends: u16) -> Spec {
    let backends: Vec<_> = (1..=backends)
        .map(|id| json!({"id": id, "interface": TARGET, "mac": format!("02:00:00:00:00:{id:02x}")}))
        .collect();
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": EDGE,
        "limits": {"flows": 4096, "cids": 1024},
        "services": [{"name": "tcp", "vip": VIP.to_string(), "port": PORT, "protocol": "tcp",
            "quic_only": false, "maglev_table_size": 251, "flow_idle": "300s",
            "backends": backends}],
    });
    Spec::from_json(document.to_string().as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

pub(crate) fn publish(writer: &mut Writer, spec: &Spec) {
    let plan = writer.plan(spec, Options::default());
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    writer.publish(&plan).expect("published");
}

pub(crate) fn loader() -> Loader {
    Loader::new(&dir(), spec(2).limits())
}

pub(crate) fn load() -> Writer {
    loader().load().expect("an instance")
}

/// A packet in the middle of connection `number`.
fn frame(number: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 8, 8, 0];
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(Ipv4Addr::new(10, 0, 0, 1).octets());
    ip.extend(VIP.octets());
    let words = ip.chunks(2);
    let sum: u32 = words
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend((4096 + number).to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    frame.resize(60, 0);
    frame
}

pub(crate) fn running_pin() -> PathBuf {
    dir().pin(Section::Programs, "gw_quiclb")
}

/// Has the instance run a program of another build, as if that had made it.
pub(crate) fn run_other_build(way: Way) {
    let object: &[u8] = match keys::support() == keys::Support::Works {
        true => include_bytes!(concat!(env!("OUT_DIR"), "/quiclb_keys_other.bpf.o")),
        false => include_bytes!(concat!(env!("OUT_DIR"), "/quiclb_other.bpf.o")),
    };
    let before = Program::open(&running_pin()).expect("a program");
    std::fs::remove_file(running_pin()).expect("removed");
    let maps = dir().path().join("maps");
    let other = load_other(object, "gw_quiclb", &maps, &running_pin());
    assert_ne!(other.tag(), before.tag());
    match way {
        Way::Link(_) => {
            let link = XdpLink::open(&dir().pin(Section::Links, "xdp")).expect("attached");
            link.update(&other, &before).expect("exchanged");
        }
        Way::Netlink(_) => {
            let attachment = NetlinkAttachment::find(&before, ifindex(EDGE));
            let attachment = attachment.expect("readable").expect("attached");
            attachment.update(&other, &before).expect("exchanged");
        }
    }
    let record = dir().pin(Section::Programs, &format!("build-{}", before.id()));
    std::fs::remove_file(record).expect("removed");
}

impl Balancer {
    /// An instance whose program is of another build, with a backend that came when all connections
    /// were there.
    pub(crate) fn new(way: Way) -> Self {
        without_ipv6();
        veth(EDGE, CLIENT);
        veth(TARGET, END);
        let sink = Sink::on(
            END,
            Marks {
                mark_at: 36,
                mark: PORT.into(),
                flow_at: 34,
                place_at: 4,
            },
        );
        let source = Source::new(CLIENT, (0..FLOWS).map(frame).collect());
        let mut writer = load();
        publish(&mut writer, &spec(2));
        match way {
            Way::Link(mode) => {
                let interface = EDGE.parse().expect("a name");
                writer.attach(&interface, mode).expect("attached");
            }
            Way::Netlink(mode) => {
                let attached = NetlinkAttachment::create(writer.program(), ifindex(EDGE), mode);
                attached.expect("attached");
            }
        }
        drop(writer);
        run_other_build(way);
        source.send_all(&sink, 1);
        let places: BTreeMap<_, _> = sink.counts().into_keys().collect();
        assert_eq!(places.len(), usize::from(FLOWS), "each flow went somewhere");
        let mut writer = load();
        publish(&mut writer, &spec(3));
        Self {
            writer,
            source,
            sink,
            places,
        }
    }

    /// Opened again, after what `between` does with packets and without a writer.
    pub(crate) fn reopened(self, between: impl FnOnce(&Source, &Sink)) -> Self {
        drop(self.writer);
        between(&self.source, &self.sink);
        Self {
            writer: load(),
            ..self
        }
    }

    /// Every packet arrived where its flow has been from the start, once.
    #[track_caller]
    pub(crate) fn nothing_is_lost_or_misplaced(&self) {
        let sent = self.source.sent();
        assert_eq!(self.sink.total(), sent);
        let counts = self.sink.counts();
        let each = sent / u64::from(FLOWS);
        let expected = self
            .places
            .iter()
            .map(|(&flow, &place)| ((flow, place), each));
        assert_eq!(counts, expected.collect());
        let stats = self.writer.stats().expect("readable");
        assert_eq!(stats.reasons["forwarded"], sent, "{:?}", stats.reasons);
        // The table alone would have sent some of them elsewhere.
        let kept = &stats.services[0].rules;
        assert!(
            kept.iter().filter(|(_, count)| **count > 0).count() > 1,
            "{kept:?}"
        );
    }
}
