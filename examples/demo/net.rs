// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A small network of namespaces: clients, one load balancer, backends that own the service address.
//!
//! ```text
//!                    edge0          be-1          lb
//!   clients c0 ------- balancer (XDP) ------------- backend 1   203.0.113.80, 2001:db8::80 on lo
//!           br0 <---------------------------------- ret         answers go straight back
//! ```
//!
//! The namespaces have no names and the balancer's BPF file system is a private mount: the kernel
//! removes everything with the process, however that ends.

#[path = "../common/namespace.rs"]
mod namespace;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use namespace::Namespace;

/// The service address of each family, owned by every backend.
pub(crate) const VIP4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
pub(crate) const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x80);

/// Addresses of each family in the clients' namespace.
pub(crate) const CLIENT_ADDRESSES: u8 = 8;

/// Where the clients' packets reach the balancer.
pub(crate) const EDGE: &str = "edge0";

const EDGE_MAC: &str = "02:00:00:00:00:01";
const RETURN_MAC: &str = "02:00:00:00:00:02";

/// The `n`th client address, counted from 0.
pub(crate) fn client4(n: usize) -> IpAddr {
    let host = (n % usize::from(CLIENT_ADDRESSES)) as u8 + 1;
    IpAddr::from([198, 51, 100, host])
}

/// The `n`th client address, counted from 0.
pub(crate) fn client6(n: usize) -> IpAddr {
    let host = (n % usize::from(CLIENT_ADDRESSES)) as u16 + 1;
    IpAddr::from([0x2001, 0xdb8, 0xc, 0, 0, 0, 0, host])
}

/// One backend: its namespace, and how the balancer reaches it.
pub(crate) struct Backend {
    pub(crate) number: u32,
    pub(crate) namespace: Namespace,
    /// The balancer's interface that leads to it.
    pub(crate) interface: String,
    pub(crate) mac: String,
}

impl Backend {
    /// Cuts it off, as when its machine loses power.
    pub(crate) fn unplug(&self) -> io::Result<()> {
        self.namespace
            .ip("link set lb down\nlink set ret down\naddr flush dev lo\n")
    }
}

/// Everything, connected and with addresses.
pub(crate) struct Network {
    pub(crate) clients: Namespace,
    pub(crate) balancer: Namespace,
    pub(crate) backends: Vec<Backend>,
}

impl Network {
    /// Clients, a balancer and `backends` backends, numbered from 1.
    pub(crate) fn build(backends: u32) -> io::Result<Network> {
        let balancer = Namespace::with_private_bpffs()?;
        let clients = Namespace::new()?;
        connect_clients(&clients, &balancer)?;
        let backends = (1..=backends)
            .map(|number| connect_backend(number, &clients, &balancer))
            .collect::<io::Result<_>>()?;
        Ok(Network {
            clients,
            balancer,
            backends,
        })
    }
}

fn connect_clients(clients: &Namespace, balancer: &Namespace) -> io::Result<()> {
    let mut setup = format!(
        "link add c0 type veth peer name {EDGE} address {EDGE_MAC} netns {}\n\
         link add br0 address {RETURN_MAC} type bridge\n\
         link set lo up\nlink set br0 up\nlink set c0 up\n",
        balancer.path()
    );
    for n in 0..usize::from(CLIENT_ADDRESSES) {
        setup += &format!(
            "addr add {}/24 dev c0\naddr add {}/64 dev c0 nodad\n",
            client4(n),
            client6(n)
        );
    }
    for vip in [IpAddr::V4(VIP4), IpAddr::V6(VIP6)] {
        setup += &format!(
            "route add {vip} dev c0\nneigh add {vip} lladdr {EDGE_MAC} dev c0 nud permanent\n"
        );
    }
    clients.ip(&setup)?;
    // A checksum left to the hardware would never be filled in: the redirect bypasses the stack.
    clients.offload("c0", "tx", "off")?;
    balancer.ip(&format!("link set lo up\nlink set {EDGE} up\n"))
}

fn connect_backend(number: u32, clients: &Namespace, balancer: &Namespace) -> io::Result<Backend> {
    let namespace = Namespace::new()?;
    let interface = format!("be-{number}");
    let mac = format!("02:00:00:00:01:{number:02x}");
    balancer.ip(&format!(
        "link add {interface} type veth peer name lb address {mac} netns {}\n\
         link set {interface} up\n",
        namespace.path()
    ))?;
    clients.ip(&format!(
        "link add ret-{number} type veth peer name ret netns {}\n\
         link set ret-{number} master br0\nlink set ret-{number} up\n",
        namespace.path()
    ))?;
    namespace.ip(&format!(
        "link set lo up\nlink set lb up\nlink set ret up\n\
         addr add {VIP4}/32 dev lo\naddr add {VIP6}/128 dev lo nodad\n\
         route add 198.51.100.0/24 via 192.0.2.1 dev ret onlink\n\
         neigh add 192.0.2.1 lladdr {RETURN_MAC} dev ret nud permanent\n\
         route add 2001:db8:c::/64 via fe80::1 dev ret onlink\n\
         neigh add fe80::1 lladdr {RETURN_MAC} dev ret nud permanent\n"
    ))?;
    // A veth drops redirected frames unless its far end polls, which GRO makes it do.
    namespace.offload("lb", "gro", "on")?;
    Ok(Backend {
        number,
        namespace,
        interface,
        mac,
    })
}
