// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a run of the program left, beside what the model says.

use crate::egress::explain::{Case, Verdict};
use crate::oracle::egress::{Action, Pin, PinUse};
use crate::reason::egress::{End, Selection};

/// Verdicts of classifiers.
const UNSPEC: i32 = -1;
const SHOT: i32 = 2;
const REDIRECT: i32 = 7;

/// What a run of the program left.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) action: i32,
    pub(super) frame: Vec<u8>,
    /// Counters that went up, in ascending order, and by how much.
    pub(super) counted: Vec<(u32, u64)>,
    pub(super) pin: Option<Pin>,
    pub(super) used: Option<PinUse>,
    /// Packets and bytes that the counters of the slot went up by.
    pub(super) slot: Option<(u64, u64)>,
}

impl Seen {
    /// The one counter of ends that went up by one.
    pub(super) fn end(&self) -> Option<End> {
        let mut ends = self.counted.iter().filter_map(|(number, by)| {
            let end = End::from_number(u8::try_from(*number).ok()?)?;
            Some((end, *by))
        });
        match (ends.next(), ends.next()) {
            (Some((end, 1)), None) => Some(end),
            _ => None,
        }
    }

    /// The other counters that went up.
    pub(super) fn selections(&self) -> Vec<Selection> {
        let numbers = self.counted.iter();
        let numbers = numbers.filter_map(|(number, _)| u8::try_from(*number).ok());
        numbers.filter_map(Selection::from_number).collect()
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        match (self.action, self.end()) {
            (UNSPEC, _) => Some(Verdict::Next),
            (SHOT, _) => Some(Verdict::Drop),
            (REDIRECT, Some(End::IcmpSent | End::UnreachSent)) => Some(Verdict::Answer),
            (REDIRECT, _) => Some(Verdict::Redirect),
            _ => None,
        }
    }

    /// In what it is not as the model says of a frame.
    pub(super) fn differs(&self, case: &Case<'_>, input: &[u8]) -> Option<String> {
        let decision = &case.decision;
        // How many were sent before is not the model's to say.
        let limited = decision.action == Action::Answer && self.end() == Some(End::IcmpLimited);
        let (action, end, output) = match decision.action {
            _ if limited => (SHOT, End::IcmpLimited, input),
            Action::Next => (UNSPEC, decision.end, input),
            Action::Drop => (SHOT, decision.end, input),
            _ => (REDIRECT, decision.end, decision.output.as_slice()),
        };
        let counters = decision.counters.iter().map(|counter| counter.number());
        let counters = [end.number()].into_iter().chain(counters);
        let counted: Vec<_> = counters.map(|number| (u32::from(number), 1)).collect();
        let holder = decision.choice.and_then(|choice| choice.holder);
        let pin = holder.and_then(|holder| case.after.pins.get(&holder).copied());
        let tenant = decision.tenant.as_ref();
        let used = tenant.and_then(|tenant| case.after.used.get(&tenant.table).copied());
        let slot = decision.slot.map(|_| (1, input.len() as u64));
        let same_bytes = self.frame == output;
        let parts = [
            (
                self.action != action,
                "verdict",
                format!("{} is not {action}", self.action),
            ),
            (
                self.counted != counted,
                "counters",
                format!("{} are not {}", names(&self.counted), names(&counted)),
            ),
            (
                self.pin != pin,
                "pin",
                format!("{:?} is not {pin:?}", self.pin),
            ),
            (
                self.used != used,
                "count of pins",
                format!("{:?} is not {used:?}", self.used),
            ),
            (
                self.slot != slot,
                "packets and bytes of the slot",
                format!("{:?} are not {slot:?}", self.slot),
            ),
            (!same_bytes, "output", bytes(&self.frame, output)),
        ];
        let differing: Vec<_> = parts
            .into_iter()
            .filter(|(differs, ..)| *differs)
            .map(|(_, what, text)| format!("{what} {text}"))
            .collect();
        (!differing.is_empty()).then(|| differing.join("; "))
    }
}

/// Counters by name.
fn names(counted: &[(u32, u64)]) -> String {
    let name = |(number, by): &(u32, u64)| {
        let byte = u8::try_from(*number).ok();
        let name = byte.and_then(|number| {
            let end = End::from_number(number).map(End::name);
            end.or_else(|| Selection::from_number(number).map(Selection::name))
        });
        match name {
            Some(name) => format!("{name} {by}"),
            None => format!("counter {number} {by}"),
        }
    };
    let names: Vec<_> = counted.iter().map(name).collect();
    names.join(", ")
}

fn bytes(found: &[u8], expected: &[u8]) -> String {
    let length = found.len().max(expected.len());
    let at = (0..length).find(|&at| found.get(at) != expected.get(at));
    format!(
        "of {} bytes is not that of {} bytes, from byte {} on",
        found.len(),
        expected.len(),
        at.unwrap_or(length)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::encap::{Encap, Rate};
    use crate::group::Limits;
    use crate::oracle::egress::{decide, Packet, Pins, World};
    use crate::route::{Block, Key, Prefix, Route, TableId, Target};
    use crate::srv6::Argument;
    use crate::tenant::Tenant;

    const IFINDEX: u32 = 1;

    /// A tenant all of whose packets are blocked, and told so.
    fn world() -> World {
        let table = TableId::new(42);
        let argument = Argument::new(0x2a5).expect("an Argument");
        let tenant = Tenant {
            icmp: true,
            gateway6: Some("fd00::1".parse().expect("an address")),
            ..Tenant::new(table, argument)
        };
        let node = "2001:db8:ff01:1:e000::".parse().expect("a SID");
        let key = Key::new(table, Prefix::DEFAULT_IPV6);
        let route = Route::new(Target::Block(Block::Unreachable));
        World {
            limits: Limits::default(),
            tenants: BTreeMap::from([(IFINDEX, tenant)]),
            routes: BTreeMap::from([(key, route)]),
            groups: BTreeMap::new(),
            encap: Some(Encap {
                icmp: Rate {
                    per_second: 1,
                    burst: 1,
                },
                ..Encap::compat(node)
            }),
        }
    }

    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
        frame.extend([0x20; 32]);
        frame.extend([0; 8]);
        frame
    }

    #[test]
    fn each_difference_is_told_and_a_limited_answer_is_none() {
        let (world, frame) = (world(), frame());
        let packet = Packet::new(IFINDEX, &frame, 0);
        let pins = || Pins::with_capacity(1, 1);
        let pinless = decide(&world, &mut pins(), &packet);
        let case = Case::decide_among(&world, &packet, pins(), pinless);
        let answer = case.decision.output.clone();
        assert_eq!(case.decision.end, End::UnreachSent);
        let seen = || Seen {
            action: REDIRECT,
            frame: answer.clone(),
            counted: vec![(End::UnreachSent.number().into(), 1)],
            pin: None,
            used: None,
            slot: None,
        };
        assert_eq!(seen().differs(&case, &frame), None);
        assert_eq!(seen().verdict(), Some(Verdict::Answer));
        let limited = Seen {
            action: SHOT,
            frame: frame.clone(),
            counted: vec![(End::IcmpLimited.number().into(), 1)],
            ..seen()
        };
        assert_eq!(limited.differs(&case, &frame), None);

        let twice = vec![(End::UnreachSent.number().into(), 2)];
        let mut changed = answer.clone();
        changed[20] ^= 1;
        let used = PinUse {
            pins: 1,
            refused: 0,
        };
        let wrong = [
            (
                Seen {
                    action: SHOT,
                    ..seen()
                },
                "verdict 2 is not 7",
            ),
            (
                Seen {
                    counted: twice,
                    ..seen()
                },
                "counters unreach_sent 2 are not unreach_sent 1",
            ),
            (
                Seen {
                    frame: changed,
                    ..seen()
                },
                "from byte 20 on",
            ),
            (
                Seen {
                    used: Some(used),
                    ..seen()
                },
                "count of pins Some(",
            ),
            (
                Seen {
                    slot: Some((1, 62)),
                    ..seen()
                },
                "of the slot Some((1, 62))",
            ),
        ];
        for (seen, text) in wrong {
            let told = seen.differs(&case, &frame);
            let told = told.expect("a difference");
            assert!(told.contains(text), "{told}");
        }
        // Two ends are none.
        let both = vec![
            (End::Pass.number().into(), 1),
            (End::Group.number().into(), 1),
        ];
        assert_eq!(
            Seen {
                counted: both,
                ..seen()
            }
            .end(),
            None
        );
    }
}
