// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Processes that are killed before each operation that they ask of the kernel, while packets of a
//! tenant go through the program to an uplink.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use guideway::control::kernel::{Live, LiveRoutes, Look, Operation};
use guideway::control::{
    install, invariants, observe, Desired, Install, Mode, Reachability, Shard, Unreached,
};
use guideway::egress::pins::{Held, Holder};
use guideway::egress::Aborted;
use guideway::group::{Class, ConfiguredClass, GroupId, Incarnation, Snapshot, State};
use guideway::placement::HashGroup;
use guideway::route::Target;
use guideway::srv6::{Mtu, NextHop};
use nix::sys::signal::{raise, Signal};

use crate::fixture::*;
use crate::live;
use crate::netns::{isolated, within};
use crate::node::{converge, names, other_encap, plan, round, unlisted, ONLY66, STATIC};
use crate::traffic::{
    destinations, under_traffic, Traffic, ONLY64, OTHER, PATIENCE, SOURCES, TENANT,
};

const ROLE: &str = "GW_TEST_ROLE";
const AT: &str = "GW_TEST_KILLED_AT";
const UPLINK: &str = "GW_TEST_UPLINK";
/// The tenant that is installed.
const NEW: u32 = 2;
/// The shard that is lost.
const LOST: u16 = 2;

/// All shards are behind an uplink.
fn reached(uplink: u32) -> Reachability {
    let ways = (0..16).map(|number| {
        let way = hop(number);
        let way = NextHop::new(uplink, way.source(), way.destination(), Mtu::UNCHECKED);
        (sid(number), Ok::<_, Unreached>(way.expect("a next hop")))
    });
    Reachability(ways.collect())
}

/// Those that a role has are.
fn reached_by(role: &str, uplink: u32) -> Reachability {
    let mut reach = reached(uplink);
    for number in lost(role) {
        reach.0.insert(sid(number), Err(Unreached::NoRoute));
    }
    reach
}

/// The shards that nothing reaches any more.
fn lost(role: &str) -> BTreeSet<u16> {
    let lost = (role == "a lost shard").then_some(LOST);
    lost.into_iter().collect()
}

/// Two that translate behind `NAT64`, one each that translates IPv6, or NAT64, alone, and one for the
/// other prefix.
fn shards() -> [Shard; 5] {
    let other = Shard {
        nat64_prefix: Some(OTHER64.parse().expect("a prefix")),
        ..dual(OTHER)
    };
    let only64 = Shard {
        ipv6: false,
        ..dual(ONLY64)
    };
    [dual(1), dual(2), shard66(ONLY66), other, only64]
}

fn in_groups() -> Desired {
    Desired {
        static_sids: vec![sid(STATIC)],
        ..hashed(list(shards()))
    }
}

fn in_order() -> Desired {
    ordered(&[STATIC])
}

fn of_classes(prefixes: &[&str]) -> Desired {
    Desired {
        classes: classes(prefixes),
        ..in_groups()
    }
}

/// This number is hashed for the class: where it is another one than before, its group is published,
/// and then its routes are written again.
fn hashed_as(number: u8) -> Desired {
    let class = nat64(NAT64);
    let hash_group = Some(HashGroup(number));
    Desired {
        classes: classes_with([ConfiguredClass { class, hash_group }]),
        ..in_groups()
    }
}

fn drained() -> Desired {
    let mut shards = shards();
    shards[1].drain = true;
    Desired {
        shards: list(shards),
        ..in_groups()
    }
}

fn wanted(role: &str) -> Desired {
    match role {
        "to groups" | "back to groups" => in_groups(),
        "to shards" => in_order(),
        "fewer classes" => of_classes(&[]),
        "more classes" => in_groups(),
        "another class" => of_classes(&[OTHER64]),
        "another hash" => hashed_as(7),
        "a drain" => drained(),
        "another encapsulation" => Desired {
            encap: other_encap(),
            ..in_groups()
        },
        "a lost shard" => unlisted(in_groups()),
        other => panic!("{other}"),
    }
}

fn configured(desired: &Desired) -> BTreeSet<Class> {
    desired.classes.iter().map(|entry| entry.class).collect()
}

/// Where a process is killed.
#[derive(Debug, Clone, Copy)]
enum At {
    /// Before the operation of this number.
    Number(u64),
    /// Before it takes the barrier for the first time.
    Barrier,
}

/// Kills this process before an operation.
fn killer(at: At) -> impl FnMut(&Operation) -> Result<(), Aborted> {
    let number = Cell::new(0);
    move |operation| {
        let number = number.replace(number.get() + 1);
        let is_it = match at {
            At::Number(at) => number == at,
            At::Barrier => matches!(operation, Operation::Lock(_)),
        };
        if is_it {
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
    let given = |name| std::env::var(name).expect("it is given");
    let at = match given(AT).as_str() {
        "barrier" => At::Barrier,
        number => At::Number(number.parse().expect("a number")),
    };
    let uplink = given(UPLINK).parse().expect("an index");
    let reach = reached_by(&role, uplink);
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
fn killed(role: &str, at: At, uplink: u32) -> bool {
    let number = match at {
        At::Number(number) => number.to_string(),
        At::Barrier => "barrier".to_owned(),
    };
    let test = "killed::the_process_that_is_killed";
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env(AT, number)
        .env(UPLINK, uplink.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("a child");
    match status.signal() {
        Some(9) => true,
        None if status.success() => false,
        _ => panic!("{role} at {at:?}: {status}"),
    }
}

/// The pins, by who is held to whom.
fn pins(live: &Live<'_>) -> HashMap<Holder, Held> {
    let mut pins = HashMap::new();
    let there = live::open().pins().expect("pins");
    let read = there.for_each(|pin| {
        let pin = pin.expect("it makes sense");
        pins.insert(pin.holder, pin.held);
        ControlFlow::Continue(())
    });
    read.expect("readable");
    // Those of tenures that are over mean nothing.
    let groups = live.groups().expect("readable").known;
    pins.retain(|holder, held| {
        let group = groups.iter().find(|group| group.group == holder.group);
        let member = group.and_then(|group| group.member(held.slot));
        member.is_some_and(|member| member.generation == held.generation)
    });
    pins
}

/// The pins whose member is among these shards.
fn held_by(live: &Live<'_>, shards: &BTreeSet<u16>) -> BTreeSet<Holder> {
    let shards: BTreeSet<_> = shards.iter().map(|number| sid(*number)).collect();
    let groups = live.groups().expect("readable").known;
    let is_held = |(holder, held): &(Holder, Held)| {
        let group = groups.iter().find(|group| group.group == holder.group);
        let member = group.and_then(|group| group.member(held.slot));
        member.is_some_and(|member| shards.contains(&member.sid))
    };
    let pins = pins(live).into_iter().filter(is_held);
    pins.map(|(holder, _)| holder).collect()
}

/// What there was before: pins, and the tenure that each group was in.
struct Before {
    pins: HashMap<Holder, Held>,
    /// Of these, those that are to be lost with their shards.
    astray: BTreeSet<Holder>,
    tenures: HashMap<GroupId, Incarnation>,
}

impl Before {
    fn of(live: &Live<'_>, lost: &BTreeSet<u16>) -> Self {
        let groups = live.groups().expect("readable").known.into_iter();
        let forwarding = groups.filter(|group| group.forwards());
        Self {
            pins: pins(live),
            astray: held_by(live, lost),
            tenures: forwarding
                .map(|group| (group.group, group.incarnation))
                .collect(),
        }
    }

    /// Each pin is as it was whose group is in the same tenure, and its member too, but for those that
    /// go astray, which are somebody's; how many.
    fn hold(&self, live: &Live<'_>, when: &str) -> usize {
        let now = pins(live);
        let groups = live.groups().expect("readable").known;
        let stays = |(holder, held): &(&Holder, &Held)| {
            let mut groups = groups.iter();
            groups.any(|group| {
                let same = group.group == holder.group && group.forwards();
                let member = group.member(held.slot);
                same && self.tenures.get(&group.group) == Some(&group.incarnation)
                    && member.is_some_and(|member| member.generation == held.generation)
            })
        };
        let stay: Vec<_> = self.pins.iter().filter(stays).collect();
        for (holder, held) in &stay {
            match self.astray.contains(holder) {
                true => assert!(now.contains_key(holder), "{when}: {holder:?}"),
                false => assert_eq!(now.get(holder), Some(*held), "{when}: {holder:?}"),
            }
        }
        stay.len()
    }
}

/// No route of the loop's own leads to what forwards nothing, and each of these classes has its route.
fn sound(live: &Live<'_>, classes: &BTreeSet<Class>, when: &str) {
    let observed = observe(live, false, |_| Reachability::default()).expect("readable");
    let found = invariants(&observed, &wanted("fewer classes").classes);
    assert_eq!(found.dead, 0, "{when}: {found:?}");
    assert!(found.duplicates.is_empty(), "{when}");
    for class in classes {
        let route = observed.routes.get(&key(TENANT, *class));
        let is_blocked = route.is_none_or(|route| matches!(route.target, Target::Block(_)));
        assert!(!is_blocked, "{when}: {class} is {route:?}");
    }
}

/// The classes for which the tenant has a route.
fn routed(live: &Live<'_>) -> BTreeSet<Class> {
    let routes = live.routes().expect("readable").by_key;
    let classes = destinations().into_iter();
    let has_route = |class: &Class| routes.contains_key(&key(TENANT, *class));
    classes.filter(has_route).collect()
}

/// A way from one state to another.
#[derive(Clone, Copy)]
struct Way {
    from: fn() -> Desired,
    /// Another way that was begun then: its process was killed when the groups had closed.
    begun: Option<&'static str>,
    role: &'static str,
    /// Its steps.
    steps: &'static [&'static str],
    /// How many pins stay, or, where their shard is lost, are made another's.
    pins: u16,
}

impl Way {
    const fn new(
        from: fn() -> Desired,
        role: &'static str,
        steps: &'static [&'static str],
        pins: u16,
    ) -> Self {
        Self {
            from,
            begun: None,
            role,
            steps,
            pins,
        }
    }

    /// Goes where it begins.
    fn begin(&self, uplink: u32) {
        let mut writer = live::load();
        let mut live = Live::new(&mut writer);
        if !lost(self.role).is_empty() {
            // Without groups there are no pins: those that went astray come back.
            converge(&mut live, &in_order(), &reached(uplink));
        }
        converge(&mut live, &(self.from)(), &reached(uplink));
        let Some(begun) = self.begun else {
            return;
        };
        drop(writer);
        assert!(killed(begun, At::Barrier, uplink), "it ends nothing alone");
        let live = live::open();
        let live = LiveRoutes::new(&live);
        let groups = live.groups().expect("readable").known;
        let is_closing = |group: &Snapshot| group.state == State::Closing;
        assert!(!groups.is_empty() && groups.iter().all(is_closing));
        let mut routes = live.routes().expect("readable").by_key.into_values();
        assert!(routes.all(|route| route.group().is_some()), "none is moved");
    }

    /// Kills the loop at every operation of the way. How often, and how many pins stayed where they
    /// were in all of that.
    fn at_every_operation(&self, uplink: u32, traffic: &Traffic) -> (u64, usize) {
        let role = self.role;
        let (from, to) = ((self.from)(), wanted(role));
        let reach = reached_by(role, uplink);
        let (old, new) = (configured(&from), configured(&to));
        let both: BTreeSet<_> = old.intersection(&new).copied().collect();
        let (mut at, mut stayed) = (0, usize::MAX);
        loop {
            let when = format!("{role}, killed at {at}");
            // What is configured in the end of the last attempt as well as at its beginning.
            traffic.rule(|rules| {
                rules.strict = both.clone();
                rules.lost.clear();
                rules.encaps = vec![from.encap, to.encap];
            });
            self.begin(uplink);
            traffic.rule(|rules| {
                rules.strict = old.clone();
                rules.encaps = vec![from.encap];
            });
            traffic.go_on(&when);
            let mut writer = live::load();
            let live = Live::new(&mut writer);
            let before = Before::of(&live, &lost(role));
            let steps = plan(&live, &to, &reach).expect("readable");
            assert_eq!(names(&steps), self.steps, "{role}");
            assert_eq!(before.astray.is_empty(), lost(role).is_empty(), "{when}");
            drop(writer);

            traffic.rule(|rules| {
                rules.strict = both.clone();
                rules.encaps.push(to.encap);
            });
            let was_killed = killed(role, At::Number(at), uplink);
            let mut writer = live::load();
            let mut live = Live::new(&mut writer);
            sound(&live, &both, &when);
            let there = routed(&live);
            traffic.strict(there.clone());
            traffic.go_on(&when);
            stayed = stayed.min(before.hold(&live, &when));

            traffic.strict(there.intersection(&new).copied());
            converge(&mut live, &to, &reach);
            sound(&live, &new, &when);
            traffic.rule(|rules| {
                rules.strict = new.clone();
                rules.lost = lost(role);
                rules.encaps = vec![to.encap];
            });
            traffic.go_on(&when);
            stayed = stayed.min(before.hold(&live, &when));
            // A packet may not get the lock of a pin; the next one does.
            let astray = || held_by(&live, &lost(role));
            let is_home = within(PATIENCE, || astray().is_empty());
            assert!(is_home, "{when}: {:?}", astray());
            if !was_killed {
                return (at, stayed);
            }
            at += 1;
        }
    }
}

/// Runs one way, under traffic, in a kernel of its own.
fn on_the_way(name: &str, way: Way) {
    isolated(name, move || {
        under_traffic(&(way.from)(), reached, |uplink, traffic| {
            let (operations, stayed) = way.at_every_operation(uplink, traffic);
            assert!(operations > 12, "{operations}");
            assert_eq!(stayed, usize::from(way.pins), "{}", way.role);
        });
    });
}

#[test]
fn the_loop_is_killed_on_the_way_to_groups() {
    let way = Way::new(
        in_order,
        "to groups",
        &["publish-groups", "move-routes", "move-routes"],
        0,
    );
    on_the_way("control_apply::killed_groups", way);
}

/// The groups end, and their pins with them.
#[test]
fn the_loop_is_killed_on_the_way_to_shards() {
    let way = Way::new(
        in_groups,
        "to shards",
        &[
            "close-groups",
            "move-routes",
            "move-routes",
            "retire",
            "retire",
        ],
        0,
    );
    on_the_way("control_apply::killed_shards", way);
}

/// The mode is changed back before routes have left the groups that closed: these open again in the
/// same tenure, and all pins stay.
#[test]
fn the_loop_is_killed_on_the_way_back_to_groups() {
    let way = Way {
        begun: Some("to shards"),
        ..Way::new(
            in_groups,
            "back to groups",
            &["publish-groups"],
            2 * SOURCES,
        )
    };
    on_the_way("control_apply::killed_back", way);
}

/// What is for its prefix is NAT66's when it has gone. NAT66's pins stay.
#[test]
fn the_loop_is_killed_while_a_class_goes() {
    let way = Way::new(
        in_groups,
        "fewer classes",
        &["close-groups", "move-routes", "retire"],
        SOURCES,
    );
    on_the_way("control_apply::killed_class_gone", way);
}

#[test]
fn the_loop_is_killed_while_a_class_comes() {
    let way = Way::new(
        || of_classes(&[]),
        "more classes",
        &["publish-groups", "write-routes"],
        SOURCES,
    );
    on_the_way("control_apply::killed_class_new", way);
}

#[test]
fn the_loop_is_killed_while_a_class_takes_anothers_place() {
    let way = Way::new(
        in_groups,
        "another class",
        &[
            "publish-groups",
            "write-routes",
            "close-groups",
            "move-routes",
            "retire",
        ],
        SOURCES,
    );
    on_the_way("control_apply::killed_class_other", way);
}

/// Whom nobody holds is placed anew; all pins stay.
#[test]
fn the_loop_is_killed_while_another_number_is_hashed() {
    let way = Way::new(
        || hashed_as(3),
        "another hash",
        &["publish-groups", "move-routes"],
        2 * SOURCES,
    );
    on_the_way("control_apply::killed_hash", way);
}

#[test]
fn the_loop_is_killed_while_a_shard_drains() {
    let way = Way::new(in_groups, "a drain", &["publish-groups"], 2 * SOURCES);
    on_the_way("control_apply::killed_drain", way);
}

/// Packets are encapsulated in one way or the other, and all pins stay.
#[test]
fn the_loop_is_killed_while_the_encapsulation_changes() {
    let way = Way::new(
        in_groups,
        "another encapsulation",
        &["publish-config"],
        2 * SOURCES,
    );
    on_the_way("control_apply::killed_encap", way);
}

/// Nobody has listed shards yet. The pins of the one that is lost are made others', and no others.
#[test]
fn the_loop_is_killed_while_a_shard_is_lost() {
    let way = Way::new(
        in_groups,
        "a lost shard",
        &["publish-liveness"],
        2 * SOURCES,
    );
    on_the_way("control_apply::killed_lost", way);
}

/// Who sets up a tenant is killed at every operation, and pins of the other tenant stay.
#[test]
fn who_installs_is_killed_at_every_operation() {
    isolated("control_apply::killed_install", || {
        under_traffic(&in_groups(), reached, |uplink, traffic| {
            let (reach, all) = (reached(uplink), configured(&in_groups()));
            traffic.strict(all.clone());
            traffic.go_on("at first");
            let count = |live: &Live<'_>| pins(live).len();
            let all_pins = || count(&Live::new(&mut live::load())) == 2 * usize::from(SOURCES);
            assert!(within(PATIENCE, all_pins), "each source has two");
            let before = Before::of(&Live::new(&mut live::load()), &BTreeSet::new());
            let mut at = 0;
            loop {
                let was_killed = killed("install", At::Number(at), uplink);
                let mut writer = live::load();
                let live = Live::new(&mut writer);
                let when = format!("install, killed at {at}");
                sound(&live, &all, &when);
                let routes = live.routes().expect("readable").by_key;
                let has = |class| routes.contains_key(&key(NEW, class));
                assert!(
                    !has(Class::Nat66) || has(nat64(NAT64)),
                    "{when}: long prefixes first"
                );
                assert_eq!(
                    before.hold(&live, &when),
                    2 * usize::from(SOURCES),
                    "{when}"
                );
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
                traffic.go_on(&when);
                if !was_killed {
                    break;
                }
                at += 1;
            }
            assert!(at > 6, "{at}");
        });
    });
}
