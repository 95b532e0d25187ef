// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan is told about the machine, against what was configured.

#[path = "common/netns.rs"]
mod netns;

use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

use guideway::plan::{Device, Peer, World};
use guideway::quiclb::observe;
use netns::{drivers_declare_xdp, ifindex, ip, isolated, veth};

fn device<'a>(world: &'a World, name: &str) -> &'a Device {
    let name = name.parse().expect("a name");
    world.device(&name).expect("an interface")
}

fn ethtool(arguments: &[&str]) {
    let status = Command::new("ethtool")
        .args(arguments)
        .status()
        .expect("ethtool");
    assert!(status.success(), "ethtool {arguments:?}");
}

#[test]
fn a_pair_in_sight_is_seen_from_both_ends() {
    isolated("quiclb_observe::pair", || {
        let (near, _) = veth("near", "far");
        ip(&[
            "link",
            "set",
            "near",
            "address",
            "02:00:00:00:00:0a",
            "mtu",
            "1400",
        ]);
        ip(&["link", "set", "far", "address", "02:00:00:00:00:0b"]);
        ip(&["address", "add", "192.0.2.1/24", "dev", "near"]);
        ethtool(&["-K", "far", "tx", "off"]);
        let world = observe().expect("observe");
        let address: IpAddr = "192.0.2.1".parse().expect("an address");
        assert!(world.addresses.contains(&address));
        assert!(world.boot_ns > 0);

        let found = device(&world, "near");
        assert_eq!((found.index, found.mtu), (near, 1400));
        assert_eq!(found.mac.expect("a MAC").to_string(), "02:00:00:00:00:0a");
        assert_eq!(found.driver.as_deref(), Some("veth"));
        assert_eq!(
            found.xdp_transmit,
            drivers_declare_xdp().then_some(true),
            "what hinders is the other end"
        );
        assert_eq!(
            (found.gro, found.transmit_checksum_offload),
            (Some(false), Some(true))
        );
        assert_eq!(found.transmit_queues, Some(found_queues("near")));
        let Some(Peer::Seen {
            name,
            mac,
            polls,
            transmit_checksum_offload,
            ..
        }) = &found.peer
        else {
            panic!("{:?}", found.peer)
        };
        assert_eq!(name.to_string(), "far");
        assert_eq!(mac.expect("a MAC").to_string(), "02:00:00:00:00:0b");
        assert_eq!(
            (*polls, *transmit_checksum_offload),
            (Some(false), Some(false))
        );

        ethtool(&["-K", "far", "gro", "on"]);
        let world = observe().expect("observe");
        let Some(Peer::Seen { polls, .. }) = &device(&world, "near").peer else {
            panic!("a peer")
        };
        assert_eq!(*polls, Some(true));
        assert_eq!(device(&world, "far").gro, Some(true));

        let loopback = device(&world, "lo");
        assert_eq!(loopback.mac, None);
        assert_eq!(
            loopback.xdp_transmit,
            drivers_declare_xdp().then_some(false)
        );
        assert_eq!((&loopback.driver, &loopback.peer), (&None, &None));
    });
}

/// Transmit queues as the kernel lists them.
fn found_queues(name: &str) -> u32 {
    let shown: serde_json::Value =
        serde_json::from_str(&ip(&["-json", "-details", "link", "show", "dev", name]))
            .expect("JSON");
    // Of the queues that a veth was made with, it uses one unless told otherwise.
    assert!(shown[0]["num_tx_queues"].as_u64().expect("a number") >= 1);
    let listed = Command::new("ethtool")
        .args(["-l", name])
        .output()
        .expect("ethtool");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let current = listed
        .split("Current")
        .nth(1)
        .expect("current settings")
        .to_owned();
    let line = current
        .lines()
        .find(|line| line.starts_with("TX"))
        .expect("a line");
    line.rsplit(':')
        .next()
        .expect("a value")
        .trim()
        .parse()
        .expect("a number")
}

/// A process in a network namespace of its own; ends when dropped.
struct Elsewhere(Child);

impl Elsewhere {
    fn start() -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare, of util-linux");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("started");
        Self(child)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_end_of_a_pair_in_another_namespace_is_known_as_far_as_the_driver_tells() {
    isolated("quiclb_observe::elsewhere", || {
        veth("near", "far");
        veth("other", "gone");
        ethtool(&["-K", "gone", "gro", "on"]);
        let elsewhere = Elsewhere::start();
        for name in ["far", "gone"] {
            ip(&["link", "set", name, "netns", &elsewhere.0.id().to_string()]);
        }
        let world = observe().expect("observe");
        for (name, expected) in [("near", false), ("other", true)] {
            match &device(&world, name).peer {
                Some(Peer::OutOfSight { polls, .. }) => {
                    assert_eq!(*polls, drivers_declare_xdp().then_some(expected), "{name}")
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        assert!(world.device(&"far".parse().expect("a name")).is_none());
        let listed = world.devices.as_ref().expect("a machine").iter();
        assert!(listed
            .clone()
            .any(|device| device.index == ifindex("other")));
    });
}

/// A node has hundreds of pods, each with an interface; the kernel lists them in many parts.
#[test]
fn hundreds_of_interfaces_are_all_seen() {
    isolated("quiclb_observe::many", || {
        let commands: String = (0..300)
            .map(|n| format!("link add n{n} type veth peer name f{n}\n"))
            .collect();
        let mut batch = Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("ip, of iproute2");
        let mut input = batch.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, commands.as_bytes()).expect("write");
        drop(input);
        assert!(batch.wait().expect("ip").success());
        let world = observe().expect("observe");
        let seen = world.devices.as_ref().expect("a machine").iter();
        let in_pairs = seen.filter(|device| matches!(device.peer, Some(Peer::Seen { .. })));
        assert_eq!(in_pairs.count(), 600);
    });
}
