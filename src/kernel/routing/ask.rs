// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Questions about routes, neighbours and links, many at once.

use std::net::Ipv6Addr;

use nix::libc;
use nix::sys::socket::SockProtocol;

use super::neighbour::{self, NeighbourEntry, NeighbourKey};
use super::notice::ROUTE_BYTES;
use crate::id::InterfaceName;
use crate::kernel::netdev::{self, Interface, LINK_BYTES};
use crate::kernel::netlink::{attributes, batch, put, request, word};
use crate::kernel::SysError;

const OP: &str = "ask the kernel about";

/// Where the kernel would send a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Way {
    /// Index of the interface that it leaves by.
    pub ifindex: u32,
    /// The next hop; `None` where the destination itself is on the link.
    pub gateway: Option<Ipv6Addr>,
    /// The greatest packet that the route itself allows, if it says.
    pub mtu: Option<u32>,
}

/// The way to each destination, in their order; `None` where none leads there, or one that refuses
/// packets.
///
/// # Errors
/// The kernel cannot be asked, or refuses for another reason.
pub fn ways(destinations: &[Ipv6Addr]) -> Result<Vec<Option<Way>>, SysError> {
    let questions: Vec<_> = destinations.iter().map(question).collect();
    let answers = ask(libc::RTM_GETROUTE, &questions, "routes")?;
    let ways = answers.into_iter().map(|answer| match answer {
        Ok(body) => way(&body),
        // No route, and those of type unreachable, blackhole and prohibit.
        Err(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES) => Ok(None),
        Err(errno) => Err(SysError::new(OP, "routes", errno)),
    });
    ways.collect()
}

fn question(destination: &Ipv6Addr) -> Vec<u8> {
    let mut body = vec![0; ROUTE_BYTES];
    body[0] = libc::AF_INET6 as u8;
    body[1] = 128;
    put(&mut body, libc::RTA_DST, &destination.octets());
    body
}

fn way(body: &[u8]) -> Result<Option<Way>, SysError> {
    const TYPE_AT: usize = 7;
    const RTAX_MTU: u16 = 2;
    let malformed = || SysError::new(OP, "routes", libc::EPROTO);
    let fixed = body.get(..ROUTE_BYTES).ok_or_else(malformed)?;
    // Packets to this host itself have a way too: it leaves by `lo`.
    if !matches!(fixed[TYPE_AT], libc::RTN_UNICAST | libc::RTN_LOCAL) {
        return Ok(None);
    }
    let (mut ifindex, mut gateway, mut mtu) = (None, None, None);
    for (attribute, value) in attributes(&body[ROUTE_BYTES..]) {
        match attribute {
            libc::RTA_OIF => ifindex = word(value, 0),
            libc::RTA_GATEWAY => {
                let octets: [u8; 16] = value.try_into().map_err(|_| malformed())?;
                gateway = Some(Ipv6Addr::from(octets));
            }
            libc::RTA_METRICS => {
                let found = attributes(value).find(|(metric, _)| *metric == RTAX_MTU);
                mtu = found.and_then(|(_, value)| word(value, 0));
            }
            _ => {}
        }
    }
    Ok(ifindex.map(|ifindex| Way {
        ifindex,
        gateway,
        mtu: mtu.filter(|&mtu| mtu != 0),
    }))
}

/// The entry of each neighbour, in their order; `None` where there is none.
///
/// # Errors
/// The kernel cannot be asked, or refuses for another reason.
pub fn neighbours(keys: &[NeighbourKey]) -> Result<Vec<Option<NeighbourEntry>>, SysError> {
    let questions: Vec<_> = (keys.iter().copied())
        .map(|key| neighbour::request(key, 0))
        .collect();
    let failed = |errno| SysError::new(OP, "neighbours", errno);
    let answers = ask(libc::RTM_GETNEIGH, &questions, "neighbours")?;
    let entries = answers.into_iter().map(|answer| match answer {
        Ok(body) => NeighbourEntry::decode(&body).map_err(|_| failed(libc::EPROTO)),
        Err(libc::ENOENT | libc::ENODEV) => Ok(None),
        Err(errno) => Err(failed(errno)),
    });
    entries.collect()
}

/// All entries of the IPv6 neighbour table.
///
/// # Errors
/// The kernel cannot be asked, or the table changed during each of many attempts.
pub fn all_neighbours() -> Result<Vec<NeighbourEntry>, SysError> {
    let mut body = vec![0; neighbour::BYTES];
    body[0] = libc::AF_INET6 as u8;
    let (mut found, mut malformed) = (Vec::new(), false);
    let what = "all neighbours";
    let each = |answer: &[u8]| match NeighbourEntry::decode(answer) {
        Ok(entry) => found.extend(entry),
        Err(_) => malformed = true,
    };
    let route = SockProtocol::NetlinkRoute;
    request(route, libc::RTM_GETNEIGH, true, &body, what, each)?;
    if malformed {
        return Err(SysError::new(OP, what, libc::EPROTO));
    }
    Ok(found)
}

/// The interface of each name, in their order; `None` where there is none.
///
/// # Errors
/// The kernel cannot be asked, or refuses for another reason.
pub fn links(names: &[InterfaceName]) -> Result<Vec<Option<Interface>>, SysError> {
    let question = |name: &InterfaceName| {
        let mut body = vec![0; LINK_BYTES];
        let text = [name.as_str().as_bytes(), b"\0"].concat();
        put(&mut body, libc::IFLA_IFNAME, &text);
        body
    };
    let questions: Vec<_> = names.iter().map(question).collect();
    let answers = ask(libc::RTM_GETLINK, &questions, "interfaces")?;
    let found = answers.into_iter().map(|answer| match answer {
        Ok(body) => Ok(netdev::interface(&body)),
        Err(libc::ENODEV) => Ok(None),
        Err(errno) => Err(SysError::new(OP, "interfaces", errno)),
    });
    found.collect()
}

type Answers = Vec<Result<Vec<u8>, i32>>;

fn ask(kind: u16, questions: &[Vec<u8>], about: &str) -> Result<Answers, SysError> {
    batch(SockProtocol::NetlinkRoute, kind, 0, questions, OP, about)
}
