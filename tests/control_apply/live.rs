// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance in a test's own piece of kernel.

use guideway::egress::{Egress, Limits, Loader, Writer};
use guideway::group::GroupId;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::snapshot;
use guideway::kernel::statedir::{Section, StateDir, StateRoot};
use guideway::route::Key;
use guideway::tenant::Tenant;

use crate::fixture;
use crate::netns;

/// Routes that there is room for.
pub(crate) const ROOM: usize = 8;

pub(crate) fn dir() -> StateDir {
    StateRoot::new(netns::BPFFS).egress()
}

/// An instance with the fixture's limits, made if there is none.
pub(crate) fn load() -> Writer {
    let limits = Limits::default().with_groups(fixture::limits());
    let limits = limits.with_routes(ROOM as u32).expect("limits");
    let loader = Loader::new(&dir()).limits(limits);
    loader.load().expect("an instance")
}

pub(crate) fn open() -> Egress {
    Egress::open(&dir()).expect("an instance")
}

fn map(name: &str) -> Map {
    Map::open_any(&dir().pin(Section::Maps, name)).expect("a map")
}

/// Puts another snapshot of a group into force without this library's publication.
pub(crate) fn damage(group: GroupId, change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir().pin(Section::Generations, &format!("g{group}"));
    let shape = Map::open_any(&path).expect("a snapshot").shape().clone();
    let mut bytes = snapshot::Snapshot::open(&path, &shape)
        .and_then(|live| Ok(live.read()?))
        .expect("readable");
    change(&mut bytes);
    let damaged = snapshot::Snapshot::create(&shape).expect("a snapshot");
    damaged.fill(&bytes).expect("filled");
    damaged.freeze().expect("frozen");
    lose(&format!("g{group}"));
    damaged.map().pin(&path).expect("pinned");
    let slots = snapshot::Slots::new(map("gw_groups")).expect("slots");
    slots.swap(group.get().into(), &damaged).expect("swapped");
}

/// Removes a pin of what is in force: nobody can read it any more, and packets go on by it.
pub(crate) fn lose(name: &str) {
    let path = dir().pin(Section::Generations, name);
    std::fs::remove_file(path).expect("a pin");
}

/// Writes the row of an interface, as a program does that keeps no barrier.
pub(crate) fn put_tenant(ifindex: u32, tenant: &Tenant) {
    let row = tenant.to_row(ifindex);
    let tenants = map("gw_tenants");
    let key = ifindex.to_ne_bytes();
    let put = tenants.update(&key, bytemuck::bytes_of(&row), Update::Any);
    put.expect("room");
}

/// Writes a row of a route, as a program does that keeps no barrier.
pub(crate) fn put_row(key: &Key, row: &guideway::abi::Route) {
    let key = key.to_row();
    let routes = map("gw_routes");
    let key = bytemuck::bytes_of(&key);
    let put = routes.update(key, bytemuck::bytes_of(row), Update::Any);
    put.expect("room");
}
