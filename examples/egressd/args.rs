// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The command line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU16, NonZeroU32, ParseIntError};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use guideway::egress::document::PinFilter;
use guideway::egress::pins::Held;
use guideway::egress::schema;
use guideway::group::{Class, Generation, GroupId, Slot};
use guideway::id::InterfaceName;
use guideway::kernel::statedir::{AbiVersion, StateDir, StateRoot};
use guideway::kernel::tc::{self, Anchor, FilterId, Neighbour, Way};
use guideway::maglev::{SizeError, TableSize};
use guideway::route::TableId;
use guideway::srv6::{Argument, BaseSid};
use guideway::tenant::PinQuota;

use crate::explain::ExplainArgs;
use crate::run::config::Flags;
use crate::tool::{Form, EXIT_CODES};
use crate::trace::TraceArgs;

/// Egress of tenants, spread over groups of SRv6 shards.
///
/// One document says which shards translate which class, and which interfaces bring which tenant's
/// packets. With this one, what comes in by tap0 is tenant 42's, and each of its addresses goes to
/// one of two shards behind uplink0, whose next hops have these link-layer addresses:
///
///   {"schema": "guideway.egress.spec/v1", "node_sid": "2001:db8:ff01:1:e000::",
///    "classes": [{"class": "nat66", "shards": [
///      {"sid": "2001:db8:ff09:10:e000::",
///       "next_hop": {"interface": "uplink0", "destination": "02:00:00:00:09:10"}},
///      {"sid": "2001:db8:ff09:11:e000::",
///       "next_hop": {"interface": "uplink0", "destination": "02:00:00:00:09:11"}}]}],
///    "tenants": [{"table": 42, "argument": "0x2a5", "interfaces": ["tap0"]}]}
///
///   egressd plan spec.json      what that would change
///   egressd apply spec.json     do it; the kernel then forwards by itself
///   egressd status              where packets went, and what is wrong
///
/// To drain a shard give it "draining": true and apply that; when status shows no pins of it any more,
/// remove it. `schema spec` has every member, its bounds and its default.
#[derive(Debug, Parser)]
#[command(
    name = "egressd", version, max_term_width = 100, after_help = EXIT_CODES,
    verbatim_doc_comment
)]
pub(crate) struct Cli {
    /// Form of the output
    #[arg(short, long, global = true, value_enum, default_value = "text")]
    output: Form,

    /// Where a bpffs is mounted [default: /sys/fs/bpf]
    #[arg(long, global = true, value_name = "DIR")]
    state_root: Option<PathBuf>,

    /// Where the state of egress is kept on it [default: guideway/egress below --state-root]
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "state_root")]
    state_dir: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    pub(crate) fn form(&self) -> Form {
        self.output
    }

    pub(crate) fn state(&self) -> StateDir {
        match (&self.state_dir, &self.state_root) {
            (Some(path), _) => StateDir::egress_at(path),
            (None, Some(root)) => StateRoot::new(root).egress(),
            (None, None) => StateRoot::default().egress(),
        }
    }

    /// The flags of a verb that is configured, with those of all verbs that are part of it.
    pub(crate) fn flags(&self, flags: &Flags) -> Flags {
        let mut flags = flags.clone();
        if self.state_dir.is_some() || self.state_root.is_some() {
            flags.state_dir(self.state().path());
        }
        flags
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what applying a specification, or a sweep of run, would change, and whom it would move;
    /// changes nothing
    Plan(PlanArgs),
    /// Make a specification what packets see: publish groups, write routes, attach
    Apply(ApplyArgs),
    /// Show which shard an address goes to and why, without a packet; changes nothing
    Explain(ExplainArgs),
    /// Run frames of a capture through a private copy of the program, and show what becomes of each
    Trace(TraceArgs),
    /// Show groups, tenants, counters and pins; the exit code is 5 if something is wrong
    Status,
    /// List pins, that is who is held to which shard, or remove some
    Pins(PinsArgs),
    /// Show who is still held to shards that drain, and would move if those were removed now
    DrainStatus(DrainArgs),
    /// Give the instance other limits while packets go on: nothing that it has is lost
    Migrate(MigrateArgs),
    /// Close the group of a class, and disable it when no route leads to it
    Retire(RetireArgs),
    /// Take the program off interfaces, and remove tenants, beside run; programs of others stay
    Detach(DetachArgs),
    /// Have every interface run this build's program; groups, routes and pins stay
    Upgrade(UpgradeArgs),
    /// Go back to the program before
    Rollback(UpgradeArgs),
    /// Show which shard carries a packet that no pin holds; asks nothing of this machine
    Place(PlaceArgs),
    /// Keep this node's egress in line with its shards, until SIGTERM; SIGHUP reads the
    /// configuration file anew. What is published goes on forwarding when it ends
    Run(RunArgs),
    /// Give one tenant's interface the program and its tenant the routes that run keeps, beside run
    Attach(TenantArgs),
    /// Check what run is told, and read its source of shards; changes nothing
    Check(CheckArgs),
    /// Print the JSON Schema of a document
    Schema(SchemaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The specification; - is standard input
    #[arg(required_unless_present = "control")]
    pub(crate) spec: Option<PathBuf>,
    /// What a sweep of run would do that is told the same
    #[arg(long = "loop", conflicts_with = "spec")]
    pub(crate) control: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The specification; - is standard input
    pub(crate) spec: PathBuf,
    #[command(flatten)]
    pub(crate) attach: AttachArgs,
    /// How long to wait for other writers: of the instance, and of routes [default: 2 and 5]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u32>,
}

impl ApplyArgs {
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// How the program is attached where it is not yet.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// By which of the kernel's ways: auto is tcx where the kernel has it (Linux 6.6)
    #[arg(long, value_name = "WAY", value_enum, default_value = "auto")]
    attach: AttachWay,
    /// Where among the programs of others: first, last, before:prog:ID, before:link:ID, after:prog:ID
    /// or after:link:ID
    #[arg(long, value_name = "PLACE", default_value = "first", value_parser = anchor)]
    anchor: Anchor,
    /// Priority of the filter, with clsact
    #[arg(long, value_name = "N", default_value_t = NonZeroU16::MIN)]
    priority: NonZeroU16,
    /// Handle of the filter, with clsact
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    handle: NonZeroU32,
}

impl AttachArgs {
    pub(crate) fn options(&self) -> tc::Options {
        tc::Options {
            way: match self.attach {
                AttachWay::Auto => Way::Auto,
                AttachWay::Tcx => Way::Tcx,
                AttachWay::Clsact => Way::Clsact,
            },
            anchor: self.anchor,
            expected_revision: None,
            filter: FilterId {
                priority: self.priority,
                handle: self.handle,
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AttachWay {
    /// TCX where the kernel has it, clsact elsewhere.
    Auto,
    /// A link on TCX.
    Tcx,
    /// A filter of the clsact qdisc.
    Clsact,
}

/// A text that is no place among others.
#[derive(Debug, thiserror::Error)]
#[error("must be first, last, before:prog:ID, before:link:ID, after:prog:ID or after:link:ID")]
struct AnchorError;

fn anchor(text: &str) -> Result<Anchor, AnchorError> {
    let neighbour = |text: &str| {
        let (kind, id) = text.split_once(':')?;
        let id = id.parse().ok()?;
        match kind {
            "prog" => Some(Neighbour::Program(id)),
            "link" => Some(Neighbour::Link(id)),
            _ => None,
        }
    };
    let anchor = match text.split_once(':') {
        None if text == "first" => Some(Anchor::First),
        None if text == "last" => Some(Anchor::Last),
        Some(("before", whom)) => neighbour(whom).map(Anchor::Before),
        Some(("after", whom)) => neighbour(whom).map(Anchor::After),
        _ => None,
    };
    anchor.ok_or(AnchorError)
}

#[derive(Debug, Args)]
pub(crate) struct PinsArgs {
    /// Remove those that are idle, and those of members that are gone
    #[arg(long, conflicts_with_all = ["remove", "table", "group", "source", "limit"])]
    pub(crate) expire: bool,
    /// Remove the pins of --table, --group or both, in use or not: they go where the table says
    #[arg(long, conflicts_with = "limit")]
    pub(crate) remove: bool,
    /// Those of this tenant
    #[arg(long, value_name = "N")]
    table: Option<u32>,
    /// Those of this group
    #[arg(long, value_name = "N", value_parser = group)]
    group: Option<GroupId>,
    /// Those of this address of the tenant
    #[arg(long, value_name = "ADDR", requires = "table")]
    source: Option<IpAddr>,
    /// To remove: those that are held to this slot of the group, and to this generation of it
    #[arg(long, value_name = "N", requires_all = ["remove", "group", "generation"], value_parser = slot)]
    slot: Option<Slot>,
    /// Generation of the slot
    #[arg(long, value_name = "N", requires = "slot", value_parser = generation)]
    generation: Option<Generation>,
    /// List at most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// How many seconds to wait for another process that changes the instance
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    wait: u32,
}

impl PinsArgs {
    pub(crate) fn filter(&self) -> PinFilter {
        PinFilter {
            table: self.table.map(TableId::new),
            group: self.group,
            source: self.source,
        }
    }

    pub(crate) fn held(&self) -> Option<Held> {
        let (slot, generation) = (self.slot?, self.generation?);
        Some(Held { slot, generation })
    }

    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

/// A number that nothing has.
#[derive(Debug, thiserror::Error)]
enum NumberError {
    #[error(transparent)]
    Number(#[from] ParseIntError),
    #[error("there is no such {0}")]
    None(&'static str),
}

fn group(text: &str) -> Result<GroupId, NumberError> {
    GroupId::new(text.parse()?).ok_or(NumberError::None("group"))
}

fn slot(text: &str) -> Result<Slot, NumberError> {
    Slot::new(text.parse()?).ok_or(NumberError::None("slot"))
}

fn generation(text: &str) -> Result<Generation, NumberError> {
    Generation::new(text.parse()?).ok_or(NumberError::None("generation"))
}

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// SIDs of shards, whether they drain or not [default: all that drain]
    #[arg(value_name = "SID")]
    pub(crate) shards: Vec<BaseSid>,
}

/// Limits that are not given stay as they are.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The limits of this specification, of which nothing else is applied; - is standard input
    pub(crate) spec: Option<PathBuf>,
    /// Interfaces of tenants
    #[arg(long, value_name = "N")]
    pub(crate) tenants: Option<u32>,
    /// Routes of all tenants
    #[arg(long, value_name = "N")]
    pub(crate) routes: Option<u32>,
    /// Groups
    #[arg(long, value_name = "N")]
    pub(crate) groups: Option<u32>,
    /// Shards of a group
    #[arg(long, value_name = "N")]
    pub(crate) members: Option<u32>,
    /// Pins of addresses
    #[arg(long, value_name = "N")]
    pub(crate) pins: Option<u32>,
    /// Pins of flows
    #[arg(long, value_name = "N")]
    pub(crate) flow_pins: Option<u32>,
    /// Bytes of the ring of events
    #[arg(long, value_name = "N")]
    pub(crate) ring_bytes: Option<u32>,
    /// For an older egressd that is to take over: the version of the layout that it makes. Refused while there are routes that it does not know
    #[arg(long, value_name = "MAJOR.MINOR", value_parser = version)]
    pub(crate) state_version: Option<AbiVersion>,
    /// Say what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How many seconds to wait for other writers: of the instance, and of routes
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
}

/// A text that is no version.
#[derive(Debug, thiserror::Error)]
#[error("must be two numbers with a dot between them")]
struct VersionError;

fn version(text: &str) -> Result<AbiVersion, VersionError> {
    let numbers = text.split_once('.').ok_or(VersionError)?;
    match (numbers.0.parse(), numbers.1.parse()) {
        (Ok(major), Ok(minor)) => Ok(AbiVersion { major, minor }),
        _ => Err(VersionError),
    }
}

impl MigrateArgs {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

#[derive(Debug, Args)]
pub(crate) struct RetireArgs {
    /// nat66, or nat64: and its prefix
    #[arg(value_parser = class)]
    pub(crate) class: Class,
    /// Have routes to it that run or apply keeps drop their packets; those of others prevent it still
    #[arg(long)]
    pub(crate) block: bool,
    /// How many seconds to wait for other writers: of the instance, and of routes
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
}

impl RetireArgs {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

/// A text that names no class.
#[derive(Debug, thiserror::Error)]
#[error("must be nat66, or nat64: and a prefix such as 64:ff9b::/96")]
struct ClassError;

fn class(text: &str) -> Result<Class, ClassError> {
    if text == "nat66" {
        return Ok(Class::Nat66);
    }
    let prefix = text
        .strip_prefix("nat64:")
        .and_then(|text| text.parse().ok());
    prefix.map(Class::Nat64).ok_or(ClassError)
}

#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// Take it off this interface alone, which is no tenant's from then on; of one that is gone the
    /// index. The tenant's routes and pins stay; repeatable
    #[arg(long, value_name = "NAME|INDEX")]
    pub(crate) interface: Vec<String>,
    /// The interface stays its tenant's, and attach or apply puts the program back
    #[arg(long, requires = "interface", conflicts_with_all = ["tenant", "purge"])]
    pub(crate) keep_tenant: bool,
    /// Take it off all interfaces of the tenant with this table, and remove its routes and pins;
    /// repeatable
    #[arg(long, value_name = "TABLE", conflicts_with = "interface")]
    pub(crate) tenant: Vec<u32>,
    /// Remove everything that the instance keeps in the kernel, too: groups, routes and pins
    #[arg(long, conflicts_with_all = ["interface", "tenant"])]
    pub(crate) purge: bool,
    /// How many seconds to wait for other writers
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
}

impl DetachArgs {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// How many seconds to wait for another process that changes the instance
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    wait: u32,
}

impl UpgradeArgs {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Sweep once and end: 0 if all is in line, 3 if not all of it could be done, 5 if no list of
    /// shards is known, or no shard takes the packets of a class
    #[arg(long)]
    pub(crate) once: bool,
    /// Print each value and where it was said, and end
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// One tenant's interface; what run is told is said in the same way.
#[derive(Debug, Args)]
pub(crate) struct TenantArgs {
    /// Name of the interface that the tenant's packets come in by
    pub(crate) interface: InterfaceName,
    /// Number of the tenant's routing table
    #[arg(long, value_name = "N")]
    pub(crate) table: u32,
    /// The tenant's number in SIDs, 0x001 to 0xfff
    #[arg(long, value_name = "N", value_parser = argument)]
    pub(crate) argument: Argument,
    /// Number that placement hashes for the tenant [default: that of the table]
    #[arg(long, value_name = "N")]
    pub(crate) hash_table: Option<u32>,
    /// How many pins the tenant may have, or unlimited [default: as at its other interfaces; of the
    /// first one a sixteenth of --pins, at least 1024]
    #[arg(long, value_name = "N", value_parser = pin_quota)]
    pub(crate) pin_quota: Option<PinQuota>,
    /// Who answers the tenant over IPv6, for packets that are too big or may go nowhere
    #[arg(long, value_name = "ADDR")]
    pub(crate) gateway6: Option<Ipv6Addr>,
    /// The same over IPv4
    #[arg(long, value_name = "ADDR")]
    pub(crate) gateway4: Option<Ipv4Addr>,
    /// How many seconds to wait for other writers
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u32,
    #[command(flatten)]
    pub(crate) attach: AttachArgs,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

impl TenantArgs {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

/// A text that is no tenant's number.
#[derive(Debug, thiserror::Error)]
#[error("must be a number from 1 to 4095, or hexadecimal from 0x001 to 0xfff")]
struct ArgumentError;

fn argument(text: &str) -> Result<Argument, ArgumentError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.map_err(|_| ArgumentError)?;
    Argument::new(number).map_err(|_| ArgumentError)
}

fn pin_quota(text: &str) -> Result<PinQuota, ParseIntError> {
    match text {
        "unlimited" => Ok(PinQuota::UNLIMITED),
        text => text.parse().map(PinQuota),
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print each value and where it was said
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Name of the document
    #[arg(value_parser = PossibleValuesParser::new(schema::NAMES.iter().chain(&["control-plan", "error"])))]
    pub(crate) name: String,
}

/// What of a packet is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The source address alone.
    Source,
    /// Addresses, protocol and ports.
    Flow,
}

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Number that stands for the tenant; its routing table, unless set otherwise
    #[arg(long, value_name = "N")]
    pub(crate) hash_table: u32,
    /// Number that stands for the class: 0 is NAT66
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hash_group: u8,
    /// Source address of the packet
    #[arg(long, value_name = "ADDR")]
    pub(crate) source: IpAddr,
    /// What the group hashes
    #[arg(long, value_enum, default_value = "source")]
    pub(crate) mode: Mode,
    #[command(flatten)]
    pub(crate) flow: FlowArgs,
    /// Slots of the table, a prime up to 65537
    #[arg(long, value_name = "N", default_value_t = TableSize::SHARD, value_parser = table_size)]
    pub(crate) table_size: TableSize,
    /// SIDs of the shards that take new addresses, in any order
    #[arg(long, value_name = "SID,...", value_delimiter = ',', required = true)]
    pub(crate) shards: Vec<BaseSid>,
}

/// What counts in flow mode alone.
#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    /// Destination address of the packet; mode flow needs it
    #[arg(long, value_name = "ADDR", required_if_eq("mode", "flow"))]
    pub(crate) destination: Option<IpAddr>,
    /// Protocol; of an IPv6 packet the first next header, whatever follows. Mode flow needs it
    #[arg(long, value_name = "N")]
    pub(crate) protocol: Option<u8>,
    /// Source port; mode flow needs it with TCP (6) and UDP (17)
    #[arg(long, value_name = "N")]
    pub(crate) source_port: Option<u16>,
    /// Destination port, likewise
    #[arg(long, value_name = "N")]
    pub(crate) destination_port: Option<u16>,
    /// The packet is a fragment, the first or another: ports are hashed as 0, of IPv6 the protocol as 44
    #[arg(long)]
    pub(crate) fragment: bool,
}

/// Why a text is no table size.
#[derive(Debug, thiserror::Error)]
enum TableSizeError {
    #[error(transparent)]
    Number(#[from] ParseIntError),
    #[error(transparent)]
    Size(#[from] SizeError),
}

fn table_size(text: &str) -> Result<TableSize, TableSizeError> {
    let slots: u32 = text.parse()?;
    Ok(TableSize::new(slots)?)
}
