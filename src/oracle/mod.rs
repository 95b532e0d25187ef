// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The model of the XDP program: what happens to a frame under a generation and the state that
//! earlier frames left, and why. That of the program for tenants' packets is [`egress`].
//!
//! [`route`] is total, and its only effect is on the [`State`] it is given. It is written for
//! reading, from the same rules as the program but not from its text, and the two are compared on
//! random frames: same end, same reason, same backend, same counters, same bytes, same state left
//! behind. What it says of a frame can be asked for without a kernel, [`describe`] adds what the
//! frame's headers say.
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
//!    - Unhealthy: flow starts go on by flow, others do or are dropped by the service's policy.
//!    - Unknown or in quarantine: flow starts and packets of unknown versions go on, because what a
//!      client invents for its first packets can look like this; others go on, if not by a binding
//!      then by flow, or are dropped by the service's policy.
//! 4. QUIC, where connection IDs are bound: the backend that this one is bound to.
//!    - Ready or draining: forwarded there.
//!    - Otherwise the owner of the flow's slot gets the packet and the binding.
//! 5. The flow: its hash gives a slot, and [`rules`](crate::affinity::rules) say whether the
//!    slot's owner, the one before it, or an entry of the flow decides.
//!
//! A *flow start* is a TCP SYN without ACK, or an Initial or 0-RTT packet of QUIC version 1 or 2.
//! No hash of a connection ID ever selects a backend.
//!
//! ICMP errors quote the other direction, so the *source* connection ID of the quoted packet is
//! decoded or looked up. Where that names no usable backend the flow decides, whatever the policies
//! say: they keep packets from servers that would answer with a reset, and nobody answers an error.
//! Errors, Version Negotiation and Retry, which no client sends, leave no trace in the state.
//!
//! # Learning
//!
//! Where a service learns, a Handshake or short-header packet whose connection ID has the agreed
//! length and is bound to nobody, on a flow that has an entry already, binds it to the flow's
//! backend, up to eight per flow. A packet placed by its binding on a flow without an entry gives
//! it one, so that the next connection ID seen there is learned as well. An existing binding is
//! never replaced: one that contradicts the flow's entry is counted.

mod binding;
mod datagram;
mod description;
pub mod egress;
mod placement;

pub use datagram::{Form, Unnamed};
pub use description::{describe, Description, Family, Icmp, Ip, IpProtocol, Link, Quic};

use std::net::IpAddr;

use crate::abi::Counter;
use crate::addr::MacAddr;
use crate::affinity::rules::{Class, SlotKind};
use crate::affinity::state::{Hints, State};
use crate::flow::{self, Flow, IcmpError, Tcp, TcpFlags, L4};
use crate::id::{BackendId, ServiceId};
use crate::plan::{Generation, PlacedBackend, PlacedService};
use crate::reason::{self, Reason, Rule};
use crate::service::{BackendState, Fragments, Protocol, Service, Unhealthy, UnknownServerId};
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
    /// The kind of that slot.
    pub slot_kind: Option<SlotKind>,
    /// The entries that it made.
    pub created: Created,
    /// The frame as it goes on: that of a forwarded one has other MAC addresses.
    pub output: Vec<u8>,
    /// The counters of the service that go up by one, in ascending order; beside them its packets
    /// and bytes, and those of a backend that is forwarded to.
    pub counters: Vec<Counter>,
}

/// The entries that a frame made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Created {
    /// One for its flow.
    pub flow: bool,
    /// One for its connection ID.
    pub cid: bool,
}

/// What the program does with a frame under a generation, given what earlier frames left in
/// `state`; what this one leaves is there afterwards. Of the state, the time and what packets
/// cannot know is the caller's to set.
///
/// `can_redirect` tells whether frames can be redirected to an interface index: a generation is
/// published with all its targets, but a target that is deleted disappears at once.
pub fn route(
    generation: &Generation,
    state: &mut State,
    frame: &[u8],
    can_redirect: impl Fn(u32) -> bool,
) -> Verdict {
    let mut router = Router {
        generation,
        state,
        verdict: Verdict {
            action: Action::Pass,
            reason: Reason::Internal,
            rule: None,
            service: None,
            backend: None,
            flow_start: None,
            hash: None,
            slot: None,
            slot_kind: None,
            created: Created::default(),
            output: frame.to_vec(),
            counters: Vec::new(),
        },
    };
    let placed = router.decide(frame);
    let mut verdict = router.verdict;
    verdict.reason = match placed {
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

/// A placement: the backend, and what chose it.
type Placed<'a> = (&'a PlacedBackend, Rule);

/// A service, and what the generation says of it.
#[derive(Clone, Copy)]
struct Target<'a> {
    service: &'a Service,
    placed: &'a PlacedService,
}

/// What places a packet by its flow.
#[derive(Clone, Copy)]
struct Packet {
    flow: Flow,
    class: Class,
    hints: Hints,
}

impl Packet {
    fn of(flow: Flow, class: Class) -> Self {
        Self {
            flow,
            class,
            hints: Hints::default(),
        }
    }
}

/// What a server ID leaves to do.
enum Next<'a> {
    /// Nothing: it names the backend.
    Done(&'a PlacedBackend),
    /// To look the connection ID up.
    Binding {
        /// Whether it carries a server ID that is no backend's.
        unknown: bool,
        /// For which reason the packet is dropped if it is not bound.
        refused: Option<Reason>,
    },
    /// To go by flow.
    Flow,
}

/// A frame on its way.
struct Router<'a, 's> {
    generation: &'a Generation,
    state: &'s mut State,
    verdict: Verdict,
}

impl<'a> Router<'a, '_> {
    fn decide(&mut self, frame: &[u8]) -> Result<Placed<'a>, Reason> {
        let parsed = flow::parse(frame)?;
        let flow = parsed.flow();
        if let L4::Fragment(protocol) = parsed.l4 {
            return self.fragment(flow, protocol);
        }
        let found = find_service(self.generation, flow.vip, flow.protocol, flow.vip_port);
        let (service, placed) = found.ok_or(match parsed.l4 {
            L4::IcmpError(_) => Reason::IcmpNoService,
            _ => Reason::NoService,
        })?;
        self.verdict.service = Some(service.id);
        self.verdict.flow_start = Some(false);
        let target = Target { service, placed };
        match &parsed.l4 {
            L4::Tcp(tcp) => self.segment(target, flow, tcp),
            L4::Udp(udp) if service.reads_quic() => {
                let payload = frame.get(udp.payload.clone()).unwrap_or_default();
                self.datagram(target, flow, Datagram::read(service, placed, payload))
            }
            L4::IcmpError(icmp) => self.icmp_error(target, flow, icmp, frame),
            L4::Udp(_) | L4::Fragment(_) => {
                self.by_flow(target, Packet::of(flow, Class::MidFlow), None)
            }
        }
    }

    /// A part of a packet, of which only VIP and protocol are known.
    fn fragment(&mut self, flow: Flow, protocol: Protocol) -> Result<Placed<'a>, Reason> {
        let mut sharing = self
            .generation
            .services()
            .filter(|(service, _)| (service.vip, service.protocol) == (flow.vip, protocol));
        let (service, placed) = sharing.next().ok_or(Reason::NoService)?;
        if sharing.next().is_none() {
            self.verdict.service = Some(service.id);
            self.count(Counter::GW_COUNTER_FRAGMENTS);
        }
        match service.fragments {
            Fragments::Drop => Err(Reason::FragmentDrop),
            Fragments::Pass => Err(Reason::FragmentPass),
            Fragments::Route => self.by_flow(
                Target { service, placed },
                Packet::of(flow, Class::Fragment),
                None,
            ),
        }
    }

    fn segment(&mut self, target: Target<'a>, flow: Flow, tcp: &Tcp) -> Result<Placed<'a>, Reason> {
        let starts = tcp.flags.starts_flow();
        if starts {
            self.start();
        }
        let packet = Packet {
            flow,
            class: if starts {
                Class::TcpStart
            } else {
                Class::MidFlow
            },
            hints: Hints {
                fin: tcp.flags.contains(TcpFlags::FIN),
                rst: tcp.flags.contains(TcpFlags::RST),
                payload: !tcp.payload.is_empty(),
            },
        };
        self.by_flow(target, packet, None)
    }

    /// An error about what a backend sent: its own connection ID is the source.
    fn icmp_error(
        &mut self,
        target: Target<'a>,
        flow: Flow,
        icmp: &IcmpError,
        frame: &[u8],
    ) -> Result<Placed<'a>, Reason> {
        self.count(Counter::GW_COUNTER_ICMP);
        let packet = Packet::of(flow, Class::Observer);
        let payload = frame.get(icmp.payload.clone()).unwrap_or_default();
        if let Some(cid) = datagram::quoted_cid(target.service, payload) {
            let named = Named::by_whole_cid(target.service, target.placed, &cid);
            match named.row().and_then(|row| target.placed.backend(row)) {
                Some(backend) if is_usable(backend) => return Ok((backend, Rule::ServerId)),
                Some(_) => {}
                None => {
                    if let Some(placed) = self.by_binding(target, packet, cid)? {
                        return Ok(placed);
                    }
                }
            }
        }
        self.by_flow(target, packet, None)
    }

    /// A client's datagram to a service that reads QUIC.
    fn datagram(
        &mut self,
        target: Target<'a>,
        flow: Flow,
        mut datagram: Datagram<'_>,
    ) -> Result<Placed<'a>, Reason> {
        let packet = Packet::of(flow, datagram.class());
        if datagram.resembles_dtls {
            match self.binding_of(target, packet, &datagram).transpose() {
                Some(placed) => {
                    self.count_datagram(target, &datagram);
                    return placed;
                }
                None => datagram = datagram.unbound(),
            }
        }
        let reason = match datagram.form() {
            Form::NotQuic => Some(Reason::NotQuic),
            Form::Malformed => Some(Reason::BadQuic),
            Form::Long | Form::Short => datagram.is_cut().then_some(Reason::BadQuic),
        };
        match reason {
            Some(reason) if target.service.quic_only => return Err(reason),
            Some(_) => return self.by_flow(target, packet, None),
            None => self.count_datagram(target, &datagram),
        }
        let (unknown, refused) = match self.by_server_id(target, &datagram)? {
            Next::Done(backend) => return Ok((backend, Rule::ServerId)),
            Next::Flow => return self.by_flow(target, packet, None),
            Next::Binding { unknown, refused } => (unknown, refused),
        };
        let bound = self.binding_of(target, packet, &datagram).transpose();
        match (&bound, refused) {
            (None, Some(Reason::QuarantinedServerId)) => {
                self.count(Counter::GW_COUNTER_QUARANTINED_SERVER_ID);
            }
            _ if unknown => self.count(Counter::GW_COUNTER_UNKNOWN_SERVER_ID),
            _ => {}
        }
        match (bound, refused) {
            (Some(placed), _) => placed,
            (None, Some(reason)) => Err(reason),
            (None, None) => self.by_flow(target, packet, datagram.teaches(target.service)),
        }
    }

    fn by_server_id(
        &mut self,
        target: Target<'a>,
        datagram: &Datagram<'_>,
    ) -> Result<Next<'a>, Reason> {
        let quic = &target.service.quic;
        let start = datagram.starts_flow();
        let reason = match datagram.named {
            Named::Nothing | Named::Unroutable(_) => {
                return Ok(Next::Binding {
                    unknown: false,
                    refused: None,
                })
            }
            Named::Quarantined(_) => Reason::QuarantinedServerId,
            Named::Unknown(_) => Reason::UnknownServerId,
            Named::Backend(_, row) => match target.placed.backend(row) {
                Some(backend) if is_usable(backend) => return Ok(Next::Done(backend)),
                Some(_) if start || quic.unhealthy == Unhealthy::Fallback => return Ok(Next::Flow),
                Some(backend) => {
                    self.verdict.backend = Some((backend.id, backend.row));
                    return Err(Reason::Unhealthy);
                }
                None => Reason::UnknownServerId,
            },
        };
        let goes_on = start
            || datagram.is_of_unknown_version()
            || quic.unknown_server_id == UnknownServerId::Fallback;
        Ok(Next::Binding {
            unknown: true,
            refused: (!goes_on).then_some(reason),
        })
    }

    fn binding_of(
        &mut self,
        target: Target<'a>,
        packet: Packet,
        datagram: &Datagram<'_>,
    ) -> Result<Option<Placed<'a>>, Reason> {
        match datagram.bound_cid(target.service) {
            Some(cid) => self.by_binding(target, packet, cid),
            None => Ok(None),
        }
    }

    /// Counts what was read of a QUIC packet.
    fn count_datagram(&mut self, target: Target<'_>, datagram: &Datagram<'_>) {
        for counter in datagram.counters(target.service) {
            self.count(counter);
        }
        if datagram.starts_flow() {
            self.start();
        }
    }

    fn start(&mut self) {
        self.verdict.flow_start = Some(true);
        self.count(Counter::GW_COUNTER_STARTS);
    }

    fn count(&mut self, counter: Counter) {
        self.verdict.counters.push(counter);
    }
}

impl Verdict {
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
}

fn is_usable(backend: &PlacedBackend) -> bool {
    match backend.state {
        BackendState::Ready | BackendState::Draining => true,
        BackendState::Unhealthy => false,
    }
}
