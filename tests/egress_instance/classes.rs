// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whatever is configured, in whatever order: a packet to the prefix of a class goes to a shard of
//! that class or nowhere, in every state on the way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use guideway::egress::apply::How;
use guideway::group::{Class, State};
use guideway::route::{TableId, Target};
use serde_json::json;

use crate::documents::{class, resolved};
use crate::netns::{isolated, veth};
use crate::support::*;

/// What stands for the class in documents, an address that it serves, and the first of its shards.
const CLASSES: [(&str, &str, u16); 4] = [
    ("nat66", "2001:db8:1::1", 0x10),
    ("64:ff9b::/96", "64:ff9b::192.0.2.1", 0x20),
    ("64:ff9b:1::/96", "64:ff9b:1::192.0.2.1", 0x30),
    ("64:ff9b:1:1::/96", "64:ff9b:1:1::192.0.2.1", 0x40),
];
const TENANTS: [(u32, &str); 3] = [(7, "tap0"), (8, "tap1"), (9, "tap2")];

/// A sequence that looks random and is the same each time (Marsaglia's xorshift).
struct Random(u32);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % end
    }

    /// Each of them or not.
    fn some<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        of.iter().filter(|_| self.below(3) > 0).copied().collect()
    }
}

#[test]
fn no_class_leaks_into_another_whatever_is_applied() {
    isolated("egress_instance::classes", || {
        let rounds = if std::env::var_os("GW_LONG").is_some() {
            2000
        } else {
            60
        };
        let indices = TENANTS.map(|(_, name)| veth(name, &name.replace("tap", "in")).0);
        let mut writer = load();
        let (stop, settled) = (AtomicBool::new(false), AtomicU32::new(0));
        let (end, known) = (&stop, &settled);
        std::thread::scope(|scope| {
            let packets = scope.spawn(move || {
                let egress = open();
                let (mut sent, mut dropped) = (0, 0);
                while !end.load(Ordering::Acquire) {
                    for (bit, (name, address, first)) in CLASSES.into_iter().enumerate() {
                        let before = known.load(Ordering::Acquire);
                        let done = run(&egress, indices[0], "2001:db8::1", address);
                        let after = known.load(Ordering::Acquire);
                        if before & after & 1 << bit == 0 {
                            continue;
                        }
                        match done.action {
                            DROPPED => dropped += 1,
                            SENT => {
                                let shard = u16::from_be_bytes([done.frame[44], done.frame[45]]);
                                assert_eq!(shard & !0xf, first, "a packet to {name}");
                                sent += 1;
                            }
                            action => panic!("verdict {action} for a packet to {name}"),
                        }
                    }
                }
                (sent, dropped)
            });
            let mut random = Random(0x2545_f491);
            let mut before = 0;
            for round in 0..rounds {
                let configured: Vec<_> = (0..CLASSES.len() as u32)
                    .filter(|&index| index == 0 || random.below(3) > 0)
                    .collect();
                let mut shards_of = BTreeMap::new();
                let mut documents: Vec<_> = configured
                    .iter()
                    .map(|&index| {
                        let (name, _, first) = CLASSES[index as usize];
                        let all: Vec<_> = (first..first + 5).collect();
                        let shards = random.some(&all);
                        shards_of.insert(index, shards.clone());
                        class(name, &shards)
                    })
                    .collect();
                if random.below(2) == 0 {
                    documents.reverse();
                }
                // The first tenant is there all the time: its packets are those above.
                let mut tenants = vec![TENANTS[0]];
                tenants.extend(random.some(&TENANTS[1..]));
                let tenants = tenants.iter().map(|(table, interface)| {
                    json!({"table": table, "argument": table, "interfaces": [interface]})
                });
                let wanted = resolved(&documents, tenants.collect());
                let bits = configured.iter().fold(0, |bits, index| bits | 1 << index);
                settled.store(before & bits, Ordering::Release);
                let applied = writer.apply(&wanted, &How::default());
                applied.unwrap_or_else(|error| panic!("round {round}: {error}"));
                settled.store(bits, Ordering::Release);
                before = bits;

                let left = writer.compare(&wanted).expect("readable");
                assert!(left.is_empty(), "round {round}: {left:?}");
                let groups = writer.groups().expect("readable");
                for tenant in &wanted.tenants {
                    let routes = writer.routes(tenant.tenant.table).expect("readable");
                    for index in &configured {
                        let (_, address, _) = CLASSES[*index as usize];
                        let address = address.parse().expect("an address");
                        let (_, route) = routes
                            .iter()
                            .filter(|(key, _)| key.prefix.contains(address))
                            .max_by_key(|(key, _)| key.prefix.bits())
                            .expect("a route");
                        let Target::Group {
                            group, incarnation, ..
                        } = route.target
                        else {
                            panic!("{route:?}")
                        };
                        let live = groups
                            .iter()
                            .find(|live| live.group == group)
                            .expect("live");
                        assert_eq!(live.class, class_of(*index));
                        assert_eq!((live.incarnation, live.state), (incarnation, State::Open));
                        let numbers: Vec<_> = shards_of[index].clone();
                        assert_eq!(live.members.len(), numbers.len());
                    }
                }
                for (table, _) in TENANTS {
                    let is_wanted = wanted
                        .tenants
                        .iter()
                        .any(|one| one.tenant.table.get() == table);
                    let routes = writer.routes(TableId::new(table)).expect("readable");
                    assert_eq!(routes.is_empty(), !is_wanted, "round {round}");
                }
            }
            stop.store(true, Ordering::Release);
            let (sent, dropped) = packets.join().expect("packets");
            assert!(sent > 1000 && dropped > 0, "{sent} {dropped}");
        });
    });
}

fn class_of(index: u32) -> Class {
    match CLASSES[index as usize].0 {
        "nat66" => Class::Nat66,
        prefix => Class::Nat64(prefix.parse().expect("a prefix")),
    }
}
