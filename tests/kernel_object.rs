// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loading: what comes out of the object, what is refused, and with which rights it works.

#[path = "common/capabilities.rs"]
mod capabilities;
#[path = "common/netns.rs"]
mod netns;

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use capabilities::{BPF, NET_ADMIN, PERFMON, SYS_ADMIN};
use guideway::error::ErrorKind;
use guideway::id::InstanceId;
use guideway::kernel::attach::{Attachment, Mode, NetlinkAttachment, XdpLink};
use guideway::kernel::egress_object;
use guideway::kernel::keys::{self, Contexts};
use guideway::kernel::map::{Map, MapShape};
use guideway::kernel::object::{LoadError, Options};
use guideway::kernel::offload_object;
use guideway::kernel::pin_object;
use guideway::kernel::probe::{self, Capability};
use guideway::kernel::program::Program;
use guideway::kernel::publish::{Generation, Slot};
use guideway::kernel::routine;
use guideway::kernel::statedir::{Section, StateRoot};
use netns::{ifindex, ip, isolated, veth, xdp_seen_by_ip};

#[test]
fn the_object_comes_apart_into_its_program_and_its_maps() {
    isolated("kernel_object::parts", || {
        let options = Options {
            verifier_report: true,
            ..Options::default()
        };
        let mut object = options.load().expect("load");
        assert_eq!(object.program.name(), "gw_quiclb");
        assert_ne!(object.program.tag(), [0; 8]);
        assert!(object.program.verified_instructions() > 0);
        let report = object.verifier_report();
        assert!(
            report.contains("processed") && report.contains("insns"),
            "{report}"
        );

        let shapes = options.shapes().expect("shapes");
        for (name, shape) in &shapes {
            assert!(name.len() <= 15, "{name}");
            let map = object.take_map(name).expect("a map of this name");
            map.shape()
                .check(shape, name)
                .expect("the shape that was announced");
        }
        assert!(shapes.contains_key("gw_ql_gen") && shapes.contains_key("gw_ql_meta"));
        let error = object.take_map("gw_ql_gen").expect_err("taken already");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_program_for_tracing_is_another_program() {
    isolated("kernel_object::tracing", || {
        let load = |tracing| {
            Options {
                tracing,
                ..Options::default()
            }
            .load()
            .expect("load")
        };
        let (plain, tracing) = (load(false), load(true));
        // The verifier removes what a constant makes unreachable. The tag is computed before
        // that, so the number of translated instructions tells them apart.
        let rodata = |object: &guideway::kernel::object::Object| {
            let map = object
                .maps()
                .find(|map| map.shape().name.ends_with(".rodata"));
            let map = map.expect("constants");
            let mut bytes = vec![0; map.value_bytes()];
            assert!(map.lookup(&[0; 4], &mut bytes).expect("read"));
            bytes
        };
        let (plain, tracing) = (rodata(&plain), rodata(&tracing));
        assert_ne!(plain, tracing);
        let differing = plain.iter().zip(&tracing).filter(|(a, b)| a != b);
        assert_eq!(
            differing.map(|(a, b)| (*a, *b)).collect::<Vec<_>>(),
            [(0, 1)]
        );
    });
}

#[test]
fn sizes_are_chosen_when_the_object_is_loaded() {
    isolated("kernel_object::entries", || {
        let entries = [("gw_ql_dev", 77)];
        let options = Options {
            entries: &entries,
            ..Options::default()
        };
        let mut object = options.load().expect("load");
        assert_eq!(
            options.shapes().expect("shapes")["gw_ql_dev"].max_entries,
            77
        );
        assert_eq!(
            object
                .take_map("gw_ql_dev")
                .expect("map")
                .shape()
                .max_entries,
            77
        );

        let entries = [("gw_ql_nothing", 1)];
        let options = Options {
            entries: &entries,
            ..Options::default()
        };
        let error = options.load().expect_err("no such map");
        assert!(error.to_string().contains("gw_ql_nothing"), "{error}");
    });
}

#[test]
fn a_map_of_another_shape_is_not_reused() {
    isolated("kernel_object::reuse", || {
        let shapes = Options::default().shapes().expect("shapes");
        let load = |shape: MapShape| {
            let reuse = [Map::create(&shape, None).expect("create")];
            Options {
                reuse: &reuse,
                ..Options::default()
            }
            .load()
        };
        let stats = &shapes["gw_ql_stats"];
        load(stats.clone()).expect("the same shape");
        for (other, difference) in [
            (
                MapShape {
                    value_size: stats.value_size + 8,
                    ..stats.clone()
                },
                format!(
                    "value size is {}, not {}",
                    stats.value_size + 8,
                    stats.value_size
                ),
            ),
            (
                MapShape {
                    max_entries: 3,
                    ..stats.clone()
                },
                format!("number of entries is 3, not {}", stats.max_entries),
            ),
            (
                MapShape {
                    name: "gw_ql_other".into(),
                    ..stats.clone()
                },
                "name is gw_ql_other".to_owned(),
            ),
        ] {
            let error = load(other).expect_err("another shape");
            assert!(matches!(error, LoadError::Shape(_)), "{error}");
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            assert!(
                error.to_string().contains(&difference),
                "{difference}: {error}"
            );
        }
    });
}

#[test]
fn what_this_kernel_offers_is_found() {
    isolated("kernel_object::probe", || {
        let uname = Command::new("uname").arg("-r").output().expect("uname");
        let release = probe::release();
        assert_eq!(release.text, String::from_utf8_lossy(&uname.stdout).trim());
        assert!(release.at_least(6, 1) && !release.at_least(1000, 0));
        let features = probe::features();
        assert_eq!(features.xdp_link, Some(true), "Linux 5.9 and later");
        assert_eq!(features.xdp_frags, release.at_least(5, 18));
        assert_eq!(features.tcx, Some(release.at_least(6, 6)));
        // The kernel lists its functions in its symbol table.
        let symbols = std::fs::read_to_string("/proc/kallsyms").expect("symbols");
        let has = |name: &str| {
            symbols
                .lines()
                .any(|line| line.ends_with(&format!(" {name}")))
        };
        assert_eq!(features.crypto_kfuncs, has("bpf_crypto_decrypt"));
        assert_eq!(features.map_count_kfunc, has("bpf_map_sum_elem_count"));
        assert_eq!(
            ip(&["link", "show", "dev", "lo"]).matches("xdp").count(),
            0,
            "no trace left"
        );

        let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").expect("CPUs");
        let last: usize = possible
            .trim()
            .rsplit(['-', ','])
            .next()
            .expect("one")
            .parse()
            .expect("n");
        assert_eq!(probe::possible_cpus().expect("CPUs"), last + 1);
    });
}

/// Leaves the calling thread with these capabilities and no others, for good: the bounding set
/// goes, too.
fn keep_only(bits: &[u32]) {
    for bit in 0..64 {
        // SAFETY: no memory is passed.
        let known = unsafe { nix::libc::prctl(nix::libc::PR_CAPBSET_READ, bit, 0, 0, 0) } >= 0;
        if known && !bits.contains(&bit) {
            // SAFETY: no memory is passed.
            let dropped = unsafe { nix::libc::prctl(nix::libc::PR_CAPBSET_DROP, bit, 0, 0, 0) };
            assert_eq!(dropped, 0, "drop capability {bit} from the bounding set");
        }
    }
    capabilities::keep(bits);
}

/// Capabilities are a thread's own, so a thread can give them up for its part of a test.
fn with_only<T: Send>(bits: &[u32], work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            keep_only(bits);
            work()
        });
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Whether CAP_PERFMON can be asked for: kernels before Linux 6.13, unless they were mended, let no program
/// without it keep two halves of a word on its stack, as compilers do with what they have no register
/// for.
fn may_want_perfmon() -> bool {
    !probe::release().at_least(6, 13)
}

/// What loads with the first, and where that may not suffice with CAP_PERFMON as well.
fn enough(rights: &[u32], loads: impl Fn() -> bool + Sync) -> Vec<u32> {
    let mut rights = rights.to_vec();
    if may_want_perfmon() && !with_only(&rights, &loads) {
        rights.push(PERFMON);
    }
    rights
}

/// Most instructions that the verifier may look at of what user space calls: a fiftieth of what it
/// allows. Where CAP_PERFMON is not there and could be asked for, it also follows what a processor may do
/// on a wrong guess, which takes Linux 6.12 up to 22,000 for these programs: then a twentieth.
fn most_verified(rights: &[u32]) -> u32 {
    match rights.contains(&PERFMON) || !may_want_perfmon() {
        true => 20_000,
        false => 50_000,
    }
}

#[test]
fn a_right_that_makes_the_verifier_milder_is_named() {
    isolated("kernel_object::milder", || {
        let loaded = with_only(&[BPF, NET_ADMIN], || Options::default().load());
        match loaded {
            Ok(_) => {}
            Err(error @ LoadError::Verifier { .. }) => {
                assert!(may_want_perfmon(), "{error}");
                let text = error.to_string();
                let expected = "rejected gw_quiclb, which was loaded without CAP_PERFMON: ";
                assert!(text.contains(expected), "{text}");
            }
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn cap_bpf_and_cap_net_admin_suffice_for_everything() {
    isolated("kernel_object::capabilities", || {
        veth("near", "far");
        let rights = enough(&[NET_ADMIN, BPF], || Options::default().load().is_ok());
        with_only(&rights, || {
            let held = probe::capabilities().expect("status");
            assert_eq!(held.len(), rights.len());
            assert!(probe::missing(&[Capability::Bpf, Capability::NetAdmin]).is_empty());
            assert_eq!(probe::features().xdp_link, Some(true));

            let instance: InstanceId = "1d9016f2-8957-42bc-9dd7-32d684d76446"
                .parse()
                .expect("a UUID");
            let dir = StateRoot::default().quiclb(instance);
            let mut object = Options::default().load().expect("load");
            let draft = dir.draft().expect("draft");
            for map in object
                .maps()
                .filter(|map| map.shape().name.starts_with("gw_ql_"))
            {
                map.pin(&draft.pin(Section::Maps, &map.shape().name))
                    .expect("pin");
            }
            object
                .program
                .pin(&draft.pin(Section::Programs, "gw_quiclb"))
                .expect("pin");
            let lock = draft.publish().expect("publish the directory");

            let slot = Slot::new(object.take_map("gw_ql_gen").expect("map")).expect("shape");
            let cells = vec![0; 1024];
            let generation = Generation::create("gw_ql_cells", cells.len()).expect("create");
            generation.fill(&cells).expect("fill");
            generation.freeze().expect("freeze");
            generation
                .map()
                .pin(&dir.pin(Section::Generations, "1"))
                .expect("pin");
            slot.swap(&generation).expect("swap");

            // Everything again from the pins, as another process would.
            let program = Program::open(&dir.pin(Section::Programs, "gw_quiclb")).expect("open");
            let outer = Map::open_any(&dir.pin(Section::Maps, "gw_ql_gen")).expect("open");
            let reopened =
                Generation::open(&dir.pin(Section::Generations, "1"), "gw_ql_cells").expect("open");
            let live = Slot::new(outer).expect("shape").live_id().expect("look");
            assert_eq!(live, Some(reopened.map().id()));

            let index = ifindex("near");
            let attached = Attachment::new(&program, index, Mode::Native).expect("attach");
            let Attachment::Link(link) = attached else {
                panic!("this kernel has links")
            };
            link.pin(&dir.pin(Section::Links, "xdp")).expect("pin");
            drop(link);
            let seen = xdp_seen_by_ip("near").expect("attached");
            assert_eq!(seen, ("native".to_owned(), u64::from(program.id())));

            // Another's link is named as far as it can be seen: by number, not by name.
            let error = Attachment::new(&program, index, Mode::Generic).expect_err("held");
            assert_eq!(error.kind(), ErrorKind::Occupied);
            assert!(error
                .to_string()
                .contains(&format!("program {} in native", program.id())));

            let link = XdpLink::open(&dir.pin(Section::Links, "xdp")).expect("open");
            let newer = Options::default().load().expect("load").program;
            link.update(&newer, &program).expect("update");
            link.detach().expect("detach");
            assert_eq!(xdp_seen_by_ip("near"), None);
            lock.unpin(Section::Links, "xdp").expect("unpin");
            lock.remove().expect("remove");
        });
    });
}

#[test]
fn they_suffice_for_keys_too() {
    isolated("kernel_object::keys", || {
        if !netns::require_keys("kernel_object::keys") {
            return;
        }
        with_only(&[BPF, NET_ADMIN], || {
            let options = Options {
                keys: true,
                ..Options::default()
            };
            let mut object = options.load().expect("load");
            let map = object.take_map(keys::MAP).expect("a map");
            let contexts = Contexts::new(map).expect("its shape");
            let maker = contexts.maker().expect("a maker");
            maker.put(3, 5, &[7; 16]).expect("a context");
            assert_eq!(contexts.incarnations().expect("read")[3], 5);
            contexts.remove(3).expect("remove");
        });
    });
}

#[test]
fn cap_bpf_suffices_for_what_user_space_calls() {
    isolated("kernel_object::routines", || {
        let load = || routine::Options::default().load(routine::Source::Sweep);
        let rights = enough(&[BPF], || load().is_ok());
        with_only(&rights, || {
            let mut loaded = load().unwrap_or_else(|error| panic!("{error}"));
            for name in [
                "gw_sweep_flows",
                "gw_sweep_cids",
                "gw_sweep_level",
                "gw_sweep_count",
            ] {
                let routine = loaded.take(name).expect("a routine");
                let verified = routine.program().verified_instructions();
                println!("{name}: {verified} instructions verified");
                assert!(verified < most_verified(&rights), "{name}: {verified}");
            }
        });
    });
}

#[test]
fn they_suffice_for_egress() {
    isolated("kernel_object::egress", || {
        let load = || egress_object::Options::default().load();
        let rights = enough(&[NET_ADMIN, BPF], || load().is_ok());
        with_only(&rights, || {
            let object = load().unwrap_or_else(|error| panic!("{error}"));
            let verified = object.program.verified_instructions();
            println!("gw_egress: {verified} instructions verified");
            // A tenth of what the verifier allows.
            assert!(verified < 100_000, "{verified}");
        });
    });
}

#[test]
fn a_program_for_cards_takes_cap_perfmon_as_well() {
    isolated("kernel_object::offload", || {
        let load = || offload_object::Options::default().load();
        with_only(&[NET_ADMIN, BPF], || {
            let text = load().expect_err("a pointer plus a number").to_string();
            assert!(text.contains("loaded without CAP_PERFMON"), "{text}");
        });
        with_only(&[NET_ADMIN, BPF, PERFMON], || {
            let object = load().unwrap_or_else(|error| panic!("{error}"));
            let verified = object.program.verified_instructions();
            println!("gw_quiclb for network cards: {verified} instructions verified");
            // Of a million: all that it knows of a packet is on its stack, where the verifier
            // follows it.
            assert!((1..700_000).contains(&verified), "{verified}");
        });
    });
}

#[test]
fn cap_bpf_suffices_for_what_removes_pins() {
    isolated("kernel_object::pins", || {
        let mut object = egress_object::Options::default().load().expect("load");
        let maps = pin_object::SHARED.map(|name| object.take_map(name).expect("a map"));
        let load = || {
            let options = pin_object::Options {
                members: egress_object::Sizes::default().members,
                maps: &maps,
                verifier_report: false,
            };
            options.load()
        };
        let rights = enough(&[BPF], || load().is_ok());
        println!("with {} rights", rights.len());
        with_only(&rights, || {
            let remover = load().unwrap_or_else(|error| panic!("{error}"));
            for routine in [&remover.sources, &remover.flows, &remover.one] {
                let program = routine.program();
                let verified = program.verified_instructions();
                println!("{}: {verified} instructions verified", program.name());
                let most = most_verified(&rights);
                assert!(verified < most, "{}: {verified}", program.name());
            }
        });
        let without = pin_object::Options {
            members: 64,
            maps: &maps[..4],
            verifier_report: false,
        };
        let error = without.load().expect_err("a map is missing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("gw_eg_stat"), "{error}");
    });
}

#[test]
fn a_missing_right_is_named() {
    isolated("kernel_object::missing", || {
        let (index, _) = veth("near", "far");
        for (held, missing) in [
            (&[][..], "CAP_BPF, CAP_NET_ADMIN"),
            (&[NET_ADMIN][..], "CAP_BPF"),
            (&[BPF][..], "CAP_NET_ADMIN"),
        ] {
            with_only(held, || {
                let error = Options::default().load().expect_err("not enough");
                assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
                let text = error.to_string();
                assert!(
                    text.ends_with(&format!("missing right: {missing}")),
                    "{text}"
                );
            });
        }
        let object = Options::default().load().expect("with all rights");
        for held in [&[][..], &[BPF][..], &[SYS_ADMIN][..]] {
            with_only(held, || {
                // Whoever holds a program may link it; netlink wants the right to configure.
                let error = NetlinkAttachment::create(&object.program, index, Mode::Native)
                    .expect_err("not enough");
                assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
                assert!(
                    error.to_string().ends_with("missing right: CAP_NET_ADMIN"),
                    "{error}"
                );
            });
        }
        assert_eq!(xdp_seen_by_ip("near"), None);
    });
}

#[test]
fn handles_can_be_moved_to_other_threads() {
    fn owned<T: Send + 'static>() {}
    owned::<guideway::kernel::object::Object>();
    owned::<Map>();
    owned::<Program>();
    owned::<XdpLink>();
    owned::<Generation>();
    owned::<Slot>();
    owned::<guideway::kernel::statedir::StateDirLock>();
    owned::<guideway::kernel::ring::Ring<guideway::abi::Event>>();
    isolated("kernel_object::threads", || {
        let object = Options::default().load().expect("load");
        let other = std::thread::spawn(move || object.program.as_fd().try_clone_to_owned());
        other.join().expect("thread").expect("a descriptor");
        assert!(Path::new(netns::BPFFS).exists());
    });
}
