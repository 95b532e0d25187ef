// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Sizes and members from any bytes: no panic, an untouched output after a refusal, and the slots
//! that the rules name otherwise.
#![no_main]

use guideway::maglev::{build_into, Member, Scratch, TableSize};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../tests/maglev/reference.rs"]
mod reference;

/// Beyond that, a build takes too long to try many.
const MAX_SLOTS: usize = 5000;
const UNTOUCHED: u16 = 0x5555;

/// Takes bytes off the front; past the end there are zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn slice(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        let taken = self.slice(4);
        bytes[..taken.len()].copy_from_slice(taken);
        u32::from_le_bytes(bytes)
    }

    /// A member: lengths that a byte can say, and any index and weight, small ones more often.
    fn member(&mut self) -> Member<'a, u16> {
        let head = self.u32();
        let weight = self.u32() >> (head >> 8 & 31);
        let index = (self.u32() as u16) >> (head >> 16 & 15);
        let eligible = head >> 31 == 0;
        Member {
            key: self.slice((head & 0xff) as usize),
            index,
            weight,
            eligible,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let requested = bytes.u32();
    let length = bytes.u32();
    let Ok(size) = TableSize::new(requested >> (requested & 31)) else {
        return;
    };
    if size.slots() > MAX_SLOTS {
        return;
    }
    let mut members = Vec::new();
    while !bytes.0.is_empty() {
        members.push(bytes.member());
    }
    // One output in 256 has any length; the others, the right one.
    let length = if length & 0xff == 0 {
        (length >> 16) as usize
    } else {
        size.slots()
    };
    let mut out = vec![UNTOUCHED; length];
    match build_into(&mut out, &mut Scratch::new(), size, &members) {
        Err(error) => {
            assert!(
                out.iter().all(|&slot| slot == UNTOUCHED),
                "{error}: the output was written to"
            );
        }
        Ok(_) => {
            let placed = members.iter().filter(|member| member.eligible);
            let weighted: Vec<_> = placed.map(|member| (member.key, member.weight)).collect();
            let key = |&slot: &u16| members.iter().find(|m| m.index == slot).map(|m| m.key);
            let owners: Vec<_> = out.iter().map(key).collect();
            assert!(
                owners == reference::build(size.get(), &weighted),
                "not the slots of the rules"
            );
        }
    }
});
