// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A trace as it is printed.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde::Serialize;

use crate::egress::document::InterfaceName;
use crate::egress::explain::{Explain, Verdict};
use crate::reason::egress::{End, Selection};
use crate::srv6::BaseSid;

/// What became of a number of frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TraceDocument {
    /// Names this form.
    pub schema: TraceSchema,
    /// Number of the tenant.
    pub table: u32,
    /// The interface whose tenant sent them; loopback stood in for it.
    pub interface: InterfaceName,
    /// The program that ran.
    pub program: TracedProgram,
    /// Pins of the instance that the frames meet.
    pub pins_copied: u64,
    /// The frames in their order.
    pub packets: Vec<TracedPacket>,
    /// Their numbers.
    pub summary: TraceSummary,
}

/// Names the form of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TraceSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.trace/v1")]
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
    /// Whether the instance's program is the same; otherwise another version made it.
    pub is_live: bool,
}

/// What became of one frame, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TracedPacket {
    /// Its place in the input, from 0.
    pub index: u64,
    /// Its bytes.
    pub length: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub timestamp_ns: Option<u64>,
    /// The program's verdict; null if it was not run or did what no program of ours does.
    pub verdict: Option<Verdict>,
    /// Under which counter it ended; null if the program counted none or several.
    pub end: Option<End>,
    /// The other counters that went up.
    pub counters: Vec<Selection>,
    /// The shard that the output is addressed to.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub shard: Option<BaseSid>,
    /// The frame as the program left it, in hexadecimal digits.
    pub output: Option<String>,
    /// What the model says of it.
    pub explain: Option<Explain>,
    /// In what the program did otherwise than the model says: a fault of one of them.
    pub disagreement: Option<String>,
    /// Why it was not run.
    pub error: Option<String>,
}

/// Numbers of frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TraceSummary {
    /// All.
    pub packets: u64,
    /// Left to the next program.
    pub next: u64,
    /// Dropped.
    pub drop: u64,
    /// Sent to a shard.
    pub redirect: u64,
    /// Answered.
    pub answer: u64,
    /// Not run.
    pub errors: u64,
    /// Of which program and model disagree.
    pub disagreements: u64,
    /// By end, those that occurred.
    pub by_end: BTreeMap<End, u64>,
}

impl TraceSummary {
    pub(super) fn of(packets: &[TracedPacket]) -> Self {
        let mut summary = Self::default();
        for packet in packets {
            summary.packets += 1;
            summary.errors += u64::from(packet.error.is_some());
            summary.disagreements += u64::from(packet.disagreement.is_some());
            let of_verdict = match packet.verdict {
                Some(Verdict::Next) => Some(&mut summary.next),
                Some(Verdict::Drop) => Some(&mut summary.drop),
                Some(Verdict::Redirect) => Some(&mut summary.redirect),
                Some(Verdict::Answer) => Some(&mut summary.answer),
                None => None,
            };
            if let Some(count) = of_verdict {
                *count += 1;
            }
            if let Some(end) = packet.end {
                *summary.by_end.entry(end).or_default() += 1;
            }
        }
        summary
    }
}

/// Where an encapsulated frame goes.
pub(super) fn outer_destination(frame: &[u8]) -> Option<Ipv6Addr> {
    let octets: &[u8; 16] = frame.get(38..)?.first_chunk()?;
    Some(Ipv6Addr::from(*octets))
}
