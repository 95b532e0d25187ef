// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The programs on the bench: the load balancer with one generation, the floor, the driver.

use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::keys::{self, Contexts};
use guideway::kernel::map::Map;
use guideway::kernel::object::{self, Object};
use guideway::kernel::publish::{self, Slot};
use guideway::kernel::typed::{Array, DevMap, PerCpuArray};
use guideway::plan::{plan, Device, Generation, Image, Options, World};
use guideway::service::Spec;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::programs::{Programs, Use};
use serde_json::{json, Value};

/// Loopback, the only interface that is everywhere.
const TARGET: u32 = 1;
/// The destination address that everything on the bench writes.
const BACKEND: [u8; 6] = [2, 0, 0, 0, 1, 1];
/// The destination address that packets come with.
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];

pub(crate) const PASS: u32 = 2;
pub(crate) const TRANSMIT: u32 = 3;
const REDIRECT: u32 = 4;

/// The address of all services, by family.
pub(crate) const VIPS: [&str; 2] = ["203.0.113.80", "2001:db8::80"];

/// What a driven program decided about the last packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) action: u32,
    pub(crate) destination: [u8; 6],
}

impl Outcome {
    /// Of a packet that is forwarded.
    pub(crate) fn redirected() -> Self {
        Self {
            action: REDIRECT,
            destination: BACKEND,
        }
    }

    /// Of a packet that nobody writes to.
    pub(crate) fn untouched(action: u32) -> Self {
        Self {
            action,
            destination: ROUTER,
        }
    }
}

/// The driver and what it can call.
pub(crate) struct Bench {
    driver: OwnedFd,
    drive: MapHandle,
    target: MapHandle,
    /// The first client of the next program.
    next: Cell<u32>,
    nothing: OwnedFd,
    pub(crate) floor: OwnedFd,
}

impl Bench {
    pub(crate) fn load() -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
        let programs = Programs::load(bytes, |_| Use::Own);
        let [drive, target, rows] =
            ["bench_drive", "bench_target", "bench_rows"].map(|name| programs.map(name));
        for index in 0..256_u32 {
            let mut row = [0; 12];
            row[..6].copy_from_slice(&BACKEND);
            row[8..].copy_from_slice(&TARGET.to_ne_bytes());
            rows.update(&index.to_ne_bytes(), &row, MapFlags::ANY)
                .expect("a row");
        }
        Self {
            driver: programs.program("gw_drive"),
            nothing: programs.program("gw_nothing"),
            floor: programs.program("gw_floor"),
            drive,
            target,
            next: Cell::new(0),
        }
    }

    /// Nanoseconds of CPU time of one run of `program` behind the driver, on packets of `flows`
    /// clients, which is a power of two, one after the other and on from where the last program
    /// stopped. The last run must end as expected.
    pub(crate) fn time(
        &self,
        program: BorrowedFd<'_>,
        frame: &[u8],
        (flows, repeat): (u32, u32),
        expected: Outcome,
    ) -> f64 {
        let (time, outcome) = self.run(program, frame, flows, repeat);
        assert_eq!(outcome, expected);
        self.next.set(self.next.get().wrapping_add(repeat));
        time
    }

    /// The same for the driver by itself.
    pub(crate) fn driver(&self, frame: &[u8], work: (u32, u32)) -> f64 {
        let untouched = Outcome::untouched(TRANSMIT);
        self.time(self.nothing.as_fd(), frame, work, untouched)
    }

    /// Runs `program` behind the driver `repeat` times, and gives the nanoseconds of CPU time of one
    /// run and the last outcome.
    fn run(
        &self,
        program: BorrowedFd<'_>,
        frame: &[u8],
        flows: u32,
        repeat: u32,
    ) -> (f64, Outcome) {
        let drive = [self.next.get(), flows - 1].map(u32::to_ne_bytes).concat();
        let zero = 0_u32.to_ne_bytes();
        self.drive
            .update(&zero, &drive, MapFlags::ANY)
            .expect("the driver's state");
        let fd = program.as_raw_fd().to_ne_bytes();
        self.target
            .update(&zero, &fd, MapFlags::ANY)
            .expect("a target of the driver");

        let mut output = vec![0; frame.len() + 256];
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            data_out: output.as_mut_ptr().cast(),
            data_size_out: output.len() as u32,
            repeat: repeat as i32,
            ..Default::default()
        };
        let before = super::measure::cpu_time();
        // SAFETY: each pointer leads to as many bytes as the size beside it says and outlives the
        // call; the descriptor is open.
        let result = unsafe {
            libbpf_sys::bpf_prog_test_run_opts(self.driver.as_fd().as_raw_fd(), &mut options)
        };
        let time = super::measure::cpu_time() - before;
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let destination = output[..6].try_into().expect("six bytes");
        (
            time.as_nanos() as f64 / f64::from(repeat),
            Outcome {
                action: options.retval,
                destination,
            },
        )
    }
}

/// The load balancer with one generation, not attached.
pub(crate) struct Balancer {
    object: Object,
    pub(crate) spec: Arc<Spec>,
    /// Where programs can decrypt.
    pub(crate) contexts: Option<Contexts>,
    pub(crate) flows: Map,
    levels: Array<abi::Admission>,
    stats: PerCpuArray<abi::ServiceStats>,
    // The generation lives in the slot as long as this does.
    _slot: Slot,
}

/// Whether programs can decrypt here.
pub(crate) fn decrypts() -> bool {
    keys::support() == keys::Support::Works
}

impl Balancer {
    /// With room for so many flows, and with the generation planned for these services after
    /// `change`. It is the program that runs in production here.
    pub(crate) fn load(flows: u32, services: &Value, change: impl FnOnce(&mut Generation)) -> Self {
        let options = object::Options {
            keys: decrypts(),
            entries: &[("gw_ql_flow", flows)],
            ..Default::default()
        };
        let mut object = options.load().expect("the program loads");
        let mut map = |name: &str| object.take_map(name).expect("a map");
        let slot = Slot::new(map("gw_ql_gen")).expect("a slot");
        let targets = DevMap::new(map("gw_ql_dev")).expect("targets");
        targets.insert(TARGET).expect("loopback");
        let stats = PerCpuArray::new(map("gw_ql_stats")).expect("counters");
        let levels = Array::new(map("gw_ql_level")).expect("levels");
        let flows = map("gw_ql_flow");

        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
            "interface": "edge0",
            "hash_seed": "000102030405060708090a0b0c0d0e0f",
            "services": services,
        });
        let spec = Spec::from_json(document.to_string().as_bytes()).expect("a valid specification");
        let device =
            |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
        let world = World::new(
            vec![device("edge0", 77), device("lo", TARGET)],
            Vec::new(),
            1,
        );
        let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
        let mut generation = plan.generation().clone();
        change(&mut generation);
        let contexts = decrypts().then(|| {
            let contexts = Contexts::new(map(keys::MAP)).expect("contexts");
            let maker = contexts.maker().expect("a maker");
            for context in &generation.contexts {
                let key = context.key.secret_bytes();
                let made = maker.put(context.slot, context.incarnation, key);
                made.expect("a context");
            }
            contexts
        });
        let image = Image::build(&generation).expect("an image");
        let cells =
            publish::Generation::create("gw_ql_cells", image.bytes().len()).expect("a generation");
        cells.fill(image.bytes()).expect("filled");
        cells.freeze().expect("frozen");
        slot.swap(&cells).expect("live");
        Self {
            object,
            spec: generation.spec,
            contexts,
            flows,
            levels,
            stats,
            _slot: slot,
        }
    }

    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.object.program.as_fd()
    }

    /// Counters of all services together.
    pub(crate) fn counters(&self) -> abi::ServiceStats {
        let services = self.spec.services().len() as u32;
        let none = abi::ServiceStats::zeroed();
        (0..services).fold(none, |sum, index| {
            let add = |mut sum: abi::ServiceStats, cpu: &abi::ServiceStats| {
                let rules = sum.rules.iter_mut().zip(&cpu.rules);
                let counters = sum.counters.iter_mut().zip(&cpu.counters);
                rules.chain(counters).for_each(|(sum, cpu)| *sum += cpu);
                sum
            };
            self.stats.fold(index, sum, add).expect("counters")
        })
    }

    /// Sets what may be inserted for the service with this index.
    pub(crate) fn admit(&self, index: u32, level: abi::Level) {
        let admission = abi::Admission {
            flows: level.0,
            ..Default::default()
        };
        self.levels.set(index, &admission).expect("a level");
    }
}

/// Hundred backends, all with the same address; with what else `server_ids` gives each.
pub(crate) fn backends(server_ids: impl Fn(u32) -> Option<Value>) -> Vec<Value> {
    let mac = BACKEND.map(|byte| format!("{byte:02x}")).join(":");
    let backend = |id: u32| {
        let mut backend = json!({"id": id, "interface": "lo", "mac": mac});
        if let Some(server_ids) = server_ids(id) {
            backend["server_id"] = server_ids;
        }
        backend
    };
    (1..=100).map(backend).collect()
}

/// A UDP datagram to `vip` with this payload; the driver fills in the client.
pub(crate) fn datagram(vip: &str, port: u16, payload: &[u8]) -> Vec<u8> {
    let udp_len = 8 + payload.len() as u16;
    let mut udp = Vec::from(40000_u16.to_be_bytes());
    udp.extend(port.to_be_bytes());
    udp.extend(udp_len.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    frame(vip, 17, &udp)
}

/// A TCP segment to `vip` that neither begins nor ends a connection, with bytes in it.
pub(crate) fn segment(vip: &str, port: u16) -> Vec<u8> {
    let mut tcp = Vec::from(40000_u16.to_be_bytes());
    tcp.extend(port.to_be_bytes());
    tcp.extend([0; 8]);
    tcp.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend([0xa5; 40]);
    frame(vip, 6, &tcp)
}

fn frame(vip: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::from(ROUTER);
    frame.extend([0x02, 0, 0, 0, 0, 0xfd]);
    let length = payload.len() as u16;
    match vip.parse().expect("an address") {
        IpAddr::V4(vip) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([198, 18, 0, 1]);
            frame.extend(vip.octets());
        }
        IpAddr::V6(vip) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            frame.extend(vip.octets());
        }
    }
    frame.extend(payload);
    frame
}
