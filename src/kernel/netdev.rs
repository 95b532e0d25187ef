// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The network interfaces of the calling thread's namespace.
//!
//! Everything is asked by netlink and ioctl, which follow the thread. /sys does not: it keeps
//! showing the namespace in which it was mounted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockProtocol, SockType};

use super::ethtool::Ethtool;
pub use super::ethtool::{Channels, Driver};
use super::netlink::{attributes, put, request, text, word};
pub use super::xdp_features::XdpFeatures;
use super::{xdp_features, SysError};

/// Which interface shares a cable with this one: the other end of a veth pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// It is no veth, or its other end cannot be told.
    None,
    /// In this namespace, with this index.
    Here(u32),
    /// In another namespace, where it has this index.
    Elsewhere(u32),
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Index in its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Kind of a virtual interface, such as `veth`; empty for others.
    pub kind: String,
    /// Ethernet address; all zero where there is none.
    pub mac: [u8; 6],
    /// Largest packet.
    pub mtu: u32,
    /// Largest packet before segmentation, in bytes; 0 where the kernel does not say.
    pub gso_max_bytes: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Whether there is a carrier: a cable with something that is up at its other end.
    pub carrier: bool,
    /// Whether it is loopback.
    pub loopback: bool,
    /// The other end of a veth pair.
    pub peer: Peer,
    /// Name of the port of a card that has several; empty for others.
    pub phys_port_name: String,
    /// Receive queues it was made with.
    pub rx_queues: u32,
    /// Transmit queues it was made with.
    pub tx_queues: u32,
    /// Whether an XDP program runs in its driver.
    pub xdp_native: bool,
    /// Frames it failed to transmit or receive since it exists.
    pub dropped: Dropped,
}

/// Counters of an interface that rise when frames are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// Received and dropped.
    pub rx: u64,
    /// Not transmitted.
    pub tx: u64,
    /// Errors in transmission.
    pub tx_errors: u64,
}

/// The kernel's number of the calling thread's network namespace, which no other one ever has.
/// Minimum kernel: 5.14.
///
/// # Errors
/// No socket can be made, or the kernel does not tell.
pub fn namespace() -> Result<u64, SysError> {
    let what = "the network namespace";
    let socket = socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(|errno| SysError::from_nix("open a socket in", what, errno))?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which the cookie has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        return Err(SysError::from_io("ask for the number of", what, &error));
    }
    Ok(cookie)
}

/// The interface with this name.
pub fn by_name(name: &str) -> Result<Option<Interface>, SysError> {
    // The kernel would cut or refuse such names.
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Ok(None);
    }
    let mut body = vec![0; LINK_BYTES];
    put(
        &mut body,
        libc::IFLA_IFNAME,
        &[name.as_bytes(), b"\0"].concat(),
    );
    one(&body, &format!("interface {name}"))
}

/// The interface with this index.
pub fn by_index(index: u32) -> Result<Option<Interface>, SysError> {
    let mut body = vec![0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    one(&body, &format!("interface {index}"))
}

/// All interfaces, by index.
pub fn all() -> Result<Vec<Interface>, SysError> {
    let mut interfaces = Vec::new();
    request(
        SockProtocol::NetlinkRoute,
        libc::RTM_GETLINK,
        true,
        &[0; LINK_BYTES],
        "all interfaces",
        |answer| {
            interfaces.extend(interface(answer));
        },
    )?;
    interfaces.sort_by_key(|interface| interface.index);
    Ok(interfaces)
}

/// `struct ifinfomsg`: family, pad, type, index, flags, change.
pub(super) const LINK_BYTES: usize = 16;

fn one(body: &[u8], what: &str) -> Result<Option<Interface>, SysError> {
    let mut found = None;
    match request(
        SockProtocol::NetlinkRoute,
        libc::RTM_GETLINK,
        false,
        body,
        what,
        |answer| found = interface(answer),
    ) {
        Err(error) if error.errno == libc::ENODEV => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(found),
    }
}

/// What a message says of an interface.
pub(super) fn interface(answer: &[u8]) -> Option<Interface> {
    const INFO_KIND: u16 = 1;
    let flags = word(answer, 8)?;
    let mut interface = Interface {
        index: word(answer, 4)?,
        name: String::new(),
        kind: String::new(),
        mac: [0; 6],
        mtu: 0,
        gso_max_bytes: 0,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        peer: Peer::None,
        phys_port_name: String::new(),
        rx_queues: 0,
        tx_queues: 0,
        xdp_native: false,
        dropped: Dropped::default(),
    };
    let (mut lower, mut other_namespace) = (None, false);
    for (attribute, value) in attributes(answer.get(LINK_BYTES..)?) {
        let number = || word(value, 0).unwrap_or(0);
        match attribute {
            libc::IFLA_IFNAME => interface.name = text(value),
            libc::IFLA_MTU => interface.mtu = number(),
            libc::IFLA_GSO_MAX_SIZE => interface.gso_max_bytes = number(),
            libc::IFLA_ADDRESS => interface.mac = value.try_into().unwrap_or_default(),
            libc::IFLA_NUM_RX_QUEUES => interface.rx_queues = number(),
            libc::IFLA_NUM_TX_QUEUES => interface.tx_queues = number(),
            libc::IFLA_PHYS_PORT_NAME => interface.phys_port_name = text(value),
            libc::IFLA_LINK => lower = word(value, 0),
            libc::IFLA_LINK_NETNSID => other_namespace = true,
            libc::IFLA_STATS64 => interface.dropped = dropped(value),
            libc::IFLA_XDP => interface.xdp_native = xdp_native(value),
            libc::IFLA_LINKINFO => {
                let mut info = attributes(value);
                if let Some((_, kind)) = info.find(|(attribute, _)| *attribute == INFO_KIND) {
                    interface.kind = text(kind);
                }
            }
            _ => {}
        }
    }
    interface.peer = match lower {
        Some(index) if interface.kind == "veth" && index != 0 => {
            if other_namespace {
                Peer::Elsewhere(index)
            } else {
                Peer::Here(index)
            }
        }
        _ => Peer::None,
    };
    Some(interface)
}

fn xdp_native(value: &[u8]) -> bool {
    // IFLA_XDP_ATTACHED and IFLA_XDP_DRV_PROG_ID; XDP_ATTACHED_DRV.
    const ATTACHED: u16 = 2;
    const NATIVE_PROGRAM: u16 = 5;
    const NATIVE: u8 = 1;
    attributes(value).any(|(attribute, value)| match attribute {
        ATTACHED => value.first() == Some(&NATIVE),
        NATIVE_PROGRAM => word(value, 0).is_some_and(|id| id != 0),
        _ => false,
    })
}

/// `struct rtnl_link_stats64`: packets, bytes, errors and drops, each received and transmitted.
fn dropped(value: &[u8]) -> Dropped {
    let counter = |at: usize| {
        let bytes = value
            .get(at * 8..at * 8 + 8)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    Dropped {
        tx_errors: counter(5),
        rx: counter(6),
        tx: counter(7),
    }
}

impl Interface {
    /// Driver and device.
    pub fn driver(&self) -> Result<Option<Driver>, SysError> {
        Ethtool::open()?.driver(&self.name)
    }

    /// Whether generic receive offload is on; `None` where the driver does not say.
    pub fn gro(&self) -> Result<Option<bool>, SysError> {
        Ethtool::open()?.gro(&self.name)
    }

    /// Whether transmit checksums are left to the device.
    pub fn tx_checksum(&self) -> Result<Option<bool>, SysError> {
        Ethtool::open()?.tx_checksum(&self.name)
    }

    /// Whether frames in several pieces can be transmitted.
    pub fn scatter_gather(&self) -> Result<Option<bool>, SysError> {
        Ethtool::open()?.scatter_gather(&self.name)
    }

    /// Queues in use; `None` where the driver does not say.
    pub fn channels(&self) -> Result<Option<Channels>, SysError> {
        Ethtool::open()?.channels(&self.name)
    }

    /// The driver's own counters by name, such as `rx_queue_0_xdp_drops`.
    pub fn statistics(&self) -> Result<BTreeMap<String, u64>, SysError> {
        Ethtool::open()?.statistics(&self.name)
    }

    /// What its driver declares about XDP; `None` before Linux 6.3, where drivers do not.
    pub fn xdp_features(&self) -> Result<Option<XdpFeatures>, SysError> {
        xdp_features::of(self.index)
    }

    /// Whether the other end of a veth pair takes frames that are redirected to this end: it does
    /// while it runs NAPI, that is with an XDP program on it or with GRO on. `None` where it
    /// cannot be told, and for other interfaces.
    ///
    /// On some kernels (6.18, but not 6.1 and 6.12) an end on which GRO was switched on before it
    /// was set up counts as not receiving: this end's driver has not noticed, and the kernel drops
    /// what is redirected to it. Setting this end down and up again makes it look.
    pub fn peer_receives(&self) -> Result<Option<bool>, SysError> {
        let peer = match self.peer {
            Peer::Here(index) => by_index(index)?,
            _ => None,
        };
        self.receives(self.xdp_features()?, peer.as_ref())
    }

    /// [`peer_receives`](Self::peer_receives) with what was read before: the features of this
    /// interface, and the other end where it is in sight.
    pub fn receives(
        &self,
        features: Option<XdpFeatures>,
        peer: Option<&Interface>,
    ) -> Result<Option<bool>, SysError> {
        if self.kind != "veth" {
            return Ok(None);
        }
        // The driver looks across namespaces, and without its word the kernel transmits nothing.
        let declared = features.map(XdpFeatures::transmits);
        match peer {
            // It does not notice when GRO is switched off on an end that is down.
            Some(peer) if declared != Some(false) => {
                Ok(Some(peer.xdp_native || peer.gro()? == Some(true)))
            }
            _ => Ok(declared),
        }
    }
}

/// What the drivers of all interfaces declare about XDP, by index; `None` before Linux 6.3, where
/// drivers do not.
pub fn all_xdp_features() -> Result<Option<BTreeMap<u32, XdpFeatures>>, SysError> {
    xdp_features::of_all()
}

/// An address that this host owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// Index of the interface that has it.
    pub ifindex: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits of the network that goes with it.
    pub prefix_len: u8,
}

/// All addresses of the interfaces of this namespace.
pub fn addresses() -> Result<Vec<Address>, SysError> {
    // `struct ifaddrmsg`: family, prefix length, flags, scope, index.
    const BYTES: usize = 8;
    let mut found = Vec::new();
    request(
        SockProtocol::NetlinkRoute,
        libc::RTM_GETADDR,
        true,
        &[0; BYTES],
        "all addresses",
        |answer| {
            let (Some(&prefix_len), Some(ifindex)) = (answer.get(1), word(answer, 4)) else {
                return;
            };
            let (mut local, mut address) = (None, None);
            for (attribute, value) in attributes(answer.get(BYTES..).unwrap_or_default()) {
                match attribute {
                    libc::IFA_LOCAL => local = ip(value),
                    libc::IFA_ADDRESS => address = ip(value),
                    _ => {}
                }
            }
            // On a link between two, the address is the other end's.
            if let Some(address) = local.or(address) {
                found.push(Address {
                    ifindex,
                    address,
                    prefix_len,
                });
            }
        },
    )?;
    Ok(found)
}

/// An entry of the neighbour table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbour {
    /// Index of the interface that leads to it.
    pub ifindex: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// The neighbours whose Ethernet address is known.
pub fn neighbours() -> Result<Vec<Neighbour>, SysError> {
    // `struct ndmsg`: family, pad, pad, index, state, flags, type.
    const BYTES: usize = 12;
    let mut found = Vec::new();
    request(
        SockProtocol::NetlinkRoute,
        libc::RTM_GETNEIGH,
        true,
        &[0; BYTES],
        "all neighbours",
        |answer| {
            let Some(ifindex) = word(answer, 4) else {
                return;
            };
            let (mut address, mut mac) = (None, None);
            for (attribute, value) in attributes(answer.get(BYTES..).unwrap_or_default()) {
                match attribute {
                    libc::NDA_DST => address = ip(value),
                    libc::NDA_LLADDR => mac = value.try_into().ok(),
                    _ => {}
                }
            }
            if let (Some(address), Some(mac)) = (address, mac) {
                found.push(Neighbour {
                    ifindex,
                    address,
                    mac,
                });
            }
        },
    )?;
    Ok(found)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}
