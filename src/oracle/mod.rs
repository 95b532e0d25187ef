// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The model of the XDP program: what happens to a frame under a generation, and why.
//!
//! [`route`] is pure and total. It is written for reading, from the same rules as the program but
//! not from its text, and the two are compared on random frames: same end, same reason, same
//! backend, same counters, same bytes. What it says of a frame can be asked for without a kernel,
//! [`describe`] adds what the frame's headers say.
//!
//! # A packet's way
//!
//! 1. [`flow::parse`] reads the frame. What belongs to no flow passes, untouched.
//! 2. The service of (VIP, protocol, port); none: it passes, untouched. From here on the packet is
//!    ours, and is forwarded, dropped, or passed for a named reason. Fragments have no port, so
//!    they only need some service of (VIP, protocol), all of which agree what becomes of them.
//! 3. QUIC: a server ID in the destination connection ID names the backend, whatever the packet's
//!    form and version, version negotiation excepted. See [`Quic`] for how it is read.
//!    - Ready or draining: forwarded there.
//!    - Unhealthy: flow starts go on, others go on or are dropped by the service's policy.
//!    - Unknown or in quarantine: flow starts and packets of unknown versions go on, because what a
//!      client invents for its first packets can look like this; others go on or are dropped by the
//!      service's policy.
//!
//!    ICMP errors quote the other direction, so the *source* connection ID of the quoted packet is
//!    decoded. Where that names no usable backend the flow decides, whatever the policies say:
//!    they keep packets from servers that would answer with a reset, and nobody answers an error.
//! 4. The flow: its hash gives a slot, and the slot's owner gets the packet.
//!
//! A *flow start* is a TCP SYN without ACK, or an Initial or 0-RTT packet of QUIC version 1 or 2.
//! No hash of a connection ID ever selects a backend.

mod datagram;
mod description;

pub use datagram::{Form, Unnamed};
pub use description::{describe, Description, Family, Icmp, Ip, IpProtocol, Link, Quic};

use std::net::IpAddr;

use crate::abi::Counter;
use crate::addr::MacAddr;
use crate::flow::{self, Flow, Parsed, L4};
use crate::hash::{self, FlowHashKey};
use crate::id::{BackendId, ServiceId};
use crate::maglev::SlotIndex;
use crate::plan::{Generation, PlacedBackend, PlacedService};
use crate::reason::{self, Reason, Rule};
use crate::service::{
    BackendState, Fragments, HashOf, Protocol, Service, Unhealthy, UnknownServerId,
};
use datagram::{Datagram, Named};

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// On to the host's network stack.
    Pass,
    /// Nowhere.
    Drop,
    /// Out through another interface.
    Redirect {
        /// The interface's index.
        ifindex: u32,
    },
    /// Back out through the interface it came in by.
    Transmit,
    /// Nowhere, because the generation contradicts itself.
    Abort,
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Where it goes.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// What chose its backend; only of forwarded frames.
    pub rule: Option<Rule>,
    /// The service it belongs to. A fragment to several services belongs to none of them.
    pub service: Option<ServiceId>,
    /// The backend that was chosen, or that an unhealthy server ID names, and its row.
    pub backend: Option<(BackendId, u16)>,
    /// Whether it can begin a flow; none where nobody asked, as of fragments.
    pub flow_start: Option<bool>,
    /// The 64-bit flow hash, if the flow was hashed.
    pub hash: Option<u64>,
    /// The slot of that hash.
    pub slot: Option<u32>,
    /// The frame as it goes on: that of a forwarded one has other MAC addresses.
    pub output: Vec<u8>,
    /// The counters of the service that go up by one, in ascending order; beside them its packets
    /// and bytes, and those of a backend that is forwarded to.
    pub counters: Vec<Counter>,
}

/// What the program does with a frame under a generation.
///
/// `can_redirect` tells whether frames can be redirected to an interface index: a generation is
/// published with all its targets, but a target that is deleted disappears at once.
pub fn route(generation: &Generation, frame: &[u8], can_redirect: impl Fn(u32) -> bool) -> Verdict {
    let mut verdict = Verdict {
        action: Action::Pass,
        reason: Reason::Internal,
        rule: None,
        service: None,
        backend: None,
        flow_start: None,
        hash: None,
        slot: None,
        output: frame.to_vec(),
        counters: Vec::new(),
    };
    verdict.reason = match verdict.decide(generation, frame) {
        Ok((backend, rule)) => verdict.send(backend, rule, can_redirect),
        Err(reason) => reason,
    };
    match verdict.reason.verdict() {
        reason::Verdict::Forward => {}
        reason::Verdict::Pass => verdict.action = Action::Pass,
        reason::Verdict::Drop => verdict.action = Action::Drop,
        reason::Verdict::Abort => verdict.action = Action::Abort,
    }
    verdict.counters.sort_unstable_by_key(|counter| counter.0);
    verdict
}

/// The service that an address, protocol and port belong to.
fn find_service(
    generation: &Generation,
    vip: IpAddr,
    protocol: Protocol,
    port: u16,
) -> Option<(&Service, &PlacedService)> {
    generation
        .services()
        .find(|(service, _)| (service.vip, service.protocol, service.port) == (vip, protocol, port))
}

/// A placement: the backend, and what chose it. `None` leaves it to the next rule.
type Placed<'a> = Option<(&'a PlacedBackend, Rule)>;

impl Verdict {
    fn decide<'a>(
        &mut self,
        generation: &'a Generation,
        frame: &[u8],
    ) -> Result<(&'a PlacedBackend, Rule), Reason> {
        let parsed = flow::parse(frame)?;
        let flow = parsed.flow();
        if let L4::Fragment(protocol) = parsed.l4 {
            return self.fragment(generation, &flow, protocol);
        }
        let found = find_service(generation, flow.vip, flow.protocol, flow.vip_port);
        let (service, placed) = found.ok_or(match parsed.l4 {
            L4::IcmpError(_) => Reason::IcmpNoService,
            _ => Reason::NoService,
        })?;
        self.service = Some(service.id);
        self.flow_start = Some(false);
        if let Some(placed) = self.by_connection(service, placed, &parsed, frame)? {
            return Ok(placed);
        }
        self.by_flow(generation, service, placed, &flow)
    }

    /// A part of a packet, of which only VIP and protocol are known.
    fn fragment<'a>(
        &mut self,
        generation: &'a Generation,
        flow: &Flow,
        protocol: Protocol,
    ) -> Result<(&'a PlacedBackend, Rule), Reason> {
        let mut sharing = generation
            .services()
            .filter(|(service, _)| (service.vip, service.protocol) == (flow.vip, protocol));
        let (service, placed) = sharing.next().ok_or(Reason::NoService)?;
        if sharing.next().is_none() {
            self.service = Some(service.id);
            self.count(Counter::GW_COUNTER_FRAGMENTS);
        }
        match service.fragments {
            Fragments::Drop => Err(Reason::FragmentDrop),
            Fragments::Pass => Err(Reason::FragmentPass),
            Fragments::Route => self.by_flow(generation, service, placed, flow),
        }
    }

    /// Asks the packet itself which connection it belongs to.
    fn by_connection<'a>(
        &mut self,
        service: &Service,
        placed: &'a PlacedService,
        parsed: &Parsed,
        frame: &[u8],
    ) -> Result<Placed<'a>, Reason> {
        match &parsed.l4 {
            L4::Tcp(tcp) if tcp.flags.starts_flow() => self.start(),
            L4::Udp(udp) if service.reads_quic() => {
                let payload = frame.get(udp.payload.clone()).unwrap_or_default();
                return self.datagram(service, placed, &Datagram::read(service, placed, payload));
            }
            L4::IcmpError(icmp) => {
                self.count(Counter::GW_COUNTER_ICMP);
                let payload = frame.get(icmp.payload.clone()).unwrap_or_default();
                let named = datagram::quoted(service, placed, payload);
                let backend = named.row().and_then(|row| placed.backend(row));
                return Ok(backend
                    .filter(|backend| is_usable(backend))
                    .map(|backend| (backend, Rule::ServerId)));
            }
            L4::Tcp(_) | L4::Udp(_) | L4::Fragment(_) => {}
        }
        Ok(None)
    }

    /// Places a client's datagram by its connection ID.
    ///
    /// Exact bindings of connection IDs have their place behind the server ID: this version knows
    /// none, so whatever carries no server ID goes by flow.
    fn datagram<'a>(
        &mut self,
        service: &Service,
        placed: &'a PlacedService,
        datagram: &Datagram<'_>,
    ) -> Result<Placed<'a>, Reason> {
        let reason = match datagram.form() {
            Form::Long | Form::Short if !datagram.is_cut() => {
                for counter in datagram.counters() {
                    self.count(counter);
                }
                if datagram.starts_flow() {
                    self.start();
                }
                return self.by_server_id(service, placed, datagram);
            }
            Form::NotQuic => Reason::NotQuic,
            Form::Long | Form::Short | Form::Malformed => Reason::BadQuic,
        };
        if service.quic_only {
            Err(reason)
        } else {
            Ok(None)
        }
    }

    fn by_server_id<'a>(
        &mut self,
        service: &Service,
        placed: &'a PlacedService,
        datagram: &Datagram<'_>,
    ) -> Result<Placed<'a>, Reason> {
        let start = datagram.starts_flow();
        let quarantined = match datagram.named {
            Named::Nothing | Named::Unroutable(_) => return Ok(None),
            Named::Quarantined(_) => true,
            Named::Unknown(_) => false,
            Named::Backend(_, row) => match placed.backend(row) {
                Some(backend) if is_usable(backend) => return Ok(Some((backend, Rule::ServerId))),
                Some(backend) => {
                    if start || service.quic.unhealthy == Unhealthy::Fallback {
                        return Ok(None);
                    }
                    self.backend = Some((backend.id, backend.row));
                    return Err(Reason::Unhealthy);
                }
                None => false,
            },
        };
        let goes_on = start
            || datagram.is_of_unknown_version()
            || service.quic.unknown_server_id == UnknownServerId::Fallback;
        if quarantined && !goes_on {
            self.count(Counter::GW_COUNTER_QUARANTINED_SERVER_ID);
            return Err(Reason::QuarantinedServerId);
        }
        self.count(Counter::GW_COUNTER_UNKNOWN_SERVER_ID);
        if goes_on {
            Ok(None)
        } else {
            Err(Reason::UnknownServerId)
        }
    }

    /// Places a packet by its flow.
    ///
    /// Flow entries have their place here: looked up before the owner is taken, in marked slots and
    /// in services that track all flows. This version has none, so every slot is plain and the
    /// owner's.
    fn by_flow<'a>(
        &mut self,
        generation: &Generation,
        service: &Service,
        placed: &'a PlacedService,
        flow: &Flow,
    ) -> Result<(&'a PlacedBackend, Rule), Reason> {
        let key = FlowHashKey::new(generation.spec.hash_seed());
        let h64 = key.h64(&flow.key(service.id), service.hash == HashOf::Source);
        // At most 65,537 slots.
        let slot = hash::slot(hash::hash32(h64), placed.slots.len() as u32);
        self.hash = Some(h64);
        self.slot = Some(slot);
        let word = placed.slots.get(slot as usize).ok_or(Reason::Internal)?;
        if word.owner == u16::NONE {
            self.count(Counter::GW_COUNTER_NO_BACKEND);
            return Err(Reason::NoBackend);
        }
        let backend = placed.backend(word.owner).ok_or(Reason::Internal)?;
        self.count(Counter::GW_COUNTER_PLAIN);
        Ok((backend, Rule::Table))
    }

    /// Sends the frame to its backend, if there is a way.
    fn send(
        &mut self,
        backend: &PlacedBackend,
        rule: Rule,
        can_redirect: impl Fn(u32) -> bool,
    ) -> Reason {
        self.backend = Some((backend.id, backend.row));
        self.action = match backend.ifindex {
            _ if backend.transmit => Action::Transmit,
            ifindex if can_redirect(ifindex) => Action::Redirect { ifindex },
            _ => return Reason::NoTarget,
        };
        self.rule = Some(rule);
        self.write_mac(0, backend.mac);
        if let Some(source) = backend.source_mac {
            self.write_mac(6, source);
        }
        Reason::Forwarded
    }

    fn write_mac(&mut self, at: usize, mac: MacAddr) {
        if let Some(field) = self.output.get_mut(at..at + 6) {
            field.copy_from_slice(&mac.octets());
        }
    }

    fn start(&mut self) {
        self.flow_start = Some(true);
        self.count(Counter::GW_COUNTER_STARTS);
    }

    fn count(&mut self, counter: Counter) {
        self.counters.push(counter);
    }
}

fn is_usable(backend: &PlacedBackend) -> bool {
    match backend.state {
        BackendState::Ready | BackendState::Draining => true,
        BackendState::Unhealthy => false,
    }
}
