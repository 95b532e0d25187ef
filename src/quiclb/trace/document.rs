// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A trace as it is printed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::addr::MacAddr;
use crate::id::InterfaceName;
use crate::oracle::{Icmp, Ip, Link, Quic};
use crate::reason::{Reason, Rule};
use crate::service::BackendState;

/// What became of a number of frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TraceDocument {
    /// Names this form.
    pub schema: TraceSchema,
    /// The instance's UUID.
    pub instance_id: String,
    /// SHA-256 over the canonical specification.
    pub digest: String,
    /// The program that ran.
    pub program: TracedProgram,
    /// The frames in their order.
    pub packets: Vec<TracedPacket>,
    /// Their numbers.
    pub summary: Summary,
    /// What was different from the machine that the specification is for.
    pub notes: Vec<String>,
}

/// Names the form of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TraceSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.trace/v1")]
    V1,
}

/// The program as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TracedProgram {
    /// Its name.
    pub name: String,
    /// The kernel's hash over its instructions, 16 hexadecimal digits.
    pub tag: String,
    /// Instructions that the verifier walked through.
    pub verified_insns: u32,
}

/// What one frame says, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TracedPacket {
    /// Its place in the input, from 0.
    pub index: u64,
    /// Bytes of the frame; of one that the capture truncated, those that are there.
    pub length: u64,
    /// When it was captured, in nanoseconds since 1970, where that is known.
    pub timestamp_ns: Option<u64>,
    /// The Ethernet header.
    pub l2: Link,
    /// The IP header, unless it cannot be read.
    pub ip: Option<Ip>,
    /// The ICMP or ICMPv6 header, if there is one that can be read.
    pub icmp: Option<Icmp>,
    /// The QUIC header of a datagram to a service that reads QUIC.
    pub quic: Option<Quic>,
    /// The program's return value; none if the frame was not run.
    pub verdict: Option<Verdict>,
    /// Why.
    pub reason: Option<Reason>,
    /// What chose the backend of a forwarded frame.
    pub rule: Option<Rule>,
    /// The service that the packet belongs to.
    pub service: Option<TracedService>,
    /// The backend that was chosen, or that an unhealthy server ID names.
    pub backend: Option<TracedBackend>,
    /// Whether the packet can begin a flow; none where that was not asked.
    pub flow_start: Option<bool>,
    /// The hash of its flow, 16 hexadecimal digits, if it was hashed.
    pub hash: Option<String>,
    /// The slot of that hash.
    pub slot: Option<u32>,
    /// The state of that slot.
    pub slot_state: Option<SlotState>,
    /// The entries that the packet created.
    pub created: Vec<Created>,
    /// The frame as the program left it.
    pub output: Option<Output>,
    /// Why the frame could not be used, or what of the rest cannot be believed.
    pub error: Option<String>,
}

/// What the program returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// On to the host's network stack.
    Pass,
    /// Nowhere.
    Drop,
    /// Out through another interface.
    Redirect,
    /// Back out through the interface it came in by.
    Tx,
    /// Nowhere: the program gave up.
    Aborted,
}

/// A service of the specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TracedService {
    /// Its name.
    pub name: String,
    /// Its number.
    pub service_id: u32,
}

/// A backend of that service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TracedBackend {
    /// The operator's number.
    pub id: u32,
    /// Its index in the service.
    pub row: u16,
    /// The interface that its frames leave through.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interface: InterfaceName,
    /// Destination address of its frames.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mac: MacAddr,
    /// The state that packets see: a ready backend of weight 0 is draining.
    pub state: BackendState,
}

/// The state of a slot during and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SlotState {
    /// The owner gets all its packets.
    Plain,
    /// It has another owner than before, and flows in progress stay where they were.
    Open,
    /// Some of its flows have entries.
    Held,
}

/// An entry that a packet creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Created {
    /// Of its flow.
    Flow,
    /// Of its connection ID.
    Cid,
}

/// A frame as the program left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Output {
    /// Its bytes.
    pub length: u64,
    /// Where it differs from the input, in ascending order.
    pub changed: Vec<ChangedBytes>,
}

/// A range of bytes that all differ from the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ChangedBytes {
    /// Where it begins.
    pub offset: u64,
    /// The bytes of the input, in hexadecimal.
    pub from: String,
    /// Those of the output.
    pub to: String,
}

/// Numbers of packets. Those with an error are counted as errors and nowhere else, so the errors
/// and verdicts add up to the packets, and the reasons to the verdicts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[allow(missing_docs)] // the verdicts
pub struct Summary {
    /// All.
    pub packets: u64,
    pub redirect: u64,
    pub tx: u64,
    pub pass: u64,
    pub drop: u64,
    pub aborted: u64,
    /// Could not be used, or not be believed.
    pub errors: u64,
    /// By reason, those that occurred.
    pub by_reason: BTreeMap<Reason, u64>,
    /// Forwarded packets by rule, those that occurred.
    pub by_rule: BTreeMap<Rule, u64>,
}

impl Summary {
    pub(super) fn of(packets: &[TracedPacket]) -> Self {
        let mut summary = Self::default();
        for packet in packets {
            summary.packets += 1;
            let (Some(verdict), None) = (packet.verdict, &packet.error) else {
                summary.errors += 1;
                continue;
            };
            *match verdict {
                Verdict::Pass => &mut summary.pass,
                Verdict::Drop => &mut summary.drop,
                Verdict::Redirect => &mut summary.redirect,
                Verdict::Tx => &mut summary.tx,
                Verdict::Aborted => &mut summary.aborted,
            } += 1;
            if let Some(reason) = packet.reason {
                *summary.by_reason.entry(reason).or_default() += 1;
            }
            if let Some(rule) = packet.rule {
                *summary.by_rule.entry(rule).or_default() += 1;
            }
        }
        summary
    }
}

impl Output {
    /// How `output` differs from `input`.
    pub(super) fn between(input: &[u8], output: &[u8]) -> Self {
        let length = input.len().max(output.len());
        let differs = |at: &usize| input.get(*at) != output.get(*at);
        let mut changed = Vec::new();
        let mut at = 0;
        while let Some(start) = (at..length).find(differs) {
            let end = (start..length).find(|at| !differs(at)).unwrap_or(length);
            changed.push(ChangedBytes {
                offset: start as u64,
                from: hex(part(input, start, end)),
                to: hex(part(output, start, end)),
            });
            at = end;
        }
        Self {
            length: output.len() as u64,
            changed,
        }
    }
}

/// The bytes of this range, as far as they exist.
fn part(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    bytes.get(start..end.min(bytes.len())).unwrap_or_default()
}

/// Lower-case hexadecimal without a prefix.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(input: &[u8], output: &[u8]) -> Vec<(u64, String, String)> {
        let output = Output::between(input, output);
        let ranges = output.changed.into_iter();
        ranges.map(|c| (c.offset, c.from, c.to)).collect()
    }

    #[test]
    fn changes_are_the_longest_ranges_of_different_bytes() {
        let text = |offset: u64, from: &str, to: &str| (offset, from.to_owned(), to.to_owned());
        assert_eq!(ranges(b"abcdef", b"abcdef"), []);
        assert_eq!(
            ranges(b"abcdef", b"ABcdeF"),
            [text(0, "6162", "4142"), text(5, "66", "46")]
        );
        assert_eq!(ranges(b"abc", b"xyz"), [text(0, "616263", "78797a")]);
    }

    #[test]
    fn a_frame_of_another_length_differs_at_its_end() {
        let text = |offset: u64, from: &str, to: &str| (offset, from.to_owned(), to.to_owned());
        assert_eq!(ranges(b"ab", b"abcd"), [text(2, "", "6364")]);
        assert_eq!(ranges(b"abcd", b"aB"), [text(1, "626364", "42")]);
        assert_eq!(Output::between(b"abcd", b"aB").length, 2);
    }
}
