// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `place`: which shard carries a packet that no pin holds.

use std::net::IpAddr;

use guideway::placement::{
    place, FlowFields, HashGroup, HashKey, HashTable, Placement, Ports, Scope, Shard,
};

use crate::args::{FlowArgs, Mode, PlaceArgs};
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(arguments: &PlaceArgs, output: &Output) -> Result<Done, Failure> {
    let scope = Scope {
        table: HashTable(arguments.hash_table),
        group: HashGroup(arguments.hash_group),
    };
    let key = match arguments.mode {
        Mode::Source => HashKey::source(scope, arguments.source),
        Mode::Flow => HashKey::flow(scope, &flow(arguments.source, &arguments.flow)?),
    };
    let shards: Vec<_> = arguments.shards.iter().copied().map(Shard::new).collect();
    let placement = place(arguments.table_size, &shards, &key).map_err(Failure::usage)?;
    output.result(&placement, text)?;
    Ok(Done::Well)
}

fn flow(source: IpAddr, arguments: &FlowArgs) -> Result<FlowFields, Failure> {
    let destination = arguments
        .destination
        .ok_or_else(|| Failure::usage("mode flow needs --destination"))?;
    match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) if arguments.fragment => {
            Ok(FlowFields::ipv6_fragment(source, destination))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (protocol, ports) = transport(arguments)?;
            Ok(FlowFields::ipv6(source, destination, protocol, ports))
        }
        (IpAddr::V4(source), IpAddr::V4(destination)) if arguments.fragment => {
            let protocol = protocol(arguments)?;
            Ok(FlowFields::ipv4_fragment(source, destination, protocol))
        }
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (protocol, ports) = transport(arguments)?;
            Ok(FlowFields::ipv4(source, destination, protocol, ports))
        }
        _ => Err(Failure::usage(format!(
            "source {source} and destination {destination} are not both IPv4 or both IPv6"
        ))),
    }
}

fn protocol(arguments: &FlowArgs) -> Result<u8, Failure> {
    let missing = || Failure::usage("mode flow needs --protocol, except for a fragment of IPv6");
    arguments.protocol.ok_or_else(missing)
}

/// The protocol and its ports, or any if it has none.
fn transport(arguments: &FlowArgs) -> Result<(u8, Ports), Failure> {
    let protocol = protocol(arguments)?;
    match (arguments.source_port, arguments.destination_port) {
        (Some(source), Some(destination)) => {
            let ports = Ports {
                source,
                destination,
            };
            Ok((protocol, ports))
        }
        _ if FlowFields::has_ports(protocol) => Err(Failure::usage(format!(
            "mode flow needs --source-port and --destination-port with protocol {protocol}, or \
             --fragment"
        ))),
        _ => Ok((protocol, Ports::default())),
    }
}

fn text(placement: &Placement) -> String {
    let shard = placement
        .shard
        .map_or_else(|| "-".to_owned(), |shard| shard.to_string());
    format!(
        "hash   {:08x}\nslot   {}\nshard  {shard}\n",
        placement.hash, placement.slot
    )
}
