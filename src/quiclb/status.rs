// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an instance is and does now, as a document.
//!
//! Reading it is cheap and changes nothing: one call per service and backend for the counters, one
//! query per interface, and no walk through any map that grows with traffic. What is wrong becomes
//! a [`Finding`]; nothing is repaired.

mod collect;
mod lost;
mod shared;
mod state;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::attachment::{Attached, Holder};
use super::error::InstanceError;
use super::finding::{Finding, Severity};
use super::hardware::{is_on_card, HardwareLb};
use super::stats::EventStats;
use crate::addr::MacAddr;
use crate::id::{InstanceId, InterfaceName};
use crate::kernel::build::Build;
use crate::kernel::statedir::{StateDir, StateRoot};
use crate::service::{BackendState, Mode, Protocol, RootArray, Routing, Tracking};

/// What an instance is and does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Status {
    /// Names this form.
    pub schema: StatusSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Where clients' packets arrive; none while nothing is published.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interface: Option<InterfaceName>,
    /// Index of that interface when the generation was published.
    pub ifindex: Option<u32>,
    /// How the program is attached; while it is not, how it is to be; none where nothing tells.
    pub mode: Option<Mode>,
    /// Whether it does what it should.
    pub health: Health,
    /// What holds the program on its interface.
    pub attachment: Attachment,
    /// The program.
    pub program: ProgramStatus,
    /// The live generation; none before the first, and where nothing tells (a finding says so).
    pub generation: Option<GenerationStatus>,
    /// The services of the live generation, in the order of their names.
    pub services: Vec<ServiceStatus>,
    /// Packets by what became of them; their sum is the packets seen.
    pub reasons: BTreeMap<&'static str, u64>,
    /// State of flows and connection IDs.
    pub affinity: AffinityStatus,
    /// The event ring; none where a pin is lost.
    pub events: Option<EventStats>,
    /// Frames that were redirected and lost.
    pub redirect_errors: RedirectErrors,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

/// Names the form of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StatusSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.status/v1")]
    V1,
}

/// Whether an instance does what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Health {
    /// Attached, and no finding is an error.
    Ok,
    /// Attached, and some finding is an error.
    Degraded,
    /// Not attached.
    Detached,
}

impl Health {
    /// The text in documents and outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Detached => "detached",
        }
    }
}

/// What holds the program on its interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Attachment {
    /// How.
    pub kind: AttachmentKind,
    /// The kernel's number of the link; none without one.
    pub link_id: Option<u32>,
    /// The kernel's number of the instance's program.
    pub program_id: Option<u32>,
    /// The kernel's number of the program that the interface runs, or that is at the place in the
    /// root array.
    pub live_program_id: Option<u32>,
    /// Whose program that is.
    pub owner: Owner,
    /// The kernel's number of the program before the last upgrade.
    pub previous_program_id: Option<u32>,
    /// The place from which the program of the interface's owner is to call it; none where it is
    /// attached itself.
    pub root_array: Option<RootArrayPlace>,
}

/// A place in an array of programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RootArrayPlace {
    /// Where the array is pinned.
    pub path: String,
    /// The index.
    pub index: u32,
}

impl From<&RootArray> for RootArrayPlace {
    fn from(place: &RootArray) -> Self {
        Self {
            path: place.path().display().to_string(),
            index: place.index(),
        }
    }
}

impl Attachment {
    /// Of a program that was attached to a card just now.
    pub(super) fn of_card(attached: &Attached) -> Self {
        let (kind, link_id) = match attached.holder {
            Holder::Link { link_id } => (AttachmentKind::Link, Some(link_id)),
            Holder::Netlink => (AttachmentKind::Netlink, None),
        };
        Self {
            kind,
            link_id,
            program_id: Some(attached.program_id),
            live_program_id: Some(attached.program_id),
            owner: Owner::Ours,
            previous_program_id: None,
            root_array: None,
        }
    }
}

/// How a program is held on its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AttachmentKind {
    /// By a link: the kernel refuses everybody else.
    Link,
    /// By netlink, on kernels without links for XDP.
    Netlink,
    /// In an array of programs that a root program calls.
    RootArray,
    /// Not at all.
    None,
}

/// Whose program an interface runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// This instance's.
    Ours,
    /// Somebody else's.
    Foreign,
    /// It runs none.
    None,
}

/// The program of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProgramStatus {
    /// Its name in the kernel's listings; none if its pin is lost.
    pub name: Option<String>,
    /// The kernel's hash over its instructions, hexadecimal.
    pub tag: Option<String>,
    /// Version of the layout of the maps; none if the map that tells it is lost.
    pub abi: Option<Abi>,
    /// What it was built for.
    pub profile: Profile,
    /// What it was made of; none if its pin is lost or its build kept no record.
    pub build: Option<Build>,
}

/// Version of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[allow(missing_docs)]
pub struct Abi {
    pub major: u16,
    pub minor: u16,
}

/// What a program was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The host's processors.
    Host,
    /// A network card.
    Offload,
}

/// A published generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GenerationStatus {
    /// Its number.
    pub number: u64,
    /// Digest of its specification; none if its record cannot be read.
    pub digest: Option<String>,
    /// Seconds since it was published; none if its record cannot be read.
    pub age_seconds: Option<u64>,
    /// The highest number that any generation of this instance ever had.
    pub high_water: u64,
}

/// One service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[allow(missing_docs)] // the members of the specification, and what is said of them there
pub struct ServiceStatus {
    pub name: String,
    pub service_id: u32,
    pub vip: IpAddr,
    pub port: u16,
    pub protocol: Protocol,
    pub routing: Routing,
    pub tracking: Tracking,
    pub table: TableStatus,
    /// What it has counted, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Forwarded packets by the rule that placed them.
    pub rules: BTreeMap<&'static str, u64>,
    pub backends: Vec<BackendStatus>,
}

/// The table of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TableStatus {
    /// Slots.
    pub size: u32,
    /// Digest of who owns which slot.
    pub digest: String,
}

/// One backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BackendStatus {
    /// The operator's number.
    pub id: u32,
    /// Its index in the service.
    pub row: u16,
    /// Tells two tenants of one row apart.
    pub incarnation: u32,
    /// The interface that leads to it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interface: InterfaceName,
    /// Index of that interface when the generation was published: where packets are sent.
    pub ifindex: u32,
    /// Its link-layer address.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mac: MacAddr,
    /// State.
    pub state: BackendState,
    /// Weight.
    pub weight: u16,
    /// Server IDs, lower-case hexadecimal.
    pub server_ids: Vec<String>,
    /// Slots that it owns.
    pub slots: u32,
    /// Slots that another one owns by now, and that still send it the packets of flows without an
    /// entry.
    pub base_slots: u32,
    /// Entries that are bound to it, as the last complete sweep counted them; none if there was no
    /// sweep since it is there. A backend that drains is empty when these are 0, and `base_slots` of
    /// the same time: only flows that are found by a server ID have no entry.
    pub entries: Option<BackendEntries>,
    /// What went to it.
    pub counters: BackendCounters,
}

/// Entries that are bound to a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BackendEntries {
    /// Of flows.
    pub flows: u64,
    /// Of connection IDs.
    pub cids: u64,
}

/// What went to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BackendCounters {
    /// Packets.
    pub packets: u64,
    /// Bytes: frame lengths.
    pub bytes: u64,
    /// Frames that its interface did not transmit since it exists, whichever backend they were
    /// for; none where nothing tells, where some were lost before they got to any interface, and
    /// where frames are sent back out as they came in.
    pub redirect_errors: Option<u64>,
}

/// State of flows and connection IDs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AffinityStatus {
    /// Entries of flows.
    pub flows: FlowState,
    /// Entries of connection IDs.
    pub cids: CidState,
    /// The last complete sweep, none before the first.
    pub last_sweep: Option<Sweep>,
}

/// Entries of flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FlowState {
    /// Entries.
    pub used: u64,
    /// Room for entries.
    pub capacity: u64,
    /// The highest level of admission that a service has: 0 admits all, 1 refuses newcomers that the
    /// table alone can serve, 2 refuses all. None where nothing is published.
    pub level: Option<u8>,
    /// Newcomers that were refused, by all services since they are there.
    pub refused: u64,
    /// Slots that remember their former owner.
    pub open_slots: u64,
    /// Slots with entries of flows that differ.
    pub held_slots: u64,
    /// Seconds since the slots were opened that are open longest; none if no slot is open.
    pub oldest_window_seconds: Option<u64>,
}

/// Entries of connection IDs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CidState {
    /// Entries.
    pub used: u64,
    /// Room for entries.
    pub capacity: u64,
    /// The highest level of admission that a service has: 0 admits all, 1 refuses newcomers that the
    /// table alone can serve, 2 refuses all. None where nothing is published.
    pub level: Option<u8>,
    /// Newcomers that were refused.
    pub refused: u64,
}

/// A complete sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Sweep {
    /// Seconds since it ended.
    pub age_seconds: u64,
    /// Entries of learned connection IDs.
    pub learned: u64,
    /// Entries of registered connection IDs.
    pub registered: u64,
    /// Entries of imported connection IDs.
    pub imported: u64,
    /// Flows that would break if this node vanished.
    pub blast_radius: u64,
    /// Milliseconds that it took.
    pub duration_ms: u64,
}

/// Frames that were redirected and lost, as far as anything tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RedirectErrors {
    /// What tells.
    pub source: RedirectErrorSource,
    /// Sum over the interfaces of all backends, and what was lost before it got there, since these
    /// interfaces exist; none where nothing tells.
    pub total: Option<u64>,
}

/// What tells about redirected frames that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RedirectErrorSource {
    /// The kernel's tracepoints.
    Tracepoint,
    /// The statistics of the devices' drivers.
    Device,
    /// Nothing.
    None,
}

impl Status {
    /// Looks at an instance. An instance that has lost some of its pins is described as far as it
    /// is there.
    ///
    /// # Errors
    /// No such instance, state of another version or of somebody else, or a call that failed.
    pub fn of(dir: &StateDir) -> Result<Self, InstanceError> {
        collect::collect(dir)
    }

    /// Whether some finding is an error.
    pub fn has_errors(&self) -> bool {
        has_errors(&self.findings)
    }
}

/// What repairs most things.
pub(super) const APPLY: &str = "apply the specification again";

/// Whether some finding is an error.
pub(super) fn has_errors(findings: &[Finding]) -> bool {
    errors(findings) > 0
}

fn errors(findings: &[Finding]) -> usize {
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    errors.count()
}

/// The instances under a state root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InstanceList {
    /// Names this form.
    pub schema: ListSchema,
    /// In the order of their names.
    pub instances: Vec<ListedInstance>,
}

/// Names the form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ListSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.list/v1")]
    V1,
}

/// One instance of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ListedInstance {
    /// Its UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// Where clients' packets arrive; none while nothing is published.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interface: Option<InterfaceName>,
    /// How the program is attached; none while nothing is published.
    pub mode: Option<Mode>,
    /// Whether it does what it should; none if it cannot be read.
    pub health: Option<Health>,
    /// Number of the live generation.
    pub generation: Option<u64>,
    /// How many findings of its status are errors; none if it cannot be read.
    pub errors: Option<usize>,
    /// Why it cannot be read; none if it can.
    pub error: Option<String>,
}

impl InstanceList {
    /// Every instance under `root`. One that cannot be read, because another version made it for
    /// instance, is listed by its name alone.
    ///
    /// # Errors
    /// The root is no bpffs or cannot be read.
    pub fn of(root: &StateRoot) -> Result<Self, InstanceError> {
        let instances = root.quiclb_instances()?.into_iter().map(|id| {
            let dir = root.quiclb(id);
            if is_on_card(&dir) {
                return Self::on_card(&dir);
            }
            let (status, error) = match Status::of(&dir) {
                Ok(status) => (Some(status), None),
                Err(error) => (None, Some(error.to_string())),
            };
            ListedInstance {
                instance_id: id,
                interface: status.as_ref().and_then(|status| status.interface.clone()),
                mode: status.as_ref().and_then(|status| status.mode),
                health: status.as_ref().map(|status| status.health),
                generation: status
                    .as_ref()
                    .and_then(|status| Some(status.generation.as_ref()?.number)),
                errors: status.as_ref().map(|status| errors(&status.findings)),
                error,
            }
        });
        Ok(Self {
            schema: ListSchema::V1,
            instances: instances.collect(),
        })
    }

    /// Whether some finding of some instance is an error, or one of them cannot be read.
    pub fn has_errors(&self) -> bool {
        let mut instances = self.instances.iter();
        instances.any(|instance| instance.errors != Some(0))
    }

    fn on_card(dir: &StateDir) -> ListedInstance {
        let status = HardwareLb::open(dir).and_then(|card| card.status());
        let (status, error) = match status {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(error.to_string())),
        };
        ListedInstance {
            instance_id: dir.instance(),
            interface: status.as_ref().and_then(|status| status.interface.clone()),
            mode: status.as_ref().map(|status| status.mode),
            health: status.as_ref().map(|status| match status.attachment {
                Some(_) => Health::Ok,
                None => Health::Detached,
            }),
            generation: status.as_ref().and_then(|status| status.generation),
            errors: status.as_ref().map(|_| 0),
            error,
        }
    }
}
