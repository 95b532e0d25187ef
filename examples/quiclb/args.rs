// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use guideway::affinity::Conflict;
use guideway::capture::{from_hex, HexTextError};
use guideway::id::{InstanceId, InterfaceName};
use guideway::plan::{CheckCode, Options};
use guideway::quiclb::{schema, ApplyOptions, StateRoot};

use crate::tool::{Form, EXIT_CODES};

/// Direct-server-return load balancer for QUIC, UDP and TCP.
#[derive(Debug, Parser)]
#[command(name = "quiclb", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Form of the output; text unless said otherwise, but json for events
    #[arg(short, long, global = true, value_enum)]
    output: Option<Form>,

    /// Where a bpffs is mounted
    #[arg(long, global = true, value_name = "DIR", default_value = "/sys/fs/bpf")]
    state_root: PathBuf,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    pub(crate) fn form(&self) -> Form {
        self.output.unwrap_or(match self.verb {
            Verb::Events(_) => Form::Json,
            _ => Form::Text,
        })
    }

    pub(crate) fn state_root(&self) -> StateRoot {
        StateRoot::new(&self.state_root)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what an interface and this kernel offer
    Probe(ProbeArgs),
    /// Show what applying a specification would do, and change nothing
    Plan(PlanArgs),
    /// Publish a specification or a plan, and attach
    Apply(ApplyArgs),
    /// Show what an instance does; without one, list all
    Status(StatusArgs),
    /// Print events as JSON lines until a time or number is reached
    Events(EventsArgs),
    /// Print live rates, one line or picture per interval, until stopped
    Watch(WatchArgs),
    /// Write the bindings of connection IDs to a file
    AffinityExport(ExportArgs),
    /// Take over the bindings that another instance wrote, until the table is nine tenths full
    AffinityImport(ImportArgs),
    /// Collect the flow state of an instance and end its transitions, until SIGTERM; several of them
    /// take turns
    Run(RunArgs),
    /// Take an instance off its interface
    Detach(DetachArgs),
    /// Have the interface run this build's program; state and connections stay. The exit code is 3 if
    /// what the instance is attached to is gone, and 0 if it is detached
    Upgrade(UpgradeArgs),
    /// Go back to the program before, or to the specification before
    Rollback(RollbackArgs),
    /// Run frames through the program itself and show what becomes of them, and why
    Trace(TraceArgs),
    /// Check an instance, or a specification before it is applied
    Doctor(DoctorArgs),
    /// Show what differs between two, and what the change would move
    Diff(DiffArgs),
    /// Print the JSON Schema of a document
    Schema(SchemaArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Name of the interface
    pub(crate) interface: InterfaceName,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The specification; - is standard input
    pub(crate) spec: PathBuf,
    /// File to write the plan to, for apply; it holds the specification's secrets; - is standard
    /// output, and then nothing else is printed
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) confirmed: Confirmed,
    /// Ask nothing of this machine; such a plan cannot be applied
    #[arg(long)]
    pub(crate) offline: bool,
}

/// What only a person may decide.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Confirmed {
    /// A new table size or hash seed may move nearly all live flows
    #[arg(long)]
    disruptive: bool,
    /// Server IDs may go to another backend before their quarantine is over
    #[arg(long)]
    reuse_server_id: bool,
}

impl Confirmed {
    pub(crate) fn options(self) -> Options {
        Options {
            disruptive: self.disruptive,
            reuse_server_id: self.reuse_server_id,
        }
    }

    pub(crate) fn any(self) -> bool {
        self.disruptive || self.reuse_server_id
    }
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The specification, or a plan that `plan` wrote; - is standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) confirmed: Confirmed,
    /// In mode offload: the program runs on the network card, without a fallback
    #[arg(long)]
    pub(crate) ack_hardware_offload: bool,
    #[command(flatten)]
    pub(crate) publishing: Publishing,
}

/// How a specification is published.
#[derive(Debug, Args)]
pub(crate) struct Publishing {
    /// Go on although this check of the machine finds an error; repeatable
    #[arg(long, value_name = "CODE", value_parser = check_code())]
    force: Vec<String>,
    /// Previous specifications to keep [default: 2]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
}

impl Publishing {
    pub(crate) fn options(&self) -> ApplyOptions {
        let default = ApplyOptions::default();
        let forced = self.force.iter();
        let is_forced = |code: &CheckCode| forced.clone().any(|one| one == code.as_str());
        ApplyOptions {
            force: CheckCode::ALL.iter().copied().filter(is_forced).collect(),
            keep: self.keep.unwrap_or(default.keep),
            ..default
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.force.is_empty() || self.keep.is_some()
    }
}

fn check_code() -> PossibleValuesParser {
    PossibleValuesParser::new(CheckCode::ALL.iter().map(|code| code.as_str()))
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// UUID of the instance
    pub(crate) instance: Option<InstanceId>,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// Stop after so many seconds
    #[arg(default_value_t = 5)]
    pub(crate) seconds: u32,
    /// Stop after so many events
    #[arg(default_value_t = 128)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// Time between two looks: seconds, or a number with the unit s or ms
    #[arg(
        long, value_name = "TIME", default_value = "2s", allow_hyphen_values = true,
        value_parser = crate::watch::interval
    )]
    pub(crate) interval: Duration,
    /// Stop after so many intervals
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
    /// Do the work of `run` meanwhile: follow interfaces that are made again, collect, close windows
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// File to write them to; - is standard output, and then nothing else is printed
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// File that affinity-export wrote; - is standard input
    pub(crate) file: PathBuf,
    /// What to do with connection IDs that are bound to another backend here: keep that, replace
    /// it if it was imported, or import nothing at all
    #[arg(long, value_name = "POLICY", default_value = Conflict::Keep.as_str(), value_parser = conflict())]
    conflict: String,
    /// Write nothing, and say what an import would come to
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl ImportArgs {
    pub(crate) fn policy(&self) -> Conflict {
        let mut all = Conflict::ALL.into_iter();
        // The parser lets no other text through.
        all.find(|policy| policy.as_str() == self.conflict)
            .unwrap_or_default()
    }
}

fn conflict() -> PossibleValuesParser {
    PossibleValuesParser::new(Conflict::ALL.map(Conflict::as_str))
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// Say nothing of sweeps, only what is published, admitted or wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// Remove everything that the instance keeps in the kernel, too
    #[arg(long)]
    pub(crate) purge: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// UUID of the instance
    pub(crate) instance: InstanceId,
    /// Publish the specification before the live one, and leave the program
    #[arg(long)]
    pub(crate) spec: bool,
    #[command(flatten)]
    pub(crate) confirmed: Confirmed,
    #[command(flatten)]
    pub(crate) publishing: Publishing,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The specification or plan that the frames meet
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(crate) spec: Option<PathBuf>,
    /// Take the live specification of this instance
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) from: Option<InstanceId>,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
    /// Name of the service that the payload is for
    #[arg(long, value_name = "NAME", requires = "payload", conflicts_with_all = ["pcap", "hex"])]
    pub(crate) service: Option<String>,
    /// Where the payload comes from [default: an address set aside for documentation]
    #[arg(long, value_name = "ADDR:PORT", requires = "payload", conflicts_with_all = ["pcap", "hex"])]
    pub(crate) source: Option<SocketAddr>,
    /// Have frames meet the bindings of this export of an instance; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Let no frame meet the state that earlier ones left
    #[arg(long)]
    pub(crate) fresh: bool,
}

/// Where frames come from: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct FrameArgs {
    /// Frames of a pcap or pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Frames as hexadecimal text; white space and ':' are ignored
    #[arg(long, value_name = "HEX", num_args = 1.., value_parser = hexadecimal)]
    pub(crate) hex: Vec<Bytes>,
    /// One UDP payload as hexadecimal text, sent to a service
    #[arg(long, value_name = "HEX", requires = "service", value_parser = hexadecimal)]
    pub(crate) payload: Option<Bytes>,
}

/// Bytes of an argument.
#[derive(Debug, Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

fn hexadecimal(text: &str) -> Result<Bytes, HexTextError> {
    from_hex(text).map(Bytes)
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// UUID of an instance, or a specification
    #[arg(value_name = "INSTANCE or SPEC")]
    pub(crate) object: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// UUID of an instance, a specification, or a plan
    pub(crate) from: OsString,
    /// Likewise
    pub(crate) to: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Name of the document
    #[arg(value_parser = PossibleValuesParser::new(schema::NAMES))]
    pub(crate) name: String,
}
