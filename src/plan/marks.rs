// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The marked slots of a service as a record keeps them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::affinity::{Mark, OpenedNs, Slots};
use crate::hex;

/// Marked slots, and since when those are open that are.
///
/// In hexadecimal, one mark after the other in the order of slots: the number of unmarked slots
/// before it, then 0 for a held slot, else one more than the index of its opening and the base row.
/// Numbers are in LEB128, so that a mark has two or three bytes in all but a few cases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks {
    openings: Vec<OpenedNs>,
    slots: String,
}

impl Marks {
    /// The marks of these slots.
    pub(crate) fn of(slots: &Slots) -> Self {
        let mut bytes = Vec::new();
        let mut next = 0;
        for Mark { slot, open } in slots.marks() {
            put(slot - next, &mut bytes);
            next = slot + 1;
            match open {
                None => put(0, &mut bytes),
                Some((base, opening)) => {
                    put(u32::from(opening) + 1, &mut bytes);
                    put(base.into(), &mut bytes);
                }
            }
        }
        Self {
            openings: slots.openings().to_vec(),
            slots: hex::encode(&bytes),
        }
    }

    /// The different times since which slots are open.
    pub(crate) fn openings(&self) -> &[OpenedNs] {
        &self.openings
    }

    /// Whether no slot is marked.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether this publication opens slots.
    pub(crate) fn opens(&self) -> bool {
        self.openings.iter().any(Option::is_none)
    }

    /// The slots of a table with these owners; why there are none.
    pub(crate) fn restore(&self, owners: &[u16]) -> Result<Slots, String> {
        let slots = Slots::with_marks(owners, self.openings.clone(), self.read()?);
        slots.map_err(|error| error.to_string())
    }

    /// Whether a service with so many slots and backends in these rows can have them. That they fit
    /// its table turns out where that is built, which takes longer.
    pub(crate) fn check(&self, slots: u32, rows: &BTreeSet<u16>) -> Result<(), String> {
        let mut used = vec![false; self.openings.len()];
        for Mark { slot, open } in self.read()? {
            if slot >= slots {
                return Err(format!("slot {slot} of {slots} is marked"));
            }
            let Some((base, opening)) = open else {
                continue;
            };
            if !rows.contains(&base) {
                return Err(format!("slot {slot} is open with base row {base}"));
            }
            let openings = used.len();
            *used.get_mut(usize::from(opening)).ok_or_else(|| {
                format!("slot {slot} is open since opening {opening} of {openings}")
            })? = true;
        }
        match used.iter().position(|used| !used) {
            Some(opening) => Err(format!("no slot is open since opening {opening}")),
            None => Ok(()),
        }
    }

    /// The marks one by one.
    pub(crate) fn read(&self) -> Result<Vec<Mark>, String> {
        let bytes = hex::decode(&self.slots).map_err(|error| format!("marks of slots {error}"))?;
        let mut rest = bytes.as_slice();
        let mut marks = Vec::new();
        let mut next = 0_u32;
        while !rest.is_empty() {
            let mark = (|| {
                let slot = next.checked_add(take(&mut rest)?)?;
                next = slot.checked_add(1)?;
                let open = match take(&mut rest)? {
                    0 => None,
                    opening => Some((
                        u16::try_from(take(&mut rest)?).ok()?,
                        u8::try_from(opening - 1).ok()?,
                    )),
                };
                Some(Mark { slot, open })
            })();
            marks.push(mark.ok_or("marks of slots end in the middle or are out of range")?);
        }
        Ok(marks)
    }
}

/// Appends a number in LEB128.
fn put(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number in LEB128 from the front; none if there is none.
fn take(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u32::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three slots from a table of 300 with the owners 0 and 1 in turn.
    #[test]
    fn marks_have_the_form_that_is_described() {
        let owners: Vec<u16> = (0..300).map(|slot| slot % 2).collect();
        let marks = [
            Mark {
                slot: 2,
                open: None,
            },
            Mark {
                slot: 3,
                open: Some((7, 0)),
            },
            Mark {
                slot: 299,
                open: Some((200, 1)),
            },
        ];
        let slots = Slots::with_marks(&owners, vec![Some(5), None], marks).expect("sound");
        let kept = Marks::of(&slots);
        // Two unmarked, held; none, opening 0, row 7; 295 unmarked, opening 1, row 200.
        assert_eq!(
            serde_json::to_string(&kept).expect("JSON"),
            r#"{"openings":[5,null],"slots":"0200000107a70202c801"}"#
        );
        assert!(kept.restore(&owners).expect("sound").has_words_of(&slots));
    }

    #[test]
    fn damaged_marks_are_refused() {
        for slots in [
            "0",
            "zz",
            "02",
            "0201",
            "80",
            "ffffffff7f00",
            "ffffffff0f00",
            "0002ffff04",
            "00810200",
        ] {
            let marks = Marks {
                openings: vec![Some(1)],
                slots: slots.to_owned(),
            };
            assert!(marks.restore(&[0; 8]).is_err(), "{slots}");
        }
    }

    proptest! {
        #[test]
        fn any_number_is_read_back(number: u32, behind: u8) {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            bytes.push(behind);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(number));
            prop_assert_eq!(rest, &[behind][..]);
        }
    }
}
