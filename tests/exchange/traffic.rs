// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets from one end of a veth, as fast as they are taken at another, and the books on them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use guideway::kernel::map::{Map, Update};
use guideway::kernel::program::Program;
use guideway::kernel::typed::PerCpuArray;
use libbpf_rs::{MapCore, MapHandle, ObjectBuilder};
use nix::libc;
use nix::sys::socket::{bind, socket, AddressFamily, SockFlag, SockType};

use crate::netns::{self, BPFFS};

/// Fewer than the ring of a veth takes.
const BURST: usize = 128;
const FLOWS: u32 = 4096;
/// For packets to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where in a frame the sink finds what it counts by: offsets of numbers of two bytes.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) mark_at: u32,
    pub(crate) mark: u32,
    pub(crate) flow_at: u32,
    pub(crate) place_at: u32,
}

/// The program that takes packets at their end.
pub(crate) struct Sink {
    counts: PerCpuArray<u64>,
    total: PerCpuArray<u64>,
    /// It takes packets for as long.
    _link: OwnedFd,
}

impl Sink {
    pub(crate) fn on(interface: &str, marks: Marks) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));
        let open = ObjectBuilder::default()
            .open_memory(bytes)
            .expect("the object opens");
        let object = open.load().expect("the program loads");
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            let mut map = MapHandle::try_from(&map.expect("a map")).expect("a handle");
            let path = format!("{BPFFS}/{interface}-{name}");
            map.pin(&path).expect("pinned");
            Map::open_any(path.as_ref()).expect("a map")
        };
        let Marks {
            mark_at,
            mark,
            flow_at,
            place_at,
        } = marks;
        let config = [mark_at, mark, flow_at, place_at].map(u32::to_ne_bytes);
        map("sink_config")
            .update(&0_u32.to_ne_bytes(), &config.concat(), Update::Any)
            .expect("written");
        let program = object.progs().next().expect("a program");
        let program = program.as_fd().try_clone_to_owned().expect("a handle");
        let link = netns::foreign_link(netns::ifindex(interface), &program).expect("free");
        Self {
            counts: PerCpuArray::new(map("sink_counts")).expect("counts"),
            total: PerCpuArray::new(map("sink_total")).expect("a count"),
            _link: link,
        }
    }

    /// All packets that were taken.
    pub(crate) fn total(&self) -> u64 {
        let total = self.total.fold(0, 0_u64, |sum, cpu| sum + cpu);
        total.expect("readable")
    }

    /// Those packets by flow and place.
    pub(crate) fn counts(&self) -> BTreeMap<(u16, u16), u64> {
        let mut counts = BTreeMap::new();
        let each = |at: u32, cpus: &[u64]| {
            let sum: u64 = cpus.iter().sum();
            if sum > 0 {
                counts.insert(((at % FLOWS) as u16, (at / FLOWS) as u16), sum);
            }
        };
        self.counts.for_each(each).expect("readable");
        counts
    }
}

/// Tells a sender to stop when it goes, also when an assertion fails.
pub(crate) struct Stopping<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What sends frames out of an interface.
pub(crate) struct Source {
    socket: OwnedFd,
    frames: Vec<Vec<u8>>,
    sent: AtomicU64,
}

impl Source {
    /// One frame for each flow, sent in turn.
    pub(crate) fn new(interface: &str, frames: Vec<Vec<u8>>) -> Self {
        let kind = (AddressFamily::Packet, SockType::Raw, SockFlag::empty());
        let socket = socket(kind.0, kind.1, kind.2, None).expect("a socket");
        let address = netns::packet_address(netns::ifindex(interface));
        bind(socket.as_raw_fd(), &address).expect("bound");
        Self {
            socket,
            frames,
            sent: AtomicU64::new(0),
        }
    }

    /// Packets that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends each flow's frame this often, a burst at a time: the next when the sink has all.
    pub(crate) fn send_all(&self, sink: &Sink, rounds: usize) {
        for _ in 0..rounds {
            for burst in self.frames.chunks(BURST) {
                self.send(burst, sink);
            }
        }
    }

    /// Sends until it is told to stop and has sent so many.
    pub(crate) fn send_until(&self, sink: &Sink, stop: &AtomicBool, packets: u64) {
        while !stop.load(Ordering::Relaxed) || self.sent() < packets {
            self.send_all(sink, 1);
        }
    }

    fn send(&self, burst: &[Vec<u8>], sink: &Sink) {
        let mut pieces: Vec<_> = burst
            .iter()
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            })
            .collect();
        let mut messages: Vec<_> = pieces
            .iter_mut()
            .map(|piece| {
                // SAFETY: all zeros is a value of this structure of numbers and null pointers.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = piece;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let mut done = 0;
        while done < messages.len() {
            let rest = &mut messages[done..];
            // SAFETY: as many messages as is said, whose pieces and frames outlive the call; the
            // kernel only reads the frames.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as u32,
                    0,
                )
            };
            assert!(sent > 0, "sent: {}", std::io::Error::last_os_error());
            done += sent as usize;
        }
        let sent = self.sent.fetch_add(done as u64, Ordering::Relaxed) + done as u64;
        let end = Instant::now() + PATIENCE;
        while sink.total() < sent {
            assert!(
                Instant::now() < end,
                "{} of {sent} packets have arrived: the rest is lost",
                sink.total()
            );
            std::thread::yield_now();
        }
    }
}

/// Loads a program as another build would have it, around the maps that are pinned in a directory, and
/// pins it.
pub(crate) fn load_other(
    object: &[u8],
    program: &str,
    maps: &std::path::Path,
    pin: &std::path::Path,
) -> Program {
    let mut open = ObjectBuilder::default()
        .open_memory(object)
        .expect("the object opens");
    for mut map in open.maps_mut() {
        let path = maps.join(map.name());
        if path.exists() {
            let pinned = MapHandle::from_pinned_path(&path).expect("a map");
            map.reuse_fd(pinned.as_fd()).expect("a map of this shape");
        }
    }
    let object = open.load().expect("the program loads");
    let mut programs = object.progs_mut();
    let mut loaded = programs
        .find(|loaded| loaded.name() == program)
        .expect("a program of this name");
    loaded.pin(pin).expect("pinned");
    Program::open(pin).expect("a program")
}
