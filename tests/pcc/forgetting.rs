// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The LRU table that maps are compared with forgets exactly what was not used for longest.

use guideway::affinity::state::FlowId;
use guideway::hash::FlowKey;

use crate::fleet::{Bound, Fleet, Updates};
use crate::lru::Lru;
use crate::policy::Policy;
use crate::random::{Random, Stream};
use crate::traffic::Packet;

fn packet(connection: u32, slot: u32) -> Packet {
    Packet {
        connection,
        starts: false,
        flow: FlowId {
            key: FlowKey::from_bytes([0; 24]),
            tag: 0,
            hash: 0,
        },
        h64: 0,
        slot,
    }
}

/// A table in the plainest way: the entry used last comes first.
struct Plain {
    entries: Vec<(u32, Bound)>,
    capacity: usize,
}

impl Plain {
    fn place(&mut self, packet: &Packet, fleet: &Fleet) -> Option<u16> {
        let mut entries = self.entries.iter();
        let place = entries.position(|(connection, _)| *connection == packet.connection);
        let known = place.map(|place| self.entries.remove(place).1);
        let known = known.filter(|known| fleet.bound(known.row) == Some(*known));
        let bound = known.or_else(|| fleet.bound(fleet.owner(packet.slot)?))?;
        self.entries.insert(0, (packet.connection, bound));
        self.entries.truncate(self.capacity);
        Some(bound.row)
    }
}

#[test]
fn it_answers_as_a_list_does_while_servers_come_and_go() {
    let mut fleet = Fleet::new(200).expect("a table");
    let mut updates = Updates::new(Random::new(1, Stream::Updates), 10, 5);
    let mut random = Random::new(1, Stream::Traffic);
    let capacity = 20;
    let mut lru = Lru::new(capacity);
    let mut plain = Plain {
        entries: Vec::new(),
        capacity,
    };
    let (mut remembered, mut changes) = (0, 0);
    for second in (0..3_000).step_by(30) {
        let change = updates.happen(second.into(), &mut fleet);
        changes += u32::from(change.expect("a table").is_some());
        for _ in 0..30 {
            let connection = random.below(40) as u32;
            let packet = packet(connection, connection * 1_601);
            let expected = plain.place(&packet, &fleet);
            let placed = lru.place(&packet, &fleet, 0);
            assert_eq!(
                placed.row, expected,
                "connection {connection} at {second} s"
            );
            remembered += u32::from(placed.row != fleet.owner(packet.slot));
        }
        assert_eq!(lru.entries(), plain.entries.len());
    }
    assert_eq!(lru.entries(), capacity);
    assert!(changes > 50 && remembered > 50, "{changes}, {remembered}");
}
