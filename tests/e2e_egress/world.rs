// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A tenant, its node with the program, a shard of the kernel's, and a server behind.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use guideway::kernel::tc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;

use crate::machine::{self, *};
use crate::net::Namespace;
use crate::netns;

pub(crate) const SERVER6: &str = "2001:db8:2::1";
pub(crate) const SERVER4: &str = "198.51.100.1";
/// The tenant's addresses.
pub(crate) const TENANT6: &str = "2001:db8:aaaa::7";
pub(crate) const TENANT4: &str = "10.0.0.7";
pub(crate) const PORT: u16 = 7000;
/// Bytes of a bulk transfer, each way.
pub(crate) const BULK: usize = 4 << 20;
/// What the tenant may send at a time, and the uplink.
pub(crate) const TENANT_MTU: u32 = 1460;
pub(crate) const UPLINK_MTU: u32 = TENANT_MTU + 40;
/// What decapsulates IPv6, and what IPv4: Linux without VRF has no SID that does both.
pub(crate) const SHARD6: u16 = 0x10;
pub(crate) const SHARD4: u16 = 0x11;
/// Their groups, of one member each.
pub(crate) const GROUP6: u32 = 0;
pub(crate) const GROUP4: u32 = 1;

/// A tenant, its node with the program, a shard, and a server behind.
pub(crate) struct World {
    pub(crate) tenant: Namespace,
    pub(crate) node: Namespace,
    pub(crate) machine: Machine,
    pub(crate) shard: Namespace,
    pub(crate) server: Namespace,
    _attachment: tc::Attachment,
}

pub(crate) fn world(options: &tc::Options) -> World {
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
        node,
        machine,
        shard,
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
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

pub(crate) fn address(server: &str) -> SocketAddr {
    SocketAddr::new(server.parse::<IpAddr>().expect("an address"), PORT)
}

/// Any address and port of the same family.
pub(crate) fn any(at: SocketAddr) -> SocketAddr {
    let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    any.parse().expect("an address")
}

/// A UDP socket in a namespace that does not wait for ever.
pub(crate) fn bind(inside: &Namespace, at: SocketAddr) -> UdpSocket {
    let socket = inside.run(|| UdpSocket::bind(at)).expect("inside");
    let socket = socket.expect("a socket");
    let limit = Some(Duration::from_secs(10));
    socket.set_read_timeout(limit).expect("a time-out");
    socket
}

impl World {
    /// Sends much by TCP both ways, and datagrams of every size. The average number of bytes in a frame
    /// of the tenant on the first way.
    pub(crate) fn exchange(&self, server: &str) -> u64 {
        let average = self.transfer(server);
        self.datagrams(address(server));
        average
    }

    /// Sends much by TCP both ways. The average number of bytes in a frame of the tenant on the first way.
    pub(crate) fn transfer(&self, server: &str) -> u64 {
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
        let tenant = if at.is_ipv4() { TENANT4 } else { TENANT6 };
        assert_eq!(from, tenant.parse::<IpAddr>().expect("an address"));
        (after.1 - before.1) / (after.0 - before.0)
    }

    fn datagrams(&self, at: SocketAddr) {
        let server = bind(&self.server, at);
        let client = bind(&self.tenant, any(at));
        let headers = if at.is_ipv4() { 28 } else { 48 };
        let largest = TENANT_MTU as usize - headers;
        for count in [0, 1, 17, 512, largest - 1, largest] {
            let sent = bytes(count);
            client.send_to(&sent, at).expect("sent");
            let mut got = vec![0; 2000];
            let (length, _) = server.recv_from(&mut got).expect("received");
            assert!(got[..length] == sent, "{count} bytes came as others");
        }
        // Cut up into fragments by the tenant.
        for count in [largest + 1, 4000, 20_000] {
            let sent = bytes(count);
            client.send_to(&sent, at).expect("sent");
            let mut got = vec![0; 65_536];
            let (length, _) = server.recv_from(&mut got).expect("received");
            assert!(got[..length] == sent, "{count} bytes came as others");
        }
        // Cut up behind the program where the device does that, else before it.
        setsockopt(&client, UdpGsoSegment, &1000).expect("segments");
        let sent = bytes(7500);
        match client.send_to(&sent, at) {
            // Older kernels do it only for devices that make the checksums.
            Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => return,
            sent => assert_eq!(sent.expect("sent"), 7500),
        }
        for part in sent.chunks(1000) {
            let mut got = vec![0; 2000];
            let (length, _) = server.recv_from(&mut got).expect("received");
            assert!(got[..length] == *part, "a segment came as another");
        }
    }

    /// Lets frames of 9,000 bytes through everywhere.
    pub(crate) fn jumbo(&self) {
        for (inside, interfaces) in [
            (&self.tenant, &["gw-inside"][..]),
            (&self.node, &["gw-tenant", "gw-uplink"]),
            (&self.shard, &["gw-outside", "gw-back"]),
            (&self.server, &["gw-server"]),
        ] {
            for interface in interfaces {
                let set = inside.ip(&format!("link set {interface} mtu 9000\n"));
                set.expect("an MTU");
            }
        }
        for (id, number) in [(GROUP6, SHARD6), (GROUP4, SHARD4)] {
            self.machine
                .publish(id, &self.machine.group_of(&[(number, 1)]));
        }
    }

    pub(crate) fn count(&self, of: C) -> u64 {
        self.machine.counters()[of.0 as usize]
    }
}

/// Runs a test in a world of its own, or skips it loudly.
pub(crate) fn in_world(name: &'static str, test: impl FnOnce(&World) + Send + 'static) {
    netns::isolated(name, move || {
        if netns::require_seg6(name) {
            test(&world(&tc::Options::default()));
        }
    });
}
