// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the kernel says when something changes.

use std::net::Ipv6Addr;

use nix::libc;

use super::neighbour::{self, NeighbourEntry, NeighbourKey};
use crate::kernel::netdev::{self, Interface, LINK_BYTES};
use crate::kernel::netlink::{attributes, split, word, HEADER_BYTES};

/// `struct rtmsg`: family, lengths of destination and source, type of service, table, protocol,
/// scope, type, flags.
pub(super) const ROUTE_BYTES: usize = 12;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// An interface appeared, or this is what it is now.
    Link(Box<Interface>),
    /// The interface with this index is gone.
    LinkGone(u32),
    /// An entry of the IPv6 neighbour table appeared, or this is what it is now.
    Neighbour(NeighbourEntry),
    /// An entry of the IPv6 neighbour table is gone.
    NeighbourGone(NeighbourKey),
    /// An IPv6 route appeared, changed or is gone, in whatever table.
    Route {
        /// Its destination.
        destination: Ipv6Addr,
        /// How many bits of it count.
        bits: u8,
    },
}

/// A message that is not what its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's message about routes, neighbours or links is malformed")]
pub struct Malformed;

/// All notices in what was received at once. Messages about other things are skipped.
pub(super) fn notices(mut part: &[u8], mut each: impl FnMut(Notice)) -> Result<(), Malformed> {
    while !part.is_empty() {
        let (kind, body, next) = split(part, HEADER_BYTES, 4).ok_or(Malformed)?;
        if i32::from(kind) == libc::NLMSG_OVERRUN {
            return Err(Malformed);
        }
        if let Some(notice) = notice(kind, body)? {
            each(notice);
        }
        part = next;
    }
    Ok(())
}

fn notice(kind: u16, body: &[u8]) -> Result<Option<Notice>, Malformed> {
    let fixed = match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => LINK_BYTES,
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => neighbour::BYTES,
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => ROUTE_BYTES,
        _ => return Ok(None),
    };
    if !is_whole(body.get(fixed..).ok_or(Malformed)?) {
        return Err(Malformed);
    }
    Ok(match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => link(kind, body)?,
        libc::RTM_NEWNEIGH => NeighbourEntry::decode(body)?.map(Notice::Neighbour),
        libc::RTM_DELNEIGH => {
            NeighbourEntry::decode(body)?.map(|entry| Notice::NeighbourGone(entry.key()))
        }
        _ => route(body)?,
    })
}

/// Whether attributes fill these bytes to their end.
fn is_whole(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match split(bytes, 4, 2) {
            Some((_, _, next)) => bytes = next,
            None => return false,
        }
    }
    true
}

fn link(kind: u16, body: &[u8]) -> Result<Option<Notice>, Malformed> {
    // A bridge speaks of its ports in the same messages, as another family.
    if i32::from(body[0]) != libc::AF_UNSPEC {
        return Ok(None);
    }
    if kind == libc::RTM_DELLINK {
        return Ok(Some(Notice::LinkGone(word(body, 4).ok_or(Malformed)?)));
    }
    let interface = netdev::interface(body).ok_or(Malformed)?;
    // Radio drivers tell their own news without what an interface is.
    let described = !interface.name.is_empty() && interface.mtu != 0;
    Ok(described.then(|| Notice::Link(Box::new(interface))))
}

fn route(body: &[u8]) -> Result<Option<Notice>, Malformed> {
    if i32::from(body[0]) != libc::AF_INET6 {
        return Ok(None);
    }
    let bits = body[1];
    let destination = attributes(&body[ROUTE_BYTES..])
        .find(|(attribute, _)| *attribute == libc::RTA_DST)
        .map(|(_, value)| <[u8; 16]>::try_from(value));
    let destination = match destination {
        Some(octets) => Ipv6Addr::from(octets.map_err(|_| Malformed)?),
        None if bits == 0 => Ipv6Addr::UNSPECIFIED,
        None => return Err(Malformed),
    };
    if bits > 128 {
        return Err(Malformed);
    }
    Ok(Some(Notice::Route { destination, bits }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::put;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Notice>, Malformed> {
        let mut found = Vec::new();
        notices(bytes, |notice| found.push(notice)).map(|()| found)
    }

    /// A route to `address`/`bits` as the kernel sends it, with a table behind the destination.
    fn route(address: &str, bits: u8) -> Vec<u8> {
        let mut body = vec![libc::AF_INET6 as u8, bits, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        let address: Ipv6Addr = address.parse().unwrap();
        if bits != 0 {
            put(&mut body, libc::RTA_DST, &address.octets());
        }
        put(&mut body, libc::RTA_TABLE, &254_u32.to_ne_bytes());
        body
    }

    fn neighbour(family: i32, flags: u8, extended: u32) -> Vec<u8> {
        let mut body = vec![family as u8, 0, 0, 0, 9, 0, 0, 0, 2, 0, flags, 1];
        body[4..8].copy_from_slice(&9_u32.to_ne_bytes());
        body[8..10].copy_from_slice(&2_u16.to_ne_bytes());
        put(&mut body, libc::NDA_DST, &Ipv6Addr::LOCALHOST.octets());
        put(&mut body, libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 1]);
        put(&mut body, 12, &[77]);
        put(&mut body, 15, &extended.to_ne_bytes());
        body
    }

    #[test]
    fn routes_are_read_with_their_destination() {
        let bytes = [
            message(24, &route("2001:db8:1::", 48)),
            message(25, &route("::", 0)),
        ]
        .concat();
        let expected = |address: &str, bits| Notice::Route {
            destination: address.parse().unwrap(),
            bits,
        };
        assert_eq!(
            read(&bytes),
            Ok(vec![expected("2001:db8:1::", 48), expected("::", 0)])
        );
        let mut old = route("2001:db8:1::", 48);
        old[0] = libc::AF_INET as u8;
        assert_eq!(read(&message(24, &old)), Ok(vec![]), "IPv4");
        let mut long = route("2001:db8:1::", 48);
        long[1] = 129;
        assert_eq!(read(&message(24, &long)), Err(Malformed));
    }

    #[test]
    fn neighbours_are_read_with_their_marks() {
        let found = read(&message(28, &neighbour(libc::AF_INET6, 0x10, 1))).unwrap();
        let entry = NeighbourEntry {
            ifindex: 9,
            address: Ipv6Addr::LOCALHOST,
            mac: Some([2, 0, 0, 0, 0, 1]),
            state: libc::NUD_REACHABLE,
            learned: true,
            managed: true,
            protocol: 77,
        };
        assert_eq!(found, [Notice::Neighbour(entry)]);
        let gone = read(&message(29, &neighbour(libc::AF_INET6, 0, 0))).unwrap();
        assert_eq!(gone, [Notice::NeighbourGone((9, Ipv6Addr::LOCALHOST))]);
        for (family, flags) in [
            (libc::AF_INET, 0),
            (libc::AF_BRIDGE, 0),
            (libc::AF_INET6, 8),
        ] {
            let other = message(28, &neighbour(family, flags, 0));
            assert_eq!(read(&other), Ok(vec![]), "family {family}, flags {flags}");
        }
    }

    #[test]
    fn an_address_is_usable_in_the_states_in_which_the_kernel_sends_to_it() {
        let entry = |state, mac| NeighbourEntry {
            ifindex: 1,
            address: Ipv6Addr::LOCALHOST,
            mac,
            state,
            learned: false,
            managed: false,
            protocol: 0,
        };
        let mac = Some([2, 0, 0, 0, 0, 1]);
        // Values of linux/neighbour.h: incomplete, reachable, stale, delay, probe, failed, no ARP,
        // permanent, and none.
        let usable = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x00]
            .map(|state| entry(state, mac).usable().is_some());
        assert_eq!(
            usable,
            [false, true, true, true, true, false, true, true, false]
        );
        assert_eq!(entry(0x02, None).usable(), None);
        assert!(entry(0x80, mac).is_fixed() && !entry(0x02, mac).is_fixed());
    }

    #[test]
    fn links_of_other_families_are_no_links() {
        let mut body = vec![0; LINK_BYTES];
        body[4..8].copy_from_slice(&3_u32.to_ne_bytes());
        put(&mut body, libc::IFLA_IFNAME, b"up0\0");
        let partial = message(16, &body);
        assert_eq!(read(&partial), Ok(vec![]), "without an MTU");
        put(&mut body, libc::IFLA_MTU, &1500_u32.to_ne_bytes());
        let found = read(&message(16, &body)).unwrap();
        assert!(matches!(&found[..], [Notice::Link(link)] if link.index == 3 && link.mtu == 1500));
        assert_eq!(read(&message(17, &body)), Ok(vec![Notice::LinkGone(3)]));
        body[0] = libc::AF_BRIDGE as u8;
        assert_eq!(
            read(&message(17, &body)),
            Ok(vec![]),
            "a port left its bridge"
        );
    }

    #[test]
    fn what_is_cut_or_overrun_is_malformed() {
        let bytes = message(28, &neighbour(libc::AF_INET6, 0, 1));
        assert_eq!(read(&[]), Ok(vec![]));
        for end in 1..bytes.len() {
            let cut = &bytes[..end];
            assert_eq!(read(cut), Err(Malformed), "cut at {end}");
            // The same with a header that says so.
            let mut shorter = cut.to_vec();
            if end >= HEADER_BYTES {
                shorter[..4].copy_from_slice(&(end as u32).to_ne_bytes());
                // Behind each attribute, or in what fills it up to a multiple of four.
                let whole = matches!(end - HEADER_BYTES, 32 | 42..=44 | 49..=52);
                let found = read(&shorter);
                assert_eq!(found.is_ok(), whole, "cut at {end}: {found:?}");
            }
        }
        assert_eq!(
            read(&message(libc::NLMSG_OVERRUN as u16, &[])),
            Err(Malformed)
        );
        assert_eq!(read(&message(libc::NLMSG_NOOP as u16, &[])), Ok(vec![]));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>, kind in 16_u16..30, at in 0_usize..64, value: u8) {
            let _ = read(&bytes);
            let _ = read(&message(kind, &bytes));
            let mut known = message(kind, &route("2001:db8::", 32));
            let places = known.len();
            known[at % places] = value;
            let _ = read(&known);
            bytes.resize(bytes.len().max(20), 0);
            let _ = NeighbourEntry::decode(&bytes);
        }
    }
}
