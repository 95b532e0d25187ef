// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Processes that are killed before each operation that they ask of the kernel, while packets of a
//! tenant go through the program to an uplink.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use guideway::control::kernel::{Live, LiveRoutes, Look, Operation};
use guideway::control::{
    install, invariants, observe, Desired, Install, Mode, Reachability, Unreached,
};
use guideway::egress::Aborted;
use guideway::group::Class;
use guideway::kernel::tc;
use guideway::route::Target;
use guideway::srv6::{Mtu, NextHop};
use nix::sys::signal::{raise, Signal};
use nix::sys::socket::{
    bind, recv, sendto, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag,
    SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::fixture::*;
use crate::live;
use crate::netns::{self, isolated, veth, within};
use crate::node::{converge, destination, round, FAR, ONLY66, STATIC};
use crate::udp6::frame;

const ROLE: &str = "GW_TEST_ROLE";
const AT: &str = "GW_TEST_KILLED_AT";
const UPLINK: &str = "GW_TEST_UPLINK";
const PATIENCE: Duration = Duration::from_secs(20);
/// The tenant whose packets go, and the one that is installed.
const TENANT: u32 = 1;
const NEW: u32 = 2;
const SOURCES: u16 = 12;

/// All shards are behind an uplink.
fn reached(uplink: u32) -> Reachability {
    let ways = (0..16).map(|number| {
        let way = hop(number);
        let way = NextHop::new(uplink, way.source(), way.destination(), Mtu::UNCHECKED);
        (sid(number), Ok::<_, Unreached>(way.expect("a next hop")))
    });
    Reachability(ways.collect())
}

fn in_groups() -> Desired {
    Desired {
        static_sids: vec![sid(STATIC)],
        ..hashed(list([dual(1), dual(2), shard66(ONLY66)]))
    }
}

fn in_order() -> Desired {
    ordered(&[STATIC])
}

fn wanted(role: &str) -> Desired {
    match role {
        "to groups" => in_groups(),
        "to shards" => in_order(),
        "fewer classes" => Desired {
            classes: classes(&[]),
            ..in_groups()
        },
        other => panic!("{other}"),
    }
}

/// Kills this process before an operation.
fn killer(at: u64) -> impl FnMut(&Operation) -> Result<(), Aborted> {
    let number = Cell::new(0);
    move |_| {
        if number.replace(number.get() + 1) == at {
            raise(Signal::SIGKILL).expect("killed");
        }
        Ok(())
    }
}

/// Not a test by itself.
#[test]
fn the_process_that_is_killed() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let number = |name| -> u64 {
        let text = std::env::var(name).expect("a number");
        text.parse().expect("a number")
    };
    let at = number(AT);
    let reach = reached(u32::try_from(number(UPLINK)).expect("an index"));
    if role == "install" {
        let egress = live::open();
        let tenant = tenant(NEW);
        let desired = in_groups();
        let request = Install::new(&tenant, &desired.classes, Mode::Hashed);
        let routes = LiveRoutes::observed(&egress, killer(at));
        install(&routes, &request, PATIENCE).expect("installed");
    } else {
        let mut writer = live::load();
        let mut live = Live::observed(&mut writer, killer(at));
        let (_, applied) = round(&mut live, &wanted(&role), &reach).expect("readable");
        assert!(applied.is_complete(), "{applied:#?}");
    }
}

/// Whether it was killed before it had done everything.
fn killed(role: &str, at: u64, uplink: u32) -> bool {
    let test = "killed::the_process_that_is_killed";
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env(AT, at.to_string())
        .env(UPLINK, uplink.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("a child");
    match status.signal() {
        Some(9) => true,
        None if status.success() => false,
        _ => panic!("{role} at {at}: {status}"),
    }
}

/// What a thread has seen on the uplink.
#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    /// Whether what is for NAT64's prefix may be NAT66's.
    without_nat64: AtomicBool,
    sent: AtomicU64,
    seen: AtomicU64,
    wrong: AtomicU64,
}

fn raw(interface: u32, listens: bool) -> OwnedFd {
    let protocol = if listens {
        Some(SockProtocol::EthAll)
    } else {
        None
    };
    let flags = SockFlag::empty();
    let socket = match protocol {
        Some(all) => socket(AddressFamily::Packet, SockType::Raw, flags, all),
        None => socket(AddressFamily::Packet, SockType::Raw, flags, None),
    };
    let socket = socket.expect("a socket");
    if listens {
        let limit = TimeVal::milliseconds(50);
        setsockopt(&socket, sockopt::ReceiveTimeout, &limit).expect("a time-out");
        let address = netns::packet_address(interface);
        bind(socket.as_raw_fd(), &address).expect("bound");
    }
    socket
}

/// Sends packets of both classes from all sources, over and over.
fn sender(inside: u32, tally: &Tally) {
    let socket = raw(inside, false);
    let address = netns::packet_address(inside);
    let far = [FAR.to_owned(), destination(nat64(NAT64))];
    let frames: Vec<_> = (0..SOURCES)
        .flat_map(|source| {
            let source = format!("2001:db8:aaaa::{source:x}");
            far.each_ref().map(|to| frame(&source, to))
        })
        .collect();
    while !tally.stop.load(Ordering::Relaxed) {
        for frame in &frames {
            let sent = sendto(socket.as_raw_fd(), frame, &address, MsgFlags::empty());
            sent.expect("sent");
            tally.sent.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Looks at each packet that leaves by the uplink. One that is for NAT64 must not be for the shard
/// that translates IPv6 alone.
fn listener(socket: &OwnedFd, tally: &Tally) {
    let prefix: guideway::group::Nat64Prefix = NAT64.parse().expect("a prefix");
    let prefix = prefix.address().octets();
    let only66 = sid(ONLY66).octets();
    let mut buffer = vec![0; 2048];
    while !tally.stop.load(Ordering::Relaxed) {
        let Ok(got) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) else {
            continue;
        };
        let packet = &buffer[..got];
        // Ethernet, the outer header with next header 41, the inner one.
        if got < 14 + 80 || packet[12..14] != [0x86, 0xdd] || packet[20] != 41 {
            continue;
        }
        tally.seen.fetch_add(1, Ordering::Relaxed);
        let (outer, inner) = (&packet[38..54], &packet[78..94]);
        let is_nat64 = inner[..12] == prefix[..12];
        let counts = !tally.without_nat64.load(Ordering::Relaxed);
        if counts && is_nat64 && outer[..8] == only66[..8] {
            tally.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs `test` with the index of an uplink while packets of a tenant go through the program.
fn under_traffic(test: impl FnOnce(u32, &Tally)) {
    let (tenant_side, inside) = veth("gw-tenant", "gw-inside");
    let (uplink, outside) = veth("gw-uplink", "gw-outside");
    let mut writer = live::load();
    let guard = writer.write_routes(PATIENCE).expect("free");
    guard
        .add_interface(tenant_side, &tenant(TENANT))
        .expect("room");
    drop(guard);
    converge(&mut Live::new(&mut writer), &in_order(), &reached(uplink));
    writer
        .attach(tenant_side, &tc::Options::default())
        .expect("attached");
    drop(writer);
    let tally = Arc::new(Tally::default());
    let socket = raw(outside, true);
    std::thread::scope(|scope| {
        scope.spawn(|| listener(&socket, &tally));
        scope.spawn(|| sender(inside, &tally));
        // Also when the test panics the others have to end.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(uplink, &tally)));
        tally.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    let (sent, seen) = (
        tally.sent.load(Ordering::Relaxed),
        tally.seen.load(Ordering::Relaxed),
    );
    println!("{sent} packets were sent, {seen} left by the uplink");
    assert!(seen > 1000, "{seen}");
    assert_eq!(tally.wrong.load(Ordering::Relaxed), 0);
}

/// Packets leave by the uplink now.
fn go_on(tally: &Tally) {
    let before = tally.seen.load(Ordering::Relaxed);
    let more = || tally.seen.load(Ordering::Relaxed) > before + 2 * u64::from(SOURCES);
    assert!(within(PATIENCE, more), "packets stopped");
}

/// No route of the loop's own leads to what forwards nothing, and every class has its route.
fn sound(live: &Live<'_>, desired: &Desired, when: &str) {
    let observed = observe(live, false, |_| Reachability::default()).expect("readable");
    let found = invariants(&observed, &desired.classes);
    assert_eq!(found.dead, 0, "{when}: {found:?}");
    assert!(found.duplicates.is_empty(), "{when}");
    for class in [Class::Nat66, nat64(NAT64)] {
        let route = observed.routes.get(&key(TENANT, class));
        let is_blocked = route.is_none_or(|route| matches!(route.target, Target::Block(_)));
        let is_configured = desired.classes.contains(class);
        assert!(
            !is_configured || !is_blocked,
            "{when}: {class} is {route:?}"
        );
    }
}

/// Kills the loop at every operation of the way to `role`, each time from what `from` wants.
fn at_every_operation(from: &Desired, role: &str, uplink: u32, tally: &Tally) -> u64 {
    let (to, reach) = (wanted(role), reached(uplink));
    let mut at = 0;
    loop {
        let mut writer = live::load();
        converge(&mut Live::new(&mut writer), from, &reach);
        drop(writer);
        let was_killed = killed(role, at, uplink);
        let when = format!("{role}, killed at {at}");
        let mut writer = live::load();
        let mut live = Live::new(&mut writer);
        sound(&live, &to, &when);
        go_on(tally);
        assert_eq!(tally.wrong.load(Ordering::Relaxed), 0, "{when}");
        converge(&mut live, &to, &reach);
        sound(&live, &to, &when);
        if !was_killed {
            return at;
        }
        at += 1;
    }
}

#[test]
fn the_loop_is_killed_on_the_way_to_groups_and_back() {
    isolated("control_apply::killed_modes", || {
        under_traffic(|uplink, tally| {
            let operations = at_every_operation(&in_order(), "to groups", uplink, tally);
            assert!(operations > 20, "{operations}");
            let operations = at_every_operation(&in_groups(), "to shards", uplink, tally);
            assert!(operations > 20, "{operations}");
        });
    });
}

#[test]
fn the_loop_is_killed_while_a_class_goes() {
    isolated("control_apply::killed_class", || {
        under_traffic(|uplink, tally| {
            // What is for its prefix is NAT66's when it has gone.
            tally.without_nat64.store(true, Ordering::Relaxed);
            let operations = at_every_operation(&in_groups(), "fewer classes", uplink, tally);
            assert!(operations > 20, "{operations}");
        });
    });
}

/// Who sets up a tenant is killed at every operation, and pins of the other tenant stay.
#[test]
fn who_installs_is_killed_at_every_operation() {
    isolated("control_apply::killed_install", || {
        under_traffic(|uplink, tally| {
            let reach = reached(uplink);
            let mut writer = live::load();
            converge(&mut Live::new(&mut writer), &in_groups(), &reach);
            drop(writer);
            go_on(tally);
            let pins = |live: &Live<'_>| -> u64 { live.pins().expect("readable").values().sum() };
            let all_pins = || pins(&Live::new(&mut live::load())) == 2 * u64::from(SOURCES);
            assert!(within(PATIENCE, all_pins), "each source has two");
            let mut at = 0;
            loop {
                let was_killed = killed("install", at, uplink);
                let mut writer = live::load();
                let live = Live::new(&mut writer);
                let when = format!("install, killed at {at}");
                sound(&live, &in_groups(), &when);
                let routes = live.routes().expect("readable").by_key;
                let has = |class| routes.contains_key(&key(NEW, class));
                assert!(
                    !has(Class::Nat66) || has(nat64(NAT64)),
                    "{when}: long prefixes first"
                );
                assert_eq!(pins(&live), 2 * u64::from(SOURCES), "{when}");
                // The next attempt ends it, and the loop has nothing to do.
                drop(writer);
                let egress = live::open();
                let (desired, tenant) = (in_groups(), tenant(NEW));
                let request = Install::new(&tenant, &desired.classes, Mode::Hashed);
                let installed = install(&LiveRoutes::new(&egress), &request, PATIENCE);
                installed.expect("installed");
                let guard = egress.write_routes(PATIENCE).expect("free");
                assert_eq!(guard.remove_all(tenant.table).expect("removed"), 2);
                drop(guard);
                let mut writer = live::load();
                converge(&mut Live::new(&mut writer), &desired, &reach);
                drop(writer);
                go_on(tally);
                if !was_killed {
                    break;
                }
                at += 1;
            }
            assert!(at > 6, "{at}");
        });
    });
}
