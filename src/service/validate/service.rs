// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One service: its members, their defaults, and the rules between them.

use std::net::IpAddr;
use std::time::Duration;

use super::super::ident::service_id;
use super::super::members::{limits, service as members};
use super::super::spec::{Fragments, HashOf, Protocol, Routing, Service, Tracking};
use super::{backend, quic};
use crate::document::fault::FaultCode::Conflict;
use crate::document::field::Need;
use crate::document::origin::Origin;
use crate::document::prime::prime;
use crate::document::reader::{Checked, Reader, Report};
use crate::document::tree::Node;

/// What is said of members that TCP has no use for.
const NEEDS_UDP: &str = "QUIC fields need protocol \"udp\"";

/// What other services are compared with, and the service itself if it is sound.
pub(super) struct Part<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) name: Checked<String>,
    pub(super) vip: Checked<IpAddr>,
    pub(super) port: Checked<u16>,
    pub(super) protocol: Checked<Protocol>,
    pub(super) fragments: Checked<Fragments>,
    pub(super) service: Checked<Service>,
}

impl<'a> Part<'a> {
    /// Reads a service; none if it is no object.
    pub(super) fn read(
        node: &'a Node,
        pointer: String,
        origin: Origin,
        max_slots: u32,
        report: &mut Report,
    ) -> Option<Self> {
        let reader = Reader::open(&members::TABLE, node, pointer, report).ok()?;
        let name = reader.get(&members::NAME, report);
        let vip = reader.get(&members::VIP, report);
        let port = reader.get(&members::PORT, report);
        let protocol = reader.get(&members::PROTOCOL, report);
        let transport = Transport::read(&reader, protocol, report);
        let bounds = (limits::MIN_SLOTS, max_slots);
        let maglev_table_size = prime(&reader, &members::MAGLEV_TABLE_SIZE, bounds, report);
        let hash = reader.get(&members::HASH, report);
        let quic = quic::read(&reader, &transport, report);
        let routing = quic.routing;
        let tracking = tracking(&reader, &transport, routing, report);
        let flow_idle = flow_idle(&reader, protocol, report);
        let cid_idle = cid_idle(&reader, protocol, report);
        let handshake_grace = handshake_grace(&reader, &transport, routing, tracking, report);
        let fragments = reader.get(&members::FRAGMENTS, report);
        if fragments == Ok(Fragments::Route) {
            route_fragments(&reader, hash, routing, report);
        }
        let backends = backend::read(&reader, origin, &quic, report);
        if let (Ok(size), Ok(backends)) = (maglev_table_size, &backends) {
            let placed = backends
                .iter()
                .filter(|backend| backend.takes_new_flows())
                .count();
            if placed > size.slots() {
                let message = format!(
                    "a table of {size} slots cannot hold {placed} ready backends of a weight \
                     above 0"
                );
                reader.fault(&members::MAGLEV_TABLE_SIZE, Conflict, message, report);
            }
        }

        let whole = || -> Checked<Service> {
            let (name, vip, port, protocol) = (name.clone()?, vip?, port?, protocol?);
            Ok(Service {
                id: service_id(&name, vip, protocol, port),
                name,
                vip,
                port,
                protocol,
                short_dcid_len: transport.short_dcid_len?,
                quic_only: transport.quic_only?,
                maglev_table_size: maglev_table_size?,
                hash: hash?,
                tracking: tracking?,
                flow_idle: flow_idle?,
                cid_idle: cid_idle?,
                handshake_grace: handshake_grace?,
                fragments: fragments?,
                quic: quic.whole?,
                backends: backends?,
                origin,
            })
        };
        let service = whole();
        Some(Self {
            reader,
            name,
            vip,
            port,
            protocol,
            fragments,
            service,
        })
    }
}

/// The members that say whether and how QUIC is read.
pub(super) struct Transport {
    pub(super) protocol: Checked<Protocol>,
    pub(super) short_dcid_len: Checked<u8>,
    pub(super) quic_only: Checked<bool>,
}

impl Transport {
    fn read(reader: &Reader<'_>, protocol: Checked<Protocol>, report: &mut Report) -> Self {
        let short_dcid_len = reader.get(&members::SHORT_DCID_LEN, report);
        let quic_only = reader.optional(&members::QUIC_ONLY, report);
        if protocol == Ok(Protocol::Tcp) {
            if short_dcid_len.is_ok_and(|length| length > 0) {
                reader.fault(&members::SHORT_DCID_LEN, Conflict, NEEDS_UDP, report);
            }
            if quic_only == Ok(Some(true)) {
                reader.fault(&members::QUIC_ONLY, Conflict, NEEDS_UDP, report);
            }
            if reader.has(&members::QUIC) {
                reader.fault(&members::QUIC, Conflict, NEEDS_UDP, report);
            }
        }
        let quic_only = match quic_only {
            Ok(Some(given)) => Ok(given),
            Ok(None) => protocol.map(|protocol| protocol == Protocol::Udp),
            Err(reported) => Err(reported),
        };
        Self {
            protocol,
            short_dcid_len,
            quic_only,
        }
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == Ok(Protocol::Tcp)
    }
}

fn tracking(
    reader: &Reader<'_>,
    transport: &Transport,
    routing: Checked<Routing>,
    report: &mut Report,
) -> Checked<Tracking> {
    let given = reader.optional(&members::TRACKING, report)?;
    if given == Some(Tracking::Exceptions) && routing == Ok(Routing::Learned) {
        let message = "learned routing needs tracking \"all\"";
        return Err(reader.fault(&members::TRACKING, Conflict, message, report));
    }
    if let Some(given) = given {
        return Ok(given);
    }
    Ok(match (transport.protocol?, routing?) {
        (Protocol::Udp, Routing::Learned) => Tracking::All,
        (Protocol::Udp, Routing::Tuple) if !transport.quic_only? => Tracking::All,
        _ => Tracking::Exceptions,
    })
}

fn flow_idle(
    reader: &Reader<'_>,
    protocol: Checked<Protocol>,
    report: &mut Report,
) -> Checked<Duration> {
    let given = reader.optional(&members::FLOW_IDLE, report)?;
    if let Some(given) = given {
        return Ok(given);
    }
    Ok(Duration::from_secs(match protocol? {
        Protocol::Udp => 120,
        // The least that RFC 5382 lets a middlebox forget an idle connection after.
        Protocol::Tcp => 2 * 3600 + 4 * 60,
    }))
}

fn cid_idle(
    reader: &Reader<'_>,
    protocol: Checked<Protocol>,
    report: &mut Report,
) -> Checked<Duration> {
    let cid_idle = reader.get(&members::CID_IDLE, report)?;
    // The canonical document has the default.
    let is_default = matches!(&members::CID_IDLE.need, Need::Default(value) if *value == cid_idle);
    if protocol? == Protocol::Tcp && !is_default {
        return Err(reader.fault(&members::CID_IDLE, Conflict, NEEDS_UDP, report));
    }
    Ok(cid_idle)
}

fn handshake_grace(
    reader: &Reader<'_>,
    transport: &Transport,
    routing: Checked<Routing>,
    tracking: Checked<Tracking>,
    report: &mut Report,
) -> Checked<Duration> {
    let given = reader.optional(&members::HANDSHAKE_GRACE, report)?;
    if given == Some(Duration::ZERO) {
        return Ok(Duration::ZERO);
    }
    let has_one = transport.protocol? == Protocol::Udp
        && routing? == Routing::Tuple
        && transport.quic_only?
        && tracking? == Tracking::Exceptions;
    match given {
        Some(_) if !has_one => {
            let message = "only QUIC services with tuple routing and tracking \"exceptions\" have \
                           a handshake grace (other than 0)";
            Err(reader.fault(&members::HANDSHAKE_GRACE, Conflict, message, report))
        }
        Some(given) => Ok(given),
        None => Ok(Duration::from_secs(if has_one { 5 } else { 0 })),
    }
}

/// The rules of `route` within one service.
fn route_fragments(
    reader: &Reader<'_>,
    hash: Checked<HashOf>,
    routing: Checked<Routing>,
    report: &mut Report,
) {
    if hash == Ok(HashOf::Flow) {
        let message = "fragments \"route\" needs hash \"source\"";
        reader.fault(&members::FRAGMENTS, Conflict, message, report);
    }
    if let Ok(routing @ (Routing::ServerId | Routing::Learned)) = routing {
        let message = format!("fragments \"route\" cannot go with {routing} routing");
        reader.fault(&members::FRAGMENTS, Conflict, message, report);
    }
}
