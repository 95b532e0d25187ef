// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the maps of this crate are compared with: every connection is remembered, and when there is
//! no room the one that was silent for longest is forgotten. An ideal one, exact where the kernel's
//! LRU is approximate.

use crate::fleet::{Bound, Fleet};
use crate::policy::{Placed, Policy};
use crate::traffic::Packet;

/// The end of the list: before its first and behind its last entry.
const END: u32 = 0;

/// Entries in a ring, the one used last behind [`END`] and the one to be forgotten before it.
pub(crate) struct Lru {
    entries: Vec<Entry>,
    capacity: usize,
    /// The place of each connection's entry, [`END`] if it has none.
    places: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    connection: u32,
    bound: Bound,
    before: u32,
    behind: u32,
}

impl Lru {
    pub(crate) fn new(capacity: usize) -> Self {
        let end = Entry {
            connection: 0,
            bound: Bound {
                row: 0,
                incarnation: 0,
            },
            before: END,
            behind: END,
        };
        Self {
            entries: vec![end],
            capacity,
            places: Vec::new(),
        }
    }

    fn entry(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }

    fn place_of(&mut self, connection: u32) -> &mut u32 {
        let connection = connection as usize;
        if self.places.len() <= connection {
            self.places.resize(connection + 1, END);
        }
        &mut self.places[connection]
    }

    fn unlink(&mut self, place: u32) {
        let Entry { before, behind, .. } = *self.entry(place);
        self.entry(before).behind = behind;
        self.entry(behind).before = before;
    }

    /// Makes an entry the one that was used last.
    fn link(&mut self, place: u32) {
        let first = self.entry(END).behind;
        let entry = self.entry(place);
        (entry.before, entry.behind) = (END, first);
        self.entry(first).before = place;
        self.entry(END).behind = place;
    }

    /// A place for another entry: if there is none left, that of the one used longest ago.
    fn make_room(&mut self) -> u32 {
        if self.entries.len() <= self.capacity {
            self.entries.push(self.entries[END as usize]);
            return self.entries.len() as u32 - 1;
        }
        let last = self.entry(END).before;
        self.unlink(last);
        let connection = self.entry(last).connection;
        *self.place_of(connection) = END;
        last
    }
}

impl Policy for Lru {
    fn place(&mut self, packet: &Packet, fleet: &Fleet, _now_ns: u64) -> Placed {
        let connection = packet.connection;
        let place = *self.place_of(connection);
        let place = match place {
            END => None,
            place => Some(place),
        };
        let known = place.map(|place| self.entry(place).bound);
        let known = known.filter(|known| fleet.bound(known.row) == Some(*known));
        let owner = fleet.owner(packet.slot).and_then(|row| fleet.bound(row));
        let answer = known.or(owner);
        if let Some(bound) = answer {
            match place {
                Some(place) => self.unlink(place),
                None => *self.place_of(connection) = END,
            }
            let place = place.unwrap_or_else(|| self.make_room());
            *self.place_of(connection) = place;
            let entry = self.entry(place);
            (entry.connection, entry.bound) = (connection, bound);
            self.link(place);
        }
        Placed {
            row: answer.map(|bound| bound.row),
            at_risk: false,
        }
    }

    fn entries(&self) -> usize {
        self.entries.len() - 1
    }
}
