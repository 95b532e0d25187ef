// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! More changes than anybody reads.

use std::os::fd::AsRawFd;
use std::time::Duration;

use guideway::control::machine::{Action, Machine, Timing, Trigger};
use guideway::control::netlink::Monitor;
use nix::libc;
use nix::sys::socket::MsgFlags;

use crate::netns::{ip, isolated};
use crate::routes::Flood;
use crate::scene::*;

fn routes_by(interface: &str) -> usize {
    ip(&[
        "-6",
        "route",
        "show",
        "root",
        "2001:db9::/32",
        "dev",
        interface,
    ])
    .lines()
    .count()
}

#[test]
fn a_hundred_thousand_other_routes_call_for_no_sweep() {
    isolated("control_netlink::other_routes", || {
        let _scene = scene();
        let flood = Flood::new("up0");
        let mut monitor = monitor();
        let mut machine = Machine::new(Timing::default(), Duration::ZERO);
        assert!(matches!(machine.poll(Duration::ZERO), Action::Sweep(_)));
        machine.swept(None);
        assert_eq!(machine.poll(Duration::ZERO), Action::Tidy);
        machine.tidied(false, Duration::ZERO);
        for kind in [libc::RTM_NEWROUTE, libc::RTM_DELROUTE] {
            for first in (0..100_000).step_by(500) {
                flood.routes(kind, first..first + 500);
                let news = drain(&mut monitor);
                assert_eq!(
                    (news.triggers.as_slice(), news.lost),
                    (&[][..], false),
                    "{first}"
                );
                news.tell(&mut machine, Duration::from_secs(1));
            }
            if kind == libc::RTM_NEWROUTE {
                assert_eq!(routes_by("up0"), 100_000, "they were made");
            }
        }
        let later = Duration::from_secs(29);
        assert_eq!(
            machine.poll(later),
            Action::Wait(Some(Duration::from_secs(30)))
        );
        assert_eq!(machine.kicks().total(), 0);
        assert_eq!(monitor.losses().total(), 0);
        // It still hears what matters.
        node(&format!("route add {BLOCK} via fc00:0::2"));
        assert!(triggers(&mut monitor).contains(&Trigger::Route));
    });
}

#[test]
fn after_an_overrun_everything_is_as_after_a_start() {
    isolated("control_netlink::overrun", || {
        let scene = scene();
        let flood = Flood::new("up1");
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let mut resolver = resolver();
        reached(&mut resolver);
        // The least that the kernel gives.
        let mut monitor = Monitor::with_receive_buffer(&uplinks(), 1).expect("a monitor");
        monitor.watch([sid(SHARD)]);
        drain(&mut monitor);
        let stale = monitor.state().cloned();
        assert!(stale.is_some());

        flood.routes(libc::RTM_NEWROUTE, 0..500);
        // All of this is lost.
        scene.router("link set far0 address 02:00:00:00:00:66");
        node(&format!(
            "neigh replace fc00:0::2 dev up0 lladdr 02:00:00:00:00:66 nud reachable\n\
             link set up0 mtu 1400\n\
             link del up1\n\
             route del {BLOCK}"
        ));
        let news = drain(&mut monitor);
        assert!(news.lost, "500 changes do not fit");
        assert!(
            !news.triggers.contains(&Trigger::Link),
            "that was not heard"
        );
        assert!(monitor.losses().overrun >= 1);
        assert_eq!(monitor.state(), None, "what was known may be wrong");

        let at = Duration::from_secs;
        let mut machine = Machine::new(Timing::default(), at(0));
        assert!(matches!(machine.poll(at(0)), Action::Sweep(_)));
        machine.swept(None);
        news.tell(&mut machine, at(1));
        assert_eq!(machine.poll(at(1)), Action::Dump, "at once");
        monitor.dump().expect("a dump");
        assert_eq!(monitor.resyncs(), 1);
        assert_eq!(machine.poll(at(2)), Action::Sweep(Trigger::Route));

        let fresh = Monitor::open(&uplinks()).expect("a monitor");
        assert_eq!(monitor.state(), fresh.state());
        assert_ne!(monitor.state(), stale.as_ref());
        let found = way(&mut resolver);
        assert_eq!(found, way(&mut crate::scene::resolver()));
        assert_eq!(found, Err(guideway::control::Unreached::NoRoute));
        // What happens from now on is heard of.
        node(&format!("route add {BLOCK} via fc00:0::2"));
        assert!(triggers(&mut monitor).contains(&Trigger::Route));
        assert_eq!(
            reached(&mut resolver).destination().to_string(),
            "02:00:00:00:00:66"
        );
        assert_eq!(
            reached(&mut resolver),
            reached(&mut crate::scene::resolver())
        );
    });
}

#[test]
fn a_dump_takes_what_waits_so_that_the_kernel_reports_again() {
    isolated("control_netlink::congested", || {
        let _scene = scene();
        let flood = Flood::new("up1");
        let mut monitor = Monitor::with_receive_buffer(&uplinks(), 1).expect("a monitor");
        monitor.watch([sid(SHARD)]);
        flood.routes(libc::RTM_NEWROUTE, 0..500);
        // One report alone is taken: the one that says that others are lost.
        let news = monitor.receive(1).expect("news");
        assert!(news.lost && news.more);
        monitor.dump().expect("a dump");
        assert!(
            !readable(&monitor, Duration::ZERO),
            "older ones are of no use"
        );
        node(&format!("route add {BLOCK} via fc00:0::2"));
        assert!(triggers(&mut monitor).contains(&Trigger::Route));
    });
}

#[test]
fn what_others_write_to_the_socket_is_not_believed() {
    isolated("control_netlink::others_write", || {
        use nix::sys::socket::{getsockname, sendto, NetlinkAddr};
        use std::os::fd::AsFd;
        let _scene = scene();
        let mut monitor = monitor();
        let address = getsockname::<NetlinkAddr>(monitor.as_fd().as_raw_fd()).expect("an address");
        // A default route, as the kernel reports one, and no message at all.
        let forger = Flood::new("up0");
        let mut message = forger.route(libc::RTM_NEWROUTE, 0);
        message[17] = 0;
        for message in [&message[..], b"something else"] {
            let none = MsgFlags::empty();
            sendto(forger.socket.as_raw_fd(), message, &address, none).expect("sent");
            assert!(readable(&monitor, PATIENCE));
            let news = drain(&mut monitor);
            assert_eq!((news.triggers.as_slice(), news.lost), (&[][..], false));
        }
        assert_eq!(monitor.losses().total(), 0);
    });
}

#[test]
fn each_call_is_bounded() {
    isolated("control_netlink::budget", || {
        let _scene = scene();
        let flood = Flood::new("up1");
        let mut monitor = monitor();
        flood.routes(libc::RTM_NEWROUTE, 0..100);
        let mut calls = 0;
        while monitor.receive(10).expect("news").more {
            calls += 1;
        }
        assert_eq!(calls, 10, "a report is one route");
        assert!(!monitor.receive(0).expect("news").lost);
    });
}
