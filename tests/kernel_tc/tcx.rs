// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Links on TCX.

use std::io::{Error, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guideway::error::ErrorKind;
use guideway::kernel::program::Program;
use guideway::kernel::tc::{
    hook, Anchor, AttachError, Attachment, Neighbour, Options, Place, TcxLink, Way,
};
use guideway::kernel::PinError;
use libbpf_sys::{bpf_attach_type, BPF_F_AFTER, BPF_TCX_EGRESS, BPF_TCX_INGRESS};
use nix::libc;

use crate::capabilities::keep;
use crate::netns::{
    self, foreign_link, foreign_program, insn, ip, isolated, pin, program_id, Kind,
};
use crate::{has_tcx, on_bpffs, World};

/// Runs a test on kernels that have TCX.
fn with_tcx(name: &str, test: impl FnOnce(World) + Send + 'static) {
    isolated(name, move || {
        if has_tcx() {
            test(World::new());
        } else {
            let _ = writeln!(std::io::stderr(), "not here: a kernel without TCX");
        }
    });
}

fn owned(fd: i32) -> std::io::Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches through a link as another tool would, after all others.
fn their_link(ifindex: u32, program: &OwnedFd, kind: bpf_attach_type) -> std::io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: BPF_F_AFTER,
        ..Default::default()
    };
    // SAFETY: the options outlive the call.
    owned(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, kind, &options)
    })
}

/// Attaches without a link as another tool would, after all others.
fn attach_theirs(ifindex: u32, program: &OwnedFd) {
    try_theirs(ifindex, program).expect("attach theirs");
}

fn try_theirs(ifindex: u32, program: &OwnedFd) -> std::io::Result<()> {
    let options = libbpf_sys::bpf_prog_attach_opts {
        sz: size_of::<libbpf_sys::bpf_prog_attach_opts>() as libbpf_sys::size_t,
        flags: BPF_F_AFTER,
        ..Default::default()
    };
    // SAFETY: the options outlive the call.
    let result = unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            program.as_raw_fd(),
            ifindex as i32,
            BPF_TCX_INGRESS,
            &options,
        )
    };
    match result {
        0 => Ok(()),
        error => Err(Error::from_raw_os_error(-error)),
    }
}

/// What the kernel says is on TCX ingress: revision, and ids of program and link.
fn seen_by_kernel(ifindex: u32) -> (u64, Vec<(u32, u32)>) {
    let (mut programs, mut links) = ([0_u32; 64], [0_u32; 64]);
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = 64;
    // SAFETY: the options and arrays outlive the call.
    let result =
        unsafe { libbpf_sys::bpf_prog_query_opts(ifindex as i32, BPF_TCX_INGRESS, &mut options) };
    assert_eq!(result, 0, "{}", Error::from_raw_os_error(-result));
    // SAFETY: both members of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    let pairs = programs.into_iter().zip(links).take(count).collect();
    (options.revision, pairs)
}

fn options(anchor: Anchor) -> Options {
    Options {
        anchor,
        ..Options::default()
    }
}

fn link(attachment: Attachment) -> TcxLink {
    match attachment {
        Attachment::Tcx(link) => link,
        Attachment::Clsact(filter) => panic!("this kernel has TCX: {filter:?}"),
    }
}

fn attach(world: &World, number: usize, anchor: Anchor) -> TcxLink {
    let attached = Attachment::new(&world.program(number), world.near, &options(anchor));
    link(attached.expect("attach"))
}

#[test]
fn a_program_takes_the_place_that_its_anchor_names() {
    with_tcx("kernel_tc::anchors", |world| {
        // Program 2 through a link, program 3 without.
        let two = their_link(world.near, &world.foreign(2), BPF_TCX_INGRESS).expect("theirs");
        attach_theirs(world.near, &world.foreign(3));
        world.order_is(&[2, 3]);
        let before = seen_by_kernel(world.near).1;
        let (id_2, link_2) = before[0];
        assert_eq!(id_2, program_id(&world.foreign(2)));
        let (id_3, no_link) = before[1];
        assert_eq!((id_3, no_link), (program_id(&world.foreign(3)), 0));

        use Neighbour::{Link, Program};
        for (anchor, expected) in [
            (Anchor::First, [1, 2, 3]),
            (Anchor::Last, [2, 3, 1]),
            (Anchor::Before(Program(id_2)), [1, 2, 3]),
            (Anchor::After(Program(id_2)), [2, 1, 3]),
            (Anchor::Before(Program(id_3)), [2, 1, 3]),
            (Anchor::After(Program(id_3)), [2, 3, 1]),
            (Anchor::Before(Link(link_2)), [1, 2, 3]),
            (Anchor::After(Link(link_2)), [2, 1, 3]),
        ] {
            let ours = attach(&world, 1, anchor);
            world.order_is(&expected);
            // The kernel and the code under test agree on all of it.
            let (revision, pairs) = seen_by_kernel(world.near);
            let hook = hook(world.near).expect("look");
            assert_eq!(hook.revision, Some(revision));
            let found = hook.occupants.iter().map(|occupant| match occupant.place {
                Place::Tcx { link_id, .. } => (
                    occupant.program_id.expect("a program"),
                    link_id.unwrap_or(0),
                ),
                _ => panic!("{occupant}"),
            });
            assert_eq!(found.collect::<Vec<_>>(), pairs, "{anchor}");
            assert!(ours.detach().expect("detach"));
            assert!(!ours.detach().expect("nothing left"));
            assert_eq!(seen_by_kernel(world.near).1, before);
        }
        world.order_is(&[2, 3]);
        drop(two);
    });
}

#[test]
fn what_is_there_is_told_by_program_name_and_link() {
    with_tcx("kernel_tc::occupants", |world| {
        assert_eq!(hook(world.near).expect("look").revision, Some(1));
        let _two = their_link(world.near, &world.foreign(2), BPF_TCX_INGRESS).expect("theirs");
        attach_theirs(world.near, &world.foreign(3));
        let (id_2, link_2) = seen_by_kernel(world.near).1[0];
        let texts: Vec<_> = world.occupants().iter().map(ToString::to_string).collect();
        let id_3 = program_id(&world.foreign(3));
        let expected = [
            format!("program {id_2} (gw_t_two) on TCX through link {link_2}"),
            format!("program {id_3} (gw_t_three) on TCX"),
        ];
        assert_eq!(texts, expected);
        // What is at the egress is not at the ingress.
        let _three = their_link(world.near, &world.foreign(1), BPF_TCX_EGRESS).expect("theirs");
        assert_eq!(world.occupants().len(), 2);
    });
}

#[test]
fn a_hook_that_has_changed_since_it_was_looked_at_is_a_lost_race() {
    with_tcx("kernel_tc::raced", |world| {
        let looked = hook(world.near).expect("look").revision.expect("TCX");
        attach_theirs(world.near, &world.foreign(2));
        let now = seen_by_kernel(world.near).0;
        assert_ne!(now, looked);
        let at = |revision| Options {
            expected_revision: Some(revision),
            ..Options::default()
        };
        for wrong in [looked, now + 1, 0] {
            let error = Attachment::new(&world.program(1), world.near, &at(wrong));
            let error = error.expect_err("it has changed");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            let text = format!(
                "the ingress of interface near has changed: expected revision {wrong}, found {now}"
            );
            assert_eq!(error.to_string(), text);
            assert!(matches!(error, AttachError::Raced { .. }));
        }
        world.order_is(&[2]);
        assert_eq!(seen_by_kernel(world.near).0, now, "nothing was changed");
        let ours = Attachment::new(&world.program(1), world.near, &at(now)).expect("as expected");
        world.order_is(&[1, 2]);
        drop(ours);
    });
}

/// Who looks and then attaches before all that was there must be the first, whatever others do
/// meanwhile: an attachment that was made is one of the hook that was seen.
#[test]
fn with_a_revision_no_competitor_gets_in_between() {
    with_tcx("kernel_tc::competitor", |world| {
        // The first and the last program of a hook take the kernel long.
        attach_theirs(world.near, &world.foreign(3));
        let (theirs, ours) = (world.foreign(2), world.program(1));
        let stop = AtomicBool::new(false);
        let (mut won, mut lost) = (0_u32, 0_u32);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let link = their_link(world.near, &theirs, BPF_TCX_INGRESS).expect("theirs");
                    netns::detach_link(link);
                }
            });
            for round in 0..500 {
                let seen = hook(world.near).expect("look");
                if round % 2 == 1 {
                    // Time for the other.
                    std::thread::sleep(Duration::from_millis(2));
                }
                let options = Options {
                    expected_revision: seen.revision,
                    ..options(Anchor::Last)
                };
                match Attachment::new(&ours, world.near, &options) {
                    Ok(attachment) => {
                        // Those that come later are behind it: whoever is before it was seen.
                        let now = seen_by_kernel(world.near).1;
                        let place = now.iter().position(|&(id, _)| id == ours.id());
                        let place = place.expect("ours");
                        assert!(place <= seen.occupants.len(), "{now:?} after {seen:?}");
                        assert!(link(attachment).detach().expect("detach"));
                        won += 1;
                    }
                    Err(AttachError::Raced { .. }) => lost += 1,
                    Err(other) => panic!("{other}"),
                }
                if won >= 3 && lost >= 3 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(won > 0 && lost > 0, "{won} won, {lost} lost");
    });
}

#[test]
fn a_neighbour_that_is_not_there_is_named() {
    with_tcx("kernel_tc::no_neighbour", |world| {
        let egress = their_link(world.near, &world.foreign(2), BPF_TCX_EGRESS).expect("theirs");
        let xdp = foreign_program("xdp", Kind::Xdp).expect("load");
        let (id_2, id_xdp) = (program_id(&world.foreign(2)), program_id(&xdp));
        for neighbour in [
            Neighbour::Program(0),
            Neighbour::Link(0),
            Neighbour::Program(u32::MAX),
            Neighbour::Link(u32::MAX),
            Neighbour::Program(id_2),
            Neighbour::Program(id_xdp),
        ] {
            for anchor in [Anchor::Before(neighbour), Anchor::After(neighbour)] {
                let error = Attachment::new(&world.program(1), world.near, &options(anchor));
                let error = error.expect_err("not there");
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                let text = format!("{neighbour} is not at the ingress of interface near");
                assert_eq!(error.to_string(), text);
            }
        }
        assert_eq!(seen_by_kernel(world.near).1, []);
        drop(egress);
    });
}

#[test]
fn a_program_is_on_the_hook_once() {
    with_tcx("kernel_tc::twice", |world| {
        let ours = attach(&world, 1, Anchor::First);
        let error = Attachment::new(&world.program(1), world.near, &Options::default());
        let error = error.expect_err("it is there");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let AttachError::Attached { occupant, .. } = &error else {
            panic!("{error}")
        };
        let Some(Place::Tcx { link_id, .. }) = occupant.as_ref().map(|o| &o.place) else {
            panic!("{error}")
        };
        assert_eq!(*link_id, Some(ours.state().expect("state").id));

        // Nor does it come there by an exchange.
        let other = attach(&world, 2, Anchor::Last);
        let error = other.update(&world.program(1), &world.program(2));
        assert!(
            matches!(error, Err(AttachError::Attached { .. })),
            "{error:?}"
        );
        world.order_is(&[1, 2]);
    });
}

#[test]
fn a_pinned_link_outlives_its_maker_and_leaves_the_others_when_it_goes() {
    with_tcx("kernel_tc::pinned", |world| {
        attach_theirs(world.near, &world.foreign(2));
        let path = on_bpffs("link");
        let attached = attach(&world, 1, Anchor::First);
        attached.pin(&path).expect("pin");
        assert_eq!(attached.pin(&path).expect_err("twice").errno, libc::EEXIST);
        drop(attached);
        world.order_is(&[1, 2]);

        let opened = TcxLink::open(&path).expect("open");
        let state = opened.state().expect("state");
        let expected = (Some(world.near), world.program(1).id());
        assert_eq!((state.ifindex, state.program_id), expected);
        assert!(opened.detach().expect("detach"));
        assert_eq!(opened.state().expect("state").ifindex, None);
        world.order_is(&[2]);
    });
}

#[test]
fn an_update_needs_the_program_that_runs_now_and_keeps_the_place() {
    with_tcx("kernel_tc::update", |world| {
        attach_theirs(world.near, &world.foreign(2));
        let (one, three) = (world.program(1), world.program(3));
        let attached = attach(&world, 1, Anchor::First);
        let error = attached.update(&one, &three).expect_err("not that one");
        let AttachError::OtherProgram {
            expected, found, ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((expected, found), (three.id(), one.id()));
        assert_eq!(error.kind(), ErrorKind::Conflict);
        world.order_is(&[1, 2]);
        attached.update(&three, &one).expect("update");
        world.order_is(&[3, 2]);
        attached.replace(&one).expect("whichever runs");
        world.order_is(&[1, 2]);
    });
}

#[test]
fn a_link_survives_its_interface_and_says_that_it_is_gone() {
    with_tcx("kernel_tc::gone", |world| {
        let attached = attach(&world, 1, Anchor::First);
        ip(&["link", "del", "near"]);
        assert_eq!(attached.state().expect("state").ifindex, None);
        assert!(!attached.detach().expect("nothing to do"));
        let error = attached.update(&world.program(2), &world.program(1));
        let error = error.expect_err("gone");
        assert!(matches!(error, AttachError::Gone { .. }), "{error}");
        for way in [Way::Auto, Way::Tcx, Way::Clsact] {
            let options = Options {
                way,
                ..Options::default()
            };
            let error = Attachment::new(&world.program(1), world.near, &options);
            let error = error.expect_err("no interface");
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let text = format!("there is no interface with index {} here", world.near);
            assert_eq!(error.to_string(), text);
        }
    });
}

#[test]
fn a_link_that_was_detached_is_not_exchanged() {
    with_tcx("kernel_tc::detached", |world| {
        let attached = attach(&world, 1, Anchor::First);
        assert!(attached.detach().expect("detach"));
        let error = attached.update(&world.program(2), &world.program(1));
        assert!(matches!(error, Err(AttachError::Gone { .. })), "{error:?}");
        assert_eq!(seen_by_kernel(world.near).1, []);
    });
}

#[test]
fn a_pin_that_is_no_link_on_tcx_ingress_is_refused_by_what_it_is() {
    with_tcx("kernel_tc::pin", |world| {
        let error = TcxLink::open(&on_bpffs("gw_t_one")).expect_err("a program");
        let AttachError::Pin(PinError::WrongType { .. }) = error else {
            panic!("{error}")
        };
        let error = TcxLink::open(&on_bpffs("nothing")).expect_err("nothing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let xdp = foreign_program("xdp", Kind::Xdp).expect("load");
        let on_xdp = foreign_link(world.near, &xdp).expect("link");
        let egress = their_link(world.near, &world.foreign(2), BPF_TCX_EGRESS).expect("link");
        for (name, link) in [("xdp", on_xdp), ("egress", egress)] {
            pin(&link, &on_bpffs(name));
            let error = TcxLink::open(&on_bpffs(name)).expect_err("another hook");
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            let text = format!("/sys/fs/bpf/{name} is a link, but not on TCX ingress");
            assert_eq!(error.to_string(), text);
        }
    });
}

#[test]
fn a_full_hook_is_told_with_its_size() {
    with_tcx("kernel_tc::full", |world| {
        const MOVE: u32 = libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K;
        const EXIT: u32 = libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT;
        let mut programs = 0;
        loop {
            let next = [insn(MOVE, 0, 0, -1), insn(EXIT, 0, 0, 0)];
            let program = netns::load("next", libbpf_sys::BPF_PROG_TYPE_SCHED_CLS, &next);
            if try_theirs(world.near, &program.expect("load")).is_err() {
                break;
            }
            programs += 1;
        }
        let error = Attachment::new(&world.program(1), world.near, &Options::default());
        let error = error.expect_err("full");
        assert_eq!(error.kind(), ErrorKind::Occupied);
        let text = format!(
            "{programs} programs are at the ingress of interface near, more are not possible"
        );
        assert_eq!(error.to_string(), text);
        assert_eq!(world.occupants().len(), programs);
    });
}

#[test]
fn a_program_of_another_type_is_refused() {
    with_tcx("kernel_tc::type", |world| {
        let xdp = foreign_program("xdp", Kind::Xdp).expect("load");
        pin(&xdp, &on_bpffs("xdp"));
        let xdp = Program::open(&on_bpffs("xdp")).expect("open");
        for way in [Way::Auto, Way::Tcx, Way::Clsact] {
            let options = Options {
                way,
                ..Options::default()
            };
            let error = Attachment::new(&xdp, world.near, &options).expect_err("XDP");
            let AttachError::Sys(error) = error else {
                panic!("{error}")
            };
            assert_eq!(error.errno, libc::EINVAL, "{error}");
        }
        assert_eq!(world.occupants(), []);
    });
}

#[test]
fn a_missing_right_is_named() {
    with_tcx("kernel_tc::rights", |world| {
        keep(&[]);
        for way in [Way::Auto, Way::Tcx, Way::Clsact] {
            let options = Options {
                way,
                ..Options::default()
            };
            let attached = Attachment::new(&world.program(1), world.near, &options);
            let error = attached.expect_err("no right");
            assert_eq!(error.kind(), ErrorKind::Permission);
            let text = "cannot attach to interface near: missing right: CAP_NET_ADMIN";
            assert_eq!(error.to_string(), text);
        }
    });
}
