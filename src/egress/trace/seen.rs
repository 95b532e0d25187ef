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
