// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance in a test's own piece of kernel.

use guideway::egress::{Egress, Limits, Loader, Writer};
use guideway::kernel::map::{Map, Update};
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
