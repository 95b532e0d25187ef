// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The state directory: one writer, whole or absent, and never used when it is not understood.

#[path = "common/netns.rs"]
mod netns;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytemuck::Zeroable;
use guideway::abi::{Abi, Meta};
use guideway::error::ErrorKind;
use guideway::id::InstanceId;
use guideway::kernel::map::{Map, MapKind, MapShape, Update};
use guideway::kernel::object::Options;
use guideway::kernel::statedir::{AbiVersion, Section, StateDir, StateError, StateRoot, META_MAP};
use netns::{foreign_program, isolated, pin, Kind};
use nix::libc;

const ONE: &str = "1d9016f2-8957-42bc-9dd7-32d684d76446";
const OTHER: &str = "00000000-0000-4000-8000-000000000001";

fn dir(instance: &str) -> StateDir {
    StateRoot::default().quiclb(instance.parse().expect("a UUID"))
}

fn parent() -> &'static Path {
    Path::new("/sys/fs/bpf/guideway/quiclb")
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(path)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// The value of a meta map, of the layout that the ABI has since version 1.0: magic, major,
/// minor, instance.
fn meta(magic: u32, major: u16, minor: u16, instance: &str) -> Meta {
    let instance: InstanceId = instance.parse().expect("a UUID");
    Meta {
        magic,
        abi_major: major,
        abi_minor: minor,
        instance: *instance.as_bytes(),
        ..Meta::zeroed()
    }
}

const MAGIC: u32 = u32::from_be_bytes(*b"GWQL");

fn meta_map(value: &[u8]) -> Map {
    let shape = MapShape {
        name: META_MAP.to_owned(),
        kind: MapKind::ARRAY,
        key_size: 4,
        value_size: value.len() as u32,
        max_entries: 1,
        flags: 0,
    };
    let map = Map::create(&shape, None).expect("create");
    map.update(&[0; 4], value, Update::Any).expect("write");
    map
}

/// An instance whose meta map holds `value`.
fn instance_with(instance: &str, value: &[u8]) -> StateDir {
    let dir = dir(instance);
    let draft = dir.draft().expect("draft");
    meta_map(value)
        .pin(&draft.pin(Section::Maps, META_MAP))
        .expect("pin");
    drop(draft.publish().expect("publish"));
    dir
}

/// Another process that holds the lock on a directory, as `flock(1)` takes it.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Self {
        let mut child = Command::new("flock")
            .args(["--exclusive", "--nonblock", "--no-fork"])
            .arg(path)
            .args(["sh", "-c", "echo held; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("flock, of util-linux");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("read");
        let holder = Self(child);
        assert_eq!(line, "held\n");
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_instance_appears_whole_and_locked() {
    isolated("kernel_statedir::draft", || {
        let dir = dir(ONE);
        assert!(!dir.exists().expect("look"));
        let draft = dir.draft().expect("draft");
        let value = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)).to_vec();
        meta_map(&value)
            .pin(&draft.pin(Section::Maps, META_MAP))
            .expect("pin");
        assert!(!dir.exists().expect("look"), "not before it is published");
        assert_eq!(StateRoot::default().quiclb_instances().expect("list"), []);

        let lock = draft.publish().expect("publish");
        assert_eq!(names(parent()), [ONE]);
        assert_eq!(
            names(&parent().join(ONE)),
            ["gen", "links", "maps", "progs"]
        );
        assert_eq!(dir.pins(Section::Maps).expect("list"), [META_MAP]);
        assert_eq!(
            dir.version().expect("version"),
            AbiVersion { major: 2, minor: 0 }
        );
        assert!(
            matches!(dir.lock(), Err(StateError::Locked { .. })),
            "its maker holds the lock"
        );
        drop(lock);
        drop(dir.lock().expect("free"));
    });
}

#[test]
fn a_draft_that_is_given_up_leaves_nothing() {
    isolated("kernel_statedir::dropped", || {
        let draft = dir(ONE).draft().expect("draft");
        let value = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)).to_vec();
        meta_map(&value)
            .pin(&draft.pin(Section::Maps, META_MAP))
            .expect("pin");
        drop(draft);
        assert_eq!(names(parent()), [""; 0]);
    });
}

#[test]
fn two_drafts_of_one_instance_end_in_one_instance() {
    isolated("kernel_statedir::two_drafts", || {
        let dir = dir(ONE);
        let first = dir.draft().expect("draft");
        let second = dir.draft().expect("a second is not hindered");
        let lock = first.publish().expect("publish");
        let error = second.publish().expect_err("too late");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(names(parent()), [ONE], "the second is gone");
        assert!(matches!(dir.draft(), Err(StateError::Exists { .. })));
        drop(lock);
    });
}

#[test]
fn leftovers_of_dead_processes_are_removed_and_those_of_living_ones_are_not() {
    isolated("kernel_statedir::leftovers", || {
        for name in ["new-dead-0", "old-dead-0", "new-alive-0", "somebody"] {
            std::fs::create_dir_all(parent().join(name).join("maps")).expect("create");
        }
        let value = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)).to_vec();
        meta_map(&value)
            .pin(&parent().join("old-dead-0/maps/gw_ql_meta"))
            .expect("pin");
        let alive = Holder::start(&parent().join("new-alive-0"));
        let draft = dir(ONE).draft().expect("draft");
        drop(draft.publish().expect("publish"));
        assert_eq!(names(parent()), [ONE, "new-alive-0", "somebody"]);
        drop(alive);
    });
}

#[test]
fn one_process_changes_an_instance_at_a_time() {
    isolated("kernel_statedir::lock", || {
        let dir = instance_with(ONE, bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)));
        let holder = Holder::start(dir.path());
        let error = dir.lock().expect_err("held by another process");
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains(ONE), "{error}");
        assert_eq!(dir.version().expect("reading needs no lock").major, 2);
        drop(holder);

        let lock = dir.lock().expect("free again");
        let refused = Command::new("flock")
            .args(["--exclusive", "--nonblock"])
            .arg(dir.path())
            .arg("true")
            .status()
            .expect("flock");
        assert_eq!(
            refused.code(),
            Some(1),
            "another process is refused while we hold it"
        );
        drop(lock);
    });
}

#[test]
fn an_instance_that_does_not_exist_is_named_with_those_that_do() {
    isolated("kernel_statedir::missing", || {
        instance_with(ONE, bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)));
        for error in [
            dir(OTHER).lock().expect_err("none"),
            dir(OTHER).version().expect_err("none"),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let text = error.to_string();
            assert!(
                text.contains(OTHER) && text.contains(&format!("there are {ONE}")),
                "{text}"
            );
        }
    });
}

#[test]
fn state_of_another_version_is_refused_and_not_touched() {
    isolated("kernel_statedir::version", || {
        let newer_minor = Abi::GW_ABI_MINOR.0 as u16 + 1;
        for (major, minor) in [(3, 0), (2, newer_minor), (1, 0)] {
            let value = meta(MAGIC, major, minor, ONE);
            let dir = instance_with(ONE, bytemuck::bytes_of(&value));
            let error = dir.version().expect_err("another version");
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            let text = error.to_string();
            assert!(text.contains(&format!("ABI {major}.{minor}")), "{text}");
            assert!(text.contains("nothing was touched"), "{text}");

            let mut bytes = vec![0; 56];
            let pinned = Map::open_any(&dir.pin(Section::Maps, META_MAP)).expect("open");
            pinned.lookup(&[0; 4], &mut bytes).expect("read");
            assert_eq!(bytes, bytemuck::bytes_of(&value));
            dir.lock().expect("lock").remove().expect("remove");
        }
        // A newer version may have a longer value; its number still decides.
        let mut longer = bytemuck::bytes_of(&meta(MAGIC, 3, 1, ONE)).to_vec();
        longer.resize(128, 7);
        let error = instance_with(ONE, &longer)
            .version()
            .expect_err("another version");
        assert!(error.to_string().contains("ABI 3.1"), "{error}");
    });
}

#[test]
fn a_meta_map_that_makes_no_sense_is_corrupt_state() {
    isolated("kernel_statedir::corrupt", || {
        let of_another = bytemuck::bytes_of(&meta(MAGIC, 2, 0, OTHER)).to_vec();
        let no_magic = bytemuck::bytes_of(&meta(1, 2, 0, ONE)).to_vec();
        let short = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE))[..16].to_vec();
        let tiny = vec![0_u8; 4];
        for (value, reason) in [
            (
                of_another,
                "belongs to instance 00000000-0000-4000-8000-000000000001",
            ),
            (no_magic, "begins with 0x00000001"),
            (short, "a value has 16 bytes"),
            (tiny, "another layout"),
        ] {
            let dir = instance_with(ONE, &value);
            let error = dir.version().expect_err(reason);
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            assert!(error.to_string().contains(reason), "{error}");
            dir.lock().expect("lock").remove().expect("remove");
        }
    });
}

#[test]
fn a_pin_that_holds_something_else_is_refused_by_what_it_holds() {
    isolated("kernel_statedir::pins", || {
        let shapes = Options::default().shapes().expect("shapes");
        let value = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)).to_vec();
        let dir = instance_with(ONE, &value);
        let lock = dir.lock().expect("lock");

        // A program under a map's name.
        let program = foreign_program("stray", Kind::Xdp).expect("load");
        pin(&program, &dir.pin(Section::Maps, "gw_ql_reason"));
        let path = dir.pin(Section::Maps, "gw_ql_reason");
        let error = Map::open(&path, &shapes["gw_ql_reason"]).expect_err("a program");
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(
            error.to_string().contains("is a program, not a map"),
            "{error}"
        );

        assert!(lock.unpin(Section::Maps, META_MAP).expect("unpin"));
        assert!(!lock.unpin(Section::Maps, META_MAP).expect("no pin"));
        pin(&program, &dir.pin(Section::Maps, META_MAP));
        let error = dir.version().expect_err("a program");
        assert!(
            error.to_string().contains("is a program, not a map"),
            "{error}"
        );

        // Another map under a map's name.
        meta_map(&value)
            .pin(&dir.pin(Section::Maps, "gw_ql_stats"))
            .expect("pin");
        let path = dir.pin(Section::Maps, "gw_ql_stats");
        let error = Map::open(&path, &shapes["gw_ql_stats"])
            .expect_err("another map")
            .to_string();
        for difference in [
            "type is array, not percpu_array",
            "name is gw_ql_meta, not gw_ql_stats",
            "value size is 56, not 464",
            "number of entries is 1, not 1024",
        ] {
            assert!(error.contains(difference), "{difference}: {error}");
        }
        assert!(!error.contains("key size"), "{error}");
        assert!(
            Map::open(&dir.pin(Section::Maps, "none"), &shapes["gw_ql_dev"])
                .expect_err("nothing")
                .is_not_found()
        );
    });
}

#[test]
fn maps_of_the_program_are_pinned_and_opened_again_in_their_shape() {
    isolated("kernel_statedir::reopen", || {
        let options = Options::default();
        let object = options.load().expect("load");
        let dir = dir(ONE);
        let draft = dir.draft().expect("draft");
        let shapes = options.shapes().expect("shapes");
        let mut pinned = Vec::new();
        for map in object
            .maps()
            .filter(|map| map.shape().name.starts_with("gw_ql_"))
        {
            map.pin(&draft.pin(Section::Maps, &map.shape().name))
                .expect("pin");
            pinned.push((map.shape().name.clone(), map.id()));
        }
        let lock = draft.publish().expect("publish");
        drop(object);

        let reopened: Vec<Map> = pinned
            .iter()
            .map(|(name, id)| {
                let path = dir.pin(Section::Maps, name);
                let map = Map::open(&path, &shapes[name]).expect("the same shape");
                assert_eq!(map.id(), *id, "{name}");
                map
            })
            .collect();
        let again = Options {
            reuse: &reopened,
            ..Options::default()
        }
        .load()
        .expect("load");
        let used: Vec<u32> = pinned.iter().map(|(_, id)| *id).collect();
        for map in again
            .maps()
            .filter(|map| map.shape().name.starts_with("gw_ql_"))
        {
            assert!(
                used.contains(&map.id()),
                "{} was not reused",
                map.shape().name
            );
        }
        assert!(again.program.map_ids().iter().any(|id| used.contains(id)));
        drop(lock);
    });
}

#[test]
fn removal_says_what_it_removes_and_spares_what_is_attached() {
    isolated("kernel_statedir::remove", || {
        let value = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)).to_vec();
        let dir = instance_with(ONE, &value);
        let program = foreign_program("attached", Kind::Xdp).expect("load");
        let (index, _) = netns::veth("near", "far");
        let link = netns::foreign_link(index, &program).expect("link");
        pin(&link, &dir.pin(Section::Links, "near"));
        pin(&program, &dir.pin(Section::Programs, "gw_quiclb"));

        let error = dir.lock().expect("lock").remove().expect_err("attached");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(dir.pins(Section::Programs).expect("list"), ["gw_quiclb"]);

        let lock = dir.lock().expect("lock");
        assert!(lock.unpin(Section::Links, "near").expect("unpin"));
        let mut removed = lock.remove().expect("remove");
        removed.sort();
        assert_eq!(removed, ["maps/gw_ql_meta", "progs/gw_quiclb"]);
        assert_eq!(names(parent()), [""; 0]);
        assert!(!dir.exists().expect("look"));
    });
}

#[test]
fn a_pin_takes_the_place_of_another_in_one_step() {
    isolated("kernel_statedir::rename", || {
        let value = bytemuck::bytes_of(&meta(MAGIC, 2, 0, ONE)).to_vec();
        let dir = instance_with(ONE, &value);
        let lock = dir.lock().expect("lock");
        let newer = meta_map(&value);
        newer.pin(&dir.pin(Section::Maps, "newer")).expect("pin");
        lock.rename(Section::Maps, "newer", META_MAP)
            .expect("rename");
        assert_eq!(dir.pins(Section::Maps).expect("list"), [META_MAP]);
        let there = Map::open_any(&dir.pin(Section::Maps, META_MAP)).expect("open");
        assert_eq!(there.id(), newer.id());

        std::fs::remove_dir(dir.path().join("gen")).expect("remove");
        assert!(lock.repair_sections().expect("repair"));
        assert!(!lock.repair_sections().expect("nothing to repair"));
        assert_eq!(dir.pins(Section::Generations).expect("list"), [""; 0]);
    });
}

#[test]
fn a_root_that_is_no_bpffs_is_refused_with_the_remedy() {
    isolated("kernel_statedir::root", || {
        let root = StateRoot::new("/proc");
        let error = root.check().expect_err("procfs");
        assert_eq!(error.kind(), ErrorKind::Preflight);
        assert!(
            error.to_string().contains("mount -t bpf bpf /proc"),
            "{error}"
        );
        let error = root
            .quiclb(ONE.parse().expect("a UUID"))
            .draft()
            .expect_err("procfs");
        assert_eq!(error.kind(), ErrorKind::Preflight);
        let error = StateRoot::new("/nowhere").check().expect_err("nothing");
        assert_eq!(error.kind(), ErrorKind::NotFound);

        // In this test's own mount namespace.
        let mounted = StateRoot::new("/mnt");
        mounted.mount().expect("mount");
        mounted.check().expect("a bpffs");
        mounted.mount().expect("once is enough");
        let again = std::fs::read_to_string("/proc/thread-self/mounts").expect("mounts");
        assert_eq!(
            again
                .lines()
                .filter(|line| line.contains(" /mnt bpf "))
                .count(),
            1
        );
        // A dot in a name is what a bpffs refuses.
        let refused = std::fs::create_dir("/mnt/a.b").expect_err("a dot");
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    });
}
