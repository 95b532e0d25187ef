// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Quiet flows against floods of new ones, in tables that are far too small for both.
//!
//! Each scenario has established flows that fall silent, a change of the table after which only
//! their entries know their backends, a flood of at least four times the map's size, and then one
//! packet of every quiet flow. All of them must reach the backend that they began with; the flood
//! is served by the table alone, and every refusal is counted.

#[path = "common/netns.rs"]
mod netns;

use guideway::abi::{self, Counter};
use guideway::kernel::object::{Object, Options};
use guideway::kernel::publish::{self, Slot};
use guideway::kernel::run::Run;
use guideway::kernel::typed::{DevMap, PerCpuArray};
use guideway::plan::{plan, Device, Generation, Image, Options as PlanOptions, World};
use guideway::service::Spec;
use serde_json::json;

/// Entries of the map of flows.
fn entries() -> u32 {
    if std::env::var_os("GW_LONG").is_some() {
        1 << 20
    } else {
        1 << 16
    }
}

const XDP_REDIRECT: u32 = 4;
/// Index of the only service's counters, and a row for each backend.
const SERVICE: u32 = 0;
const BACKENDS: u16 = 4;
const TARGET: u32 = 7;

struct Machine {
    object: Object,
    slot: Slot,
    services: PerCpuArray<abi::ServiceStats>,
    reasons: PerCpuArray<abi::ReasonStats>,
    generation: Generation,
    frame: Vec<u8>,
    output: Vec<u8>,
    sent: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Tracks {
    All,
    Exceptions,
}

impl Machine {
    fn new(tracks: Tracks) -> Self {
        let protocol = match tracks {
            Tracks::All => "udp",
            Tracks::Exceptions => "tcp",
        };
        let backends = (1..=BACKENDS).map(
            |id| json!({"id": id, "interface": "be", "mac": format!("02:00:00:00:00:{id:02x}")}),
        );
        let mut service = json!({
            "name": "flooded", "vip": "203.0.113.80", "port": 443, "protocol": protocol,
            "maglev_table_size": 4093, "backends": backends.collect::<Vec<_>>(),
        });
        if tracks == Tracks::All {
            service["quic_only"] = json!(false);
        }
        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "hash_seed": "9f3c51d87ae04b6612c7d0ab58ef3419", "services": [service],
        });
        let spec = Spec::from_json(document.to_string().as_bytes()).expect("valid");
        let device =
            |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
        let world = World::new(vec![device("edge0", 2), device("be", TARGET)], vec![], 1);
        let plan = plan(None, &spec, &world, PlanOptions::default()).expect("a plan");

        let options = Options {
            entries: &[("gw_ql_flow", entries())],
            ..Options::default()
        };
        let mut object = options.load().unwrap_or_else(|error| panic!("{error}"));
        let mut map = |name: &str| object.take_map(name).expect("a map");
        DevMap::new(map("gw_ql_dev"))
            .expect("a map")
            .stand_in(TARGET)
            .expect("a target");
        let machine = Self {
            slot: Slot::new(map("gw_ql_gen")).expect("a map"),
            services: PerCpuArray::new(map("gw_ql_stats")).expect("a map"),
            reasons: PerCpuArray::new(map("gw_ql_reason")).expect("a map"),
            object,
            generation: plan.generation().clone(),
            frame: frame(tracks),
            output: Vec::new(),
            sent: 0,
        };
        machine.publish();
        machine
    }

    fn publish(&self) {
        let image = Image::build(&self.generation).expect("an image");
        let cells = publish::Generation::create("gw_ql_cells", image.bytes().len()).expect("cells");
        cells.fill(image.bytes()).expect("filled");
        cells.freeze().expect("frozen");
        self.slot.swap(&cells).expect("swapped");
    }

    /// Gives every slot to another backend; `open` slots remember who had it.
    fn turn_table(&mut self, open: bool) {
        let placed = &mut self.generation.services[0];
        let words = placed.slots.iter().map(|slot| abi::Slot {
            owner: (slot.owner + 1) % BACKENDS,
            base: if open { slot.owner } else { slot.base },
        });
        placed.slots = words.collect();
        self.publish();
    }

    /// Sends one packet of a flow; the number of the backend it goes to.
    fn send(&mut self, flow: u32, flags: u8) -> u8 {
        let [a, b, c, d] = flow.to_be_bytes();
        // Address and port: the scramble keeps neighbours apart.
        self.frame[26..30].copy_from_slice(&[10, a ^ 0x5a, b, c]);
        self.frame[34..36].copy_from_slice(&[d, 1]);
        if self.frame[23] == 6 {
            self.frame[47] = flags;
        }
        let (action, _) = Run::new(&self.frame)
            .run_into(&self.object.program, &mut self.output)
            .expect("a run");
        self.sent += 1;
        assert_eq!(action, XDP_REDIRECT, "flow {flow}");
        self.output[5]
    }

    fn counters(&self) -> [u64; abi::Counter::GW_COUNTERS.0 as usize] {
        let parts = self.services.get(SERVICE).expect("counters");
        std::array::from_fn(|n| parts.iter().map(|part| part.counters[n]).sum())
    }

    /// The sums that must agree whatever happened.
    fn check_sums(&self) {
        let parts = self.services.get(SERVICE).expect("counters");
        let packets: u64 = parts.iter().map(|part| part.packets).sum();
        let rules: u64 = parts.iter().flat_map(|part| part.rules).sum();
        let reasons = self.reasons.get(0).expect("counters");
        let reasons: u64 = reasons.iter().flat_map(|part| part.packets).sum();
        let first = Counter::GW_COUNTER_PLAIN.0 as usize;
        let last = Counter::GW_COUNTER_NO_BACKEND.0 as usize;
        let outcomes: u64 = self.counters()[first..=last].iter().sum();
        assert_eq!([packets, rules, reasons, outcomes], [self.sent; 4]);
    }
}

/// An Ethernet frame with IPv4 and UDP or TCP to the service; `send` fills in the flow.
fn frame(tracks: Tracks) -> Vec<u8> {
    let (protocol, l4) = match tracks {
        Tracks::All => (17, 12),
        Tracks::Exceptions => (6, 20),
    };
    let mut frame = vec![2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, 0, 0xbb, 8, 0];
    frame.extend([0x45, 0, 0, 20 + l4, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend([0; 4]);
    frame.extend([203, 0, 113, 80]);
    frame.extend([0, 0, 443_u16.to_be_bytes()[0], 443_u16.to_be_bytes()[1]]);
    match tracks {
        Tracks::All => frame.extend([0, l4, 0, 0, b'q', b'u', b'i', b't']),
        Tracks::Exceptions => {
            frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0, 0xff, 0xff, 0, 0, 0, 0])
        }
    }
    frame
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// `share` per cent of the map for quiet flows, then `times` the map's size of new flows of
/// `packets` packets each.
fn flood(tracks: Tracks, share: u32, times: u32, packets: usize) {
    let mut machine = Machine::new(tracks);
    let quiet = entries() / 100 * share;
    let established = |machine: &mut Machine| -> Vec<u8> {
        (0..quiet).map(|flow| machine.send(flow, ACK)).collect()
    };
    let homes = match tracks {
        Tracks::All => established(&mut machine),
        Tracks::Exceptions => {
            // They began before the change and give no entry then; their first packet after it does.
            let homes = established(&mut machine);
            let inserted = Counter::GW_COUNTER_BASE_INSERTED.0 as usize;
            assert_eq!(machine.counters()[inserted], 0);
            machine.turn_table(true);
            assert_eq!(established(&mut machine), homes);
            assert_eq!(machine.counters()[inserted], u64::from(quiet));
            homes
        }
    };
    if tracks == Tracks::All {
        machine.turn_table(false);
    }
    let before = machine.counters();
    for flow in quiet..quiet + times * entries() {
        for packet in 0..packets {
            machine.send(flow, if packet == 0 { SYN } else { ACK });
        }
    }
    let after = machine.counters();
    let grown = |counter: Counter| after[counter.0 as usize] - before[counter.0 as usize];
    let room = u64::from(entries() - quiet);
    let inserted = match tracks {
        Tracks::All => grown(Counter::GW_COUNTER_ALL_INSERTED),
        Tracks::Exceptions => {
            grown(Counter::GW_COUNTER_START_INSERTED) + grown(Counter::GW_COUNTER_BASE_INSERTED)
        }
    };
    assert_eq!(inserted, room, "the map takes what it has room for");
    let refused = grown(Counter::GW_COUNTER_REFUSED_FULL);
    let flooded = u64::from(times) * u64::from(entries()) * packets as u64;
    // Second packets of flows with an entry hit it, all others are refused.
    let hits = room * (packets as u64 - 1);
    assert_eq!(refused, flooded - room - hits);
    assert_eq!(grown(Counter::GW_COUNTER_HIT), hits);

    let now: Vec<_> = (0..quiet).map(|flow| machine.send(flow, ACK)).collect();
    let moved = now
        .iter()
        .zip(&homes)
        .filter(|(now, home)| now != home)
        .count();
    assert_eq!(moved, 0, "of {quiet} quiet flows");
    machine.check_sums();
}

fn scenario(name: &str, tracks: Tracks, share: u32, packets: usize) {
    netns::isolated(name, move || flood(tracks, share, 4, packets));
}

#[test]
fn a_quarter_of_quiet_flows_in_a_service_that_tracks_all() {
    scenario("flood::all_25_1", Tracks::All, 25, 1);
}

#[test]
fn a_quarter_of_quiet_flows_and_a_flood_of_two_packets_each() {
    scenario("flood::all_25_2", Tracks::All, 25, 2);
}

#[test]
fn most_of_the_map_is_quiet_flows() {
    scenario("flood::all_60_1", Tracks::All, 60, 1);
}

#[test]
fn most_of_the_map_is_quiet_flows_and_a_flood_of_two_packets_each() {
    scenario("flood::all_60_2", Tracks::All, 60, 2);
}

#[test]
fn a_flood_while_every_slot_is_open() {
    scenario("flood::open_25_1", Tracks::Exceptions, 25, 1);
}

#[test]
fn a_flood_of_two_packets_each_while_every_slot_is_open() {
    scenario("flood::open_60_2", Tracks::Exceptions, 60, 2);
}

#[test]
fn a_flood_without_a_change_leaves_no_entry() {
    netns::isolated("flood::plain", || {
        let mut machine = Machine::new(Tracks::Exceptions);
        for flow in 0..4 * entries() {
            machine.send(flow, SYN);
        }
        let counters = machine.counters();
        assert_eq!(counters[Counter::GW_COUNTER_PLAIN.0 as usize], machine.sent);
        machine.check_sums();
    });
}
