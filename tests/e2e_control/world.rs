// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants, a node with the egress program and a control loop, three shards, a server.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv6Addr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway::control::kernel::LiveRoutes;
use guideway::control::machine::Timing;
use guideway::control::{install, Desired, Install, Known, Mode, Policy, Shard, ShardList};
use guideway::egress::pins::{Held, Holder};
use guideway::egress::{Build, Egress, Limits, Loader, Stats};
use guideway::encap::Encap;
use guideway::group::{
    self, Class, Classes, ConfiguredClass, MemberState, Nat64Prefix, PinIdle, Settings, Snapshot,
    State,
};
use guideway::kernel::statedir::{Section, StateDir, StateRoot};
use guideway::kernel::tc;
use guideway::placement::{HashKey, Scope};
use guideway::route::{Key, Prefix, TableId, Target};
use guideway::srv6::BaseSid;
use guideway::tenant::Tenant;

use crate::control::{Loop, Order, Setup};
use crate::namespace::Namespace;
use crate::net::{self, Network};
use crate::netns;
use crate::process::Process;
use crate::steady::ByTable;
use crate::traffic::Server;

pub(crate) const SHARDS: u32 = 3;
pub(crate) const TENANTS: u32 = 4;
/// A destination of the other class. The NATs translate to its address as they do to the server's.
pub(crate) const OTHER: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 1);
/// What an idle machine does in milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// From a change of a route to a table that knows it.
pub(crate) const ROUTE_LIMIT: Duration = Duration::from_secs(1);
/// From the loss of a neighbour to a table without it, at the default hold.
pub(crate) const NEIGHBOUR_LIMIT: Duration = Duration::from_secs(2);
pub(crate) const DOWN_HOLD: Duration = Duration::from_secs(1);
const PINS: u32 = 4096;

pub(crate) struct World {
    pub(crate) node: Arc<Namespace>,
    pub(crate) tenants: Arc<Vec<Namespace>>,
    pub(crate) shards: Vec<net::Shard>,
    pub(crate) desired: Desired,
    control: Option<Control>,
    setup: Setup,
    egress: Egress,
    _server: Server,
}

/// The SID of a shard.
pub(crate) fn sid(shard: u32) -> BaseSid {
    let text = format!("2001:db8:ff09:{:x}:e000::", 0x10 + shard);
    text.parse().expect("a SID")
}

/// The route of the node to a shard.
pub(crate) fn route(shard: u32) -> String {
    let node = 0x10 + shard;
    format!("2001:db8:ff09:{node:x}::/64 via fe80::2 dev up{shard}")
}

fn table(tenant: u32) -> TableId {
    TableId::new(100 + tenant)
}

/// The class of [`OTHER`].
pub(crate) fn nat64() -> Class {
    Class::Nat64(Nat64Prefix::WELL_KNOWN)
}

/// All shards translate to IPv6. The last two have an IPv4 address as well, and translate the
/// well-known prefix.
pub(crate) fn listed(shard: u32) -> Shard {
    let mut listed = Shard::new(format!("egress/shard-{shard}"), sid(shard));
    listed.ipv6 = true;
    (listed.ipv4, listed.well_known_prefix) = (shard > 1, shard > 1);
    listed
}

/// These are all shards that there are.
pub(crate) fn only(shards: &[u32]) -> Known<ShardList> {
    Known::Known(ShardList {
        shards: shards.iter().map(|&shard| listed(shard)).collect(),
        faults: Vec::new(),
    })
}

pub(crate) fn classes(classes: &[Class]) -> Classes {
    let entries = classes.iter().map(|&class| ConfiguredClass::from(class));
    Classes::new(entries, group::Limits::default()).expect("few classes")
}

/// What most tests want: all shards, in hashed mode, NAT66 alone.
fn desired() -> Desired {
    let node_sid = "2001:db8:ff01:1:e000::".parse().expect("a SID");
    let pin_idle = PinIdle::from_secs(600).expect("some minutes");
    Desired {
        mode: Mode::Hashed,
        classes: classes(&[Class::Nat66]),
        settings: Settings {
            pin_idle,
            ..Settings::default()
        },
        encap: Encap::standard(node_sid),
        shards: only(&[1, 2, 3]),
        static_sids: vec![sid(2), sid(3)],
        policy: Policy::default(),
        overrides: BTreeMap::new(),
    }
}

/// Who keeps the node in line.
enum Control {
    Loop(Loop),
    Process(Process),
}

impl Control {
    fn end(self) {
        match self {
            Self::Loop(control) => control.end(),
            Self::Process(mut process) => process.stop(),
        }
    }
}

/// Runs a test with a world whose loop looks again after `interval` by itself. Without a kernel that
/// can do what it takes the test says so and passes.
pub(crate) fn with_world(
    name: &str,
    interval: Duration,
    test: impl FnOnce(&mut World) + Send + 'static,
) {
    let start = |node: &Arc<Namespace>, setup: &Setup, desired: &Desired| {
        let setup = Setup {
            timing: Timing {
                interval,
                ..Timing::default()
            },
            ..setup.clone()
        };
        Control::Loop(Loop::start(Arc::clone(node), setup, desired.clone()))
    };
    with(name, start, test);
}

/// The same with the tool, as it is by default.
pub(crate) fn with_daemon(name: &str, test: impl FnOnce(&mut World) + Send + 'static) {
    let start = |node: &Arc<Namespace>, setup: &Setup, desired: &Desired| {
        Control::Process(Process::start(node, setup, desired))
    };
    with(name, start, test);
}

fn with(
    name: &str,
    start: impl FnOnce(&Arc<Namespace>, &Setup, &Desired) -> Control,
    test: impl FnOnce(&mut World) + Send + 'static,
) {
    if !netns::require_kernel(name) || !netns::require_seg6(name) {
        return;
    }
    let mut world = World::build(start).expect("a world");
    test(&mut world);
    world.control.take().expect("a loop").end();
}

impl World {
    fn build(start: impl FnOnce(&Arc<Namespace>, &Setup, &Desired) -> Control) -> io::Result<Self> {
        let sids: Vec<_> = (1..=SHARDS).map(sid).collect();
        let Network {
            tenants,
            node,
            shards,
            server,
        } = Network::build(TENANTS, &sids)?;
        server.ip(&format!("addr add {OTHER}/128 dev lo nodad\n"))?;
        let listening = Server::start(&server, OTHER)?;
        for shard in &shards {
            shard
                .translation
                .ip(&format!("route add {OTHER}/128 via fe80::1 dev out\n"))?;
            node.ip(&format!("route add {}\n", route(shard.number)))?;
        }
        for (number, tenant) in (0..).zip(&tenants) {
            // Any address of its network can be its own.
            let network = net::address(number, 0);
            let network = Ipv6Addr::from(u128::from(network) >> 64 << 64);
            tenant.ip(&format!("route add local {network}/64 dev lo\n"))?;
            tenant.run(|| std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"))??;
        }
        let dir = node.run(|| StateRoot::default().egress())?;
        let desired = desired();
        let egress = node.run(|| attach(&dir, &desired))?;
        let node = Arc::new(node);
        let setup = Setup {
            dir,
            uplinks: (1..=SHARDS)
                .map(|shard| format!("up{shard}").parse().expect("a name"))
                .collect(),
            timing: Timing::default(),
            down_hold: DOWN_HOLD,
            pins: PINS,
        };
        let control = start(&node, &setup, &desired);
        let world = Self {
            node,
            tenants: Arc::new(tenants),
            shards,
            desired,
            control: Some(control),
            setup,
            egress,
            _server: listening,
        };
        world.until_active(&[1, 2, 3], Instant::now());
        Ok(world)
    }

    /// Changes what is wanted.
    pub(crate) fn want(&mut self, change: impl FnOnce(&mut Desired)) {
        change(&mut self.desired);
        match &self.control {
            Some(Control::Process(process)) => process.want(&self.setup, &self.desired),
            _ => self.order(Order::Want(Box::new(self.desired.clone()))),
        }
    }

    pub(crate) fn order(&self, order: Order) {
        match &self.control {
            Some(Control::Loop(control)) => control.order(order),
            _ => panic!("there is no loop"),
        }
    }

    pub(crate) fn shard(&self, number: u32) -> &net::Shard {
        &self.shards[number as usize - 1]
    }

    /// Runs commands of `ip` at the node, one a line.
    pub(crate) fn ip(&self, commands: &str) {
        self.node.ip(&format!("{commands}\n")).expect("ip");
    }

    /// The group of a class as packets see it.
    pub(crate) fn group(&self, class: Class) -> Option<Snapshot> {
        // Snapshots are read by their paths, which are the node's.
        let groups = self.node.run(|| self.egress.groups());
        let groups = groups.expect("inside").expect("groups");
        let mut groups = groups.into_iter();
        groups.find(|group| group.class == class && group.state != State::Disabled)
    }

    /// The shards that new addresses of a class are spread over.
    pub(crate) fn active(&self, class: Class) -> Vec<u32> {
        let group = self.group(class);
        let members = group.iter().flat_map(|group| &group.members);
        let active = members.filter(|member| member.state() == MemberState::Active);
        active
            .map(|member| u32::from(member.sid.node_id()) - 0x10)
            .collect()
    }

    /// Where the route of a class leads in each tenant's table that has one.
    pub(crate) fn targets(&self, class: Class) -> Vec<Target> {
        let (address, bits) = class.prefix();
        let prefix = Prefix::new(address.into(), bits.into()).expect("a prefix");
        let tables = (0..TENANTS).map(table);
        let route = |table| {
            let routes = self.egress.routes(table).expect("routes");
            let route = routes.get(&Key { table, prefix })?;
            Some(route.target)
        };
        tables.filter_map(route).collect()
    }

    /// Waits until the routes of a class lead where `is_right` says, in all tables.
    #[track_caller]
    pub(crate) fn until_routes(&self, class: Class, is_right: impl Fn(&Target) -> bool) {
        let found = self.within(PATIENCE, |world| {
            let targets = world.targets(class);
            targets.len() == TENANTS as usize && targets.iter().all(&is_right)
        });
        assert!(found, "{:?}", self.targets(class));
    }

    /// Ends the loop, and begins another one; the tool, if it has ended.
    pub(crate) fn restart(&mut self) {
        self.control = match self.control.take() {
            Some(Control::Process(mut process)) => {
                process.again(&self.node);
                Some(Control::Process(process))
            }
            Some(Control::Loop(control)) => {
                control.end();
                let (node, setup) = (Arc::clone(&self.node), self.setup.clone());
                Some(Control::Loop(Loop::start(
                    node,
                    setup,
                    self.desired.clone(),
                )))
            }
            None => None,
        };
    }

    fn process(&mut self) -> &mut Process {
        match &mut self.control {
            Some(Control::Process(process)) => process,
            _ => panic!("there is none"),
        }
    }

    /// Ends the tool in good order.
    pub(crate) fn stop(&mut self) {
        self.process().stop();
    }

    /// Forgets of which build the program is: the next tool takes it for another one's.
    pub(crate) fn forget_build(&self) {
        let known = Build::pin(self.program());
        let known = self.setup.dir.pin(Section::Programs, &known);
        let removed = self.node.run(|| std::fs::remove_file(known));
        if let Err(error) = removed.expect("inside") {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }

    /// The program that is pinned now.
    pub(crate) fn program(&self) -> u32 {
        let opened = self.node.run(|| Egress::open(&self.setup.dir));
        opened.expect("inside").expect("an instance").program().id()
    }

    /// What the program has counted.
    pub(crate) fn stats(&self) -> Stats {
        self.egress.stats().expect("readable")
    }

    /// Who has a pin, and to which tenure of which slot.
    pub(crate) fn pins(&self) -> BTreeMap<Holder, Held> {
        let mut pins = BTreeMap::new();
        let all = self.egress.pins().expect("pins");
        let read = all.for_each(|pin| {
            let pin = pin.expect("a pin");
            pins.insert(pin.holder, pin.held);
            ControlFlow::Continue(())
        });
        read.expect("readable");
        pins
    }

    /// Where addresses without a pin go by now, by this library's own reckoning.
    pub(crate) fn by_table(&self, class: Class) -> ByTable {
        let group = self.group(class).expect("a group");
        Box::new(move |tenant, from| {
            let scope = Scope {
                table: Tenant::new(table(tenant), net::argument(tenant)).hash_table,
                group: group.hash_group,
            };
            let key = HashKey::source(scope, from.into());
            let member = group.place(key.hash32()).expect("a member");
            u32::from(member.sid.node_id()) - 0x10
        })
    }

    /// Ends the tool as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process().kill();
    }

    /// Waits until the tool's log has these words.
    #[track_caller]
    pub(crate) fn until_said(&mut self, words: &str) {
        let process = self.process();
        let said = netns::within(PATIENCE, || process.log().contains(words));
        assert!(said, "no {words:?}: {}", process.log());
    }

    pub(crate) fn within(&self, limit: Duration, mut is_true: impl FnMut(&Self) -> bool) -> bool {
        netns::within(limit, || is_true(self))
    }

    /// How long it takes until these are the shards of NAT66.
    #[track_caller]
    pub(crate) fn until_active(&self, expected: &[u32], begin: Instant) -> Duration {
        let found = self.within(PATIENCE, |world| world.active(Class::Nat66) == expected);
        let log = match &self.control {
            Some(Control::Process(process)) => process.log(),
            _ => String::new(),
        };
        let active = self.active(Class::Nat66);
        assert!(found, "{active:?}, not {expected:?}\n{log}");
        begin.elapsed()
    }
}

/// Makes the instance with all tenants, as an attach path would do before there is any group.
fn attach(dir: &StateDir, desired: &Desired) -> Egress {
    let limits = Limits::default().with_pins(PINS).expect("few pins");
    let mut writer = Loader::new(dir).limits(limits).load().expect("an instance");
    for number in 0..TENANTS {
        let ifindex = netns::ifindex(&net::interface(number));
        writer
            .attach(ifindex, &tc::Options::default())
            .expect("attached");
    }
    drop(writer);
    let egress = Egress::open(dir).expect("an instance");
    for number in 0..TENANTS {
        let tenant = Tenant::new(table(number), net::argument(number));
        let request = Install::new(&tenant, &desired.classes, desired.mode);
        install(&LiveRoutes::new(&egress), &request, PATIENCE).expect("routes");
        let guard = egress.write_routes(PATIENCE).expect("a guard");
        let ifindex = netns::ifindex(&net::interface(number));
        guard.add_interface(ifindex, &tenant).expect("a row");
    }
    egress
}
