// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A packet sees one generation: swaps under packets from four threads, and as a control the same
//! with a generation rewritten in place, where packets do see a mix.

#[path = "common/netns.rs"]
mod netns;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guideway::kernel::map::Update;
use guideway::kernel::object::{Object, Options as Load};
use guideway::kernel::publish::{Generation, Slot};
use guideway::kernel::run::Run;
use guideway::plan::{plan, Device, Image, Options, World};
use guideway::service::Spec;
use netns::isolated;
use serde_json::json;

const THREADS: usize = 4;
const REDIRECT: u32 = 4;

/// A generation in which backend `owner` of nine owns every slot. Backend k has the address
/// 02:00:00:00:`mark`:k, so that a destination tells which generation each part of the choice is of:
/// the slots, which name the owner, and the backends, which carry the mark. Backends 1 and 9 lie in
/// different cells.
fn image(mark: u8, owner: u32) -> Image {
    let backends: Vec<_> = (1..=9)
        .map(|id| {
            json!({"id": id, "interface": "lo", "weight": u32::from(id == owner),
                   "mac": format!("02:00:00:00:{mark:02x}:{id:02x}")})
        })
        .collect();
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "edge0",
        "services": [{"name": "web", "vip": "203.0.113.80", "port": 443, "protocol": "tcp",
                      "maglev_table_size": 251, "backends": backends}],
    });
    let spec = Spec::from_json(document.to_string().as_bytes()).expect("valid");
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
    let world = World::new(vec![device("edge0", 77), device("lo", 1)], Vec::new(), 1);
    let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
    Image::build(plan.generation()).expect("an image")
}

/// A TCP segment to the service.
fn frame() -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xfe, 0x02, 0, 0, 0, 0, 0xfd, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend([198, 51, 100, 7, 203, 0, 113, 80]);
    frame.extend([
        0xc3, 0x50, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame
}

fn load() -> (Object, Slot) {
    let mut object = Load::default().load().expect("the program loads");
    let slot = Slot::new(object.take_map("gw_ql_gen").expect("a map")).expect("its shape");
    let targets = object.take_map("gw_ql_dev").expect("a map");
    guideway::kernel::typed::DevMap::new(targets)
        .expect("its shape")
        .insert(1)
        .expect("loopback");
    (object, slot)
}

fn generation(image: &Image) -> Generation {
    let generation = Generation::create("gw_ql_cells", image.bytes().len()).expect("created");
    generation.fill(image.bytes()).expect("filled");
    generation
}

#[derive(Default)]
struct Seen {
    first: AtomicU64,
    second: AtomicU64,
    mixed: AtomicU64,
}

/// Sends packets from four threads while `change` runs; counts what they saw.
fn under_packets(object: &Object, change: impl FnOnce(&Seen)) -> Seen {
    let seen = Seen::default();
    let stop = AtomicBool::new(false);
    let frame = frame();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut output = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let run = Run::new(&frame).run_into(&object.program, &mut output);
                    let (action, _) = run.expect("the program runs");
                    assert_eq!(action, REDIRECT, "every packet is forwarded");
                    let counter = match output[4..6] {
                        [0xaa, 1] => &seen.first,
                        [0xbb, 9] => &seen.second,
                        _ => &seen.mixed,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        change(&seen);
        stop.store(true, Ordering::Relaxed);
    });
    seen
}

#[test]
fn four_hundred_swaps_show_no_packet_a_mix() {
    isolated("four_hundred_swaps", || {
        let (object, slot) = load();
        let images = [image(0xaa, 1), image(0xbb, 9)];
        slot.swap(&generation(&images[0])).expect("swapped");
        let seen = under_packets(&object, |_| {
            for swap in 1..=400 {
                let next = generation(&images[swap % 2]);
                next.freeze().expect("frozen");
                slot.swap(&next).expect("swapped");
            }
        });
        let [first, second, mixed] =
            [&seen.first, &seen.second, &seen.mixed].map(|count| count.load(Ordering::Relaxed));
        println!("{first} + {second} packets, {mixed} mixed");
        assert!(
            first > 1000 && second > 1000,
            "both generations are seen: {first}, {second}"
        );
        assert_eq!(mixed, 0);
    });
}

#[test]
fn a_generation_rewritten_in_place_does_show_a_mix() {
    isolated("a_generation_rewritten_in_place", || {
        let (object, slot) = load();
        let images = [image(0xaa, 1), image(0xbb, 9)];
        let live = generation(&images[0]);
        slot.swap(&live).expect("swapped");
        let seen = under_packets(&object, |seen| {
            // Cell by cell, as such a rewrite goes; until one packet has met it half done. The
            // bound is for a machine that has no second core to spare.
            let bound = Instant::now() + Duration::from_secs(120);
            let mut images = images.iter().cycle().skip(1);
            while seen.mixed.load(Ordering::Relaxed) == 0 && Instant::now() < bound {
                let image = images.next().expect("a cycle has no end");
                for (index, cell) in (0_u32..).zip(image.bytes().chunks(Image::CELL_BYTES)) {
                    let written = live.map().update(&index.to_ne_bytes(), cell, Update::Any);
                    written.expect("written");
                }
            }
        });
        let mixed = seen.mixed.load(Ordering::Relaxed);
        println!("{mixed} packets saw a mix");
        assert!(mixed > 0);
    });
}

#[test]
fn a_published_generation_cannot_be_written() {
    isolated("a_published_generation_cannot_be_written", || {
        let (_object, slot) = load();
        let image = image(0xaa, 1);
        let generation = generation(&image);
        generation.freeze().expect("frozen");
        slot.swap(&generation).expect("swapped");
        let refused = generation.fill(image.bytes()).expect_err("refused");
        assert_eq!(refused.errno, nix::libc::EPERM);
        assert_eq!(generation.read().expect("read"), image.bytes());
    });
}
