// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a service reads of a datagram: whether it is QUIC, and which server its connection ID
//! names.

use serde::Serialize;

use crate::abi::Counter;
use crate::affinity::rules::Class;
use crate::plan::PlacedService;
use crate::quic::lb::{ConfigId, Delimited, ServerId, Unroutable};
use crate::quic::{self, Cid, LongHeader, NotQuic, Packet, PacketType, ShortHeader, MAX_CID_LEN};
use crate::service::{CidConfig, Routing, Service};

/// What a datagram is to a service that reads QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Form {
    /// A QUIC packet with a long header.
    Long,
    /// A QUIC packet with a short header, or anything that does not tell what it is.
    Short,
    /// Another protocol.
    NotQuic,
    /// Empty, or a long header that ends before its destination connection ID does.
    Malformed,
}

/// Why a connection ID names no backend, where server IDs are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unnamed {
    /// It is marked as carrying no server ID.
    Reserved,
    /// Its configuration is not known, or cannot be decoded.
    Config,
    /// It ends before server ID and nonce do.
    Short,
    /// Its length is not that of its configuration.
    Length,
    /// Its server ID belongs to no backend, or is in quarantine.
    Unknown,
}

/// What a connection ID says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Nobody asked: the service uses no server IDs, or there is no connection ID.
    Nothing,
    /// A backend, by its row.
    Backend(ServerId, u16),
    /// Nobody.
    Unknown(ServerId),
    /// A backend that is gone.
    Quarantined(ServerId),
    /// It carries no server ID.
    Unroutable(Unroutable),
}

impl Named {
    /// What all of a connection ID says, of which no more than that is known.
    pub(super) fn by_whole_cid(service: &Service, placed: &PlacedService, cid: &[u8]) -> Self {
        Self::by(service, placed, cid, Delimited::Exactly)
    }

    /// What `cid` says in a service that uses server IDs.
    fn by(service: &Service, placed: &PlacedService, cid: &[u8], delimited: Delimited) -> Self {
        if service.quic.routing != Routing::ServerId {
            return Self::Nothing;
        }
        let (config_id, server_id) = match decode(service, cid, delimited) {
            Ok(decoded) => decoded,
            Err(unroutable) => return Self::Unroutable(unroutable),
        };
        let known = placed
            .server_ids
            .iter()
            .find(|known| (known.config_id, known.server_id) == (config_id.get(), server_id));
        match known.map(|known| known.row) {
            Some(Some(row)) => Self::Backend(server_id, row),
            Some(None) => Self::Quarantined(server_id),
            None => Self::Unknown(server_id),
        }
    }

    /// The row of the backend that it names.
    pub(super) fn row(self) -> Option<u16> {
        match self {
            Self::Backend(_, row) => Some(row),
            _ => None,
        }
    }

    /// The server ID it carries, of whomever.
    pub(super) fn server_id(self) -> Option<ServerId> {
        match self {
            Self::Backend(id, _) | Self::Unknown(id) | Self::Quarantined(id) => Some(id),
            Self::Nothing | Self::Unroutable(_) => None,
        }
    }

    /// Why it names no backend.
    pub(super) fn unnamed(self) -> Option<Unnamed> {
        match self {
            Self::Nothing | Self::Backend(..) => None,
            Self::Unknown(_) | Self::Quarantined(_) => Some(Unnamed::Unknown),
            Self::Unroutable(Unroutable::Reserved) => Some(Unnamed::Reserved),
            Self::Unroutable(Unroutable::Config) => Some(Unnamed::Config),
            Self::Unroutable(Unroutable::Short) => Some(Unnamed::Short),
            Self::Unroutable(Unroutable::Length) => Some(Unnamed::Length),
        }
    }
}

fn decode(
    service: &Service,
    cid: &[u8],
    delimited: Delimited,
) -> Result<(ConfigId, ServerId), Unroutable> {
    let &first = cid.first().ok_or(Unroutable::Short)?;
    // Seven IDs for eight values: the last is reserved.
    let id = ConfigId::new(first >> 5).ok_or(Unroutable::Reserved)?;
    let config = config(service, id).ok_or(Unroutable::Config)?;
    Ok((id, config.decoder().decode_delimited(cid, delimited)?))
}

fn config(service: &Service, id: ConfigId) -> Option<&CidConfig> {
    let mut configs = service.quic.configs.iter();
    configs.find(|config| config.config_id == id.get())
}

/// A datagram from a client, as a service reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) named: Named,
    /// Whether a short header is one of DTLS after all, unless its connection ID is bound.
    pub(super) resembles_dtls: bool,
}

impl<'a> Datagram<'a> {
    /// Reads the payload of a datagram that was sent to a service that reads QUIC.
    pub(super) fn read(service: &Service, placed: &PlacedService, payload: &'a [u8]) -> Self {
        let packet = quic::read_header(payload, service.short_dcid_len);
        let named = match packet {
            Packet::Long(long) => match long.dcid {
                // A list of versions, and connection IDs that no server of these has issued.
                _ if long.packet_type() == PacketType::VersionNegotiation => Named::Nothing,
                [] => Named::Nothing,
                dcid if dcid.len() > MAX_CID_LEN => Named::Nothing,
                dcid => Named::by(service, placed, dcid, Delimited::Exactly),
            },
            Packet::Short(short) if short.dcid().is_some() => {
                Named::by(service, placed, short.rest, Delimited::Prefix)
            }
            _ => Named::Nothing,
        };
        // A greased short header can look like DTLS, but not if it names a server.
        let resembles_dtls = matches!(packet, Packet::Short(_))
            && named.server_id().is_none()
            && quic::is_dtls(payload);
        Self {
            packet,
            named,
            resembles_dtls,
        }
    }

    /// What the datagram is if its connection ID is bound to nobody.
    pub(super) fn unbound(self) -> Self {
        if !self.resembles_dtls {
            return self;
        }
        Self {
            packet: Packet::NotQuic(NotQuic::Dtls),
            named: Named::Nothing,
            resembles_dtls: false,
        }
    }

    pub(super) fn form(&self) -> Form {
        match self.packet {
            Packet::Long(_) => Form::Long,
            Packet::Short(_) => Form::Short,
            Packet::NotQuic(_) => Form::NotQuic,
            Packet::Malformed => Form::Malformed,
        }
    }

    /// Whether it is a short header that ends before the agreed length of connection IDs.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.packet, Packet::Short(short) if short.dcid().is_none())
    }

    fn packet_type(&self) -> Option<PacketType> {
        match self.packet {
            Packet::Long(long) => Some(long.packet_type()),
            _ => None,
        }
    }

    pub(super) fn starts_flow(&self) -> bool {
        self.packet_type().is_some_and(PacketType::starts_flow)
    }

    pub(super) fn is_of_unknown_version(&self) -> bool {
        self.packet_type() == Some(PacketType::Unknown)
    }

    /// The connection ID, as far as its length is known.
    pub(super) fn dcid(&self, service: &Service) -> Option<&'a [u8]> {
        match self.packet {
            Packet::Long(long) => Some(long.dcid),
            Packet::Short(short) => short_dcid(service, short),
            Packet::NotQuic(_) | Packet::Malformed => None,
        }
    }

    /// The configuration that the connection ID belongs to.
    pub(super) fn config_id(&self, service: &Service) -> Option<ConfigId> {
        let first = match (self.named, self.packet) {
            (Named::Nothing, _) => None,
            (_, Packet::Long(long)) => long.dcid.first(),
            (_, Packet::Short(short)) => short.rest.first(),
            _ => None,
        };
        let id = ConfigId::new(first? >> 5)?;
        config(service, id).map(|_| id)
    }

    /// What the packet may do to flow state.
    pub(super) fn class(&self) -> Class {
        match self.packet_type() {
            Some(PacketType::Initial | PacketType::ZeroRtt) => Class::QuicStart,
            Some(PacketType::VersionNegotiation | PacketType::Retry) => Class::Observer,
            Some(PacketType::Handshake | PacketType::Unknown) | None => Class::MidFlow,
        }
    }

    /// The connection ID by which a binding is looked up: one that describes its length has that,
    /// any other of a short header the agreed one.
    pub(super) fn bound_cid(&self, service: &Service) -> Option<Cid> {
        let cid = match self.packet {
            Packet::Long(long) if long.packet_type() != PacketType::VersionNegotiation => long.dcid,
            Packet::Short(short) => match short.rest.first() {
                Some(first) if is_self_described(service, *first) => {
                    short.dcid_of_len(described_len(*first))?
                }
                _ => short.dcid()?,
            },
            _ => return None,
        };
        Cid::new(cid).ok()
    }

    /// The connection ID that a service learns from the packet, unless it is bound: one that its
    /// server has chosen, as far as the packet's type can tell.
    pub(super) fn teaches(&self, service: &Service) -> Option<Cid> {
        let learns = service.quic.routing == Routing::Learned;
        let is_the_servers = match self.packet {
            Packet::Long(long) => long.packet_type() == PacketType::Handshake,
            Packet::Short(_) => true,
            Packet::NotQuic(_) | Packet::Malformed => false,
        };
        let cid = self
            .bound_cid(service)
            .filter(|_| learns && is_the_servers)?;
        (cid.len() == usize::from(service.short_dcid_len)).then_some(cid)
    }

    /// Whether the server of a service that learns has chosen a connection ID of another length
    /// than agreed.
    fn breaks_agreement(&self, service: &Service) -> bool {
        match self.packet {
            Packet::Long(long) => {
                service.quic.routing == Routing::Learned
                    && long.packet_type() == PacketType::Handshake
                    && long.dcid.len() != usize::from(service.short_dcid_len)
            }
            _ => false,
        }
    }

    /// The counters of what was read.
    pub(super) fn counters(&self, service: &Service) -> Vec<Counter> {
        let (form, fixed_bit) = match self.packet {
            Packet::Long(long) => (Counter::GW_COUNTER_QUIC_LONG, long.fixed_bit()),
            Packet::Short(short) => (Counter::GW_COUNTER_QUIC_SHORT, short.fixed_bit()),
            Packet::NotQuic(_) | Packet::Malformed => return Vec::new(),
        };
        let mut counters = vec![form];
        if !fixed_bit {
            counters.push(Counter::GW_COUNTER_FIXED_BIT_CLEAR);
        }
        if let Packet::Long(long) = self.packet {
            counters.extend(long_counters(&long));
        }
        if self.breaks_agreement(service) {
            counters.push(Counter::GW_COUNTER_CID_LEN_MISMATCH);
        }
        counters.extend(match self.named {
            Named::Unroutable(Unroutable::Reserved) => {
                Some(Counter::GW_COUNTER_UNROUTABLE_RESERVED)
            }
            Named::Unroutable(Unroutable::Config) => Some(Counter::GW_COUNTER_UNROUTABLE_CONFIG),
            Named::Unroutable(Unroutable::Short) => Some(Counter::GW_COUNTER_UNROUTABLE_SHORT),
            Named::Unroutable(Unroutable::Length) => Some(Counter::GW_COUNTER_UNROUTABLE_LENGTH),
            _ => None,
        });
        counters
    }
}

fn long_counters(long: &LongHeader<'_>) -> impl Iterator<Item = Counter> {
    let by_type = match long.packet_type() {
        PacketType::VersionNegotiation => Some(Counter::GW_COUNTER_VERSION_NEGOTIATION),
        PacketType::Retry => Some(Counter::GW_COUNTER_RETRY),
        PacketType::Unknown => Some(Counter::GW_COUNTER_UNKNOWN_VERSION),
        PacketType::Initial | PacketType::ZeroRtt | PacketType::Handshake => None,
    };
    let by_length = match long.dcid.len() {
        0 => Some(Counter::GW_COUNTER_CID_ZERO),
        1..=MAX_CID_LEN => None,
        _ => Some(Counter::GW_COUNTER_CID_LONG),
    };
    by_type.into_iter().chain(by_length)
}

/// Whether the connection ID that begins with this byte says how long it is.
fn is_self_described(service: &Service, first: u8) -> bool {
    service.quic.routing == Routing::ServerId && ConfigId::new(first >> 5).is_none()
}

fn described_len(first: u8) -> usize {
    usize::from(first & 0x1f) + 1
}

/// The connection ID of a short header, whose length may be known in three ways.
fn short_dcid<'a>(service: &Service, short: ShortHeader<'a>) -> Option<&'a [u8]> {
    let by_server_id = service.quic.routing == Routing::ServerId;
    let &first = short.rest.first()?;
    let len = match ConfigId::new(first >> 5).filter(|_| by_server_id) {
        _ if is_self_described(service, first) => described_len(first),
        Some(id) => match config(service, id) {
            Some(config) => usize::from(config.cid_len()),
            None => usize::from(service.short_dcid_len),
        },
        None => usize::from(service.short_dcid_len),
    };
    (len > 0).then(|| short.dcid_of_len(len)).flatten()
}

/// The connection ID of the server that sent a packet, as far as an ICMP error quotes it: its own
/// one is the source.
pub(super) fn quoted_cid(service: &Service, payload: &[u8]) -> Option<Cid> {
    if !service.reads_quic() {
        return None;
    }
    match quic::read_header(payload, service.short_dcid_len) {
        Packet::Long(long) if long.packet_type() != PacketType::VersionNegotiation => {
            Cid::new(long.scid?).ok()
        }
        _ => None,
    }
}
