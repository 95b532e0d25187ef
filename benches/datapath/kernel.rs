// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The programs on the bench: the load balancer with one generation, the floor, the driver.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use guideway::abi;
use guideway::kernel::keys::{self, Contexts};
use guideway::kernel::object::{self, Object};
use guideway::kernel::publish::{Generation, Slot};
use guideway::kernel::typed::{DevMap, PerCpuArray};
use guideway::plan::{plan, Device, Image, Options, World};
use guideway::reason::Rule;
use guideway::service::Spec;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder};
use serde_json::json;

/// Loopback, the only interface that is everywhere.
const TARGET: u32 = 1;
/// The destination address that everything on the bench writes.
pub(crate) const BACKEND: [u8; 6] = [2, 0, 0, 0, 1, 1];

/// What a driven program decided about the last packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) action: u32,
    pub(crate) destination: [u8; 6],
}

/// The driver and what it can call.
pub(crate) struct Bench {
    driver: OwnedFd,
    drive: MapHandle,
    target: MapHandle,
    pub(crate) nothing: OwnedFd,
    pub(crate) floor: OwnedFd,
}

impl Bench {
    pub(crate) fn load() -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
        let open = ObjectBuilder::default()
            .open_memory(bytes)
            .expect("the object opens");
        let object = open.load().expect("the programs load");
        let map = |name: &str| {
            let mut maps = object.maps();
            let map = maps.find(|map| map.name() == name).expect("a map");
            MapHandle::try_from(&map).expect("a handle")
        };
        let (drive, target, rows) = (map("bench_drive"), map("bench_target"), map("bench_rows"));
        for index in 0..256_u32 {
            let mut row = [0; 12];
            row[..6].copy_from_slice(&BACKEND);
            row[8..].copy_from_slice(&TARGET.to_ne_bytes());
            rows.update(&index.to_ne_bytes(), &row, MapFlags::ANY)
                .expect("a row");
        }
        let program = |name: &str| {
            let mut programs = object.progs();
            let program = programs.find(|program| program.name() == name);
            let program = program.expect("a program");
            program.as_fd().try_clone_to_owned().expect("a handle")
        };
        Self {
            driver: program("gw_drive"),
            nothing: program("gw_nothing"),
            floor: program("gw_floor"),
            drive,
            target,
        }
    }

    /// Runs `program` behind the driver `repeat` times on packets of `flows` clients, which is a
    /// power of two, and gives the nanoseconds of CPU time of one run and the last outcome.
    pub(crate) fn run(
        &self,
        program: BorrowedFd<'_>,
        frame: &[u8],
        flows: u32,
        repeat: u32,
    ) -> (f64, Outcome) {
        let mut drive = [0; 8];
        drive[4..].copy_from_slice(&(flows - 1).to_ne_bytes());
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
    pub(crate) object: Object,
    pub(crate) spec: Spec,
    /// Where programs can decrypt.
    pub(crate) contexts: Option<Contexts>,
    stats: PerCpuArray<abi::ServiceStats>,
    // The generation lives in the slot as long as this does.
    _slot: Slot,
}

impl Balancer {
    pub(crate) fn load() -> Self {
        // The program that runs in production here.
        let keys = keys::support() == keys::Support::Works;
        let options = object::Options {
            keys,
            ..Default::default()
        };
        let mut object = options.load().expect("the program loads");
        let slot = Slot::new(object.take_map("gw_ql_gen").expect("a map")).expect("a slot");
        let targets = object.take_map("gw_ql_dev").expect("a map");
        DevMap::new(targets)
            .expect("targets")
            .insert(TARGET)
            .expect("loopback");
        let stats = object.take_map("gw_ql_stats").expect("a map");

        let device =
            |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
        let world = World::new(
            vec![device("edge0", 77), device("lo", TARGET)],
            Vec::new(),
            1,
        );
        let spec = specification(keys);
        let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
        let contexts = keys.then(|| {
            let map = object.take_map(keys::MAP).expect("a map");
            let contexts = Contexts::new(map).expect("contexts");
            let maker = contexts.maker().expect("a maker");
            for context in &plan.generation().contexts {
                let key = context.key.secret_bytes();
                let made = maker.put(context.slot, context.incarnation, key);
                made.expect("a context");
            }
            contexts
        });
        let image = Image::build(plan.generation()).expect("an image");
        let generation =
            Generation::create("gw_ql_cells", image.bytes().len()).expect("a generation");
        generation.fill(image.bytes()).expect("filled");
        generation.freeze().expect("frozen");
        slot.swap(&generation).expect("live");
        let stats = PerCpuArray::new(stats).expect("counters");
        Self {
            object,
            spec,
            contexts,
            stats,
            _slot: slot,
        }
    }

    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.object.program.as_fd()
    }

    /// Packets of all services that `rule` has placed so far.
    pub(crate) fn placed(&self, rule: Rule) -> u64 {
        (0..SERVICES)
            .map(|index| {
                let add =
                    |sum, cpu: &abi::ServiceStats| sum + cpu.rules[usize::from(rule.number())];
                self.stats.fold(index, 0, add).expect("counters")
            })
            .sum()
    }
}

const SERVICES: u32 = 4;
pub(crate) const VIPS: [&str; 2] = ["203.0.113.80", "2001:db8::80"];
/// Port of the service routed by server ID, and of the one routed by flow.
pub(crate) const BY_SERVER_ID: u16 = 443;
pub(crate) const BY_TUPLE: u16 = 8443;

/// Hundred backends, all with the same address, behind four services; with keys or without.
fn specification(keyed: bool) -> Spec {
    let mac = BACKEND.map(|byte| format!("{byte:02x}")).join(":");
    let backends = |server_ids: bool| -> Vec<_> {
        (1..=100_u32)
            .map(|id| {
                let mut backend = json!({"id": id, "interface": "lo", "mac": mac});
                if server_ids {
                    backend["server_id"] = match keyed {
                        true => super::keys::server_ids(id),
                        false => json!(format!("{id:08x}")),
                    };
                }
                backend
            })
            .collect()
    };
    let mut configs = vec![json!({"config_id": 0, "server_id_len": 4, "nonce_len": 7})];
    if keyed {
        configs.extend(super::keys::configs());
    }
    let services: Vec<_> = VIPS
        .iter()
        .enumerate()
        .flat_map(|(index, vip)| {
            [
                json!({"name": format!("server-id-{index}"), "vip": vip, "port": BY_SERVER_ID,
                       "backends": backends(true), "quic": {"routing": "server-id",
                                                             "configs": configs}}),
                json!({"name": format!("tuple-{index}"), "vip": vip, "port": BY_TUPLE,
                       "backends": backends(false), "quic": {"routing": "tuple"}}),
            ]
        })
        .collect();
    let document = json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "edge0",
        "hash_seed": "000102030405060708090a0b0c0d0e0f",
        "services": services,
    });
    Spec::from_json(document.to_string().as_bytes()).expect("a valid specification")
}

/// A UDP datagram to `vip` with this payload; the driver fills in the client.
pub(crate) fn frame(vip: &str, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xfe, 0x02, 0, 0, 0, 0, 0xfd];
    let udp_len = 8 + payload.len() as u16;
    match vip.parse().expect("an address") {
        IpAddr::V4(vip) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + udp_len).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
            frame.extend([198, 18, 0, 1]);
            frame.extend(vip.octets());
        }
        IpAddr::V6(vip) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(udp_len.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            frame.extend(vip.octets());
        }
    }
    frame.extend(40000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(udp_len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}
