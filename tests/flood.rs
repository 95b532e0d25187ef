// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Quiet flows against floods of new ones, in tables that are far too small for both.
//!
//! Each scenario has established flows that fall silent, a change of the table after which only
//! their entries know their backends, a flood of at least four times the map's size, and then one
//! packet of every quiet flow. All of them must reach the backend that they began with; the flood
//! is served by the table alone, and every refusal is counted. Between its packets come some that are
//! passed or dropped: every packet is in the books, once, where it belongs.

#[path = "common/netns.rs"]
mod netns;

use guideway::abi::{self, Counter};
use guideway::kernel::object::{Object, Options};
use guideway::kernel::publish::{self, Slot};
use guideway::kernel::run::Run;
use guideway::kernel::typed::{DevMap, PerCpuArray};
use guideway::plan::{plan, Device, Generation, Image, Options as PlanOptions, World};
use guideway::reason::{Reason, Rule, Verdict};
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

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
/// Places of the flooded service and of the one without backends: their numbers are in this order.
const SERVICE: u32 = 1;
const EMPTY: u32 = 0;
/// Backends of the flooded service, each in a row.
const BACKENDS: u16 = 4;
const TARGET: u32 = 7;
/// Flows of a flood between two packets that reach no backend.
const STRAYS: u32 = 13;

struct Machine {
    object: Object,
    slot: Slot,
    services: PerCpuArray<abi::ServiceStats>,
    reasons: PerCpuArray<abi::ReasonStats>,
    generation: Generation,
    frame: Vec<u8>,
    output: Vec<u8>,
    sent: u64,
    strays: [Stray; 4],
}

/// A packet that reaches no backend, and how often it was sent.
struct Stray {
    frame: Vec<u8>,
    reason: Reason,
    sent: u64,
}

/// One for each way out: to the host for want of a service or of a sound header, dropped as a
/// fragment or for want of a backend.
fn strays(tracks: Tracks) -> [Stray; 4] {
    let stray = |reason, changes: &[(usize, u8)]| {
        let mut frame = frame(tracks);
        for &(at, byte) in changes {
            frame[at] = byte;
        }
        Stray {
            frame,
            reason,
            sent: 0,
        }
    };
    let [high, low] = 444_u16.to_be_bytes();
    [
        stray(Reason::NoService, &[(33, 81)]),
        // A header of 16 bytes.
        stray(Reason::BadIpv4, &[(14, 0x44)]),
        // More fragments are to come.
        stray(Reason::FragmentDrop, &[(20, 0x20)]),
        stray(Reason::NoBackend, &[(36, high), (37, low)]),
    ]
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
        let service = |name: &str, port: u16, backends: Vec<_>| {
            let mut service = json!({
                "name": name, "vip": "203.0.113.80", "port": port, "protocol": protocol,
                "maglev_table_size": 4093, "backends": backends,
            });
            if tracks == Tracks::All {
                service["quic_only"] = json!(false);
            }
            service
        };
        let services = [
            service("flooded", 443, backends.collect()),
            service("empty", 444, Vec::new()),
        ];
        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "hash_seed": "9f3c51d87ae04b6612c7d0ab58ef3419", "services": services,
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
            strays: strays(tracks),
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
        let placed = &mut self.generation.services[SERVICE as usize];
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

    /// Sends a packet that reaches no backend, of another kind each time.
    fn stray(&mut self) {
        let sent: u64 = self.strays.iter().map(|stray| stray.sent).sum();
        let stray = &mut self.strays[sent as usize % 4];
        let (action, _) = Run::new(&stray.frame)
            .run_into(&self.object.program, &mut self.output)
            .expect("a run");
        stray.sent += 1;
        let expected = match stray.reason.verdict() {
            Verdict::Pass => XDP_PASS,
            _ => XDP_DROP,
        };
        assert_eq!(action, expected, "{}", stray.reason);
    }

    fn counters(&self) -> [u64; abi::Counter::GW_COUNTERS.0 as usize] {
        self.counters_of(SERVICE)
    }

    fn counters_of(&self, service: u32) -> [u64; abi::Counter::GW_COUNTERS.0 as usize] {
        let parts = self.services.get(service).expect("counters");
        std::array::from_fn(|n| parts.iter().map(|part| part.counters[n]).sum())
    }

    /// Asserts that the books hold every packet that was sent: those of the flood by `rules`, the
    /// others by their reasons.
    fn check_sums(&self, rules: &[(Rule, u64)]) {
        let mut expected = [0_u64; abi::Reason::GW_REASONS.0 as usize];
        expected[usize::from(Reason::Forwarded.number())] = self.sent;
        for stray in &self.strays {
            expected[usize::from(stray.reason.number())] = stray.sent;
        }
        let parts = self.reasons.get(0).expect("counters");
        let count = |n| parts.iter().map(|part| part.packets[n]).sum::<u64>();
        let reasons = std::array::from_fn(count);
        assert_eq!(expected, reasons, "reasons");

        let mut expected = [0_u64; abi::Rule::GW_RULES.0 as usize];
        for &(rule, packets) in rules {
            expected[usize::from(rule.number())] = packets;
        }
        assert_eq!(expected.iter().sum::<u64>(), self.sent);
        let no_backend = self.strays[3].sent;
        for (service, rules, packets) in [
            (SERVICE, expected, self.sent),
            (EMPTY, Default::default(), no_backend),
        ] {
            let parts = self.services.get(service).expect("counters");
            let count = |n| parts.iter().map(|part| part.rules[n]).sum::<u64>();
            let found = std::array::from_fn(count);
            assert_eq!(rules, found, "rules of service {service}");
            assert_eq!(parts.iter().map(|part| part.packets).sum::<u64>(), packets);
            let first = Counter::GW_COUNTER_PLAIN.0 as usize;
            let last = Counter::GW_COUNTER_NO_BACKEND.0 as usize;
            let outcomes = &self.counters_of(service)[first..=last];
            assert_eq!(outcomes.iter().sum::<u64>(), packets);
        }
        let counted = self.counters_of(EMPTY)[Counter::GW_COUNTER_NO_BACKEND.0 as usize];
        assert_eq!(counted, no_backend);
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
        if flow % STRAYS == 0 {
            machine.stray();
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
    let by_flow = hits + u64::from(quiet);
    let rules: &[_] = match tracks {
        // Whoever has no entry goes to the owner, admitted or refused.
        Tracks::All => &[(Rule::Flow, by_flow), (Rule::Table, machine.sent - by_flow)],
        // Before the change there was a table only. Starts with an entry go to the owner, all
        // others to who has had the slot.
        Tracks::Exceptions => &[
            (Rule::Flow, by_flow),
            (Rule::Table, u64::from(quiet) + room),
            (Rule::Previous, u64::from(quiet) + refused),
        ],
    };
    machine.check_sums(rules);
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
            if flow % STRAYS == 0 {
                machine.stray();
            }
        }
        let counters = machine.counters();
        assert_eq!(counters[Counter::GW_COUNTER_PLAIN.0 as usize], machine.sent);
        machine.check_sums(&[(Rule::Table, machine.sent)]);
    });
}
