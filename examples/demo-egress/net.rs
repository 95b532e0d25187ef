// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A small network of namespaces: tenants, their node, shards and a server.
//!
//! ```text
//!           eth0  t0        up1  node           nat  shard           out  s1
//!  tenant 0 --------- node ------------ shard 1 ------------- NAT 1 ---------- server
//!  tenant 1 --------- (TC) ------------ shard 2 ------------- NAT 2 ----------
//!                 IPv6     SRv6 one way          IPv6                IPv6 from the NAT's address
//! ```
//!
//! A shard is two namespaces, one that decapsulates and one that translates: what seg6local takes
//! out of a packet is seen by netfilter of the same namespace only after a setting of the whole
//! machine that cannot be undone. Answers go back through the NAT and then as plain IPv6.

use std::fs;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use guideway::srv6::{Argument, BaseSid};

use super::masquerade::masquerade;
use super::namespace::Namespace;

/// How many tenants there can be: for fewer shares mean little, and each has a prefix of its own.
pub(crate) const TENANTS: RangeInclusive<u32> = 24..=1000;

/// Addresses that each tenant's interface has.
pub(crate) const ADDRESSES: u32 = 5;

/// Where the server listens.
pub(crate) const SERVER: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1)),
    7000,
);

/// All tenants' addresses.
const TENANT_NETWORK: &str = "2001:db8:a::/48";

/// Of the node's end and the tenant's of every tenant's link. Each knows the other for good: the
/// kernel's table of neighbours, one for all namespaces, would have no room for so many.
const TENANT_LINK_MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];

/// What leaves enough room for the outer header on links of 1500 bytes.
const TENANT_MTU: u32 = 1460;

/// The first address of a tenant's /64.
fn network(tenant: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xa, tenant as u16, 0, 0, 0, 0)
}

/// The address with this number, from 0, of a tenant.
pub(crate) fn address(tenant: u32, number: u32) -> Ipv6Addr {
    (u128::from(network(tenant)) + u128::from(number) + 1).into()
}

/// The node's interface for a tenant.
pub(crate) fn interface(tenant: u32) -> String {
    format!("t{tenant}")
}

/// The number that SIDs carry for a tenant.
pub(crate) fn argument(tenant: u32) -> Argument {
    Argument::new(tenant + 1).expect("far fewer tenants than Arguments")
}

/// The address that all connections through a shard come from.
fn outside(shard: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 5, shard as u16, 0, 0, 0, 2)
}

/// The shard whose NAT has an address.
pub(crate) fn shard_of(outside: Ipv6Addr) -> u32 {
    outside.segments()[3].into()
}

/// A shard: its namespaces, and how the node reaches it.
pub(crate) struct Shard {
    pub(crate) number: u32,
    /// The node's interface that leads to it.
    pub(crate) interface: String,
    pub(crate) mac: String,
    pub(crate) decapsulation: Namespace,
    #[allow(dead_code)] // what is there lives as long as it
    pub(crate) translation: Namespace,
}

impl Shard {
    /// Cuts it off from the node, as when its machine loses power.
    pub(crate) fn unplug(&self) -> io::Result<()> {
        self.decapsulation.ip("link set node down\n")
    }
}

/// Everything, connected and with addresses.
pub(crate) struct Network {
    pub(crate) tenants: Vec<Namespace>,
    pub(crate) node: Namespace,
    pub(crate) shards: Vec<Shard>,
    pub(crate) server: Namespace,
}

impl Network {
    /// Tenants numbered from 0, and shards with these SIDs, numbered from 1.
    pub(crate) fn build(tenants: u32, shards: &[BaseSid]) -> io::Result<Network> {
        let node = Namespace::with_private_bpffs()?;
        forward(&node)?;
        let server = Namespace::new()?;
        server.ip(&format!(
            "link set lo up\naddr add {}/128 dev lo nodad\n",
            SERVER.ip()
        ))?;
        let shards = (1..)
            .zip(shards)
            .map(|(number, sid)| connect_shard(number, *sid, tenants, &node, &server))
            .collect::<io::Result<_>>()?;
        Ok(Network {
            tenants: connect_tenants(tenants, &node)?,
            node,
            shards,
            server,
        })
    }
}

fn connect_tenants(count: u32, node: &Namespace) -> io::Result<Vec<Namespace>> {
    let tenants = (0..count)
        .map(|_| Namespace::new())
        .collect::<io::Result<Vec<_>>>()?;
    let [mac, tenant_mac] = TENANT_LINK_MACS;
    let mut setup = String::new();
    for (number, tenant) in (0..).zip(&tenants) {
        let interface = interface(number);
        let prefix = network(number);
        setup += &format!(
            "link add {interface} address {mac} mtu {TENANT_MTU} type veth \
             peer name eth0 address {tenant_mac} mtu {TENANT_MTU} netns {}\n\
             link set {interface} up\naddr add fe80::1/64 dev {interface} nodad\n\
             neigh add fe80::2 lladdr {tenant_mac} dev {interface} nud permanent\n\
             route add {prefix}/64 via fe80::2 dev {interface}\n",
            tenant.path()
        );
    }
    node.ip(&setup)?;
    for (number, tenant) in (0..).zip(&tenants) {
        let mut setup = format!(
            "link set lo up\nlink set eth0 up\naddr add fe80::2/64 dev eth0 nodad\n\
             neigh add fe80::1 lladdr {mac} dev eth0 nud permanent\n\
             route add ::/0 via fe80::1 dev eth0\n"
        );
        for n in 0..ADDRESSES {
            setup += &format!("addr add {}/64 dev eth0 nodad\n", address(number, n));
        }
        tenant.ip(&setup)?;
    }
    Ok(tenants)
}

fn connect_shard(
    number: u32,
    sid: BaseSid,
    tenants: u32,
    node: &Namespace,
    server: &Namespace,
) -> io::Result<Shard> {
    let (decapsulation, translation) = (Namespace::new()?, Namespace::new()?);
    forward(&decapsulation)?;
    forward(&translation)?;
    let interface = format!("up{number}");
    let mac = format!("02:00:00:00:09:{number:02x}");
    node.ip(&format!(
        "link add {interface} type veth peer name node address {mac} netns {}\n\
         link set {interface} up\naddr add fe80::1/64 dev {interface} nodad\n",
        decapsulation.path()
    ))?;
    let outside = outside(number);
    let inner = SERVER.ip();
    let mut setup = format!(
        "link add nat type veth peer name shard netns {}\n\
         link set nat up\naddr add fe80::1/64 dev nat nodad\n\
         link set node up\naddr add fe80::2/64 dev node nodad\n\
         route add {inner} via fe80::2 dev nat\n\
         route add {TENANT_NETWORK} via fe80::1 dev node\n",
        translation.path()
    );
    for tenant in 0..tenants {
        let sid = sid.with_argument(argument(tenant));
        setup +=
            &format!("route add {sid}/80 encap seg6local action End.DX6 nh6 {inner} dev nat\n");
    }
    decapsulation.ip(&setup)?;
    server.ip(&format!(
        "link add s{number} type veth peer name out netns {}\n\
         link set s{number} up\naddr add fe80::1/64 dev s{number} nodad\n\
         route add {outside} dev s{number}\n",
        translation.path()
    ))?;
    translation.ip(&format!(
        "link set shard up\naddr add fe80::2/64 dev shard nodad\n\
         link set out up\naddr add {outside}/128 dev out nodad\n\
         route add {inner} via fe80::1 dev out\n\
         route add {TENANT_NETWORK} via fe80::1 dev shard\n"
    ))?;
    translation.run(masquerade)??;
    Ok(Shard {
        number,
        interface,
        mac,
        decapsulation,
        translation,
    })
}

fn forward(namespace: &Namespace) -> io::Result<()> {
    namespace.run(|| fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1"))?
}
