// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets of a tenant that go through the program to an uplink, each looked at where it leaves.
//!
//! Each carries the number of the phase that it was sent in, so that it is known of it what was
//! configured at that moment, however late somebody looks at it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use guideway::control::kernel::Live;
use guideway::egress::Stats;
use guideway::encap::Encap;
use guideway::group::Class;
use guideway::kernel::tc;
use guideway::reason::egress::{End, EndKind};
use nix::libc;
use nix::sys::socket::{
    bind, recv, sendto, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag,
    SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::fixture::*;
use crate::live;
use crate::netns::{self, ip, veth, within};
use crate::node::{converge, destination, other_encap, ONLY66, STATIC};
use crate::udp6::frame;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The tenant whose packets go.
pub(crate) const TENANT: u32 = 1;
pub(crate) const SOURCES: u16 = 12;

/// Where packets go to: behind no prefix of NAT64, behind one, and behind another one.
pub(crate) fn destinations() -> [Class; 3] {
    [Class::Nat66, nat64(NAT64), nat64(OTHER64)]
}

/// A shard that translates behind the other prefix as well, and one that does so behind `NAT64` alone.
pub(crate) const OTHER: u16 = 4;
pub(crate) const ONLY64: u16 = 5;

/// The shards that may get packets of a class: those of groups, and that of ordered mode.
fn translates(class: Class) -> BTreeSet<u16> {
    let shards: &[u16] = match class {
        Class::Nat66 => &[1, 2, ONLY66, OTHER, STATIC],
        class if class == nat64(NAT64) => &[1, 2, ONLY64, STATIC],
        _ => &[OTHER, STATIC],
    };
    shards.iter().copied().collect()
}

/// What packets must keep to.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Classes whose packets must be treated as such. Others may be NAT66's, whose route they would
    /// follow.
    pub(crate) strict: BTreeSet<Class>,
    /// Shards that they must not go to, as nothing reaches them.
    pub(crate) lost: BTreeSet<u16>,
    /// How they may be encapsulated: each wholly in one of these ways.
    pub(crate) encaps: Vec<Encap>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            strict: BTreeSet::new(),
            lost: BTreeSet::new(),
            encaps: vec![encap()],
        }
    }
}

/// What is configured in a phase.
#[derive(Debug, Clone, Default)]
struct Phase {
    rules: Rules,
    /// Packets that left by the uplink, by where they were to go.
    seen: BTreeMap<Class, u64>,
}

/// What was sent and seen.
#[derive(Default)]
pub(crate) struct Traffic {
    stop: AtomicBool,
    deaf: AtomicBool,
    phase: AtomicU64,
    phases: Mutex<Vec<Phase>>,
    sent: AtomicU64,
    seen: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Traffic {
    fn phases(&self) -> std::sync::MutexGuard<'_, Vec<Phase>> {
        self.phases.lock().expect("nobody panicked")
    }

    /// From now on packets must keep to other rules.
    pub(crate) fn rule(&self, change: impl FnOnce(&mut Rules)) {
        let mut phases = self.phases();
        let mut rules = phases.last().map(|phase| phase.rules.clone());
        change(rules.get_or_insert_default());
        phases.push(Phase {
            rules: rules.unwrap_or_default(),
            ..Phase::default()
        });
        // Only now: who finds the number finds the phase.
        let last = phases.len() - 1;
        self.phase.store(last as u64, Ordering::SeqCst);
    }

    /// From now on packets of these classes must be treated as such.
    pub(crate) fn strict(&self, classes: impl IntoIterator<Item = Class>) {
        self.rule(|rules| rules.strict = classes.into_iter().collect());
    }

    /// Packets of all kinds that were sent from now on leave by the uplink.
    pub(crate) fn go_on(&self, when: &str) {
        self.rule(|_| ());
        let all = || {
            let phases = self.phases();
            let seen = &phases.last().expect("a phase").seen;
            let enough = |class| {
                seen.get(&class)
                    .is_some_and(|seen| *seen > u64::from(SOURCES))
            };
            destinations().into_iter().all(enough)
        };
        assert!(within(PATIENCE, all), "{when}: packets stopped");
        self.sound(when);
    }

    /// No packet went where it must not.
    pub(crate) fn sound(&self, when: &str) {
        let wrong = self.wrong.lock().expect("nobody panicked");
        assert!(
            wrong.is_empty(),
            "{when}: {} packets, {:?}",
            wrong.len(),
            wrong.first()
        );
    }

    /// Takes in a packet that left.
    fn left(&self, packet: &[u8]) {
        // Ethernet, the outer header with next header 41, the inner one, UDP and what it carries.
        if packet.len() < 110 || packet[12..14] != [0x86, 0xdd] || packet[20] != 41 {
            return;
        }
        let shard: [u8; 8] = packet[38..46].try_into().expect("eight");
        let number = (0..16).find(|number| sid(*number).octets()[..8] == shard);
        let inner: [u8; 16] = packet[78..94].try_into().expect("sixteen");
        let behind = |class: &Class| {
            Class::prefix(*class).1 == 96 && {
                let (network, _) = class.prefix();
                network.octets()[..12] == inner[..12]
            }
        };
        let class = destinations().into_iter().find(behind);
        let class = class.unwrap_or(Class::Nat66);
        let phase = u64::from_be_bytes(packet[102..110].try_into().expect("eight"));
        let mut phases = self.phases();
        let Phase { rules, seen } = &mut phases[usize::try_from(phase).expect("a number")];
        *seen.entry(class).or_default() += 1;
        let mut may = translates(class);
        if !rules.strict.contains(&class) {
            may.extend(translates(Class::Nat66));
        }
        may.retain(|number| !rules.lost.contains(number));
        let is_encapsulated = rules.encaps.iter().any(|encap| {
            let source = encap.node_sid.with_argument(argument(TENANT));
            let is_labelled = (packet[15] & 15, packet[16], packet[17]) != (0, 0, 0);
            packet[22..38] == source.octets() && is_labelled == encap.flow_label
        });
        if number.is_none_or(|number| !may.contains(&number)) || !is_encapsulated {
            let mut wrong = self.wrong.lock().expect("nobody panicked");
            wrong.push(format!(
                "of {class} to {number:?}, encapsulated as {:02x?}, against {rules:?}",
                &packet[14..38]
            ));
        }
        self.seen.fetch_add(1, Ordering::SeqCst);
    }
}

fn raw(interface: u32, listens: bool) -> OwnedFd {
    let protocol = listens.then_some(SockProtocol::EthAll);
    let flags = SockFlag::empty();
    let socket = match protocol {
        Some(all) => socket(AddressFamily::Packet, SockType::Raw, flags, all),
        None => socket(AddressFamily::Packet, SockType::Raw, flags, None),
    };
    let socket = socket.expect("a socket");
    if listens {
        // For some seconds in which nobody listens.
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).expect("room");
        let limit = TimeVal::milliseconds(50);
        setsockopt(&socket, sockopt::ReceiveTimeout, &limit).expect("a time-out");
        let address = netns::packet_address(interface);
        bind(socket.as_raw_fd(), &address).expect("bound");
    }
    socket
}

/// Packets that a listening socket had no room for.
fn overlooked(socket: &OwnedFd) -> u64 {
    let mut counts = [0_u32; 2];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    const PACKET_STATISTICS: libc::c_int = 6;
    // SAFETY: the buffer is two words, which is what the option writes, and its length is told.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    counts[1].into()
}

/// Packets that an interface was given and could not send.
fn unsent(name: &str) -> u64 {
    let link = ip(&["-j", "-s", "link", "show", "dev", name]);
    let link: serde_json::Value = serde_json::from_str(&link).expect("JSON");
    link[0]["stats64"]["tx"]["dropped"]
        .as_u64()
        .expect("a number")
}

/// Sends packets to all destinations from all sources, over and over.
fn sender(inside: u32, traffic: &Traffic) {
    let socket = raw(inside, false);
    let address = netns::packet_address(inside);
    let mut frames: Vec<_> = (0..SOURCES)
        .flat_map(|source| {
            let source = format!("2001:db8:aaaa::{source:x}");
            destinations().map(|class| frame(&source, &destination(class)))
        })
        .collect();
    while !traffic.stop.load(Ordering::SeqCst) {
        for frame in &mut frames {
            let phase = traffic.phase.load(Ordering::SeqCst);
            let end = frame.len();
            frame[end - 8..].copy_from_slice(&phase.to_be_bytes());
            let sent = sendto(socket.as_raw_fd(), frame, &address, MsgFlags::empty());
            sent.expect("sent");
            traffic.sent.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn listener(socket: &OwnedFd, traffic: &Traffic) {
    let mut buffer = vec![0; 2048];
    while !traffic.deaf.load(Ordering::SeqCst) {
        if let Ok(got) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            traffic.left(&buffer[..got]);
        }
    }
}

/// How many packets came to such an end.
fn ends(stats: &Stats, is: impl Fn(End) -> bool) -> u64 {
    let ends = stats.ends.iter().filter(|(end, _)| is(**end));
    ends.map(|(_, count)| count).sum()
}

/// Runs `test` with the index of an uplink while packets of a tenant go through the program. In the
/// end each of them was forwarded, and seen, or is a counted drop.
pub(crate) fn under_traffic(
    first: &guideway::control::Desired,
    reached: impl Fn(u32) -> guideway::control::Reachability,
    test: impl FnOnce(u32, &Traffic),
) {
    let (tenant_side, inside) = veth("gw-tenant", "gw-inside");
    let (uplink, outside) = veth("gw-uplink", "gw-outside");
    let mut writer = live::load();
    let guard = writer.write_routes(PATIENCE).expect("free");
    guard
        .add_interface(tenant_side, &tenant(TENANT))
        .expect("room");
    drop(guard);
    converge(&mut Live::new(&mut writer), first, &reached(uplink));
    writer
        .attach(tenant_side, &tc::Options::default())
        .expect("attached");
    drop(writer);
    let traffic = Traffic::default();
    traffic.strict([]);
    let socket = raw(outside, true);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| sender(inside, &traffic));
        scope.spawn(|| listener(&socket, &traffic));
        // Also when the test panics the others have to end.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            test(uplink, &traffic);
            traffic.stop.store(true, Ordering::SeqCst);
            sender.join().expect("it sent");
            balance(&socket, &traffic);
        }));
        traffic.stop.store(true, Ordering::SeqCst);
        traffic.deaf.store(true, Ordering::SeqCst);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    traffic.sound("at the end");
}

/// Nobody sends any more: every packet has come to one end.
fn balance(socket: &OwnedFd, traffic: &Traffic) {
    let egress = live::open();
    let mut lost = 0;
    let mut told = String::new();
    let is_even = || {
        // What was read of it is not told again.
        lost += overlooked(socket);
        let stats = egress.stats().expect("readable");
        let sent = traffic.sent.load(Ordering::SeqCst) - unsent("gw-inside");
        let forwarded = ends(&stats, |end| end.kind() == EndKind::Outcome);
        let dropped = ends(&stats, |end| end.kind() == EndKind::Drop);
        let seen = traffic.seen.load(Ordering::SeqCst);
        told = format!("{sent} sent, {forwarded} forwarded, {dropped} dropped, {seen} seen, {lost} overlooked: {stats:?}");
        sent == forwarded + dropped && forwarded == seen + lost + unsent("gw-uplink")
    };
    assert!(within(PATIENCE, is_even), "{told}");
    println!("{told}");
    let stats = egress.stats().expect("readable");
    assert_eq!(ends(&stats, |end| end == End::Pass), 0);
    // All along each class has a route that leads to a shard: nothing is a reason to drop.
    let dropped = ends(&stats, |end| end.kind() == EndKind::Drop);
    assert_eq!(dropped, 0, "{told}");
    assert!(traffic.seen.load(Ordering::SeqCst) > 1000, "{told}");
}

/// Without this the tests under traffic would show nothing.
#[test]
fn a_packet_to_a_shard_of_another_class_is_told() {
    let packet = |to: Class, shard: u16, phase: u64| {
        let mut packet = frame("2001:db8:aaaa::1", &destination(to));
        let mut outer = vec![0; 40];
        outer[6] = 41;
        let source = encap().node_sid.with_argument(argument(TENANT));
        outer[8..24].copy_from_slice(&source.octets());
        outer[24..].copy_from_slice(&sid(shard).octets());
        packet.splice(14..14, outer);
        let end = packet.len();
        packet[end - 8..].copy_from_slice(&phase.to_be_bytes());
        packet
    };
    let traffic = Traffic::default();
    traffic.strict([]);
    traffic.strict([nat64(NAT64)]);
    let wrong = |to, shard, phase| {
        traffic.left(&packet(to, shard, phase));
        let mut wrong = traffic.wrong.lock().expect("nobody panicked");
        wrong.drain(..).count()
    };
    assert_eq!(wrong(nat64(NAT64), ONLY66, 0), 0, "it is NAT66's");
    assert_eq!(wrong(nat64(NAT64), ONLY66, 1), 1);
    assert_eq!(wrong(nat64(NAT64), ONLY64, 1), 0);
    assert_eq!(wrong(Class::Nat66, ONLY64, 1), 1);
    assert_eq!(wrong(nat64(OTHER64), ONLY64, 1), 1);
    assert_eq!(wrong(Class::Nat66, 7, 1), 1, "nobody's");
    traffic.rule(|rules| rules.lost = [1].into());
    assert_eq!(wrong(Class::Nat66, 1, 2), 1, "nothing reaches it");
    assert_eq!(wrong(Class::Nat66, 2, 2), 0);
    let others_only = |rules: &mut Rules| rules.encaps = vec![other_encap()];
    traffic.rule(others_only);
    assert_eq!(wrong(Class::Nat66, 2, 3), 1, "by another node");
    traffic.rule(|rules| rules.encaps.push(encap()));
    assert_eq!(wrong(Class::Nat66, 2, 4), 0);
    let halves = Encap {
        flow_label: false,
        ..other_encap()
    };
    traffic.rule(|rules| {
        rules.encaps = vec![
            halves,
            Encap {
                flow_label: true,
                ..encap()
            },
        ]
    });
    assert_eq!(wrong(Class::Nat66, 2, 5), 1, "half of each");
    assert_eq!(traffic.seen.load(Ordering::SeqCst), 11);
}
