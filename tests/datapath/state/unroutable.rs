// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Connection IDs of servers without a config: the first three bits are ones, the next five are the
//! length less one (draft-ietf-quic-load-balancers, "Unroutable Connection IDs" and "Length
//! Self-Description"). They carry no server ID, so only a registration or the flow places them.

use guideway::abi::Counter;
use guideway::affinity::Origin;
use guideway::reason::Rule;

use super::case::*;
use super::world::*;
use crate::netns::isolated;

const RESERVED: Counter = Counter::GW_COUNTER_UNROUTABLE_RESERVED;
/// The agreed length of connection IDs of the service.
const AGREED: usize = 8;
/// A length is five bits less one, and QUIC has none beyond 20 bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 1..=20;

/// One of this length; its bytes but the first one count up from `seed`.
fn unroutable(length: usize, seed: u8) -> Vec<u8> {
    let mut cid: Vec<u8> = (seed..).take(length).collect();
    cid[0] = 0b111 << 5 | (length - 1) as u8;
    cid
}

/// A packet in each form of header: short, and long ones of a client that has seen the server's ID.
fn packets(cid: &[u8]) -> [(Vec<u8>, &'static [Counter]); 4] {
    [
        (short(cid), &[SHORT, RESERVED]),
        (long(2, V1, cid), &[LONG, RESERVED]),
        (long(3, V2, cid), &[LONG, RESERVED]),
        (long(0, V1, cid), &[LONG, STARTS, RESERVED]),
    ]
}

/// Both forms of header of each length: to the registered backend, and nobody else's bytes are it.
#[test]
fn a_registered_one_is_found_by_the_length_that_it_says() {
    isolated("datapath::state::unroutable_registered", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        for length in LENGTHS {
            world.machine.forget();
            let cid = unroutable(length, 0x31);
            let entry = world.cid_entry("ids", &cid, OTHER, Origin::Registered);
            world.put_cid("ids", &cid, entry);
            for (payload, counters) in packets(&cid) {
                let came = world.run("ids", &datagram(447, &payload));
                came.went_to(OTHER, Rule::CidRegistered, counters);
            }
            assert_eq!(world.cid("ids", &cid), Some(entry), "left alone");
            // Another byte is another connection ID. The first one says another length, too, or
            // names a config.
            for byte in 1..length {
                let mut other = cid.clone();
                other[byte] ^= 0x80;
                for (payload, counters) in packets(&other) {
                    let came = world.run("ids", &datagram(447, &payload));
                    let counters = [counters, &[PLAIN_OUTCOME]].concat();
                    came.went_to(READY, Rule::Table, &counters);
                }
            }
        }
    });
}

/// What was agreed is of no account where the connection ID says its length, in services that route
/// by server ID. In others its bits are any bits.
#[test]
fn the_length_that_it_says_is_the_one_that_counts() {
    isolated("datapath::state::unroutable_lengths", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        for length in LENGTHS.filter(|&length| length != AGREED) {
            // Long enough for any of the lengths.
            let mut sent = unroutable(20, 0x31);
            sent[0] = unroutable(length, 0)[0];
            for (service, port, ends) in [
                ("ids", 447, (READY, Rule::Table)),
                ("bound", 446, (OTHER, Rule::CidRegistered)),
            ] {
                world.machine.forget();
                // Found by whoever takes the agreed length.
                let agreed = &sent[..AGREED];
                let entry = world.cid_entry(service, agreed, OTHER, Origin::Registered);
                world.put_cid(service, agreed, entry);
                let came = world.run(service, &datagram(port, &short(&sent)));
                assert_eq!(came.end, Some(ends), "{service}, {length} bytes");
                // Found by whoever takes the one that it says.
                world.machine.forget();
                let said = &sent[..length];
                let entry = world.cid_entry(service, said, DRAINING, Origin::Registered);
                world.put_cid(service, said, entry);
                let came = world.run(service, &datagram(port, &short(&sent)));
                let ends = match service {
                    "ids" => (DRAINING, Rule::CidRegistered),
                    _ => (READY, Rule::Table),
                };
                assert_eq!(came.end, Some(ends), "{service}, {length} bytes");
            }
        }
        // 21 to 32 bytes are no connection ID.
        for bits in 20..32 {
            let mut sent = unroutable(20, 0x31);
            sent[0] = 0b111 << 5 | bits;
            let came = world.run("ids", &datagram(447, &short(&sent)));
            came.went_to(READY, Rule::Table, &[SHORT, RESERVED, PLAIN_OUTCOME]);
        }
    });
}

/// Without a registration the flow places the packet, as one of a service without server IDs: its
/// entry, who had its slot before, or who has it now.
#[test]
fn one_that_nobody_registered_goes_by_its_flow() {
    isolated("datapath::state::unroutable_flows", || {
        let mut world = World::new();
        for length in [8, 13, 20] {
            let cid = unroutable(length, 0x31);
            for (payload, counters) in packets(&cid) {
                let frame = datagram(447, &payload);
                let mut sent = |base, entry: Option<u16>| {
                    world.publish(READY, base);
                    world.machine.forget();
                    if let Some(row) = entry {
                        world.put_flow("ids", world.flow_entry("ids", row));
                    }
                    world.run("ids", &frame)
                };
                let counted = |outcome| [counters, &[outcome]].concat();
                let came = sent(PLAIN, Some(DRAINING));
                came.went_to(READY, Rule::Table, &counted(PLAIN_OUTCOME));
                let came = sent(HELD, Some(DRAINING));
                came.went_to(DRAINING, Rule::Flow, &counted(HIT));
                let came = sent(HELD, None);
                came.went_to(READY, Rule::Table, &counted(HELD_DEFAULT));
                let starts = counters.contains(&STARTS);
                let came = sent(OTHER, None);
                match starts {
                    true => came.went_to(READY, Rule::Table, &counted(START_INSERTED)),
                    false => came.went_to(OTHER, Rule::Previous, &counted(BASE_INSERTED)),
                }
            }
        }
    });
}
