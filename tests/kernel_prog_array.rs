// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A place in somebody else's array of programs: never taken from its holder, exchanged without a lost
//! packet, and given up only where it is ours.

#[path = "common/netns.rs"]
mod netns;
#[path = "common/programs.rs"]
mod programs;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guideway::error::ErrorKind;
use guideway::kernel::prog_array::{Entry, ProgArray, ProgArrayError};
use guideway::kernel::program::Program;
use guideway::kernel::PinError;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use netns::{foreign_program, isolated, netlink_attach, pin, program_id, veth, within, Kind};
use nix::sys::socket::{sendto, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use programs::{Programs, Use};

/// As in tests/bpf/root.bpf.c.
const INDEX: u32 = 3;
const PLACES: u32 = 8;

const PATIENCE: Duration = Duration::from_secs(20);

/// Somebody's root program on an interface, and their pinned array.
struct World {
    programs: Programs,
    traffic: Traffic,
}

/// Frames to that interface, and who got them.
struct Traffic {
    far: u32,
    socket: OwnedFd,
    got: MapHandle,
}

impl World {
    fn new() -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/root.bpf.o"));
        let programs = Programs::load(bytes, |_| Use::Own);
        let (near, far) = veth("near", "far");
        let root = programs.program("gw_t_root");
        netlink_attach(near, &root, libbpf_sys::XDP_FLAGS_DRV_MODE).expect("attach the root");
        let (domain, kind) = (AddressFamily::Packet, SockType::Raw);
        let socket = socket(domain, kind, SockFlag::SOCK_CLOEXEC, None::<SockProtocol>);
        let traffic = Traffic {
            far,
            socket: socket.expect("a socket"),
            got: programs.map("gw_t_got"),
        };
        let world = Self { programs, traffic };
        world.pin("gw_t_roots");
        world
    }

    /// Pins one of the arrays under its name.
    fn pin(&self, name: &str) -> PathBuf {
        let path = on_bpffs(name);
        self.programs.map(name).pin(&path).expect("pinned");
        path
    }

    fn array(&self) -> ProgArray {
        ProgArray::open(&on_bpffs("gw_t_roots")).expect("open")
    }

    /// A program of ours.
    fn program(&self, name: &str) -> Program {
        let path = on_bpffs(name);
        if !path.exists() {
            pin(&self.programs.program(name), &path);
        }
        Program::open(&path).expect("open")
    }
}

impl Traffic {
    fn send(&self, frames: u64) {
        let mut frame = [2_u8; 60];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        let address = netns::packet_address(self.far);
        for _ in 0..frames {
            let sent = sendto(self.socket.as_raw_fd(), &frame, &address, MsgFlags::empty());
            assert_eq!(sent, Ok(frame.len()));
        }
    }

    /// Frames that the root program kept, and that the first and the second program got.
    fn got(&self) -> [u64; 3] {
        [0, 1, 2].map(|who: u32| {
            let values = self.got.lookup_percpu(&who.to_ne_bytes(), MapFlags::ANY);
            let values = values.expect("read").expect("in range");
            let number = |bytes: Vec<u8>| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
            values.into_iter().map(number).sum()
        })
    }

    /// Sends a frame, and expects it to get to this program alone.
    #[track_caller]
    fn goes_to(&self, who: usize) {
        let mut expected = self.got();
        expected[who] += 1;
        self.send(1);
        let got = within(PATIENCE, || self.got() == expected);
        assert!(got, "not {expected:?}, but {:?}", self.got());
    }
}

fn on_bpffs(name: &str) -> PathBuf {
    Path::new(netns::BPFFS).join(name)
}

fn holder(error: ProgArrayError) -> Entry {
    assert_eq!(error.kind(), ErrorKind::Occupied, "{error}");
    match error {
        ProgArrayError::Occupied { holder, .. } => holder.expect("it is still there"),
        other => panic!("{other}"),
    }
}

#[test]
fn packets_reach_a_program_from_when_it_is_put_until_it_is_removed() {
    isolated("kernel_prog_array::life", || {
        let world = World::new();
        let array = world.array();
        let (first, second) = (world.program("gw_t_first"), world.program("gw_t_second"));
        assert_eq!((array.size(), array.entry(INDEX)), (PLACES, Ok(None)));
        world.traffic.goes_to(0);
        array.put(INDEX, &first).expect("put");
        world.traffic.goes_to(1);
        array.put(INDEX, &first).expect("it is there already");
        let entry = array.entry(INDEX).expect("read").expect("ours");
        assert_eq!(
            (entry.program_id, entry.name.as_deref()),
            (first.id(), Some("gw_t_first"))
        );
        array
            .exchange(INDEX, &second, first.id())
            .expect("exchange");
        world.traffic.goes_to(2);
        // What is ours is found again by who comes after this process.
        drop(array);
        let array = world.array();
        assert_eq!(array.remove(INDEX, second.id()), Ok(true));
        world.traffic.goes_to(0);
        assert_eq!(array.remove(INDEX, second.id()), Ok(false));
        let error = array
            .exchange(INDEX, &second, first.id())
            .expect_err("none to exchange");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let path = on_bpffs("gw_t_roots");
        let expected = format!("index 3 of {} is empty", path.display());
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn an_occupied_index_is_refused_and_left_alone() {
    isolated("kernel_prog_array::occupied", || {
        let world = World::new();
        let (ours, theirs) = (world.program("gw_t_first"), world.program("gw_t_second"));
        let array = world.array();
        array.put(INDEX, &theirs).expect("put");
        let refused = [
            array.put(INDEX, &ours).expect_err("held"),
            array.exchange(INDEX, &ours, ours.id()).expect_err("held"),
            array.remove(INDEX, ours.id()).expect_err("held"),
        ];
        for error in refused {
            let path = on_bpffs("gw_t_roots");
            let text = format!(
                "index 3 of {} is held by program {} (gw_t_second)",
                path.display(),
                theirs.id()
            );
            assert_eq!(error.to_string(), text);
            assert_eq!(holder(error).program_id, theirs.id());
        }
        world.traffic.goes_to(2);
        array.put(INDEX + 1, &ours).expect("another index is free");
    });
}

/// Looking and writing are two steps. Processes of this library exclude each other, and the one that
/// comes second finds the index held; a stranger who takes an index between the two steps is the race
/// that the kernel leaves, so the competitor here is another process's worth of this library.
#[test]
fn competitors_in_a_loop_never_displace_each_other() {
    isolated("kernel_prog_array::competitor", || {
        let world = World::new();
        let stop = AtomicBool::new(false);
        let compete = |name: &str, most: u32| {
            let (program, array) = (world.program(name), world.array());
            let (mut won, mut lost) = (0_u32, 0_u32);
            while !stop.load(Ordering::Relaxed) && won + lost < most {
                match array.put(INDEX, &program) {
                    Ok(()) => {
                        std::thread::yield_now();
                        assert_eq!(array.remove(INDEX, program.id()), Ok(true), "displaced");
                        won += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Occupied, "{error}");
                        lost += 1;
                    }
                }
            }
            (won, lost)
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| compete("gw_t_second", u32::MAX));
            let mut mine = (0, 0);
            let both = || {
                let (won, lost) = compete("gw_t_first", 50);
                mine = (mine.0 + won, mine.1 + lost);
                mine.0 > 20 && mine.1 > 20
            };
            assert!(within(Duration::from_secs(60), both), "{mine:?}");
            stop.store(true, Ordering::Relaxed);
            let (won, lost) = other.join().expect("the competitor");
            assert!(won > 0 && lost > 0, "{won} won, {lost} lost");
        });
        assert_eq!(world.array().entry(INDEX), Ok(None));
    });
}

/// A stranger takes no lock. Whoever overwrites what was put is left alone, and seen.
#[test]
fn a_stranger_who_overwrote_ours_is_left_alone() {
    isolated("kernel_prog_array::stranger", || {
        let world = World::new();
        let (ours, newer) = (world.program("gw_t_first"), world.program("gw_t_first"));
        let array = world.array();
        array.put(INDEX, &ours).expect("put");
        let theirs = world.programs.program("gw_t_second");
        let (map, index) = (world.programs.map("gw_t_roots"), INDEX.to_ne_bytes());
        let value = theirs.as_raw_fd().to_ne_bytes();
        map.update(&index, &value, MapFlags::ANY)
            .expect("the kernel lets them");
        for error in [
            array.remove(INDEX, ours.id()).expect_err("not ours"),
            array.exchange(INDEX, &newer, ours.id()).expect_err("not"),
        ] {
            assert_eq!(holder(error).program_id, program_id(&theirs));
        }
        world.traffic.goes_to(2);
    });
}

#[test]
fn a_lock_of_another_process_is_waited_for_and_then_named() {
    isolated("kernel_prog_array::locked", || {
        let world = World::new();
        let array = world.array();
        let program = world.program("gw_t_first");
        let held = std::fs::File::open(netns::BPFFS).expect("the directory");
        let held = nix::fcntl::Flock::lock(held, nix::fcntl::FlockArg::LockExclusiveNonblock);
        let held = held.expect("free");
        let error = array.put(INDEX, &program).expect_err("locked");
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert_eq!(
            error.to_string(),
            "/sys/fs/bpf is locked by another process"
        );
        // Another name of the array leads to the same lock.
        let other = on_bpffs("elsewhere/links");
        std::fs::create_dir_all(&other).expect("made");
        array.pin(&other.join("roots")).expect("pinned");
        let again = ProgArray::open(&other.join("roots")).expect("open");
        for error in [
            again.put(INDEX, &program).expect_err("locked"),
            again.remove(INDEX, program.id()).expect_err("locked"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Locked);
        }
        drop(held);
        array.put(INDEX, &program).expect("free again");
        assert!(again.remove(INDEX, program.id()).expect("free, too"));
    });
}

#[test]
fn exchanges_under_traffic_lose_nothing() {
    const EXCHANGES: usize = 200;
    /// Frames on their way at a time: fewer than the queue of a veth takes.
    const BURST: u64 = 32;
    isolated("kernel_prog_array::traffic", || {
        let world = World::new();
        let array = world.array();
        let programs = [world.program("gw_t_first"), world.program("gw_t_second")];
        array.put(INDEX, &programs[0]).expect("put");
        let stop = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    world.traffic.send(BURST);
                    sent += BURST;
                    let all = || world.traffic.got().iter().sum::<u64>() == sent;
                    assert!(
                        within(PATIENCE, all),
                        "{sent} sent, {:?} got",
                        world.traffic.got()
                    );
                }
                sent
            });
            for exchange in 0..EXCHANGES {
                let (old, new) = (&programs[exchange % 2], &programs[(exchange + 1) % 2]);
                array.exchange(INDEX, new, old.id()).expect("exchange");
                let before = world.traffic.got()[1 + (exchange + 1) % 2];
                // Frames meet each of the programs, however quick the exchanges are.
                let met = || world.traffic.got()[1 + (exchange + 1) % 2] > before;
                assert!(within(PATIENCE, met));
            }
            stop.store(true, Ordering::Relaxed);
            sender.join().expect("the sender")
        });
        let [nobody, first, second] = world.traffic.got();
        assert_eq!((nobody, first + second), (0, sent));
        assert!(first > 0 && second > 0, "{first}, {second}");
        // As a control: what a removal before the next program lets by is seen.
        assert_eq!(array.remove(INDEX, programs[0].id()), Ok(true));
        world.traffic.goes_to(0);
    });
}

#[test]
fn a_program_that_does_not_fit_is_refused_in_words() {
    isolated("kernel_prog_array::unfit", || {
        let world = World::new();
        let program = world.program("gw_t_first");
        for (name, text) in [
            (
                "gw_t_others",
                "it is an XDP program, the array is for a TC classifier",
            ),
            ("gw_t_single", "load both as \"xdp.frags\""),
        ] {
            let path = world.pin(name);
            let array = ProgArray::open(&path).expect("open");
            assert_eq!(array.is_for_xdp(), Some(name == "gw_t_single"));
            let error = array.put(INDEX, &program).expect_err("unfit");
            assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
            let begin = format!("program gw_t_first does not fit into {}: ", path.display());
            let message = error.to_string();
            assert!(
                message.starts_with(&begin) && message.contains(text),
                "{message}"
            );
            assert_eq!(array.entry(INDEX), Ok(None));
        }
    });
}

/// Kernels that compare it do not tell that it is this that differs.
#[test]
fn another_expected_attach_type_is_among_the_reasons() {
    isolated("kernel_prog_array::attach_type", || {
        let world = World::new();
        let untyped = netns::untyped_program("untyped").expect("load");
        pin(&untyped, &on_bpffs("untyped"));
        let untyped = Program::open(&on_bpffs("untyped")).expect("open");
        match world.array().put(INDEX, &untyped) {
            Ok(()) => eprintln!("this kernel does not compare it"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Incompatible);
                let message = error.to_string();
                let reason = "or their expected attach types differ";
                assert!(message.contains(reason), "{message}");
                assert!(message.contains("for BPF_XDP"), "{message}");
            }
        }
    });
}

#[test]
fn what_is_no_array_or_no_index_is_named() {
    isolated("kernel_prog_array::wrong", || {
        let world = World::new();
        let error = ProgArray::open(&on_bpffs("nothing")).expect_err("nothing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let program = foreign_program("other", Kind::Xdp).expect("load");
        pin(&program, &on_bpffs("program"));
        let error = ProgArray::open(&on_bpffs("program")).expect_err("a program");
        let is_type = matches!(error, ProgArrayError::Pin(PinError::WrongType { .. }));
        assert!(is_type, "{error}");
        let path = world.pin("gw_t_got");
        let error = ProgArray::open(&path).expect_err("another map");
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        let text = format!(
            "{} is a map of kind percpu_array, not an array of programs",
            path.display()
        );
        assert_eq!(error.to_string(), text);
        let (array, program) = (world.array(), world.program("gw_t_first"));
        let error = array.put(PLACES, &program).expect_err("no such index");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = format!(
            "{} has 8 places: index 8 is none of them",
            on_bpffs("gw_t_roots").display()
        );
        assert_eq!(error.to_string(), text);
    });
}

/// The kernel empties an array whose last pin and descriptor are gone, root program or not. A further
/// pin keeps what is in it.
#[test]
fn a_further_pin_keeps_the_programs_of_an_array() {
    isolated("kernel_prog_array::pins", || {
        let world = World::new();
        let first = world.program("gw_t_first");
        let array = world.array();
        array.put(INDEX, &first).expect("put");
        array.pin(&on_bpffs("further")).expect("pinned");
        let (id, World { programs, traffic }) = (array.id(), world);
        drop((array, programs));
        std::fs::remove_file(on_bpffs("gw_t_roots")).expect("unpinned");
        traffic.goes_to(1);
        let kept = ProgArray::open(&on_bpffs("further")).expect("open");
        assert_eq!(kept.id(), id);
        drop(kept);
        // As a control. A process that another test starts holds a copy until it has started.
        std::fs::remove_file(on_bpffs("further")).expect("unpinned");
        let emptied = || {
            traffic.send(1);
            traffic.got()[0] > 0
        };
        assert!(within(PATIENCE, emptied));
    });
}
