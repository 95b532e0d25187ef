// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Typed maps: what is written is read, whole tables are read without loss, full is an error.

#[path = "common/netns.rs"]
mod netns;

use std::collections::HashMap;
use std::ops::ControlFlow;

use guideway::error::ErrorKind;
use guideway::kernel::map::{Map, MapKind, MapShape, Update};
use guideway::kernel::probe::possible_cpus;
use guideway::kernel::typed::{Array, DevMap, Hash, PerCpuArray};
use netns::{ip, isolated, veth};
use nix::libc;

fn map(kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> Map {
    let name = "gw_test".to_owned();
    Map::create(
        &MapShape {
            name,
            kind,
            key_size,
            value_size,
            max_entries,
            flags: 0,
        },
        None,
    )
    .expect("create")
}

#[test]
fn an_array_holds_its_values() {
    isolated("kernel_maps::array", || {
        let array = Array::<[u32; 3]>::new(map(MapKind::ARRAY, 4, 12, 9000)).expect("shape");
        assert_eq!(array.get(8999).expect("read"), [0; 3]);
        array.set(8999, &[1, 2, 3]).expect("write");
        array.set(0, &[4, 5, 6]).expect("write");
        assert_eq!(array.get(8999).expect("read"), [1, 2, 3]);
        let all = array.values().expect("read all");
        assert_eq!(
            (all.len(), all[0], all[1], all[8999]),
            (9000, [4, 5, 6], [0; 3], [1, 2, 3])
        );
        assert_eq!(array.get(9000).expect_err("beyond").errno, libc::ENOENT);
        assert_eq!(
            array.set(9000, &[0; 3]).expect_err("beyond").errno,
            libc::E2BIG
        );
    });
}

#[test]
fn per_cpu_values_are_read_for_every_possible_cpu() {
    isolated("kernel_maps::per_cpu", || {
        // Twelve bytes: the kernel's stride between CPUs is sixteen.
        let raw = map(MapKind::PERCPU_ARRAY, 4, 12, 5000);
        let cpus = possible_cpus().expect("CPUs");
        assert_eq!(raw.value_bytes(), cpus * 16);
        let mut bytes = vec![0_u8; cpus * 16];
        for cpu in 0..cpus {
            let value = [cpu as u32 + 1, 10, 20 * cpu as u32];
            bytes[cpu * 16..][..12].copy_from_slice(bytemuck::bytes_of(&value));
        }
        raw.update(&4321_u32.to_ne_bytes(), &bytes, Update::Any)
            .expect("write");

        let array = PerCpuArray::<[u32; 3]>::new(raw).expect("shape");
        let values = array.get(4321).expect("read");
        assert_eq!(values.len(), cpus);
        assert_eq!(values[cpus - 1], [cpus as u32, 10, 20 * (cpus as u32 - 1)]);
        let tens = array
            .fold(4321, 0, |sum, value| sum + value[1])
            .expect("fold");
        assert_eq!(tens, 10 * cpus as u32);

        let mut seen = Vec::new();
        array
            .for_each(|index, values| {
                assert_eq!(values.len(), cpus);
                if values.iter().any(|value| *value != [0; 3]) {
                    seen.push((index, values[0]));
                }
            })
            .expect("read all");
        assert_eq!(seen, [(4321, [1, 10, 0])]);

        array.set(4321, &[7; 3]).expect("set");
        assert_eq!(array.get(4321).expect("read"), vec![[7; 3]; cpus]);
    });
}

/// Other readers stop at the first batch that is not full, or start over at a removed key.
#[test]
fn a_whole_hash_table_is_read_once_each_entry() {
    isolated("kernel_maps::hash", || {
        const ENTRIES: u64 = 200_000;
        let table = Hash::<u64, [u64; 2]>::new(map(MapKind::HASH, 8, 16, 250_000)).expect("shape");
        let keys: Vec<u64> = (0..ENTRIES)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let values: Vec<[u64; 2]> = keys.iter().map(|key| [!key, 1]).collect();
        table
            .map()
            .update_batch(bytemuck::cast_slice(&keys), bytemuck::cast_slice(&values))
            .expect("fill");
        let mut seen: HashMap<u64, u32> = HashMap::new();
        table
            .for_each(|key, value| {
                assert_eq!(*value, [!key, 1]);
                *seen.entry(*key).or_default() += 1;
                ControlFlow::Continue(())
            })
            .expect("read all");
        assert_eq!(seen.len() as u64, ENTRIES);
        assert!(seen.values().all(|times| *times == 1));
        assert!(keys.iter().all(|key| seen.contains_key(key)));

        // Batches smaller than a bucket make the kernel ask for more room.
        let mut count = 0;
        table
            .map()
            .batches(1, |keys, values| {
                assert_eq!(keys.len() / 8, values.len() / 16);
                count += keys.len() / 8;
                ControlFlow::Continue(())
            })
            .expect("read all");
        assert_eq!(count as u64, ENTRIES);

        let mut read = 0;
        table
            .for_each(|_, _| {
                read += 1;
                if read == 10 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .expect("read ten");
        assert_eq!(read, 10);
    });
}

#[test]
fn entries_that_stay_are_seen_once_while_others_come_and_go() {
    isolated("kernel_maps::churn", || {
        let table = Hash::<u64, u64>::new(map(MapKind::HASH, 8, 8, 100_000)).expect("shape");
        let stable: Vec<u64> = (0..20_000).map(|n| n * 2).collect();
        table
            .map()
            .update_batch(bytemuck::cast_slice(&stable), bytemuck::cast_slice(&stable))
            .expect("fill");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churn = scope.spawn(|| {
                let mut key = 1_u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    table.update(&key, &0, Update::Any).expect("insert");
                    table.remove(&key.wrapping_sub(2000)).expect("remove");
                    key += 2;
                }
                key
            });
            for _ in 0..5 {
                let mut seen: HashMap<u64, u32> = HashMap::new();
                table
                    .for_each(|key, _| {
                        if key % 2 == 0 {
                            *seen.entry(*key).or_default() += 1;
                        }
                        ControlFlow::Continue(())
                    })
                    .expect("read all");
                assert!(stable.iter().all(|key| seen.get(key) == Some(&1)));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(churn.join().expect("churn") > 1000, "there was churn");
        });
    });
}

#[test]
fn a_table_says_what_it_found_and_when_it_is_full() {
    isolated("kernel_maps::full", || {
        let table = Hash::<u32, u32>::new(map(MapKind::HASH, 4, 4, 2)).expect("shape");
        assert_eq!(table.get(&1).expect("read"), None);
        assert_eq!(
            table
                .update(&1, &1, Update::Replace)
                .expect_err("none")
                .errno,
            libc::ENOENT
        );
        table.update(&1, &10, Update::Insert).expect("insert");
        assert_eq!(
            table
                .update(&1, &11, Update::Insert)
                .expect_err("there")
                .errno,
            libc::EEXIST
        );
        assert_eq!(table.get(&1).expect("read"), Some(10));
        table.update(&2, &20, Update::Any).expect("insert");
        let full = table.update(&3, &30, Update::Any).expect_err("full");
        assert_eq!(full.errno, libc::E2BIG);
        assert_eq!(full.kind(), ErrorKind::Kernel);
        assert!(
            full.to_string()
                .starts_with("cannot write an entry of map gw_test: "),
            "{full}"
        );
        assert!(table.remove(&2).expect("remove"));
        assert!(!table.remove(&2).expect("remove"));
    });
}

#[test]
fn lengths_that_do_not_fit_never_reach_the_kernel() {
    isolated("kernel_maps::lengths", || {
        let raw = map(MapKind::HASH, 4, 8, 4);
        let invalid = |result: Result<(), guideway::kernel::SysError>| {
            assert_eq!(result.expect_err("length").errno, libc::EINVAL);
        };
        invalid(raw.lookup(&[0; 3], &mut [0; 8]).map(drop));
        invalid(raw.lookup(&[0; 4], &mut [0; 7]).map(drop));
        invalid(raw.update(&[0; 5], &[0; 8], Update::Any));
        invalid(raw.update(&[0; 4], &[], Update::Any));
        invalid(raw.delete(&[]).map(drop));
        invalid(raw.next_key(Some(&[0; 2]), &mut [0; 4]).map(drop));
        invalid(raw.next_key(None, &mut [0; 2]).map(drop));
        invalid(raw.update_batch(&[0; 8], &[0; 8]));
        invalid(raw.update_batch(&[0; 6], &[0; 16]));
        raw.update_batch(&[], &[]).expect("nothing to do");

        let wrong = Hash::<u32, u32>::new(raw)
            .expect_err("value size")
            .to_string();
        assert!(wrong.contains("value size is 8, not 4"), "{wrong}");
        let wrong = Array::<u64>::new(map(MapKind::HASH, 4, 8, 4))
            .expect_err("kind")
            .to_string();
        assert!(wrong.contains("type is hash, not array"), "{wrong}");
    });
}

#[test]
fn a_device_map_takes_interfaces_that_exist_and_loses_those_that_go() {
    isolated("kernel_maps::devices", || {
        let targets = DevMap::new(map(MapKind::DEVMAP_HASH, 4, 4, 3)).expect("shape");
        let (near, far) = veth("near", "far");
        let (other, _) = veth("other", "beyond");
        assert_eq!(
            targets.insert(9999).expect_err("no interface").errno,
            libc::EINVAL
        );
        assert_eq!(targets.targets().expect("list"), [0; 0]);
        for target in [other, near, far] {
            targets.insert(target).expect("insert");
            targets.insert(target).expect("again");
        }
        assert_eq!(
            targets
                .insert(netns::ifindex("lo"))
                .expect_err("full")
                .errno,
            libc::E2BIG
        );
        let mut expected = vec![near, far, other];
        expected.sort_unstable();
        assert_eq!(targets.targets().expect("list"), expected);
        assert!(targets.contains(near).expect("look"));
        assert!(targets.remove(near).expect("remove"));
        assert!(!targets.remove(near).expect("remove"));
        assert!(!targets.contains(near).expect("look"));
        // Both ends of a pair go.
        ip(&["link", "del", "other"]);
        assert_eq!(targets.targets().expect("list"), [far]);
    });
}
