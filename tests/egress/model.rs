// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The model and the kernel agree about random packets in random worlds: verdict, bytes, counters and
//! pins.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use bytemuck::{bytes_of, Zeroable};
use guideway::abi;
use guideway::group::{GroupId, Limits};
use guideway::kernel::map::Update;
use guideway::kernel::run::ClassifierRun;
use guideway::kernel::snapshot::Snapshot;
use guideway::oracle::egress::{decide, Action, Decision, Packet, Pin, PinUse, Pins, World};
use guideway::pin::Holder;
use guideway::reason::egress::{End, Selection};
use guideway::route::{self, TableId};

use crate::chance::Random;
use crate::machine::*;
use crate::netns::{ifindex, isolated};
use crate::worlds;

const ENCAP: u32 = C::GW_EGRESS_DROP_ENCAP.0;

/// Beside ends and counters: packets whose segment size was lowered.
const LOWERED: &str = "mss_lowered";

/// The kernel's side of a world. What is published there stays writable: nothing runs meanwhile.
struct Kernel {
    machine: Machine,
    groups: BTreeMap<GroupId, Snapshot>,
    config: Snapshot,
    routes: Vec<route::Key>,
    counters: [u64; C::GW_EGRESS_COUNTERS.0 as usize],
}

/// What a run left.
#[derive(Debug, PartialEq)]
struct Left {
    action: i32,
    frame: Vec<u8>,
    counted: Vec<(u32, u64)>,
    pin: Option<Pin>,
    used: Option<PinUse>,
    slot: Option<(u64, u64)>,
}

impl Kernel {
    fn new() -> Self {
        let pins = worlds::PINS as u32;
        let machine = Machine::with(&[("gw_pins", pins), ("gw_flow_pins", pins)]);
        let groups = (0..worlds::GROUPS)
            .map(|id| (id, machine.publish_open(id, &machine.group_of(&[]))))
            .map(|(id, snapshot)| (GroupId::new(id).expect("a group"), snapshot))
            .collect();
        let config = machine.configure_open(&Zeroable::zeroed());
        Self {
            counters: machine.counters(),
            machine,
            groups,
            config,
            routes: Vec::new(),
        }
    }

    fn interfaces(&self) -> Vec<u32> {
        let more = ["lo", "gw-inside", "gw-outside"].map(ifindex);
        [&[self.machine.tenant, self.machine.uplink][..], &more].concat()
    }

    fn set(&mut self, world: &World, pins: &Pins) {
        let machine = &self.machine;
        for ifindex in self.interfaces() {
            machine.tenants.remove(&ifindex).expect("removed");
        }
        for (ifindex, tenant) in &world.tenants {
            let row = tenant.to_row(*ifindex);
            machine
                .tenants
                .update(ifindex, &row, Update::Any)
                .expect("room");
        }
        for key in self.routes.drain(..) {
            assert!(machine
                .routes
                .delete(bytes_of(&key.to_row()))
                .expect("removed"));
        }
        for (key, route) in &world.routes {
            let (key_row, row) = (key.to_row(), route.to_row());
            let updated = machine
                .routes
                .update(bytes_of(&key_row), bytes_of(&row), Update::Any);
            updated.expect("room");
            self.routes.push(*key);
        }
        for (id, snapshot) in &self.groups {
            let bytes = world.groups[id].to_bytes(world.limits).expect("an image");
            snapshot.fill(&bytes).expect("filled");
        }
        let config = world
            .encap
            .map_or_else(Zeroable::zeroed, |encap| encap.to_row());
        self.config.fill(bytes_of(&config)).expect("filled");

        for holder in self.pins().into_keys() {
            let removed = match holder.flow {
                None => machine.pins.remove(&holder.source_key()),
                Some(_) => machine.flow_pins.remove(&flow_key(&holder)),
            };
            assert!(removed.expect("removed"));
        }
        for (holder, pin) in &pins.pins {
            let row = pin.to_row();
            let (pins, flow_pins) = (&machine.pins, &machine.flow_pins);
            let added = match holder.flow {
                None => pins.update(&holder.source_key(), &row, Update::Insert),
                Some(_) => flow_pins.update(&flow_key(holder), &row, Update::Insert),
            };
            added.expect("room");
        }
        for table in self.used().into_keys() {
            assert!(machine.pin_use.remove(&table.get()).expect("removed"));
        }
        for (table, used) in &pins.used {
            let row = abi::PinUse {
                pins: used.pins,
                refused: used.refused,
            };
            let added = machine.pin_use.update(&table.get(), &row, Update::Insert);
            added.expect("room");
        }
    }

    fn pins(&self) -> BTreeMap<Holder, Pin> {
        let mut pins = BTreeMap::new();
        let read = self.machine.pins.for_each(|key, pin| {
            let holder = Holder::of_source(key).expect("a key");
            pins.insert(holder, Pin::from_row(pin));
            ControlFlow::Continue(())
        });
        read.expect("read");
        let read = self.machine.flow_pins.for_each(|key, pin| {
            let holder = Holder::of_flow(key).expect("a key");
            pins.insert(holder, Pin::from_row(pin));
            ControlFlow::Continue(())
        });
        read.expect("read");
        pins
    }

    fn used(&self) -> BTreeMap<TableId, PinUse> {
        let mut all = BTreeMap::new();
        let read = self.machine.pin_use.for_each(|table, used| {
            all.insert(TableId::new(*table), used_of(*used));
            ControlFlow::Continue(())
        });
        read.expect("read");
        all
    }

    /// Runs a packet, and reads what it may have changed by what the model says of it.
    fn run(&mut self, packet: &Packet<'_>, expected: &Decision) -> Left {
        let machine = &self.machine;
        let slot = |expected: &Decision| {
            let (group, slot) = expected.slot?;
            Some(machine.slot_counters(group.get().into(), slot.get().into()))
        };
        let slot_before = slot(expected);
        let ran = ClassifierRun {
            frame: packet.frame,
            ifindex: packet.ifindex,
            gso_bytes: packet.gso_bytes,
            mark: 0,
            priority: 0,
        };
        let ran = ran.run(machine.program());
        let ran = ran.unwrap_or_else(|error| panic!("{error}: {packet:x?}"));
        let after = machine.counters();
        // What is told of it depends on what was told of others.
        let events = C::GW_EGRESS_EVENT_SENT.0;
        let pairs = (0..events).zip(self.counters.iter().zip(&after));
        let counted = pairs.filter(|(_, (before, after))| before != after);
        let counted = counted.map(|(number, (before, after))| (number, after - before));
        let counted = counted.collect();
        self.counters = after;
        Left {
            action: ran.action,
            frame: ran.frame,
            counted,
            pin: expected.choice.and_then(|choice| self.pin(&choice.holder?)),
            used: expected.tenant.and_then(|tenant| {
                let row = self.machine.pin_use.get(&tenant.table.get()).expect("read");
                row.map(used_of)
            }),
            slot: slot(expected)
                .zip(slot_before)
                .map(|(after, before)| (after.0 - before.0, after.1 - before.1)),
        }
    }

    fn pin(&self, holder: &Holder) -> Option<Pin> {
        let row = match holder.flow {
            None => self.machine.pins.get(&holder.source_key()),
            Some(_) => self.machine.flow_pins.get(&flow_key(holder)),
        };
        row.expect("read").as_ref().map(Pin::from_row)
    }
}

fn flow_key(holder: &Holder) -> abi::FlowPinKey {
    let flow = holder.flow.as_ref().expect("a flow");
    holder.flow_key(flow).expect("one family")
}

fn used_of(row: abi::PinUse) -> PinUse {
    PinUse {
        pins: row.pins,
        refused: row.refused,
    }
}

/// What a run leaves if the model is right.
fn expected(packet: &Packet<'_>, decision: &Decision, pins: &Pins) -> Left {
    let mut left = Left {
        action: match decision.action {
            Action::Next => SKIP,
            Action::Drop => DROP,
            Action::Redirect { .. } | Action::Answer => REDIRECT,
        },
        frame: decision.output.clone(),
        counted: vec![(decision.end.number().into(), 1)],
        pin: decision
            .choice
            .and_then(|choice| pins.pins.get(&choice.holder?).copied()),
        used: decision
            .tenant
            .and_then(|tenant| pins.used.get(&tenant.table).copied()),
        slot: decision.slot.map(|_| (1, packet.frame.len() as u64)),
    };
    // The kernel marks such a packet as one of no protocol, and does not grow it.
    let is_sent = matches!(decision.action, Action::Redirect { .. });
    if packet.gso_bytes != 0 && is_sent {
        left.action = DROP;
        left.frame = [&packet.frame[..14], &decision.output[54..]].concat();
        left.counted = vec![(ENCAP, 1)];
        left.slot = left.slot.map(|_| (0, 0));
    }
    let counters = decision.counters.iter();
    left.counted
        .extend(counters.map(|counter| (counter.number().into(), 1)));
    left
}

/// Runs a packet in both. The time may pass on meanwhile, and the kernel may have seen either.
fn compare(kernel: &mut Kernel, world: &World, pins: &mut Pins, packet: &Packet<'_>) -> Decision {
    let at = |now_tick| {
        let mut after = pins.clone();
        let packet = Packet {
            now_tick,
            ..*packet
        };
        let decision = decide(world, &mut after, &packet);
        (expected(&packet, &decision, &after), after, decision)
    };
    let (expected, after, decision) = at(packet.now_tick);
    let left = kernel.run(packet, &decision);
    let (expected_later, after_later, decision_later) = at(tick());
    let is_first = left == expected;
    assert!(
        is_first || left == expected_later,
        "{packet:x?}\n{left:#?}\n{expected:#?}\n{decision:#?}\n{:#?}",
        world.groups
    );
    if left == expected_later && after != after_later {
        // Until it does not matter when a table was found full.
        std::thread::sleep(Duration::from_secs(3));
    }
    let (after, decision) = match is_first {
        true => (after, decision),
        false => (after_later, decision_later),
    };
    *pins = after;
    decision
}

#[test]
fn the_model_and_the_kernel_agree() {
    isolated("egress::model::agree", || {
        let long = std::env::var_os("GW_LONG").is_some();
        let (worlds, packets) = if long { (5000, 200) } else { (200, 100) };
        let mut kernel = Kernel::new();
        let interfaces = kernel.interfaces();
        let mut random = Random::new(0x0e9e55);
        // What the program remembers of full tables outlives a world.
        let mut full = (None, None);
        let mut seen = BTreeMap::<_, u64>::new();
        for number in 0..worlds {
            let world = worlds::world(&mut random, Limits::default(), &interfaces);
            // A full table is not tried for a while, so all others come before.
            let count = match number < worlds - worlds / 10 {
                true => *random.pick(&[0, 8, 24]),
                false => 20 * worlds::PINS,
            };
            let mut pins = worlds::pins(&mut random, &world, count, tick());
            (pins.source.full_tick, pins.flow.full_tick) = full;
            kernel.set(&world, &pins);
            for _ in 0..packets {
                let frame = worlds::frame(&mut random);
                let mut packet = Packet::new(*random.pick(&interfaces), &frame, tick());
                if random.percent(6) {
                    packet.gso_bytes = 1 + random.below(1500) as u32;
                }
                let decision = compare(&mut kernel, &world, &mut pins, &packet);
                *seen.entry(decision.end.name()).or_default() += 1;
                let is_sent = matches!(decision.action, Action::Redirect { .. });
                if is_sent && decision.output[54..] != frame[14..] {
                    *seen.entry(LOWERED).or_default() += 1;
                }
                for counter in decision.counters {
                    *seen.entry(counter.name()).or_default() += 1;
                }
            }
            full = (pins.source.full_tick, pins.flow.full_tick);
            assert_eq!(
                (kernel.pins(), kernel.used()),
                (pins.pins, pins.used),
                "world {number}"
            );
        }
        println!("{seen:?}");
        // What no packet can lead to here.
        let never = [
            End::Encap.name(),
            End::Redirect.name(),
            Selection::PinBusy.name(),
        ];
        let ends = End::ALL.iter().map(|end| end.name());
        let selections = Selection::ALL.iter().map(|counter| counter.name());
        let selections = selections.filter(|name| !name.starts_with("pin_removed"));
        for name in ends
            .chain(selections)
            .chain([LOWERED])
            .filter(|name| !never.contains(name))
        {
            assert!(seen.contains_key(name), "{name} was never seen: {seen:?}");
        }
    });
}
