// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance with everything in it, and what of it must stay the same.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use guideway::egress::pins::Tick;
use guideway::egress::{Egress, Limits, Loader, Writer};
use guideway::group::{self, Class};
use guideway::kernel::map::Map;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::Section;
use guideway::kernel::tc::{Options, TcxLink, Way};
use guideway::kernel::typed::PerCpuArray;
use guideway::maglev::TableSize;

use crate::netns::{ifindex, veth, within, without_ipv6};
use crate::support::*;

/// Addresses of the tenant that have pins.
pub(crate) const ADDRESSES: u32 = 300;

pub(crate) fn source(number: u32) -> String {
    format!("2001:db8:aaaa::{number:x}")
}

/// Small, so that all sizes can be gone up and down.
pub(crate) fn small() -> Limits {
    let groups = group::Limits::new(4, 8, TableSize::SHARD).expect("limits");
    let limits = Limits::default().with_groups(groups);
    let limits = limits.with_tenants(16).and_then(|l| l.with_routes(64));
    let limits = limits.and_then(|l| l.with_pins(1024));
    limits.expect("in range")
}

/// More of everything.
pub(crate) fn large() -> Limits {
    let groups = group::Limits::new(6, 16, TableSize::SHARD).expect("limits");
    let limits = Limits::default().with_groups(groups);
    let limits = limits.with_tenants(32).and_then(|l| l.with_routes(128));
    let limits = limits.and_then(|l| l.with_pins(2048)?.with_flow_pins(8));
    let limits = limits.and_then(|l| l.with_ring_bytes(4096));
    limits.expect("in range")
}

/// The two interfaces of tenant 7.
pub(crate) struct Scene {
    pub(crate) interfaces: [u32; 2],
}

/// An instance with these limits, a tenant with two interfaces, one of each way to attach, two groups,
/// and pins of addresses whose shards are others than those of the table.
pub(crate) fn scene(limits: Limits, uplink: u32) -> Scene {
    without_ipv6();
    let (one, _) = veth("gw-in0", "gw-tenant0");
    let (other, _) = veth("gw-in1", "gw-tenant1");
    let mut writer = Loader::new(&dir()).limits(limits).load().expect("made");
    configure(&mut writer);
    publish_to(&mut writer, Class::Nat66, &[0x10, 0x11], uplink);
    publish_to(&mut writer, nat64(), &[0x20, 0x21], uplink);
    serve(&writer, one, 7, &[Class::Nat66, nat64()]);
    serve(&writer, other, 7, &[Class::Nat66, nat64()]);
    writer.attach(one, &Options::default()).expect("attached");
    let filter = Options {
        way: Way::Clsact,
        ..Options::default()
    };
    writer.attach(other, &filter).expect("attached");
    for number in 0..ADDRESSES {
        let shard = shard_of(&writer, one, &source(number), "2001:db8:1::1");
        assert!(shard.is_some());
    }
    // From now on the table would send some of them elsewhere.
    publish_to(&mut writer, Class::Nat66, &[0x10, 0x11, 0x12], uplink);
    Scene {
        interfaces: [one, other],
    }
}

/// As `publish`, with shards behind another interface.
pub(crate) fn publish_to(writer: &mut Writer, class: Class, numbers: &[u16], uplink: u32) {
    let mut spec = shards(numbers);
    for candidate in &mut spec.candidates {
        candidate.next_hop = Some(hop(uplink));
    }
    let plan = writer.plan_group(&place(writer, class), &spec);
    publish_plan(writer, plan.expect("a plan"));
}

/// All that a migration must keep, as texts to compare.
pub(crate) fn contents(egress: &Egress) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    let mut put = |what: &str, text: String| contents.insert(what.to_owned(), text);
    put("tenants", format!("{:?}", egress.tenants().expect("rows")));
    put("encap", format!("{:?}", egress.encap().expect("read")));
    for live in egress.groups().expect("read") {
        put(&format!("group {}", live.group), format!("{live:?}"));
    }
    let mut rows = BTreeSet::new();
    egress
        .for_each_route(|row| {
            rows.insert(format!("{row:?}"));
            std::ops::ControlFlow::Continue(())
        })
        .expect("read");
    put("routes", format!("{rows:?}"));
    let mut pins = BTreeSet::new();
    let all = egress.pins().expect("pins");
    all.for_each(|pin| {
        let pin = pin.expect("a pin");
        pins.insert(format!("{:?} {:?}", pin.holder, pin.held));
        std::ops::ControlFlow::Continue(())
    })
    .expect("read");
    put("pins", format!("{pins:?}"));
    put("usage", format!("{:?}", all.usage().expect("read")));
    put("counters", format!("{:?}", egress.stats().expect("read")));
    put("shards", format!("{:?}", shard_counts(egress)));
    contents
}

/// Insists that two of these are the same, and shows what is not.
pub(crate) fn same(found: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) {
    for (what, expected) in expected {
        let found = found.get(what);
        let shown = |text: &String| text.chars().take(2_000).collect::<String>();
        assert!(
            found == Some(expected),
            "{what}: {:?}, not {}",
            found.map(shown),
            shown(expected)
        );
    }
}

/// Packets by group and slot.
pub(crate) fn shard_counts(egress: &Egress) -> BTreeMap<(u32, u32), u64> {
    let map = Map::open_any(&dir().pin(Section::Maps, "gw_shardstat")).expect("a map");
    let counts = PerCpuArray::<guideway::abi::ShardStats>::new(map).expect("counters");
    let members = u32::from(egress.limits().groups().members());
    let mut packets = BTreeMap::new();
    counts
        .for_each(|index, cpus| {
            let sum: u64 = cpus.iter().map(|cpu| cpu.packets).sum();
            if sum > 0 {
                packets.insert((index / members, index % members), sum);
            }
        })
        .expect("read");
    packets
}

/// What is pinned below the directory of all instances: by its path, what it is.
pub(crate) fn pinned() -> BTreeMap<String, Object> {
    let mut pinned = BTreeMap::new();
    let parent = dir().path().parent().expect("a parent").to_path_buf();
    walk(&parent, &mut pinned);
    pinned
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Map(u32),
    Program(u32),
    Link(u32),
    Directory,
}

fn walk(path: &Path, pinned: &mut BTreeMap<String, Object>) {
    for entry in std::fs::read_dir(path).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.display().to_string();
        if path.is_dir() {
            pinned.insert(name, Object::Directory);
            walk(&path, pinned);
        } else if let Ok(map) = Map::open_any(&path) {
            pinned.insert(name, Object::Map(map.id()));
        } else if let Ok(program) = Program::open(&path) {
            pinned.insert(name, Object::Program(program.id()));
        } else {
            let link = TcxLink::open(&path).expect("a link");
            pinned.insert(name, Object::Link(link.state().expect("known").id));
        }
    }
}

/// The kernel's objects are gone, but for those that are pinned.
pub(crate) fn nothing_leaks(known: &BTreeSet<Object>) {
    let stay: BTreeSet<Object> = pinned().into_values().collect();
    let names: Vec<_> = pinned().into_keys().collect();
    let own = dir().path().display().to_string();
    let others = names.iter().filter(|name| !name.starts_with(&own));
    assert_eq!(others.count(), 0, "{names:?}");
    assert!(!names.iter().any(|name| name.contains("takeover")));
    for object in known.difference(&stay) {
        let gone = || !exists(*object);
        assert!(
            within(std::time::Duration::from_secs(20), gone),
            "{object:?} is left; pinned are {names:?}"
        );
    }
}

fn exists(object: Object) -> bool {
    // SAFETY: no memory is passed.
    let fd = unsafe {
        match object {
            Object::Map(id) => libbpf_sys::bpf_map_get_fd_by_id(id),
            Object::Program(id) => libbpf_sys::bpf_prog_get_fd_by_id(id),
            Object::Link(id) => libbpf_sys::bpf_link_get_fd_by_id(id),
            Object::Directory => return false,
        }
    };
    if fd < 0 {
        return false;
    }
    // SAFETY: the descriptor is new.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

/// Every interface of the scene runs the pinned program, and every address has the shard that it had.
pub(crate) fn whole(scene: &Scene, shards: &BTreeMap<u32, u16>) {
    let egress = open();
    let attachments = egress.attachments().expect("known");
    let runs: BTreeMap<_, _> = attachments
        .iter()
        .map(|view| (view.ifindex, view.program_id))
        .collect();
    let program = Some(egress.program().id());
    let expected = scene.interfaces.map(|ifindex| (ifindex, program));
    assert_eq!(runs, expected.into_iter().collect());
    for (number, shard) in shards {
        let interface = scene.interfaces[*number as usize % 2];
        let found = shard_of(&egress, interface, &source(*number), "2001:db8:1::1");
        assert_eq!(found, Some(*shard), "address {number}");
    }
    let status = egress.pin_status(Tick::now()).expect("read");
    assert!(status.drifts().next().is_none(), "counts differ from pins");
}

/// The shard of each address by now.
pub(crate) fn shards_of(scene: &Scene) -> BTreeMap<u32, u16> {
    let egress = open();
    let shard = |number| {
        let found = shard_of(
            &egress,
            scene.interfaces[0],
            &source(number),
            "2001:db8:1::1",
        );
        (number, found.expect("sent"))
    };
    (0..ADDRESSES).map(shard).collect()
}

/// The uplink of a scene without traffic.
pub(crate) fn loopback() -> u32 {
    ifindex("lo")
}
