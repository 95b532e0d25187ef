// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a frame's headers say, in the form that traces print.

use std::net::IpAddr;

use serde::{Serialize, Serializer};

use super::datagram::{Datagram, Form, Unnamed};
use super::find_service;
use crate::flow::{self, Fragment, Headers, IpHeader, Parsed, L4};
use crate::plan::Generation;
use crate::quic::{Packet, PacketType};
use crate::service::Protocol;

/// What a frame's headers say, as far as they could be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Description {
    /// The Ethernet header.
    pub l2: Link,
    /// The IP header, unless it is cut or contradicts itself or the frame.
    pub ip: Option<Ip>,
    /// The ICMP or ICMPv6 header, unless it is cut.
    pub icmp: Option<Icmp>,
    /// The QUIC header of a datagram to a service that reads QUIC.
    pub quic: Option<Quic>,
}

/// An Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Link {
    /// The VLAN IDs, outermost first; at most two.
    pub vlans: Vec<u16>,
    /// The EtherType behind them, or the last one that was read.
    pub ethertype: Option<u16>,
}

/// An IP header, and the ports behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Ip {
    /// The version.
    pub family: Family,
    /// The protocol, behind the extension headers that were walked.
    pub protocol: IpProtocol,
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The source port; none of fragments, of ICMP, and where it could not be read.
    pub source_port: Option<u16>,
    /// The destination port, likewise.
    pub destination_port: Option<u16>,
    /// Whether it is part of a packet.
    pub fragment: Fragment,
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Family {
    /// Version 4.
    Ipv4,
    /// Version 6.
    Ipv6,
}

/// A protocol above IP, by its name or by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum IpProtocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// ICMP, of IPv4.
    Icmp,
    /// ICMPv6, of IPv6.
    Icmpv6,
    /// Another, by its number.
    #[serde(untagged)]
    Other(u8),
}

/// An ICMP or ICMPv6 header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Icmp {
    /// The type.
    #[serde(rename = "type")]
    pub icmp_type: u8,
    /// The code.
    pub code: u8,
    /// The header of the packet that an error quotes, as far as it could be read.
    pub embedded: Option<Ip>,
}

/// The first QUIC header of a datagram, as the service it was sent to reads it.
///
/// The bits that the version may change decide nothing, the fixed bit included. The destination
/// connection ID of a long header is there in full. That of a short header has the length that the
/// service agreed with its servers, or that of the configuration named by its first three bits, or
/// the one in its first byte if these bits are all ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Quic {
    /// What the datagram is.
    pub form: Form,
    /// The version, in long headers.
    pub version: Option<u32>,
    /// The type of packet, in long headers.
    #[serde(rename = "type")]
    pub packet_type: Option<PacketType>,
    /// The destination connection ID, if it was read.
    #[serde(serialize_with = "hexadecimal")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub dcid: Option<Vec<u8>>,
    /// The configuration that the connection ID belongs to.
    pub config_id: Option<u8>,
    /// The server ID in the connection ID, of a backend or not.
    #[serde(serialize_with = "hexadecimal")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub server_id: Option<Vec<u8>>,
    /// Why the connection ID names no backend, where server IDs are used.
    pub unroutable: Option<Unnamed>,
}

/// Writes bytes as the text that people compare them by.
fn hexadecimal<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = |bytes: &Vec<u8>| -> String {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    };
    bytes.as_ref().map(text).serialize(serializer)
}

/// What the headers of a frame say to the services of a generation.
pub fn describe(generation: &Generation, frame: &[u8]) -> Description {
    let (headers, parsed) = flow::dissect(frame);
    Description {
        quic: parsed
            .ok()
            .and_then(|parsed| quic(generation, &parsed, frame)),
        ..Description::from(headers)
    }
}

fn quic(generation: &Generation, parsed: &Parsed, frame: &[u8]) -> Option<Quic> {
    let L4::Udp(udp) = &parsed.l4 else {
        return None;
    };
    let found = find_service(
        generation,
        parsed.destination,
        Protocol::Udp,
        udp.destination_port,
    );
    let (service, placed) = found.filter(|(service, _)| service.reads_quic())?;
    let datagram = Datagram::read(service, placed, frame.get(udp.payload.clone())?).unbound();
    let long = match datagram.packet {
        Packet::Long(long) => Some(long),
        _ => None,
    };
    Some(Quic {
        form: datagram.form(),
        version: long.map(|long| long.version),
        packet_type: long.map(|long| long.packet_type()),
        dcid: datagram.dcid(service).map(<[u8]>::to_vec),
        config_id: datagram.config_id(service).map(|id| id.get()),
        server_id: datagram.named.server_id().map(|id| id.as_bytes().to_vec()),
        unroutable: datagram.named.unnamed(),
    })
}

impl From<Headers> for Description {
    fn from(headers: Headers) -> Self {
        Self {
            l2: Link {
                vlans: headers.vlans.ids().to_vec(),
                ethertype: headers.ethertype,
            },
            ip: headers.ip.map(Ip::from),
            icmp: headers.icmp.map(|icmp| Icmp {
                icmp_type: icmp.icmp_type,
                code: icmp.code,
                embedded: icmp.quoted.map(Ip::from),
            }),
            quic: None,
        }
    }
}

impl From<IpHeader> for Ip {
    fn from(header: IpHeader) -> Self {
        let is_v4 = header.source.is_ipv4();
        Self {
            family: if is_v4 { Family::Ipv4 } else { Family::Ipv6 },
            protocol: match header.protocol {
                17 => IpProtocol::Udp,
                6 => IpProtocol::Tcp,
                1 if is_v4 => IpProtocol::Icmp,
                58 if !is_v4 => IpProtocol::Icmpv6,
                other => IpProtocol::Other(other),
            },
            source: header.source,
            destination: header.destination,
            source_port: header.ports.map(|(source, _)| source),
            destination_port: header.ports.map(|(_, destination)| destination),
            fragment: header.fragment,
        }
    }
}
