// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The command line.

use std::net::IpAddr;
use std::num::ParseIntError;

use clap::{Args, Parser, Subcommand, ValueEnum};
use guideway::maglev::{SizeError, TableSize};
use guideway::srv6::BaseSid;

use crate::tool::{Form, EXIT_CODES};

/// Egress of tenants, spread over groups of SRv6 shards.
#[derive(Debug, Parser)]
#[command(name = "egressd", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Form of the output
    #[arg(short, long, global = true, value_enum, default_value = "text")]
    output: Form,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    pub(crate) fn form(&self) -> Form {
        self.output
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show which shard carries a packet that no pin holds; asks nothing of this machine
    Place(PlaceArgs),
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
