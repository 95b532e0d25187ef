// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a service reads of a datagram: whether it is QUIC, and which server its connection ID
//! names.

use serde::Serialize;

use crate::abi::Counter;
use crate::plan::PlacedService;
use crate::quic::lb::{ConfigId, Delimited, ServerId, Unroutable};
use crate::quic::{self, LongHeader, NotQuic, Packet, PacketType, ShortHeader, MAX_CID_LEN};
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
        let is_dtls = matches!(packet, Packet::Short(_))
            && named.server_id().is_none()
            && quic::is_dtls(payload);
        if is_dtls {
            return Self {
                packet: Packet::NotQuic(NotQuic::Dtls),
                named: Named::Nothing,
            };
        }
        Self { packet, named }
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

    /// The counters of what was read.
    pub(super) fn counters(&self) -> Vec<Counter> {
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

/// The connection ID of a short header, whose length may be known in three ways.
fn short_dcid<'a>(service: &Service, short: ShortHeader<'a>) -> Option<&'a [u8]> {
    let by_server_id = service.quic.routing == Routing::ServerId;
    let &first = short.rest.first()?;
    let len = match ConfigId::new(first >> 5) {
        _ if !by_server_id => usize::from(service.short_dcid_len),
        // It describes itself.
        None => usize::from(first & 0x1f) + 1,
        Some(id) => match config(service, id) {
            Some(config) => usize::from(config.cid_len()),
            None => usize::from(service.short_dcid_len),
        },
    };
    (len > 0).then(|| short.dcid_of_len(len)).flatten()
}

/// What a packet that a server sent says of its server, as far as an ICMP error quotes it: its own
/// connection ID is the source.
pub(super) fn quoted(service: &Service, placed: &PlacedService, payload: &[u8]) -> Named {
    if !service.reads_quic() {
        return Named::Nothing;
    }
    match quic::read_header(payload, service.short_dcid_len) {
        Packet::Long(long) if long.packet_type() != PacketType::VersionNegotiation => {
            match long.scid {
                Some(scid) if (1..=MAX_CID_LEN).contains(&scid.len()) => {
                    Named::by(service, placed, scid, Delimited::Exactly)
                }
                _ => Named::Nothing,
            }
        }
        _ => Named::Nothing,
    }
}
