// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance with a tenant's interface and an uplink, and packets.

use std::net::Ipv6Addr;
use std::time::Duration;

use guideway::egress::{Egress, Loader, Published, Subject, To, Writer};
use guideway::encap::Encap;
use guideway::group::{
    Candidate, Class, Classes, ConfiguredClass, GroupId, GroupPlan, GroupSpec, Place,
};
use guideway::kernel::map::Map;
use guideway::kernel::run::{Classified, ClassifierRun};
use guideway::kernel::statedir::{Section, StateDir, StateRoot};
use guideway::route::{Prefix, TableId};
use guideway::srv6::{Argument, BaseSid, Mtu, NextHop};
use guideway::tenant::Tenant;

pub(crate) use crate::udp6::frame;

use crate::netns;

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Long enough to be refused, short for a test.
pub(crate) const SHORT: Duration = Duration::from_millis(60);
pub(crate) const PREFIX: &str = "64:ff9b::/96";

pub(crate) fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).egress()
}

pub(crate) fn load() -> Writer {
    Loader::new(&dir()).load().expect("an instance")
}

pub(crate) fn open() -> Egress {
    Egress::open(&dir()).expect("an instance")
}

/// The names in the directory of snapshots.
pub(crate) fn stored() -> Vec<String> {
    dir().pins(Section::Generations).expect("a directory")
}

/// The kernel's number of what is live, as it tells without this library's reading of snapshots.
pub(crate) fn live_id(subject: Subject) -> Option<u32> {
    let (map, index) = match subject {
        Subject::Config => ("gw_eg_config", 0),
        Subject::Group(group) => ("gw_groups", u32::from(group.get())),
    };
    let map = Map::open_any(&dir().pin(Section::Maps, map)).expect("a map");
    let mut id = [0; 4];
    let found = map.lookup(&index.to_ne_bytes(), &mut id).expect("readable");
    found.then_some(u32::from_ne_bytes(id))
}

pub(crate) fn nat64() -> Class {
    let prefix = PREFIX.parse().expect("a prefix");
    Class::Nat64(prefix)
}

pub(crate) fn place(writer: &Writer, class: Class) -> Place {
    let configured = [Class::Nat66, nat64()].map(|class| ConfiguredClass {
        class,
        hash_group: None,
    });
    let classes = Classes::new(configured, writer.limits().groups()).expect("classes");
    let places = writer.places(&classes, |_| 0).expect("readable");
    places.of(class).expect("a place")
}

pub(crate) fn sid(number: u16) -> BaseSid {
    let sid = Ipv6Addr::new(0x2001, 0xdb8, 0xff09, number, 0xe000, 0, 0, 0);
    BaseSid::new(sid).expect("a SID")
}

pub(crate) fn hop(ifindex: u32) -> NextHop {
    let (source, destination) = ("02:00:00:00:08:08", "02:00:00:00:09:09");
    let (source, destination) = (
        source.parse().expect("an address"),
        destination.parse().expect("an address"),
    );
    NextHop::new(ifindex, source, destination, Mtu::UNCHECKED).expect("a next hop")
}

/// These shards behind loopback, which exists everywhere.
pub(crate) fn shards(numbers: &[u16]) -> GroupSpec {
    let candidates = numbers
        .iter()
        .map(|&number| Candidate::new(sid(number), hop(1)));
    GroupSpec {
        candidates: candidates.collect(),
        ..GroupSpec::default()
    }
}

pub(crate) fn plan(writer: &Writer, class: Class, numbers: &[u16]) -> GroupPlan {
    let plan = writer.plan_group(&place(writer, class), &shards(numbers));
    plan.expect("a plan")
}

pub(crate) fn publish_plan(writer: &mut Writer, plan: GroupPlan) -> Published {
    let mut results = writer.publish(&[plan]).expect("possible");
    results.remove(0).expect("published")
}

pub(crate) fn publish(writer: &mut Writer, class: Class, numbers: &[u16]) -> Published {
    let plan = plan(writer, class, numbers);
    publish_plan(writer, plan)
}

/// Numbers, slots and slot generations of a group's members.
pub(crate) fn members(egress: &Egress, group: GroupId) -> Vec<(u16, u16, u32)> {
    let snapshot = egress.group(group).expect("readable").expect("published");
    let member = |member: &guideway::group::Member| {
        let number = member.sid.address().segments()[3];
        (number, member.slot.get(), member.generation.get())
    };
    snapshot.members.iter().map(member).collect()
}

pub(crate) fn tenant(table: u32) -> Tenant {
    Tenant::new(
        TableId::new(table),
        Argument::new(0x2a5).expect("an Argument"),
    )
}

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

pub(crate) fn configure(writer: &mut Writer) {
    let node = "2001:db8:ff01:1:e000::".parse().expect("a SID");
    writer.set_encap(&Encap::compat(node)).expect("published");
}

/// Lets a tenant's packets at an interface go to the groups of these classes.
pub(crate) fn serve(writer: &Writer, ifindex: u32, table: u32, classes: &[Class]) {
    let guard = writer.write_routes(PATIENCE).expect("free");
    let tickets: Vec<_> = classes
        .iter()
        .map(|&class| guard.ticket(class).expect("open"))
        .collect();
    let routes: Vec<_> = tickets
        .iter()
        .map(|ticket| {
            let (address, bits) = ticket.class().prefix();
            let prefix = Prefix::new(address.into(), bits.into()).expect("a prefix");
            (prefix, To::Group(ticket))
        })
        .collect();
    guard.install(&tenant(table), &routes).expect("room");
    guard.add_interface(ifindex, &tenant(table)).expect("room");
    drop(tickets);
    guard.verify().expect("written");
}

/// What the program does with a packet of a tenant.
pub(crate) fn run(egress: &Egress, ifindex: u32, source: &str, destination: &str) -> Classified {
    let frame = frame(source, destination);
    let run = ClassifierRun {
        frame: &frame,
        ifindex,
        gso_bytes: 0,
        mark: 0,
        priority: 0,
    };
    run.run(egress.program()).expect("a run")
}

pub(crate) const PASSED: i32 = -1;
pub(crate) const DROPPED: i32 = 2;
pub(crate) const SENT: i32 = 7;

/// The shard that a packet goes to; none if it is dropped. It must not pass.
pub(crate) fn shard_of(
    egress: &Egress,
    ifindex: u32,
    source: &str,
    destination: &str,
) -> Option<u16> {
    let done = run(egress, ifindex, source, destination);
    match done.action {
        DROPPED => None,
        SENT => Some(u16::from_be_bytes([done.frame[44], done.frame[45]])),
        action => panic!("verdict {action}"),
    }
}

/// The sum of a counter of `enum gw_egress_counter`.
pub(crate) fn counter(number: guideway::abi::EgressCounter) -> u64 {
    let map = Map::open_any(&dir().pin(Section::Maps, "gw_eg_stat")).expect("a map");
    let counts = guideway::kernel::typed::PerCpuArray::<u64>::new(map).expect("counters");
    let counts = counts.get(number.0).expect("readable");
    counts.iter().sum()
}

/// Puts a snapshot into force without this library's publication.
pub(crate) fn force(group: GroupId, bytes: &[u8]) {
    let shape = guideway::kernel::egress_object::Sizes::default().snapshot_shape();
    let snapshot = guideway::kernel::snapshot::Snapshot::create(&shape).expect("a snapshot");
    snapshot.fill(bytes).expect("filled");
    snapshot.freeze().expect("frozen");
    let path = dir().pin(Section::Generations, &format!("g{group}"));
    let _ = std::fs::remove_file(&path);
    snapshot.map().pin(&path).expect("pinned");
    let groups = Map::open_any(&dir().pin(Section::Maps, "gw_groups")).expect("a map");
    let slots = guideway::kernel::snapshot::Slots::new(groups).expect("slots");
    slots.swap(group.get().into(), &snapshot).expect("swapped");
}

/// Writes a route as a program does that keeps no barrier.
pub(crate) fn put_row(key: &guideway::route::Key, route: &guideway::route::Route) {
    let map = Map::open_any(&dir().pin(Section::Maps, "gw_routes")).expect("a map");
    let (key, row) = (key.to_row(), route.to_row());
    let update = guideway::kernel::map::Update::Any;
    map.update(bytemuck::bytes_of(&key), bytemuck::bytes_of(&row), update)
        .expect("room");
}
