// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The XDP hook shared with others: never displaced, never detached for somebody else, and what
//! is ours found again. `ip link` tells what is attached, independently of the code under test.

#[path = "common/netns.rs"]
mod netns;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use guideway::error::ErrorKind;
use guideway::kernel::attach::{
    occupants, AttachError, Attachment, Mode, NetlinkAttachment, Occupant, XdpLink,
};
use guideway::kernel::program::Program;
use guideway::kernel::PinError;
use libbpf_sys::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, XDP_FLAGS_UPDATE_IF_NOEXIST};
use netns::{
    foreign_link, foreign_program, ifindex, ip, isolated, netlink_attach, netlink_detach, pin,
    program_id, veth, xdp_seen_by_ip, Kind,
};
use nix::libc;

fn on_bpffs(name: &str) -> PathBuf {
    Path::new(netns::BPFFS).join(name)
}

/// A program of ours, with the id the kernel gave it.
fn ours(name: &str) -> (Program, u64) {
    let fd = foreign_program(name, Kind::Xdp).expect("load");
    let id = program_id(&fd);
    let path = on_bpffs(name);
    pin(&fd, &path);
    (Program::open(&path).expect("open"), id.into())
}

fn theirs() -> (OwnedFd, u64) {
    let fd = foreign_program("not_ours", Kind::Xdp).expect("load");
    let id = program_id(&fd).into();
    (fd, id)
}

fn occupant(error: AttachError, interface: &str) -> Occupant {
    assert_eq!(error.kind(), ErrorKind::Occupied, "{error}");
    match error {
        AttachError::Occupied {
            interface: name,
            ifindex: index,
            occupant,
            ..
        } => {
            assert_eq!((name.as_str(), index), (interface, ifindex(interface)));
            occupant.expect("it is still there")
        }
        other => panic!("{other}"),
    }
}

fn link(attachment: Attachment) -> XdpLink {
    match attachment {
        Attachment::Link(link) => link,
        Attachment::Netlink(_) => panic!("this kernel has XDP links"),
    }
}

const MODES: [(Mode, &str, u32); 2] = [
    (Mode::Native, "native", XDP_FLAGS_DRV_MODE),
    (Mode::Generic, "generic", XDP_FLAGS_SKB_MODE),
];

#[test]
fn a_program_is_attached_in_the_mode_asked_for_and_goes_with_its_link() {
    isolated("kernel_attach::modes", || {
        let (index, _) = veth("near", "far");
        let (program, id) = ours("ours");
        for (mode, name, _) in MODES {
            let link = link(Attachment::new(&program, index, mode).expect("attach"));
            assert_eq!(xdp_seen_by_ip("near"), Some((name.to_owned(), id)));
            let state = link.state().expect("state");
            assert_eq!(
                (state.ifindex, u64::from(state.program_id)),
                (Some(index), id)
            );
            drop(link);
            // A process that another test starts holds a copy until it has started.
            let free = || xdp_seen_by_ip("near").is_none();
            assert!(
                netns::within(Duration::from_secs(5), free),
                "the link is closed"
            );
        }
    });
}

#[test]
fn an_occupied_hook_is_refused_whoever_holds_it_and_however() {
    isolated("kernel_attach::occupied", || {
        let (index, _) = veth("near", "far");
        let (program, _) = ours("ours");
        let (foreign, foreign_id) = theirs();
        for (their_mode, their_name, flags) in MODES {
            netlink_attach(index, &foreign, flags).expect("attach theirs");
            for (mode, ..) in MODES {
                let found = occupant(
                    Attachment::new(&program, index, mode).expect_err("held"),
                    "near",
                );
                assert_eq!(found.mode, their_mode);
                assert_eq!(u64::from(found.program_id), foreign_id);
                assert_eq!(found.name.as_deref(), Some("not_ours"));
                assert_eq!(found.link_id, None);
                let netlink = NetlinkAttachment::create(&program, index, mode).expect_err("held");
                assert_eq!(occupant(netlink, "near"), found);
            }
            assert_eq!(
                xdp_seen_by_ip("near"),
                Some((their_name.to_owned(), foreign_id))
            );
            netlink_detach(index, flags).expect("detach theirs");
        }

        let their_link = foreign_link(index, &foreign).expect("link");
        let found = occupant(
            Attachment::new(&program, index, Mode::Native).expect_err("held"),
            "near",
        );
        assert_eq!(u64::from(found.program_id), foreign_id);
        assert!(found.link_id.is_some(), "{found}");
        let text = found.to_string();
        assert!(
            text.contains(&format!("program {foreign_id} (not_ours) in native mode")),
            "{text}"
        );
        assert_eq!(
            xdp_seen_by_ip("near"),
            Some(("native".to_owned(), foreign_id))
        );
        netns::detach_link(their_link);
        drop(Attachment::new(&program, index, Mode::Native).expect("free again"));
    });
}

#[test]
fn while_our_link_holds_the_hook_nobody_gets_it() {
    isolated("kernel_attach::held", || {
        let (index, _) = veth("near", "far");
        let (program, id) = ours("ours");
        let (foreign, _) = theirs();
        let link = link(Attachment::new(&program, index, Mode::Native).expect("attach"));
        for flags in [0, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE] {
            netlink_attach(index, &foreign, flags).expect_err("ours holds it");
        }
        netlink_detach(index, XDP_FLAGS_DRV_MODE).expect_err("ours holds it");
        foreign_link(index, &foreign).expect_err("ours holds it");
        assert_eq!(xdp_seen_by_ip("near"), Some(("native".to_owned(), id)));
        drop(link);
    });
}

/// A way in which somebody else takes the hook.
#[derive(Clone, Copy)]
enum Way {
    Netlink(u32),
    Link,
}

/// What holds the hook for somebody else.
enum Held {
    Netlink(u32, u32),
    Link { _link: OwnedFd },
}

impl Way {
    fn attach(self, index: u32, program: &OwnedFd) -> std::io::Result<Held> {
        match self {
            Self::Netlink(mode) => {
                let flags = mode | XDP_FLAGS_UPDATE_IF_NOEXIST;
                netlink_attach(index, program, flags).map(|()| Held::Netlink(index, mode))
            }
            Self::Link => foreign_link(index, program).map(|link| Held::Link { _link: link }),
        }
    }
}

impl Held {
    fn release(self) {
        match self {
            Self::Netlink(index, mode) => {
                netlink_detach(index, mode).expect("their own program");
            }
            Self::Link { _link } => {}
        }
    }
}

/// Looking and attaching are two steps: a competitor in between must not be displaced, and the
/// error must be the same as when it is seen at once.
fn competes(name: &str, way: Way) {
    isolated(name, move || {
        let (index, _) = veth("near", "far");
        let (program, id) = ours("ours");
        let (foreign, foreign_id) = theirs();
        let stop = AtomicBool::new(false);
        let (mut won, mut lost) = (0_u32, 0_u32);
        std::thread::scope(|scope| {
            let competitor = scope.spawn(|| {
                let mut held = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(theirs) = way.attach(index, &foreign) {
                        // Whoever overwrote it now would be seen here.
                        let (_, seen) = xdp_seen_by_ip("near").expect("their own program");
                        assert_eq!(seen, foreign_id, "displaced");
                        theirs.release();
                        held += 1;
                    }
                }
                held
            });
            for round in 0..4000 {
                let mode = MODES[round % 2].0;
                match Attachment::new(&program, index, mode) {
                    Ok(attachment) => {
                        assert_eq!(xdp_seen_by_ip("near").expect("ours").1, id);
                        link(attachment).detach().expect("detach ours");
                        won += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Occupied, "{error}");
                        lost += 1;
                    }
                }
                if won >= 20 && lost >= 20 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(competitor.join().expect("competitor") > 0);
        });
        assert!(
            won > 0 && lost > 0,
            "both sides must get their turn: {won} won, {lost} lost"
        );
    });
}

#[test]
fn a_competitor_by_netlink_in_a_loop_is_never_displaced() {
    competes(
        "kernel_attach::competitor_generic",
        Way::Netlink(XDP_FLAGS_SKB_MODE),
    );
}

#[test]
fn a_competitor_by_netlink_in_the_driver_is_never_displaced() {
    competes(
        "kernel_attach::competitor_native",
        Way::Netlink(XDP_FLAGS_DRV_MODE),
    );
}

#[test]
fn a_competitor_by_link_in_a_loop_is_never_displaced() {
    competes("kernel_attach::competitor_link", Way::Link);
}

/// Also one that asks for nothing and overwrites what it finds.
#[test]
fn while_our_link_is_exchanged_no_competitor_in_a_loop_gets_the_hook() {
    const EXCHANGES: usize = 100;
    isolated("kernel_attach::competitor_exchange", || {
        for (mode, name, _) in MODES {
            let (index, _) = veth("near", "far");
            let (first, first_id) = ours(&format!("first_{name}"));
            let (second, second_id) = ours(&format!("second_{name}"));
            let (foreign, _) = theirs();
            let held = link(Attachment::new(&first, index, mode).expect("attach"));
            let (stop, tries) = (AtomicBool::new(false), AtomicU32::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        for flags in [0, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE] {
                            netlink_attach(index, &foreign, flags).expect_err("ours holds it");
                        }
                        for mode in [XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE] {
                            let way = Way::Netlink(mode);
                            assert!(way.attach(index, &foreign).is_err(), "ours holds it");
                        }
                        assert!(Way::Link.attach(index, &foreign).is_err(), "ours holds it");
                        tries.fetch_add(1, Ordering::Relaxed);
                    }
                });
                let programs = [(&first, first_id), (&second, second_id)];
                for exchange in 0..EXCHANGES {
                    let (old, _) = programs[exchange % 2];
                    let (new, id) = programs[(exchange + 1) % 2];
                    let before = tries.load(Ordering::Relaxed);
                    held.update(new, old).expect("exchange");
                    let state = held.state().expect("state");
                    assert_eq!(
                        (state.ifindex, u64::from(state.program_id)),
                        (Some(index), id)
                    );
                    let tried = || tries.load(Ordering::Relaxed) > before;
                    assert!(netns::within(Duration::from_secs(20), tried));
                }
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(xdp_seen_by_ip("near"), Some((name.to_owned(), first_id)));
            held.detach().expect("detach");
            ip(&["link", "del", "near"]);
        }
    });
}

#[test]
fn a_pinned_link_outlives_its_maker_and_is_detached_through_the_pin() {
    isolated("kernel_attach::pinned", || {
        let (index, _) = veth("near", "far");
        let (program, id) = ours("ours");
        let path = on_bpffs("link");
        let attached = link(Attachment::new(&program, index, Mode::Native).expect("attach"));
        attached.pin(&path).expect("pin");
        assert_eq!(attached.pin(&path).expect_err("twice").errno, libc::EEXIST);
        drop(attached);
        assert_eq!(xdp_seen_by_ip("near"), Some(("native".to_owned(), id)));

        let opened = XdpLink::open(&path).expect("open");
        assert_eq!(opened.state().expect("state").ifindex, Some(index));
        opened.detach().expect("detach");
        assert_eq!(xdp_seen_by_ip("near"), None);
        assert_eq!(opened.state().expect("state").ifindex, None);
    });
}

#[test]
fn a_link_that_was_detached_leaves_the_next_owner_alone() {
    isolated("kernel_attach::next_owner", || {
        let (index, _) = veth("near", "far");
        let (program, _) = ours("ours");
        let (foreign, foreign_id) = theirs();
        let attached = link(Attachment::new(&program, index, Mode::Native).expect("attach"));
        attached.detach().expect("detach");
        netlink_attach(index, &foreign, XDP_FLAGS_DRV_MODE).expect("free");
        attached.detach().expect("nothing to do");
        drop(attached);
        assert_eq!(
            xdp_seen_by_ip("near"),
            Some(("native".to_owned(), foreign_id))
        );
    });
}

#[test]
fn a_link_survives_its_interface_and_says_that_it_is_gone() {
    isolated("kernel_attach::gone", || {
        let (index, _) = veth("near", "far");
        let (program, _) = ours("ours");
        let attached = link(Attachment::new(&program, index, Mode::Native).expect("attach"));
        ip(&["link", "del", "near"]);
        assert_eq!(attached.state().expect("state").ifindex, None);
        attached.detach().expect("nothing to do");
        let error = Attachment::new(&program, index, Mode::Native).expect_err("no interface");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let expected = format!("there is no interface with index {index} here");
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn an_update_needs_the_program_that_runs_now() {
    isolated("kernel_attach::update", || {
        let (index, _) = veth("near", "far");
        let (first, first_id) = ours("first");
        let (second, second_id) = ours("second");
        let attached = link(Attachment::new(&first, index, Mode::Native).expect("attach"));
        assert_eq!(
            attached
                .update(&first, &second)
                .expect_err("not that one")
                .errno,
            libc::EPERM
        );
        assert_eq!(
            xdp_seen_by_ip("near"),
            Some(("native".to_owned(), first_id))
        );
        attached.update(&second, &first).expect("update");
        assert_eq!(
            xdp_seen_by_ip("near"),
            Some(("native".to_owned(), second_id))
        );
        attached.detach().expect("detach");

        let by_netlink = NetlinkAttachment::create(&first, index, Mode::Generic).expect("attach");
        let error = by_netlink
            .update(&first, &second)
            .expect_err("not that one");
        assert_eq!(u64::from(occupant(error, "near").program_id), first_id);
        by_netlink.update(&second, &first).expect("update");
        assert_eq!(
            xdp_seen_by_ip("near"),
            Some(("generic".to_owned(), second_id))
        );
        assert!(by_netlink.detach(&second).expect("detach"));
    });
}

/// In a mode without a program the kernel reports a detachment that did not happen.
#[test]
fn netlink_detaches_in_the_mode_the_program_is_in() {
    isolated("kernel_attach::wrong_mode", || {
        let (index, _) = veth("near", "far");
        let (program, id) = ours("ours");
        for (mode, name, _) in MODES {
            let attached = NetlinkAttachment::create(&program, index, mode).expect("attach");
            let other = MODES
                .iter()
                .find(|(_, other, _)| *other != name)
                .expect("two modes")
                .2;
            netlink_detach(index, other).expect("the kernel calls this a success");
            assert_eq!(xdp_seen_by_ip("near"), Some((name.to_owned(), id)));

            let found = NetlinkAttachment::find(&program, index)
                .expect("query")
                .expect("there");
            assert_eq!(found, attached);
            assert!(found.detach(&program).expect("detach"));
            assert_eq!(xdp_seen_by_ip("near"), None);
            assert!(!found.detach(&program).expect("nothing left"));
            assert_eq!(
                NetlinkAttachment::find(&program, index).expect("query"),
                None
            );
        }
    });
}

#[test]
fn a_program_that_displaced_ours_is_left_alone() {
    isolated("kernel_attach::displaced", || {
        let (index, _) = veth("near", "far");
        let (program, _) = ours("ours");
        let (foreign, foreign_id) = theirs();
        let attached = NetlinkAttachment::create(&program, index, Mode::Native).expect("attach");
        // Netlink lets them: without a link this is what a careless tool does.
        netlink_attach(index, &foreign, XDP_FLAGS_DRV_MODE).expect("overwrite");

        let found = occupant(attached.detach(&program).expect_err("not ours"), "near");
        assert_eq!(u64::from(found.program_id), foreign_id);
        let (newer, _) = ours("newer");
        occupant(
            attached.update(&newer, &program).expect_err("not ours"),
            "near",
        );
        assert_eq!(
            xdp_seen_by_ip("near"),
            Some(("native".to_owned(), foreign_id))
        );
    });
}

#[test]
fn a_pin_that_is_no_xdp_link_is_refused_by_what_it_is() {
    isolated("kernel_attach::pin", || {
        let (program, _) = ours("ours");
        let error = XdpLink::open(&on_bpffs("ours")).expect_err("a program");
        assert!(
            matches!(error, AttachError::Pin(PinError::WrongType { .. })),
            "{error}"
        );
        assert!(
            error.to_string().contains("is a program, not a link"),
            "{error}"
        );
        let error = XdpLink::open(&on_bpffs("nothing")).expect_err("nothing");
        assert_eq!(error.kind(), ErrorKind::NotFound);

        // A link of another kind, on the network namespace.
        let dissector = foreign_program("dissector", Kind::FlowDissector).expect("load");
        let namespace = std::fs::File::open("/proc/thread-self/ns/net").expect("namespace");
        // SAFETY: absent options are allowed.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(
                dissector.as_raw_fd(),
                namespace.as_raw_fd(),
                libbpf_sys::BPF_FLOW_DISSECTOR,
                std::ptr::null(),
            )
        };
        assert!(fd >= 0, "link: {fd}");
        // SAFETY: the descriptor is new.
        let other: OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
        pin(&other, &on_bpffs("other"));
        let error = XdpLink::open(&on_bpffs("other")).expect_err("another hook");
        assert!(matches!(error, AttachError::NotXdp { .. }), "{error}");

        let error = Program::open(&on_bpffs("other")).expect_err("a link");
        assert!(
            error.to_string().contains("is a link, not a program"),
            "{error}"
        );
        drop(program);
    });
}

#[test]
fn a_mode_that_the_driver_lacks_is_named() {
    isolated("kernel_attach::unsupported", || {
        let (program, _) = ours("ours");
        let lo = ifindex("lo");
        let error = Attachment::new(&program, lo, Mode::Native).expect_err("loopback");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("lo has no XDP in native mode"),
            "{error}"
        );
        let error = NetlinkAttachment::create(&program, lo, Mode::Native).expect_err("loopback");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(occupants(lo).expect("query"), []);
        drop(Attachment::new(&program, lo, Mode::Generic).expect("generic works anywhere"));
    });
}
