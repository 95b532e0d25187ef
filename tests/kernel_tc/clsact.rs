// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Filters of the clsact qdisc, also where the kernel has TCX.

use std::num::{NonZeroU16, NonZeroU32};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::error::ErrorKind;
use guideway::kernel::tc::{
    Anchor, AttachError, Attachment, ClsactFilter, FilterId, Neighbour, Occupant, Options, Place,
    Way,
};

use crate::capabilities::keep;
use crate::netns::{ifindex, ip, isolated, program_id};
use crate::{has_tcx, on_bpffs, shown, tc, Shown, World, NAMES};

fn id(priority: u16, handle: u32) -> FilterId {
    FilterId {
        priority: NonZeroU16::new(priority).expect("not 0"),
        handle: NonZeroU32::new(handle).expect("not 0"),
    }
}

fn options(anchor: Anchor, filter: FilterId) -> Options {
    Options {
        way: Way::Clsact,
        anchor,
        filter,
        ..Options::default()
    }
}

fn attach_at(
    world: &World,
    number: usize,
    anchor: Anchor,
    filter: FilterId,
) -> Result<ClsactFilter, AttachError> {
    match Attachment::new(&world.program(number), world.near, &options(anchor, filter))? {
        Attachment::Clsact(filter) => Ok(filter),
        Attachment::Tcx(link) => panic!("clsact was asked for: {link:?}"),
    }
}

/// At the default place.
fn attach(world: &World, number: usize) -> Result<ClsactFilter, AttachError> {
    attach_at(world, number, Anchor::First, FilterId::default())
}

/// Has `tc` add (or replace) a filter of somebody else's.
fn theirs(verb: &str, number: usize, protocol: &str, filter: FilterId) {
    let (priority, handle) = (filter.priority.to_string(), filter.handle.to_string());
    let path = on_bpffs(NAMES[number]);
    tc(&[
        "filter",
        verb,
        "dev",
        "near",
        "ingress",
        "protocol",
        protocol,
        "prio",
        &priority,
        "handle",
        &handle,
        "bpf",
        "direct-action",
        "object-pinned",
        path.to_str().expect("text"),
    ]);
}

fn filter(number: usize, world: &World, filter: FilterId) -> Shown {
    Shown {
        protocol: "all".to_owned(),
        priority: filter.priority.get().into(),
        kind: "bpf".to_owned(),
        handle: format!("{:#x}", filter.handle),
        program_id: Some(program_id(&world.foreign(number)).into()),
        direct_action: true,
    }
}

fn qdiscs() -> Vec<String> {
    let text = tc(&["qdisc", "show", "dev", "near"]);
    let kinds = text.lines().filter_map(|line| line.split(' ').nth(1));
    let kinds = kinds.filter(|kind| ["clsact", "ingress"].contains(kind));
    kinds.map(str::to_owned).collect()
}

#[track_caller]
fn occupant(error: AttachError, place: FilterId) -> Occupant {
    assert_eq!(error.kind(), ErrorKind::Occupied, "{error}");
    match error {
        AttachError::Occupied {
            interface,
            ifindex: index,
            filter,
            occupant,
            ..
        } => {
            assert_eq!((interface.as_str(), index), ("near", ifindex("near")));
            assert_eq!(filter, place);
            occupant.expect("it is still there")
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_filter_is_what_tc_calls_one() {
    isolated("kernel_tc::filter", || {
        let world = World::new();
        assert_eq!(qdiscs(), [] as [&str; 0]);
        for place in [id(1, 1), id(49152, 0xfffe), id(u16::MAX, u32::MAX)] {
            let ours = attach_at(&world, 1, Anchor::First, place).expect("attach");
            assert_eq!((ours.ifindex(), ours.id()), (world.near, place));
            assert_eq!(shown(), [filter(1, &world, place)]);
            assert_eq!(qdiscs(), ["clsact"]);
            world.order_is(&[1]);
            let found = ClsactFilter::find(world.program(1).id(), world.near).expect("look");
            assert_eq!(found, Some(ours));
            assert!(ours.detach(world.program(1).id()).expect("detach"));
            assert_eq!(shown(), []);
            assert!(!ours.detach(world.program(1).id()).expect("nothing left"));
            let found = ClsactFilter::find(world.program(1).id(), world.near).expect("look");
            assert_eq!(found, None);
        }
        assert_eq!(qdiscs(), ["clsact"], "the qdisc is everybody's");
        world.order_is(&[]);
    });
}

#[test]
fn by_default_a_kernel_without_tcx_gets_a_filter() {
    isolated("kernel_tc::default", || {
        let world = World::new();
        let attach = |way| {
            let options = Options {
                way,
                ..Options::default()
            };
            Attachment::new(&world.program(1), world.near, &options)
        };
        let attached = attach(Way::Auto).expect("attach");
        assert_eq!(matches!(attached, Attachment::Tcx(_)), has_tcx());
        assert_eq!(shown().len(), usize::from(!has_tcx()));
        world.order_is(&[1]);
        assert!(attached.detach(&world.program(1)).expect("detach"));
        world.order_is(&[]);
        if !has_tcx() {
            let error = attach(Way::Tcx).expect_err("no TCX");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = "cannot attach to interface near: the kernel has no TCX (Linux 6.6)";
            assert_eq!(error.to_string(), text);
        }
    });
}

#[test]
fn a_revision_that_nobody_counts_is_refused() {
    isolated("kernel_tc::no_revision", || {
        let world = World::new();
        let options = Options {
            expected_revision: Some(1),
            ..options(Anchor::First, FilterId::default())
        };
        let error = Attachment::new(&world.program(1), world.near, &options).expect_err("clsact");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(qdiscs(), [] as [&str; 0]);
    });
}

#[test]
fn a_qdisc_that_is_there_is_taken_as_it_is() {
    isolated("kernel_tc::qdisc", || {
        let world = World::new();
        for kind in ["clsact", "ingress"] {
            tc(&["qdisc", "add", "dev", "near", kind]);
            theirs("add", 2, "all", id(7, 1));
            let ours = attach(&world, 1).expect("attach");
            assert_eq!(qdiscs(), [kind]);
            world.order_is(&[1, 2]);
            assert!(ours.detach(world.program(1).id()).expect("detach"));
            assert_eq!(shown(), [filter(2, &world, id(7, 1))]);
            world.order_is(&[2]);
            tc(&["qdisc", "del", "dev", "near", kind]);
        }
    });
}

#[test]
fn an_occupied_place_is_refused_with_program_and_name() {
    isolated("kernel_tc::occupied", || {
        let world = World::new();
        tc(&["qdisc", "add", "dev", "near", "clsact"]);
        let place = id(1, 1);
        let theirs_id = program_id(&world.foreign(2));
        // The same place for all protocols, and a priority that is another protocol's.
        for (protocol, handle) in [("all", 1), ("ip", 1), ("ip", 9)] {
            theirs("add", 2, protocol, id(1, handle));
            let before = shown();
            let error = attach(&world, 1).expect_err("held");
            let text = format!(
                "priority 1, handle 0x1 at the ingress of interface near (index {}) is held by \
                 program {theirs_id} (gw_t_two) in a filter with priority 1, handle {handle:#x}",
                world.near
            );
            assert_eq!(error.to_string(), text);
            let found = occupant(error, place);
            assert_eq!(found.program_id, Some(theirs_id));
            assert_eq!(found.name.as_deref(), Some("gw_t_two"));
            assert_eq!(shown(), before);
            tc(&["filter", "del", "dev", "near", "ingress"]);
        }
        // A priority that is another kind's.
        tc(&[
            "filter", "add", "dev", "near", "ingress", "protocol", "all", "prio", "1", "u32",
            "match", "u32", "0", "0",
        ]);
        let before = shown();
        assert!(before.iter().any(|filter| filter.kind == "u32"));
        let found = occupant(attach(&world, 1).expect_err("held"), place);
        assert_eq!((found.program_id, &found.name), (None, &None));
        assert!(
            found.to_string().starts_with("a filter of kind u32 in"),
            "{found}"
        );
        assert_eq!(shown(), before);
        // The next priority is free.
        let ours = attach_at(&world, 1, Anchor::Last, id(2, 1)).expect("attach");
        assert!(ours.detach(world.program(1).id()).expect("detach"));
    });
}

#[test]
fn our_own_program_in_the_place_is_told_apart() {
    isolated("kernel_tc::ours_already", || {
        let world = World::new();
        let _ours = attach(&world, 1).expect("attach");
        let error = attach(&world, 1).expect_err("it is there");
        assert!(matches!(error, AttachError::Attached { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(shown().len(), 1);
    });
}

/// Looking and creating are two steps: a competitor in between must not be displaced.
#[test]
fn a_competitor_in_a_loop_is_never_displaced() {
    isolated("kernel_tc::clsact_competitor", || {
        let world = World::new();
        tc(&["qdisc", "add", "dev", "near", "clsact"]);
        let theirs = world.foreign(2);
        let stop = AtomicBool::new(false);
        let (mut won, mut lost) = (0_u32, 0_u32);
        std::thread::scope(|scope| {
            let competitor = scope.spawn(|| {
                let mut held = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    if add_by_libbpf(world.near, &theirs) {
                        // Whoever overwrote it now would be seen here.
                        assert_eq!(running_by_libbpf(world.near), Some(program_id(&theirs)));
                        remove_by_libbpf(world.near);
                        held += 1;
                    }
                }
                held
            });
            for _ in 0..20_000 {
                match attach(&world, 1) {
                    Ok(filter) => {
                        let ours = world.program(1).id();
                        assert_eq!(running_by_libbpf(world.near), Some(ours));
                        assert!(filter.detach(ours).expect("detach ours"));
                        won += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Occupied, "{error}");
                        lost += 1;
                    }
                }
                if won >= 50 && lost >= 50 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(competitor.join().expect("competitor") > 0);
        });
        assert!(won > 0 && lost > 0, "{won} won, {lost} lost");
    });
}

fn libbpf_hook(ifindex: u32) -> libbpf_sys::bpf_tc_hook {
    libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_sys::bpf_tc_hook>() as libbpf_sys::size_t,
        ifindex: ifindex as i32,
        attach_point: libbpf_sys::BPF_TC_INGRESS,
        ..Default::default()
    }
}

fn libbpf_place(program: Option<&OwnedFd>) -> libbpf_sys::bpf_tc_opts {
    libbpf_sys::bpf_tc_opts {
        sz: size_of::<libbpf_sys::bpf_tc_opts>() as libbpf_sys::size_t,
        prog_fd: program.map_or(0, AsRawFd::as_raw_fd),
        handle: 1,
        priority: 1,
        ..Default::default()
    }
}

fn add_by_libbpf(ifindex: u32, program: &OwnedFd) -> bool {
    let mut place = libbpf_place(Some(program));
    // SAFETY: both structures outlive the call.
    unsafe { libbpf_sys::bpf_tc_attach(&libbpf_hook(ifindex), &mut place) == 0 }
}

fn running_by_libbpf(ifindex: u32) -> Option<u32> {
    let mut place = libbpf_place(None);
    // SAFETY: both structures outlive the call.
    let result = unsafe { libbpf_sys::bpf_tc_query(&libbpf_hook(ifindex), &mut place) };
    (result == 0).then_some(place.prog_id)
}

fn remove_by_libbpf(ifindex: u32) {
    // SAFETY: both structures outlive the call.
    let result = unsafe { libbpf_sys::bpf_tc_detach(&libbpf_hook(ifindex), &libbpf_place(None)) };
    assert_eq!(result, 0, "their own filter");
}

#[test]
fn another_program_in_our_place_is_left_alone() {
    isolated("kernel_tc::displaced", || {
        let world = World::new();
        let ours = attach(&world, 1).expect("attach");
        // What a careless tool does.
        theirs("replace", 2, "all", ours.id());
        assert_eq!(shown(), [filter(2, &world, ours.id())]);
        let theirs_id = Some(program_id(&world.foreign(2)));

        let error = ours.detach(world.program(1).id()).expect_err("not ours");
        assert_eq!(occupant(error, ours.id()).program_id, theirs_id);
        let error = ours.update(&world.program(3), &world.program(1));
        let error = error.expect_err("not ours");
        assert_eq!(occupant(error, ours.id()).program_id, theirs_id);
        assert_eq!(shown(), [filter(2, &world, ours.id())]);
        world.order_is(&[2]);

        // Our program elsewhere is found by what runs there, and removed alone.
        theirs("add", 1, "all", id(5, 0x30));
        let found = ClsactFilter::find(world.program(1).id(), world.near).expect("look");
        assert_eq!(found, Some(ClsactFilter::at(world.near, id(5, 0x30))));
        assert!(found
            .expect("there")
            .detach(world.program(1).id())
            .expect("detach"));
        assert_eq!(shown(), [filter(2, &world, ours.id())]);
    });
}

#[test]
fn only_our_filter_goes_of_several_in_a_priority() {
    isolated("kernel_tc::neighbours", || {
        let world = World::new();
        let ours = attach_at(&world, 1, Anchor::First, id(3, 2)).expect("attach");
        theirs("add", 2, "all", id(3, 1));
        theirs("add", 3, "all", id(3, 3));
        assert_eq!(shown().len(), 3);
        assert!(ours.detach(world.program(1).id()).expect("detach"));
        let [two, three] = [filter(2, &world, id(3, 1)), filter(3, &world, id(3, 3))];
        let left = shown();
        assert_eq!(left.len(), 2);
        assert!(left.contains(&two) && left.contains(&three), "{left:?}");
        world.order_is(&[3, 2]);
    });
}

#[test]
fn an_update_compares_the_program_and_keeps_the_place() {
    isolated("kernel_tc::filter_update", || {
        let world = World::new();
        let (one, three) = (world.program(1), world.program(3));
        let place = id(4, 9);
        let ours = attach_at(&world, 1, Anchor::First, place).expect("attach");
        let error = ours.update(&one, &three).expect_err("not that one");
        assert_eq!(occupant(error, place).program_id, Some(one.id()));
        assert_eq!(shown(), [filter(1, &world, place)]);
        ours.update(&three, &one).expect("update");
        assert_eq!(shown(), [filter(3, &world, place)]);
        world.order_is(&[3]);
        // `tc` names the new one.
        let text = tc(&["filter", "show", "dev", "near", "ingress"]);
        assert!(
            text.contains("gw_t_three") && !text.contains("gw_t_one"),
            "{text}"
        );

        assert!(ours.detach(three.id()).expect("detach"));
        let error = ours.update(&one, &three).expect_err("gone");
        assert!(matches!(error, AttachError::Gone { .. }), "{error}");
        let text = "the filter with priority 4, handle 0x9 on interface near is gone";
        assert_eq!(error.to_string(), text);
        assert_eq!(shown(), [], "an update creates nothing");
    });
}

#[test]
fn a_priority_that_is_not_where_the_anchor_says_is_refused() {
    isolated("kernel_tc::misplaced", || {
        let world = World::new();
        tc(&["qdisc", "add", "dev", "near", "clsact"]);
        theirs("add", 2, "all", id(10, 1));
        theirs("add", 3, "all", id(20, 1));
        // No packet comes to another chain by itself.
        tc(&[
            "filter", "add", "dev", "near", "ingress", "chain", "4", "protocol", "all", "prio",
            "2", "u32", "match", "u32", "0", "0",
        ]);
        let two = Neighbour::Program(program_id(&world.foreign(2)));
        let three = Neighbour::Program(program_id(&world.foreign(3)));
        // Each priority, where a filter with it runs, and which anchors that satisfies. Within a
        // priority the kernel puts a new filter before the older ones.
        let anchors = [
            Anchor::First,
            Anchor::Last,
            Anchor::Before(two),
            Anchor::After(two),
            Anchor::Before(three),
            Anchor::After(three),
        ];
        for (priority, order, satisfied) in [
            (5, [1, 2, 3], [true, false, true, false, true, false]),
            (10, [1, 2, 3], [true, false, true, false, true, false]),
            (15, [2, 1, 3], [false, false, false, true, true, false]),
            (20, [2, 1, 3], [false, false, false, true, true, false]),
            (25, [2, 3, 1], [false, true, false, true, false, true]),
        ] {
            for (anchor, right) in anchors.into_iter().zip(satisfied) {
                let place = id(priority, 7);
                match attach_at(&world, 1, anchor, place) {
                    Ok(ours) => {
                        assert!(right, "{anchor} with priority {priority}");
                        world.order_is(&order);
                        assert!(ours.detach(world.program(1).id()).expect("detach"));
                    }
                    Err(AttachError::Misplaced { before, others, .. }) => {
                        assert!(!right, "{anchor} with priority {priority}");
                        let position = order.iter().position(|&who| who == 1);
                        assert_eq!((Some(before), others), (position, 2));
                        world.order_is(&[2, 3]);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        let error = attach_at(&world, 1, Anchor::First, id(15, 7)).expect_err("not first");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let text =
            "a filter with priority 15 at the ingress of interface near would run after 1 of \
                    2 others, not first";
        assert_eq!(error.to_string(), text);
        let nobody = Neighbour::Program(u32::MAX);
        let error = attach_at(&world, 1, Anchor::After(nobody), id(15, 7)).expect_err("nobody");
        assert!(matches!(error, AttachError::NoNeighbour { .. }), "{error}");
    });
}

/// Whichever way others took: TCX runs before all filters.
#[test]
fn what_is_on_tcx_counts_as_before_every_filter() {
    isolated("kernel_tc::both_ways", || {
        if !has_tcx() {
            return;
        }
        let world = World::new();
        let on_tcx = Attachment::new(&world.program(2), world.near, &Options::default());
        let on_tcx = on_tcx.expect("attach");
        let error = attach(&world, 1).expect_err("not first");
        assert!(matches!(error, AttachError::Misplaced { .. }), "{error}");
        let two = Neighbour::Program(world.program(2).id());
        let ours = attach_at(&world, 1, Anchor::After(two), id(1, 1)).expect("attach");
        world.order_is(&[2, 1]);
        let places: Vec<_> = world.occupants().iter().map(|o| o.place.clone()).collect();
        assert!(
            matches!(
                places[..],
                [Place::Tcx { .. }, Place::Filter { priority: 1, .. }]
            ),
            "{places:?}"
        );
        assert!(ours.detach(world.program(1).id()).expect("detach"));
        drop(on_tcx);
    });
}

#[test]
fn a_filter_goes_with_its_interface() {
    isolated("kernel_tc::clsact_gone", || {
        let world = World::new();
        let ours = attach(&world, 1).expect("attach");
        ip(&["link", "del", "near"]);
        assert!(!ours.detach(world.program(1).id()).expect("nothing to do"));
        let error = ours.update(&world.program(2), &world.program(1));
        assert_eq!(error.expect_err("gone").kind(), ErrorKind::NotFound);
    });
}

/// With the right to BPF alone the hook cannot be looked at; nothing changes.
#[test]
fn a_filter_stays_where_the_right_to_remove_it_is_missing() {
    isolated("kernel_tc::clsact_rights", || {
        let world = World::new();
        let ours = attach(&world, 1).expect("attach");
        let program = world.program(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                keep(&[]);
                let error = ours.detach(program.id()).expect_err("no right");
                assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
            });
        });
        assert_eq!(shown().len(), 1);
    });
}
