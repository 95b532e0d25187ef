// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program does with given frames, and why: the program itself is asked, not a model.
//!
//! The program is loaded once more for itself, with its decisions noted, and given the generation
//! of a plan. Nothing is pinned or attached, no frame leaves the machine, and nothing that exists
//! is touched. The interfaces of the plan need not exist: redirection only asks whether the target
//! is a known one, so loopback stands in for all of them.
//!
//! Verdict and output are the kernel's, the reasons are the program's own notes. A note that
//! contradicts what the program did is an error of that frame.
//!
//! ```no_run
//! use guideway::capture;
//! use guideway::plan::{Options, World};
//! use guideway::quiclb::trace::{run, Reset, Scenario};
//! use guideway::service::Spec;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Spec::from_json(&std::fs::read("spec.json")?)?;
//! let scenario = Scenario::new(None, &spec, &World::offline(), Options::default())?;
//! let file = std::fs::read("clients.pcap")?;
//! let trace = run(&scenario, capture::read(&file)?, Reset::Never)?;
//! for packet in &trace.packets {
//!     println!("{} {:?} {:?}", packet.index, packet.verdict, packet.reason);
//! }
//! # Ok(())
//! # }
//! ```

mod bindings;
mod decision;
mod document;
mod payload;
mod private;
mod scenario;

pub use document::{
    ChangedBytes, Created, Output, SlotState, Summary, TraceDocument, TraceSchema, TracedBackend,
    TracedPacket, TracedProgram, TracedService, Verdict,
};
pub use payload::{payload_frame, PayloadError};
pub use scenario::Scenario;

use crate::capture::Frame;
use crate::error::ErrorKind;
use crate::kernel::map::ShapeError;
use crate::kernel::object::LoadError;
use crate::kernel::SysError;
use crate::oracle::describe;
use crate::plan::{Generation, ImageError};
use decision::{Decision, Run};
use private::Private;

/// Number of the generation that is published for a trace.
const GENERATION: u64 = 1;

/// Whether later frames meet the state that earlier ones left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reset {
    /// They do, as on the wire.
    #[default]
    Never,
    /// Each frame is the first one. Costs a load of the program for each.
    BeforeEach,
}

/// Why frames cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The program cannot be loaded; a missing right is named.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The generation has no form that the kernel could be given.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A map has another shape than this version expects.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl TraceError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(error) => error.kind(),
            Self::Image(_) => ErrorKind::Invalid,
            Self::Shape(_) => ErrorKind::Incompatible,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// Traces all frames.
///
/// Minimum kernel: 6.1. Takes CAP_BPF and CAP_NET_ADMIN.
///
/// # Errors
/// The program cannot be loaded or given its generation. A frame that cannot be used is an error
/// of its own in the document.
pub fn run<'a>(
    scenario: &Scenario,
    frames: impl IntoIterator<Item = Frame<'a>>,
    reset: Reset,
) -> Result<TraceDocument, TraceError> {
    let mut tracer = Tracer::new(scenario, reset)?;
    let packets = frames
        .into_iter()
        .map(|frame| tracer.trace(&frame))
        .collect::<Result<_, _>>()?;
    Ok(tracer.document(packets))
}

/// Traces frames one by one.
#[derive(Debug)]
pub struct Tracer<'a> {
    scenario: &'a Scenario,
    generation: Generation,
    reset: Reset,
    private: Private,
    output: Vec<u8>,
}

impl<'a> Tracer<'a> {
    /// Loads the program and publishes the plan's generation to it.
    ///
    /// # Errors
    /// As [`run`].
    pub fn new(scenario: &'a Scenario, reset: Reset) -> Result<Self, TraceError> {
        let mut generation = scenario.plan().generation().clone();
        generation.number = GENERATION;
        let imported = scenario.imported();
        if let Some(imported) = imported {
            imported.prepare(&mut generation);
        }
        Ok(Self {
            private: Private::load(&generation, imported)?,
            scenario,
            generation,
            reset,
            output: Vec::new(),
        })
    }

    /// Runs the program on a frame.
    ///
    /// # Errors
    /// The program cannot be loaded anew, or its note not be read.
    pub fn trace(&mut self, frame: &Frame<'_>) -> Result<TracedPacket, TraceError> {
        let description = describe(&self.generation, &frame.bytes);
        let mut packet = TracedPacket {
            index: frame.index,
            length: frame.bytes.len() as u64,
            timestamp_ns: frame.timestamp_ns,
            l2: description.l2,
            ip: description.ip,
            icmp: description.icmp,
            quic: description.quic,
            verdict: None,
            reason: None,
            rule: None,
            service: None,
            backend: None,
            flow_start: None,
            hash: None,
            slot: None,
            slot_state: None,
            created: Vec::new(),
            output: None,
            error: frame.error.as_ref().map(ToString::to_string),
        };
        if packet.error.is_some() {
            return Ok(packet);
        }
        if self.reset == Reset::BeforeEach {
            self.private.reset()?;
        }
        let before = self.private.note()?;
        let action = match self.private.run(&frame.bytes, &mut self.output) {
            Ok(action) => action,
            Err(error) => {
                packet.error = Some(error.to_string());
                return Ok(packet);
            }
        };
        packet.verdict = Verdict::of_action(action);
        packet.output = Some(Output::between(&frame.bytes, &self.output));
        let run = Run {
            input: &frame.bytes,
            output: &self.output,
            action,
            before,
            note: self.private.note()?,
        };
        match Decision::read(&self.generation, &run) {
            Ok(decision) => packet.explain(&decision),
            Err(mismatch) => packet.error = Some(mismatch.to_string()),
        }
        Ok(packet)
    }

    /// Puts packets together to a document.
    pub fn document(&self, packets: Vec<TracedPacket>) -> TraceDocument {
        let program = self.private.program();
        let spec = self.scenario.plan().spec();
        TraceDocument {
            schema: TraceSchema::V1,
            instance_id: spec.instance_id().to_string(),
            digest: spec.digest().to_string(),
            program: TracedProgram {
                name: program.name().to_owned(),
                tag: document::hex(&program.tag()),
                verified_insns: program.verified_instructions(),
            },
            summary: Summary::of(&packets),
            packets,
            notes: self.scenario.notes(),
        }
    }
}

impl TracedPacket {
    fn explain(&mut self, decision: &Decision<'_>) {
        self.reason = Some(decision.reason);
        self.rule = decision.rule;
        self.service = decision.service.map(|service| TracedService {
            name: service.name.clone(),
            service_id: service.id.get(),
        });
        self.backend = decision.backend.map(|(placed, backend)| TracedBackend {
            id: placed.id.get(),
            row: placed.row,
            interface: backend.interface.clone(),
            mac: placed.mac,
            state: placed.state,
        });
        self.flow_start = decision.flow_start;
        if let Some(hashed) = decision.hashed {
            self.hash = Some(format!("{:016x}", hashed.hash));
            self.slot = Some(hashed.slot);
            self.slot_state = Some(hashed.state);
        }
        self.created.clone_from(&decision.created);
    }
}
