// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a node last heard of its uplinks and the neighbours on them, and which news call for a
//! sweep.
//!
//! Three kinds do: a route that overlaps the /64 of a watched SID, the default route among them; a
//! neighbour on an uplink whose address to send to changed; an uplink that changed. All others are
//! passed over, and a neighbour that is merely confirmed is too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use crate::addr::MacAddr;
use crate::control::machine::Trigger;
use crate::id::InterfaceName;
use crate::kernel::netdev::Interface;
use crate::kernel::routing::{NeighbourEntry, NeighbourKey, Notice};
use crate::srv6::{BaseSid, LOCATOR_BITS};

/// An uplink as the kernel last described it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uplink {
    /// Its name.
    pub name: String,
    /// Its Ethernet address; zero where it has none.
    pub mac: MacAddr,
    /// Its greatest packet.
    pub mtu: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Whether there is a carrier.
    pub carrier: bool,
}

impl From<&Interface> for Uplink {
    fn from(interface: &Interface) -> Self {
        Self {
            name: interface.name.clone(),
            mac: MacAddr::new(interface.mac),
            mtu: interface.mtu,
            up: interface.up,
            carrier: interface.carrier,
        }
    }
}

/// What there is: uplinks by index, and the addresses of the neighbours on them that can be sent to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// Uplinks by their index.
    pub uplinks: BTreeMap<u32, Uplink>,
    /// Neighbours on uplinks that can be sent to.
    pub neighbours: BTreeMap<NeighbourKey, MacAddr>,
}

/// The view and its filter.
#[derive(Debug, Clone)]
pub(super) struct View {
    names: BTreeSet<InterfaceName>,
    locators: BTreeSet<u64>,
    /// None since something was lost.
    state: Option<State>,
}

impl View {
    pub(super) fn new(uplinks: &[InterfaceName]) -> Self {
        Self {
            names: uplinks.iter().cloned().collect(),
            locators: BTreeSet::new(),
            state: None,
        }
    }

    pub(super) fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Something was lost: what is known may be wrong.
    pub(super) fn lose(&mut self) {
        self.state = None;
    }

    /// Begins anew from a dump.
    pub(super) fn fill(&mut self, links: &[Interface], neighbours: &[NeighbourEntry]) {
        let uplinks: BTreeMap<_, _> = (links.iter())
            .filter(|link| self.is_uplink(&link.name))
            .map(|link| (link.index, Uplink::from(link)))
            .collect();
        let usable = |entry: &NeighbourEntry| Some((entry.key(), MacAddr::new(entry.usable()?)));
        let neighbours = (neighbours.iter())
            .filter(|entry| uplinks.contains_key(&entry.ifindex) && is_one(entry.address))
            .filter_map(usable)
            .collect();
        self.state = Some(State {
            uplinks,
            neighbours,
        });
    }

    /// From now on routes to these call for sweeps. Whether some of them did not before: then what
    /// happened to the routes of those was passed over.
    pub(super) fn watch(&mut self, sids: impl IntoIterator<Item = BaseSid>) -> bool {
        let locators: BTreeSet<_> = sids.into_iter().map(locator).collect();
        let added = !locators.is_subset(&self.locators);
        self.locators = locators;
        added
    }

    /// Takes in a notice; why it calls for a sweep, if it does.
    pub(super) fn apply(&mut self, notice: &Notice) -> Option<Trigger> {
        match notice {
            Notice::Route { destination, bits } => {
                self.concerns(*destination, *bits).then_some(Trigger::Route)
            }
            Notice::Link(interface) => self.link(interface).then_some(Trigger::Link),
            Notice::LinkGone(index) => self.link_gone(*index).then_some(Trigger::Link),
            Notice::Neighbour(entry) => self
                .neighbour(entry.key(), entry.usable())
                .then_some(Trigger::Neighbour),
            Notice::NeighbourGone(key) => self.neighbour(*key, None).then_some(Trigger::Neighbour),
        }
    }

    /// Whether a route overlaps the locator of a watched SID.
    fn concerns(&self, destination: Ipv6Addr, bits: u8) -> bool {
        let first = upper_half(destination);
        let width = u32::from(bits.min(LOCATOR_BITS));
        let below = u64::MAX.checked_shr(width).unwrap_or(0);
        self.locators
            .range(first & !below..=first | below)
            .next()
            .is_some()
    }

    fn link(&mut self, interface: &Interface) -> bool {
        let is_uplink = self.is_uplink(&interface.name);
        let Some(state) = &mut self.state else {
            // It may have been one under another name.
            return true;
        };
        if !is_uplink {
            return state.forget(interface.index);
        }
        let uplink = Uplink::from(interface);
        let old = state.uplinks.insert(interface.index, uplink.clone());
        old != Some(uplink)
    }

    fn link_gone(&mut self, index: u32) -> bool {
        self.state.as_mut().is_none_or(|state| state.forget(index))
    }

    fn neighbour(&mut self, key: NeighbourKey, usable: Option<[u8; 6]>) -> bool {
        if !is_one(key.1) {
            return false;
        }
        let Some(state) = &mut self.state else {
            return true;
        };
        if !state.uplinks.contains_key(&key.0) {
            return false;
        }
        let usable = usable.map(MacAddr::new);
        let old = match usable {
            Some(mac) => state.neighbours.insert(key, mac),
            None => state.neighbours.remove(&key),
        };
        old != usable
    }

    fn is_uplink(&self, name: &str) -> bool {
        self.names.iter().any(|uplink| uplink.as_str() == name)
    }
}

impl State {
    /// Forgets an interface and the neighbours on it; whether it was known.
    fn forget(&mut self, index: u32) -> bool {
        self.neighbours.retain(|&(ifindex, _), _| ifindex != index);
        self.uplinks.remove(&index).is_some()
    }
}

/// Whether an address is a neighbour's. The table has entries for multicast groups, too: they come
/// and go with what the node itself sends.
fn is_one(address: Ipv6Addr) -> bool {
    !address.is_multicast()
}

/// The /64 of a SID.
pub(super) fn locator(sid: BaseSid) -> u64 {
    upper_half(Ipv6Addr::from(sid))
}

fn upper_half(address: Ipv6Addr) -> u64 {
    (u128::from(address) >> u64::BITS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netdev;

    const UPLINK: u32 = 5;

    fn sid(text: &str) -> BaseSid {
        text.parse().unwrap()
    }

    /// A link as `ip` would show it. It is made by reading `lo`, and told other facts.
    fn link(index: u32, name: &str) -> Interface {
        let mut link = netdev::by_name("lo").unwrap().unwrap();
        link.index = index;
        link.name = name.to_owned();
        link.mac = [2, 0, 0, 0, 0, 5];
        link.mtu = 1500;
        (link.up, link.carrier) = (true, true);
        link
    }

    fn news(link: &Interface) -> Notice {
        Notice::Link(Box::new(link.clone()))
    }

    /// A view of the uplinks `up0` and `up1`, of which the first exists, watching one locator.
    fn view() -> View {
        let mut view = View::new(&["up0".parse().unwrap(), "up1".parse().unwrap()]);
        view.fill(&[link(UPLINK, "up0"), link(1, "lo")], &[]);
        assert!(view.watch([sid("2001:db8:ff09:10:e000::")]));
        view
    }

    fn route(text: &str, bits: u8) -> Notice {
        Notice::Route {
            destination: text.parse().unwrap(),
            bits,
        }
    }

    #[test]
    fn routes_count_that_overlap_a_locator() {
        let mut view = view();
        for (address, bits) in [
            ("::", 0),
            ("2000::", 3),
            ("2001:db8::", 32),
            ("2001:db8:ff09:10::", 63),
            ("2001:db8:ff09:10::", 64),
            ("2001:db8:ff09:10::", 65),
            ("2001:db8:ff09:10:ffff:ffff:ffff:ffff", 128),
            ("2001:db8:ff09:10:e000::", 128),
        ] {
            let found = view.apply(&route(address, bits));
            assert_eq!(found, Some(Trigger::Route), "{address}/{bits}");
        }
        for (address, bits) in [
            ("2001:db8:ff09:11::", 64),
            ("2001:db8:ff09:12::", 63),
            ("2001:db8:ff09:f::", 64),
            ("2001:db8:ff09:11::", 128),
            ("2001:db9::", 32),
            ("fe80::", 64),
            ("ff00::", 8),
            ("4000::", 2),
            ("8000::", 1),
        ] {
            assert_eq!(view.apply(&route(address, bits)), None, "{address}/{bits}");
        }
    }

    #[test]
    fn what_is_watched_anew_is_told() {
        let mut view = view();
        let (one, other) = (
            sid("2001:db8:ff09:10:e000::"),
            sid("2001:db8:ff09:11:e000::"),
        );
        assert!(!view.watch([one]), "the same");
        assert!(
            !view.watch([one, sid("2001:db8:ff09:10:d000::")]),
            "the same locator"
        );
        assert!(view.watch([one, other]));
        assert_eq!(
            view.apply(&route("2001:db8:ff09:11::", 64)),
            Some(Trigger::Route)
        );
        assert!(!view.watch([one]), "less");
        assert_eq!(view.apply(&route("2001:db8:ff09:11::", 64)), None);
        assert!(!view.watch([]));
        assert_eq!(view.apply(&route("::", 0)), None, "nobody needs it");
    }

    #[test]
    fn uplinks_count_when_they_change() {
        let mut view = view();
        let mut uplink = link(UPLINK, "up0");
        uplink.dropped.rx += 1;
        assert_eq!(view.apply(&news(&uplink)), None, "counters are no change");
        let changes: [fn(&mut Interface); 6] = [
            |link| link.mac[5] = 6,
            |link| link.mtu = 9000,
            |link| link.carrier = false,
            |link| link.up = false,
            |link| (link.up, link.carrier) = (true, true),
            |link| link.name = "up1".to_owned(),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            change(&mut uplink);
            assert_eq!(view.apply(&news(&uplink)), Some(Trigger::Link), "{at}");
            assert_eq!(view.apply(&news(&uplink)), None, "{at} again");
        }
        for other in [link(1, "lo"), link(9, "up00"), link(10, "veth0")] {
            assert_eq!(view.apply(&news(&other)), None, "{}", other.name);
        }
        assert_eq!(view.apply(&Notice::LinkGone(10)), None);
        assert_eq!(view.apply(&Notice::LinkGone(UPLINK)), Some(Trigger::Link));
        assert_eq!(view.apply(&Notice::LinkGone(UPLINK)), None);
    }

    #[test]
    fn an_uplink_is_its_name() {
        let mut view = view();
        assert_eq!(
            view.apply(&neighbour(UPLINK, libc_state("reachable"), 1)),
            NEIGHBOUR
        );
        assert_eq!(view.apply(&Notice::LinkGone(UPLINK)), Some(Trigger::Link));
        assert_eq!(
            view.state(),
            Some(&State::default()),
            "without it no neighbours"
        );
        assert_eq!(view.apply(&news(&link(17, "up0"))), Some(Trigger::Link));
        assert_eq!(
            view.apply(&neighbour(17, libc_state("stale"), 1)),
            NEIGHBOUR
        );
        assert_eq!(view.apply(&neighbour(UPLINK, libc_state("stale"), 1)), None);
        // It is renamed to something else, and something else to it.
        assert_eq!(view.apply(&news(&link(17, "old"))), Some(Trigger::Link));
        assert_eq!(view.apply(&neighbour(17, libc_state("stale"), 2)), None);
        assert_eq!(view.apply(&news(&link(9, "up0"))), Some(Trigger::Link));
        let uplinks: Vec<_> = view.state().unwrap().uplinks.keys().copied().collect();
        assert_eq!(uplinks, [9]);
    }

    const NEIGHBOUR: Option<Trigger> = Some(Trigger::Neighbour);

    fn libc_state(name: &str) -> u16 {
        // Values of linux/neighbour.h.
        match name {
            "reachable" => 0x02,
            "stale" => 0x04,
            "probe" => 0x10,
            "failed" => 0x20,
            _ => panic!("{name}"),
        }
    }

    fn entry(ifindex: u32, state: u16, last: u8) -> NeighbourEntry {
        NeighbourEntry {
            ifindex,
            address: "fe80::1".parse().unwrap(),
            mac: Some([2, 0, 0, 0, 1, last]),
            state,
            learned: false,
            managed: false,
            protocol: 0,
        }
    }

    fn neighbour(ifindex: u32, state: u16, last: u8) -> Notice {
        Notice::Neighbour(entry(ifindex, state, last))
    }

    #[test]
    fn neighbours_count_when_their_address_changes() {
        let mut view = view();
        let [reachable, stale, probe, failed] =
            ["reachable", "stale", "probe", "failed"].map(libc_state);
        let gone = Notice::NeighbourGone((UPLINK, "fe80::1".parse().unwrap()));
        for (at, (notice, expected)) in [
            (neighbour(UPLINK, failed, 1), None),
            (neighbour(UPLINK, reachable, 1), NEIGHBOUR),
            (neighbour(UPLINK, stale, 1), None),
            (neighbour(UPLINK, probe, 1), None),
            (neighbour(UPLINK, reachable, 2), NEIGHBOUR),
            (neighbour(UPLINK, failed, 2), NEIGHBOUR),
            (neighbour(UPLINK, reachable, 2), NEIGHBOUR),
            (gone.clone(), NEIGHBOUR),
            (gone, None),
            (neighbour(1, reachable, 1), None),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(view.apply(&notice), expected, "{at}");
        }
    }

    #[test]
    fn multicast_groups_are_no_neighbours() {
        // NUD_NOARP of linux/neighbour.h.
        let group = NeighbourEntry {
            address: "ff02::1:ff00:2".parse().unwrap(),
            ..entry(UPLINK, 0x40, 1)
        };
        assert!(group.usable().is_some());
        let mut view = view();
        view.fill(&[link(UPLINK, "up0")], &[group]);
        assert_eq!(view.state().map(|state| state.neighbours.len()), Some(0));
        assert_eq!(view.apply(&Notice::Neighbour(group)), None);
        assert_eq!(view.apply(&Notice::NeighbourGone(group.key())), None);
        view.lose();
        assert_eq!(view.apply(&Notice::Neighbour(group)), None);
    }

    #[test]
    fn without_a_view_every_change_of_a_link_or_neighbour_may_count() {
        let mut view = view();
        view.lose();
        assert_eq!(view.apply(&news(&link(9, "veth0"))), Some(Trigger::Link));
        assert_eq!(view.apply(&Notice::LinkGone(9)), Some(Trigger::Link));
        assert_eq!(view.apply(&neighbour(9, 2, 1)), NEIGHBOUR);
        assert_eq!(
            view.apply(&route("2001:db9::", 32)),
            None,
            "routes need none"
        );
        assert_eq!(view.apply(&route("::", 0)), Some(Trigger::Route));
        assert_eq!(view.state(), None);
        let entries = [entry(UPLINK, 2, 1), entry(1, 2, 1), entry(UPLINK, 0x20, 2)];
        view.fill(&[link(UPLINK, "up0")], &entries[..2]);
        let filled = view.state().cloned();
        assert_eq!(filled.as_ref().map(|state| state.neighbours.len()), Some(1));
        view.fill(&[link(UPLINK, "up0")], &entries[2..]);
        assert_eq!(view.state().map(|state| state.neighbours.len()), Some(0));
    }
}
