// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A tenant's real traffic through the egress program to a shard that is the Linux kernel: its
//! seg6local takes the outer header off (End.DX6 and End.DX4, RFC 8986) and sends the packet on to a
//! server (E56, E57, E63).

#[path = "egress/frames.rs"]
#[allow(dead_code)]
mod frames;
#[path = "egress/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../examples/demo/net.rs"]
#[allow(dead_code)]
mod net;
#[path = "common/netns.rs"]
mod netns;
#[path = "egress/reference.rs"]
#[allow(dead_code)]
mod reference;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use guideway::kernel::tc;
use machine::*;
use net::Namespace;
use nix::sys::socket::sockopt::UdpGsoSegment;
use nix::sys::socket::{sendto, setsockopt, socket, AddressFamily, MsgFlags, SockFlag, SockType};

const SERVER6: &str = "2001:db8:2::1";
const SERVER4: &str = "198.51.100.1";
const PORT: u16 = 7000;
/// Bytes of a bulk transfer, each way.
const BULK: usize = 4 << 20;
/// What the tenant may send at a time, and the uplink.
const TENANT_MTU: u32 = 1460;
const UPLINK_MTU: u32 = TENANT_MTU + 40;
/// What decapsulates IPv6, and what IPv4: Linux without VRF has no SID that does both.
const SHARD6: u16 = 0x10;
const SHARD4: u16 = 0x11;
/// Their groups, of one member each.
const GROUP6: u32 = 0;
const GROUP4: u32 = 1;

/// A tenant, its node with the program, a shard, and a server behind.
struct World {
    tenant: Namespace,
    _node: Namespace,
    machine: Machine,
    _shard: Namespace,
    server: Namespace,
    _attachment: tc::Attachment,
}

fn world(options: &tc::Options) -> World {
    let make = || Namespace::new().expect("a namespace");
    let (tenant, node, shard, server) = (make(), make(), make(), make());
    let machine = node.run(Machine::new).expect("a machine");
    let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let (dmac, smac) = (mac(DMAC), mac(SMAC));
    node.ip(&format!(
        "link set gw-inside netns {tenant}\n\
         link set gw-outside netns {shard}\n\
         link set gw-tenant mtu {TENANT_MTU}\n\
         link set gw-uplink mtu {UPLINK_MTU} address {smac}\n\
         addr add 2001:db8:aaaa::1/64 dev gw-tenant nodad\n\
         addr add 10.0.0.1/24 dev gw-tenant\n\
         addr add 2001:db8:ff::1/64 dev gw-uplink nodad\n\
         addr add 10.9.0.1/24 dev gw-uplink\n\
         link set gw-tenant up\nlink set gw-uplink up\n",
        tenant = tenant.path(),
        shard = shard.path(),
    ))
    .expect("the node's interfaces");
    tenant
        .ip(&format!(
            "link set gw-inside mtu {TENANT_MTU}\n\
             addr add 2001:db8:aaaa::7/64 dev gw-inside nodad\n\
             addr add 10.0.0.7/24 dev gw-inside\n\
             link set gw-inside up\n\
             route add default via 10.0.0.1\n\
             route add ::/0 via 2001:db8:aaaa::1\n"
        ))
        .expect("the tenant's interface");
    shard
        .ip(&format!(
            "link add gw-back type veth peer name gw-server\n\
             link set gw-server netns {server}\n\
             link set gw-outside mtu {UPLINK_MTU} address {dmac}\n\
             addr add 2001:db8:ff::2/64 dev gw-outside nodad\n\
             addr add 10.9.0.2/24 dev gw-outside\n\
             addr add 2001:db8:2::ff/64 dev gw-back nodad\n\
             addr add 198.51.100.254/24 dev gw-back\n\
             link set gw-outside up\nlink set gw-back up\n\
             route add 2001:db8:aaaa::/64 via 2001:db8:ff::1\n\
             route add 10.0.0.0/24 via 10.9.0.1\n",
            server = server.path(),
        ))
        .expect("the shard's interfaces");
    server
        .ip(&format!(
            "addr add {SERVER6}/64 dev gw-server nodad\n\
             addr add {SERVER4}/24 dev gw-server\n\
             link set gw-server up\n\
             route add default via 198.51.100.254\n\
             route add ::/0 via 2001:db8:2::ff\n"
        ))
        .expect("the server's interface");
    let decapsulate = |number: u16, action: &str| {
        let sid = completed(machine::shard(number), ARGUMENT);
        format!("route add {sid}/80 encap seg6local action {action} dev gw-back\n")
    };
    let routes = decapsulate(SHARD6, &format!("End.DX6 nh6 {SERVER6}"))
        + &decapsulate(SHARD4, &format!("End.DX4 nh4 {SERVER4}"));
    shard.ip(&routes).expect("SIDs of the kernel");
    for namespace in [&node, &shard] {
        namespace.run(forward).expect("forwarding");
    }
    for (id, prefix, number) in [(GROUP6, "::", SHARD6), (GROUP4, "0.0.0.0", SHARD4)] {
        let mut group = machine.group_of(&[(number, 1)]);
        group.members[0].next_hop.mtu = UPLINK_MTU;
        machine.publish(id, &group);
        let prefix = prefix.parse().expect("an address");
        machine.route(TABLE, prefix, 0, &machine.to_group(id, 1));
    }
    let attach = || tc::Attachment::new(machine.program(), machine.tenant, options);
    let attachment = node.run(attach).expect("in the node").expect("attached");
    World {
        tenant,
        _node: node,
        machine,
        _shard: shard,
        server,
        _attachment: attachment,
    }
}

/// Lets the calling thread's network namespace forward. Linux decapsulates with seg6local without
/// further settings.
fn forward() {
    for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{path}"), "1").expect("a setting");
    }
}

/// Bytes that are not all the same.
fn bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn address(server: &str) -> SocketAddr {
    SocketAddr::new(server.parse::<IpAddr>().expect("an address"), PORT)
}

impl World {
    /// Sends much by TCP both ways, and some datagrams of every size up to the largest. The average
    /// number of bytes in a frame of the tenant on the first way.
    fn exchange(&self, server: &str) -> u64 {
        let at = address(server);
        let listener = self.server.run(|| TcpListener::bind(at)).expect("inside");
        let listener = listener.expect("a listener");
        let receiver = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().expect("a connection");
            let mut got = vec![0; BULK];
            stream.read_exact(&mut got).expect("all of it");
            (stream, from.ip(), got)
        });
        let limit = Duration::from_secs(20);
        let stream = self.tenant.run(|| TcpStream::connect_timeout(&at, limit));
        let mut stream = stream.expect("inside").expect("connected");
        stream.set_read_timeout(Some(limit)).expect("a time-out");
        let sent = bytes(BULK);
        let group = if at.is_ipv4() { GROUP4 } else { GROUP6 };
        let before = self.machine.slot_counters(group, 0);
        stream.write_all(&sent).expect("written");
        let (mut back, from, received) = receiver.join().expect("the server");
        let after = self.machine.slot_counters(group, 0);
        let sender = std::thread::spawn(move || back.write_all(&received).expect("written"));
        let mut got = vec![0; BULK];
        stream.read_exact(&mut got).expect("all of it");
        sender.join().expect("the server");
        assert!(got == sent, "the bytes came back as others");
        let tenant = if at.is_ipv4() {
            "10.0.0.7"
        } else {
            "2001:db8:aaaa::7"
        };
        assert_eq!(from, tenant.parse::<IpAddr>().expect("an address"));
        self.datagrams(at);
        (after.1 - before.1) / (after.0 - before.0)
    }

    fn datagrams(&self, at: SocketAddr) {
        let bind = |inside: &Namespace, at: SocketAddr| {
            let socket = inside.run(|| UdpSocket::bind(at)).expect("inside");
            let socket = socket.expect("a socket");
            let limit = Some(Duration::from_secs(10));
            socket.set_read_timeout(limit).expect("a time-out");
            socket
        };
        let server = bind(&self.server, at);
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let client = bind(&self.tenant, any.parse().expect("an address"));
        let headers = if at.is_ipv4() { 28 } else { 48 };
        let largest = TENANT_MTU as usize - headers;
        for count in [0, 1, 17, 512, largest - 1, largest] {
            let sent = bytes(count);
            client.send_to(&sent, at).expect("sent");
            let mut got = vec![0; 2000];
            let (length, _) = server.recv_from(&mut got).expect("received");
            assert!(got[..length] == sent, "{count} bytes came as others");
        }
        // Cut up behind the program where the device does that, else before it.
        setsockopt(&client, UdpGsoSegment, &1000).expect("segments");
        let sent = bytes(7500);
        client.send_to(&sent, at).expect("sent");
        for part in sent.chunks(1000) {
            let mut got = vec![0; 2000];
            let (length, _) = server.recv_from(&mut got).expect("received");
            assert!(got[..length] == *part, "a segment came as another");
        }
    }

    fn count(&self, of: C) -> u64 {
        self.machine.counters()[of.0 as usize]
    }
}

fn needs_seg6(test: &str) -> bool {
    if std::path::Path::new("/proc/sys/net/ipv6/conf/all/seg6_enabled").exists() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{test}: the kernel has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)"
    );
    eprintln!("SKIPPED {test}: the kernel has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)");
    false
}

/// With segmentation by the device and without, and with checksums by it and by the tenant.
fn through_the_kernel(name: &'static str, server: &'static str) {
    netns::isolated(name, move || {
        if !needs_seg6(name) {
            return;
        }
        let world = world(&tc::Options::default());
        let off = |feature: &str| {
            let set = world.tenant.offload("gw-inside", feature, "off");
            set.expect("a feature");
        };
        // What the device is to cut up is longer than any frame.
        let average = world.exchange(server);
        assert!(average > u64::from(TENANT_MTU) + 14, "{average} bytes");
        off("tso");
        off("gso");
        let average = world.exchange(server);
        assert!(average <= u64::from(TENANT_MTU) + 14, "{average} bytes");
        off("tx");
        world.exchange(server);
        let dropped: u64 = world.machine.counters()[32..64].iter().sum();
        assert_eq!(dropped, 0);
    });
}

#[test]
fn linux_decapsulates_ipv6() {
    through_the_kernel("e2e_egress::dx6", SERVER6);
}

#[test]
fn linux_decapsulates_ipv4() {
    through_the_kernel("e2e_egress::dx4", SERVER4);
}

/// As on kernels before Linux 6.6.
#[test]
fn a_filter_of_clsact_does_the_same() {
    netns::isolated("e2e_egress::clsact", || {
        if !needs_seg6("e2e_egress::clsact") {
            return;
        }
        let world = world(&tc::Options {
            way: tc::Way::Clsact,
            ..tc::Options::default()
        });
        world.exchange(SERVER6);
        world.exchange(SERVER4);
        assert!(world.count(C::GW_EGRESS_GROUP) > 20);
    });
}

/// The kernel has taken the tag off when the program sees the frame: only its metadata tells (E13).
#[test]
fn a_tagged_frame_is_left_alone() {
    netns::isolated("e2e_egress::vlan", || {
        if !needs_seg6("e2e_egress::vlan") {
            return;
        }
        let world = world(&tc::Options::default());
        let source = "2001:db8:aaaa::7".parse().expect("an address");
        let far = SERVER6.parse().expect("an address");
        let plain = frames::ipv6(source, far, frames::UDP, &frames::ports(1, 2, 20));
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        let before = world.count(C::GW_EGRESS_GROUP);
        let send = || {
            let (family, kind) = (AddressFamily::Packet, SockType::Raw);
            let socket = socket(family, kind, SockFlag::empty(), None).expect("a socket");
            let inside = netns::packet_address(netns::ifindex("gw-inside"));
            for frame in [&tagged, &plain] {
                let flags = MsgFlags::empty();
                sendto(socket.as_raw_fd(), frame, &inside, flags).expect("sent");
            }
        };
        world.tenant.run(send).expect("inside");
        let arrived = || world.count(C::GW_EGRESS_GROUP) > before;
        assert!(netns::within(Duration::from_secs(10), arrived));
        // They came in this order.
        assert_eq!(world.count(C::GW_EGRESS_GROUP), before + 1);
    });
}

/// One byte less on the link, and nothing vanishes there: it is dropped and counted.
#[test]
fn what_is_too_big_for_the_link_is_counted() {
    netns::isolated("e2e_egress::too_big", || {
        if !needs_seg6("e2e_egress::too_big") {
            return;
        }
        let world = world(&tc::Options::default());
        for (prefix, number) in [("::", SHARD6), ("0.0.0.0", SHARD4)] {
            let mut route = world.machine.to_shard(number);
            route.next_hop.mtu = UPLINK_MTU - 1;
            let prefix = prefix.parse().expect("an address");
            world.machine.route(TABLE, prefix, 0, &route);
        }
        for (server, headers) in [(SERVER6, 48), (SERVER4, 28)] {
            let at = address(server);
            let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let client = world.tenant.run(|| UdpSocket::bind(any)).expect("inside");
            let client = client.expect("a socket");
            let before = world.count(C::GW_EGRESS_DROP_TOO_BIG);
            let sent = world.count(C::GW_EGRESS_SHARD);
            let largest = TENANT_MTU as usize - headers;
            client.send_to(&bytes(largest), at).expect("sent");
            client.send_to(&bytes(largest - 1), at).expect("sent");
            let arrived = || {
                world.count(C::GW_EGRESS_DROP_TOO_BIG) == before + 1
                    && world.count(C::GW_EGRESS_SHARD) == sent + 1
            };
            assert!(netns::within(Duration::from_secs(10), arrived));
        }
    });
}
