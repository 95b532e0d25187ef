// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program noted about a frame, and whether it is what the program did.

use crate::abi;
use crate::affinity::rules::{Slot, SlotKind};
use crate::plan::{Generation, PlacedBackend, PlacedService};
use crate::reason::{self, Reason, Rule};
use crate::service::{Backend, Service};

use super::document::{Created, SlotState, Verdict};

/// One run of the program on one frame.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    /// What the program was given.
    pub(super) input: &'a [u8],
    /// The frame afterwards.
    pub(super) output: &'a [u8],
    /// The return value.
    pub(super) action: u32,
    /// The note before the run.
    pub(super) before: abi::TraceNote,
    /// The note after it.
    pub(super) note: abi::TraceNote,
}

/// A note that agrees with what the program did.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision<'a> {
    pub(super) reason: Reason,
    pub(super) rule: Option<Rule>,
    pub(super) service: Option<&'a Service>,
    pub(super) backend: Option<(&'a PlacedBackend, &'a Backend)>,
    pub(super) flow_start: Option<bool>,
    pub(super) hashed: Option<Hashed>,
    pub(super) created: Vec<Created>,
}

/// The flow's hash and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hashed {
    pub(super) hash: u64,
    pub(super) slot: u32,
    pub(super) state: SlotState,
}

/// A note that cannot be about what the program did.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mismatch {
    #[error("the program noted {notes} decisions about one frame")]
    Notes { notes: u64 },
    #[error("the program noted generation {found}, published is {published}")]
    Generation { found: u64, published: u64 },
    #[error("the program noted reason {number}, which has no meaning")]
    Reason { number: u8 },
    #[error("the program noted rule {number}, which has no meaning")]
    Rule { number: u8 },
    #[error("the program noted {reason} with the rule {}", rule.map_or("none", Rule::name))]
    RuleOfReason { reason: Reason, rule: Option<Rule> },
    #[error("the program returned {action}, which is no verdict")]
    Action { action: u32 },
    #[error("the program noted {reason}, and returned {}", name(*verdict))]
    Verdict { reason: Reason, verdict: Verdict },
    #[error("the program noted service {id}, which does not exist")]
    Service { id: u32 },
    #[error("the program noted backend {id} in row {row}, where it is not")]
    Backend { id: u32, row: u16 },
    #[error("the program noted that it forwarded the frame, but not to which backend")]
    NoBackend,
    #[error("the program noted slot {slot} of a table of {slots}")]
    Slot { slot: u32, slots: usize },
    #[error("the program noted that it made an entry for no flow")]
    Created,
    #[error("the program noted {reason}, and left other bytes than that from byte {offset} on")]
    Bytes { reason: Reason, offset: usize },
}

/// What the kernel calls them.
fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "XDP_PASS",
        Verdict::Drop => "XDP_DROP",
        Verdict::Redirect => "XDP_REDIRECT",
        Verdict::Tx => "XDP_TX",
        Verdict::Aborted => "XDP_ABORTED",
    }
}

impl Verdict {
    /// The verdict that is this return value.
    pub(super) fn of_action(action: u32) -> Option<Self> {
        Some(match action {
            libbpf_sys::XDP_ABORTED => Self::Aborted,
            libbpf_sys::XDP_DROP => Self::Drop,
            libbpf_sys::XDP_PASS => Self::Pass,
            libbpf_sys::XDP_TX => Self::Tx,
            libbpf_sys::XDP_REDIRECT => Self::Redirect,
            _ => return None,
        })
    }
}

impl<'a> Decision<'a> {
    /// Reads the note of a run under `generation`, and holds it against what can be seen from
    /// outside: the return value and the bytes.
    pub(super) fn read(generation: &'a Generation, run: &Run<'_>) -> Result<Self, Mismatch> {
        let note = &run.note;
        let notes = note.packets.wrapping_sub(run.before.packets);
        if notes != 1 {
            return Err(Mismatch::Notes { notes });
        }
        let (found, published) = (note.generation, generation.number);
        if found != published {
            return Err(Mismatch::Generation { found, published });
        }
        let number = note.reason;
        let reason = Reason::from_number(number).ok_or(Mismatch::Reason { number })?;
        let rule = rule(note)?;
        if rule.is_some() != (reason == Reason::Forwarded) {
            return Err(Mismatch::RuleOfReason { reason, rule });
        }
        let found = service(generation, note.service_id)?;
        let backend = backend(found, note)?;
        let placed = backend.map(|(placed, _)| placed);
        check_verdict(reason, placed, run)?;
        check_bytes(reason, placed, run)?;
        let flags = |flag: abi::TraceFlag| u32::from(note.flags) & flag.0 != 0;
        let hashed = flags(abi::TraceFlag::GW_TRACE_HASHED)
            .then(|| hashed(note, found.map_or(0, |(_, placed)| placed.slots.len())))
            .transpose()?;
        let created: Vec<_> = [
            (abi::TraceFlag::GW_TRACE_CREATED_FLOW, Created::Flow),
            (abi::TraceFlag::GW_TRACE_CREATED_CID, Created::Cid),
        ]
        .into_iter()
        .filter_map(|(flag, created)| flags(flag).then_some(created))
        .collect();
        // A connection ID is bound to the backend of the flow it was seen on.
        if hashed.is_none() && !created.is_empty() {
            return Err(Mismatch::Created);
        }
        Ok(Self {
            reason,
            rule,
            service: found.map(|(service, _)| service),
            backend,
            flow_start: flags(abi::TraceFlag::GW_TRACE_START_KNOWN)
                .then(|| flags(abi::TraceFlag::GW_TRACE_START)),
            hashed,
            created,
        })
    }
}

fn rule(note: &abi::TraceNote) -> Result<Option<Rule>, Mismatch> {
    let number = note.rule;
    if u32::from(number) == abi::Rule::GW_RULE_NONE.0 {
        return Ok(None);
    }
    Rule::from_number(number)
        .map(Some)
        .ok_or(Mismatch::Rule { number })
}

type Found<'a> = Option<(&'a Service, &'a PlacedService)>;

fn service(generation: &Generation, id: u32) -> Result<Found<'_>, Mismatch> {
    if id == 0 {
        return Ok(None);
    }
    let mut services = generation.services();
    let found = services.find(|(service, _)| service.id.get() == id);
    found.map(Some).ok_or(Mismatch::Service { id })
}

/// The backend in its row, which is one of the service's.
fn backend<'a>(
    found: Found<'a>,
    note: &abi::TraceNote,
) -> Result<Option<(&'a PlacedBackend, &'a Backend)>, Mismatch> {
    let (id, row) = (note.backend_id, note.row);
    if id == 0 {
        return Ok(None);
    }
    let backend = found.and_then(|(service, placed)| {
        let placed = placed.backend(row).filter(|placed| placed.id.get() == id)?;
        let backend = service.backends.iter().find(|b| b.id == placed.id)?;
        Some((placed, backend))
    });
    backend.map(Some).ok_or(Mismatch::Backend { id, row })
}

fn check_verdict(
    reason: Reason,
    backend: Option<&PlacedBackend>,
    run: &Run<'_>,
) -> Result<(), Mismatch> {
    let action = run.action;
    let verdict = Verdict::of_action(action).ok_or(Mismatch::Action { action })?;
    let noted = match reason.verdict() {
        reason::Verdict::Pass => Verdict::Pass,
        reason::Verdict::Drop => Verdict::Drop,
        reason::Verdict::Abort => Verdict::Aborted,
        reason::Verdict::Forward => match backend {
            Some(backend) if backend.transmit => Verdict::Tx,
            Some(_) => Verdict::Redirect,
            None => return Err(Mismatch::NoBackend),
        },
    };
    if verdict == noted {
        Ok(())
    } else {
        Err(Mismatch::Verdict { reason, verdict })
    }
}

/// A forwarded frame has the backend's addresses and is the same otherwise; one that passes is the
/// same. Nobody sees what is dropped.
fn check_bytes(
    reason: Reason,
    backend: Option<&PlacedBackend>,
    run: &Run<'_>,
) -> Result<(), Mismatch> {
    let mut expected = run.input.to_vec();
    match (reason.verdict(), backend) {
        (reason::Verdict::Forward, Some(backend)) => {
            write(&mut expected, 0, backend.mac.octets());
            if let Some(source) = backend.source_mac {
                write(&mut expected, 6, source.octets());
            }
        }
        (reason::Verdict::Drop | reason::Verdict::Abort, _) => return Ok(()),
        (reason::Verdict::Pass | reason::Verdict::Forward, _) => {}
    }
    let length = expected.len().max(run.output.len());
    match (0..length).find(|&at| expected.get(at) != run.output.get(at)) {
        None => Ok(()),
        Some(offset) => Err(Mismatch::Bytes { reason, offset }),
    }
}

fn write(frame: &mut [u8], at: usize, address: [u8; 6]) {
    if let Some(field) = frame.get_mut(at..at + address.len()) {
        field.copy_from_slice(&address);
    }
}

fn hashed(note: &abi::TraceNote, slots: usize) -> Result<Hashed, Mismatch> {
    let slot = note.slot;
    if slot as usize >= slots {
        return Err(Mismatch::Slot { slot, slots });
    }
    let word = abi::Slot {
        base: note.base,
        ..Default::default()
    };
    let state = match Slot::from_abi(word).kind {
        SlotKind::Plain => SlotState::Plain,
        SlotKind::Held => SlotState::Held,
        SlotKind::Open { .. } => SlotState::Open,
    };
    Ok(Hashed {
        hash: note.hash,
        slot,
        state,
    })
}

#[cfg(test)]
mod tests;
