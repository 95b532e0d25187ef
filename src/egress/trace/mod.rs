// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program does with given frames of a tenant: the program itself is asked, and the
//! [model](crate::oracle::egress) says why.
//!
//! The program is loaded once more for itself, in maps of its own. Into these goes what the tenant's
//! packets find in the instance: its interface, its routes, the groups that they name, the
//! configuration, the count of its pins, those of its pins that the frames meet, and as much room for
//! new ones as there is. Nothing is pinned or attached, no frame leaves the machine, and nothing of the
//! instance is touched: its pins, counters and quotas are what they were. Frames meet the pins that
//! earlier frames of the trace left.
//!
//! Loopback stands in for the tenant's interface, so that need not exist here. Nor need those of next
//! hops: the kernel looks for them only when it sends, and a program that is run by itself sends
//! nothing.
//!
//! Verdict, end, counters and bytes are the kernel's. Each frame is also decided by the model, from
//! the same state. Where the two differ the frame has a [disagreement](TracedPacket::disagreement),
//! and nobody should believe the explanation. They may differ only in how many answers are sent in a
//! second, which the model does not count.

mod document;
mod private;
mod seen;

pub use document::{TraceDocument, TraceSchema, TraceSummary, TracedPacket, TracedProgram};

use std::collections::BTreeSet;

use super::error::InstanceError;
use super::explain::{interface, Case, Verdict};
use super::instance::Egress;
use super::pins::Tick;
use crate::capture::Frame;
use crate::error::ErrorKind;
use crate::group::ImageError;
use crate::hex;
use crate::kernel::map::ShapeError;
use crate::kernel::object::LoadError;
use crate::kernel::run::ClassifierRun;
use crate::kernel::SysError;
use crate::oracle::egress::{decide, Packet, Pins, World};
use crate::pin::Holder;
use crate::reason::egress::End;
use crate::srv6::BaseSid;
use document::outer_destination;
use private::{Contents, Private};
use seen::Seen;

/// The interface that frames seem to come in by.
const LOOPBACK: u32 = 1;

/// Why frames cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No tenant has the interface.
    #[error("ifindex {ifindex} is no tenant's in this instance")]
    #[non_exhaustive]
    NoTenant {
        /// The interface.
        ifindex: u32,
    },
    /// The instance cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The program cannot be loaded; a missing right is named.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A map has another shape than this version expects.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A group has no form that the kernel could be given.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl TraceError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTenant { .. } => ErrorKind::NotFound,
            Self::Instance(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Shape(_) | Self::Image(_) => ErrorKind::Incompatible,
            Self::Sys(error) => error.kind(),
        }
    }
}

impl Egress {
    /// Traces frames as if the tenant at an interface had sent them now. The frames that the kernel
    /// runs no program on, such as those of more than about 3,500 bytes, have an error of their own.
    ///
    /// # Errors
    /// No tenant has the interface, the instance cannot be read, or the program cannot be loaded.
    pub fn trace<'f>(
        &self,
        frames: impl IntoIterator<Item = Frame<'f>>,
        ifindex: u32,
    ) -> Result<TraceDocument, TraceError> {
        let frames: Vec<_> = frames.into_iter().collect();
        let mut world = self.world_at(ifindex)?;
        let tenant = world.tenants.remove(&ifindex);
        let tenant = tenant.ok_or(TraceError::NoTenant { ifindex })?;
        world.tenants.insert(LOOPBACK, tenant);
        let live = self.pin_sight()?;
        let mut pins = Vec::new();
        for holder in holders(&world, &frames) {
            pins.extend(live.find(&holder)?.map(|pin| (holder, pin)));
        }
        let contents = Contents {
            limits: self.limits,
            world: &world,
            pins: &pins,
            used: live.used(tenant.table)?,
            room: live.free.at_most(frames.len()),
        };
        let mut private = Private::load(&contents)?;
        let packets = frames
            .iter()
            .map(|frame| trace(&world, &mut private, frame))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(TraceDocument {
            schema: TraceSchema::V1,
            table: tenant.table.get(),
            interface: interface(ifindex)?,
            program: TracedProgram {
                name: private.program().name().to_owned(),
                tag: hex::encode(&private.program().tag()),
                verified_insns: private.program().verified_instructions(),
                is_live: private.program().tag() == self.program.tag(),
            },
            pins_copied: pins.len() as u64,
            summary: TraceSummary::of(&packets),
            packets,
        })
    }
}

/// Whose pins the frames meet.
fn holders(world: &World, frames: &[Frame<'_>]) -> BTreeSet<Holder> {
    let holder = |frame: &Frame<'_>| {
        let packet = Packet::new(LOOPBACK, &frame.bytes, Tick::now().get());
        decide(world, &mut Pins::with_capacity(0, 0), &packet)
            .choice?
            .holder
    };
    let usable = frames.iter().filter(|frame| frame.error.is_none());
    usable.filter_map(holder).collect()
}

/// Runs the program on a frame, and asks the model.
fn trace(
    world: &World,
    private: &mut Private,
    frame: &Frame<'_>,
) -> Result<TracedPacket, TraceError> {
    let mut packet = TracedPacket {
        index: frame.index,
        length: frame.bytes.len() as u64,
        timestamp_ns: frame.timestamp_ns,
        verdict: None,
        end: None,
        counters: Vec::new(),
        shard: None,
        output: None,
        explain: None,
        disagreement: None,
        error: frame.error.as_ref().map(ToString::to_string),
    };
    if packet.error.is_some() {
        return Ok(packet);
    }
    let at = |tick: Tick| Packet::new(LOOPBACK, &frame.bytes, tick.get());
    let case = Case::decide(world, &at(Tick::now()), &private.sight())?;
    let slot_before = private.slot_of(&case.decision)?;
    let run = ClassifierRun {
        frame: &frame.bytes,
        ifindex: LOOPBACK,
        gso_bytes: 0,
        mark: 0,
        priority: 0,
    };
    let ran = match run.run(private.program()) {
        Ok(ran) => ran,
        Err(error) => {
            packet.error = Some(error.to_string());
            return Ok(packet);
        }
    };
    let seen = Seen {
        action: ran.action,
        counted: private.counted()?,
        pin: private.pin_of(&case.decision)?,
        used: private.used_of(&case.decision)?,
        slot: private
            .slot_of(&case.decision)?
            .zip(slot_before)
            .map(|(after, before)| (after.0 - before.0, after.1 - before.1)),
        frame: ran.frame,
    };
    // The program may have seen a later time, and that a table was full a moment ago.
    let later = case.again(&at(Tick::now()));
    let full = later.again_full(&at(Tick::now()));
    let cases = [case, later, full];
    let agreeing = cases
        .iter()
        .find(|case| seen.differs(case, &frame.bytes).is_none());
    if agreeing.is_none() {
        let [case, ..] = &cases;
        packet.disagreement = seen.differs(case, &frame.bytes);
    }
    let [first, ..] = &cases;
    packet.explain = Some(agreeing.unwrap_or(first).explain());
    packet.end = seen.end();
    packet.verdict = seen.verdict();
    packet.counters = seen.selections();
    if packet.verdict == Some(Verdict::Redirect) {
        packet.shard = outer_destination(&seen.frame).and_then(|to| BaseSid::new(to).ok());
    }
    if packet.end == Some(End::IcmpLimited) {
        // The model says what would be sent.
        if let Some(explain) = &mut packet.explain {
            explain.limit();
        }
    }
    private.note_new(&first.decision, &packet.counters);
    packet.output = Some(hex::encode(&seen.frame));
    Ok(packet)
}
