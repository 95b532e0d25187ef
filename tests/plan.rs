// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Planning: the same inputs give the same plan, the plan says what will happen, and what a backend
//! is given it keeps.

use std::collections::BTreeMap;

use guideway::plan::{
    plan, preflight, BackendPlan, Change, CheckCode, CheckResult, Device, Hook, Image, Live,
    Options, Place, Plan, PlanFile, PlanResult, Shared, World,
};
use guideway::service::{FaultCode, Faults, Mode, Spec};
use serde_json::{json, Value};

const EXAMPLE: &str = r#"{ "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0", "mode": "native",
  "services": [{ "name": "quic-api", "vip": "203.0.113.80", "port": 443, "short_dcid_len": 8, "quic_only": true, "maglev_table_size": 4093,
    "backends": [
      {"id": 1, "interface": "vm-edge-a", "mac": "02:00:00:00:01:01", "weight": 1, "state": "ready"},
      {"id": 2, "interface": "vm-edge-b", "mac": "02:00:00:00:01:02", "weight": 1, "state": "ready"} ] }] }"#;

const SECOND: u64 = 1_000_000_000;

fn spec(json: &str) -> Spec {
    Spec::from_json(json.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The example with other backends and members.
fn with(backends: Value, members: Value) -> Spec {
    let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
    let service = document["services"][0].as_object_mut().expect("an object");
    service.insert("backends".into(), backends);
    for (name, value) in members.as_object().expect("an object") {
        service.insert(name.clone(), value.clone());
    }
    spec(&document.to_string())
}

fn backend(id: u32) -> Value {
    json!({"id": id, "interface": "vm-edge-a", "mac": format!("02:00:00:00:{:02x}:{:02x}", id >> 8, id & 0xff)})
}

fn backends(ids: impl IntoIterator<Item = u32>) -> Value {
    ids.into_iter().map(backend).collect()
}

fn device(name: &str, index: u32) -> Device {
    let mac = format!("02:ff:00:00:00:{index:02x}")
        .parse()
        .expect("an address");
    Device::new(name.parse().expect("a name"), index, Some(mac), 1500)
}

/// The interfaces of the example, `seconds` after boot.
fn world_at(seconds: u64) -> World {
    let devices = vec![
        device("edge0", 3),
        device("vm-edge-a", 4),
        device("vm-edge-b", 5),
    ];
    World::new(devices, Vec::new(), seconds * SECOND)
}

fn plan_at(live: Option<&Live>, spec: &Spec, seconds: u64) -> Plan {
    plan(live, spec, &world_at(seconds), Options::default())
        .unwrap_or_else(|faults| panic!("{faults}"))
}

fn refused(live: Option<&Live>, spec: &Spec, seconds: u64) -> Faults {
    plan(live, spec, &world_at(seconds), Options::default()).expect_err("refused")
}

/// Row and incarnation of each backend that stays.
fn places(plan: &Plan) -> BTreeMap<u32, (u16, u32)> {
    plan.document().services[0]
        .backends
        .iter()
        .filter(|backend| backend.change != Change::Removed)
        .map(|backend| (backend.id, (backend.row, backend.incarnation)))
        .collect()
}

fn of(plan: &Plan, id: u32) -> &BackendPlan {
    let mut backends = plan.document().services[0].backends.iter();
    backends
        .find(|backend| backend.id == id)
        .expect("a backend")
}

#[test]
fn the_example_gets_the_published_table() {
    let plan = plan_at(None, &spec(EXAMPLE), 1);
    let document = plan.document();
    assert_eq!(document.result, PlanResult::Create);
    let service = &document.services[0];
    assert_eq!(service.service_id, 0x8cd5_d28f);
    assert_eq!(service.table.digest, "c2c1866ce84c1d4d");
    let slots: Vec<_> = service
        .backends
        .iter()
        .map(|backend| backend.slots)
        .collect();
    assert_eq!(slots, [2047, 2046]);
    let indices: Vec<_> = service
        .backends
        .iter()
        .map(|backend| backend.ifindex)
        .collect();
    assert_eq!(indices, [Some(4), Some(5)]);
}

#[test]
fn the_specification_in_the_readme_is_valid() {
    let readme = include_str!("../README.md");
    let start = readme.split_once("```json\n").expect("a specification").1;
    let json = start.split_once("```").expect("its end").0;
    let plan = plan_at(None, &spec(json), 1);
    assert_eq!(plan.document().services[0].backends.len(), 2);
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let one = plan_at(None, &spec(EXAMPLE), 1);
    let two = plan_at(None, &spec(EXAMPLE), 1);
    assert_eq!(one.to_file(), two.to_file());
    let image = |plan: &Plan| Image::build(plan.generation()).expect("an image");
    assert_eq!(image(&one).bytes(), image(&two).bytes());
}

#[test]
fn another_machine_gives_the_same_table_with_other_interfaces() {
    let elsewhere = World::new(
        vec![
            device("vm-edge-b", 91),
            device("edge0", 92),
            device("vm-edge-a", 93),
        ],
        Vec::new(),
        77 * SECOND,
    );
    let here = plan_at(None, &spec(EXAMPLE), 1);
    let there = plan(None, &spec(EXAMPLE), &elsewhere, Options::default()).expect("a plan");
    let owners = |plan: &Plan| plan.generation().services[0].table.slots().to_vec();
    assert_eq!(owners(&here), owners(&there));
    assert_eq!(here.document().digest, there.document().digest);
    assert_ne!(of(&here, 1).ifindex, of(&there, 1).ifindex);
}

#[test]
fn missing_interfaces_are_all_named() {
    let world = World::new(Vec::new(), Vec::new(), 0);
    let faults = plan(None, &spec(EXAMPLE), &world, Options::default()).expect_err("faults");
    let pointers: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/interface",
            "/services/0/backends/0/interface",
            "/services/0/backends/1/interface"
        ]
    );
    assert!(faults
        .iter()
        .all(|fault| fault.code.as_str() == "no-interface"));
}

#[test]
fn offline_asks_nothing_of_the_machine() {
    let plan = plan(None, &spec(EXAMPLE), &World::offline(), Options::default()).expect("a plan");
    assert!(plan.is_offline());
    assert!(plan.document().preflight.is_empty());
    assert!(plan.document().services[0]
        .backends
        .iter()
        .all(|backend| backend.ifindex.is_none()));
    let file = PlanFile::from_json(&plan.to_file()).expect("reads");
    assert!(file.offline);
    assert_eq!(file.spec, spec(EXAMPLE));
    assert_eq!(file.difference(&plan), None);
    let here = plan_at(None, &spec(EXAMPLE), 1);
    assert_eq!(file.difference(&here).as_deref(), Some("/ifindex"));
}

#[test]
fn a_backend_keeps_its_row_while_others_come_and_go() {
    let first = plan_at(None, &with(backends([10, 20, 30]), json!({})), 1);
    assert_eq!(
        places(&first),
        BTreeMap::from([(10, (0, 1)), (20, (1, 2)), (30, (2, 3))])
    );

    let live = first.as_live(1);
    let second = plan_at(Some(&live), &with(backends([5, 20, 30]), json!({})), 2);
    // 5 gets a row of its own: that of 10, which may come back, is given away last.
    assert_eq!(
        places(&second),
        BTreeMap::from([(5, (3, 4)), (20, (1, 2)), (30, (2, 3))])
    );
    assert_eq!(of(&second, 10).change, Change::Removed);
    assert_eq!(of(&second, 5).change, Change::Added);
    assert_eq!(of(&second, 20).change, Change::Unchanged);
}

#[test]
fn a_backend_that_returns_as_itself_in_time_is_the_same_one() {
    let first = plan_at(None, &with(backends([10, 20]), json!({})), 1).as_live(1);
    let gone = plan_at(Some(&first), &with(backends([20]), json!({})), 10).as_live(2);

    let within = plan_at(Some(&gone), &with(backends([10, 20]), json!({})), 10 + 3599);
    assert_eq!(places(&within)[&10], (0, 1));

    let late = plan_at(Some(&gone), &with(backends([10, 20]), json!({})), 10 + 3601);
    assert_eq!(places(&late)[&10].1, 3, "another incarnation");

    let mut other = backend(10);
    other["mac"] = json!("02:00:00:00:99:99");
    let changed = plan_at(
        Some(&gone),
        &with(json!([other, backend(20)]), json!({})),
        11,
    );
    assert_eq!(
        places(&changed)[&10].1,
        3,
        "another machine with the same id"
    );
}

#[test]
fn a_row_is_never_reused_with_the_same_incarnation() {
    let mut live = plan_at(None, &with(backends(1..=256), json!({})), 1).as_live(1);
    let mut seen: BTreeMap<(u16, u32), u32> = live_places(&live)
        .into_iter()
        .map(|(id, place)| (place, id))
        .collect();
    // All 256 rows are taken, and all are given away at once, four times over.
    for round in 1..=4 {
        let ids = round * 1000 + 1..=round * 1000 + 256;
        let next = plan_at(
            Some(&live),
            &with(backends(ids), json!({})),
            u64::from(round) * 10,
        );
        for (id, place) in places(&next) {
            assert_eq!(
                seen.insert(place, id),
                None,
                "row and incarnation {place:?} of {id}"
            );
        }
        live = next.as_live(u64::from(round) + 1);
    }
    assert_eq!(seen.len(), 5 * 256);
}

fn live_places(live: &Live) -> BTreeMap<u32, (u16, u32)> {
    places(&plan_at(Some(live), live.spec(), 2))
}

fn server_ids(ids: &[(u32, &str)], quarantine: &str) -> Spec {
    let configs = json!([{"config_id": 0, "server_id_len": 2, "nonce_len": 5},
                         {"config_id": 3, "server_id_len": 2, "nonce_len": 6}]);
    let quic = json!({"routing": "server-id", "configs": configs, "quarantine": quarantine});
    let backends = ids
        .iter()
        .map(|(id, server_id)| {
            let mut backend = backend(*id);
            backend["server_id"] = json!(server_id);
            backend
        })
        .collect();
    with(backends, json!({"quic": quic, "short_dcid_len": 0}))
}

/// The published server IDs of the first service: config, bytes, row.
fn published(plan: &Plan) -> Vec<(u8, String, Option<u16>)> {
    let ids = plan.generation().services[0].server_ids.iter();
    ids.map(|id| (id.config_id, id.server_id.to_string(), id.row))
        .collect()
}

#[test]
fn a_server_id_that_left_is_reserved_for_its_backend() {
    let first = plan_at(None, &server_ids(&[(1, "c460"), (2, "c461")], "10m"), 1).as_live(1);
    let without = server_ids(&[(2, "c461")], "10m");
    let second = plan_at(Some(&first), &without, 100);
    assert_eq!(
        published(&second),
        [
            (0, "c461".into(), Some(1)),
            (3, "c461".into(), Some(1)),
            (0, "c460".into(), None),
            (3, "c460".into(), None),
        ]
    );

    let gone = second.as_live(2);
    let given = server_ids(&[(2, "c461"), (3, "c460")], "10m");
    let faults = refused(Some(&gone), &given, 160);
    let fault = &faults.as_slice()[0];
    assert_eq!(fault.code.as_str(), "quarantine");
    assert_eq!(fault.pointer, "/services/0/backends/1/server_id");
    assert_eq!(
        fault.message,
        "server ID c460 belonged to backend 1 until 60s ago; free in 540s"
    );

    let reuse = Options {
        reuse_server_id: true,
        ..Options::default()
    };
    let reused = plan(Some(&gone), &given, &world_at(160), reuse).expect("a plan");
    let warnings = reused.document().warnings.iter();
    assert_eq!(
        warnings
            .filter(|w| w.code.as_str() == "reused-server-id")
            .count(),
        1
    );
    assert!(published(&reused).iter().all(|(_, _, row)| row.is_some()));

    let back = plan_at(
        Some(&gone),
        &server_ids(&[(1, "c460"), (2, "c461")], "10m"),
        160,
    );
    assert!(
        published(&back).iter().all(|(_, _, row)| row.is_some()),
        "returned to its owner"
    );

    let later = plan_at(Some(&gone), &given, 701);
    assert!(published(&later).contains(&(0, "c460".into(), Some(places(&later)[&3].0))));
}

#[test]
fn a_server_id_that_changes_is_reserved_too() {
    let first = plan_at(None, &server_ids(&[(1, "c460")], "10m"), 1).as_live(1);
    let second = plan_at(Some(&first), &server_ids(&[(1, "c4ff")], "10m"), 2);
    assert!(published(&second).contains(&(0, "c460".into(), None)));
    assert_eq!(places(&second)[&1], (0, 1), "the backend stays");
    // Nothing is reserved without a quarantine.
    let third = plan_at(Some(&first), &server_ids(&[(1, "c4ff")], "0s"), 2).as_live(2);
    let fourth = plan_at(Some(&third), &server_ids(&[(1, "c4fe")], "0s"), 3);
    assert!(!published(&fourth).iter().any(|(_, id, _)| id == "c4ff"));
}

#[test]
fn disruption_is_that_of_the_tables() {
    // Independent of the code under test: slots counted from the two published tables.
    let first = plan_at(None, &with(backends(1..=10), json!({})), 1);
    let second = plan_at(
        Some(&first.as_live(1)),
        &with(backends(1..=9), json!({})),
        2,
    );
    let owners = |plan: &Plan| {
        let service = &plan.generation().services[0];
        let rows = &service.rows;
        let id = |row: u16| {
            rows[usize::from(row)]
                .as_ref()
                .map(|backend| backend.id.get())
        };
        service
            .slots
            .iter()
            .map(|slot| id(slot.owner))
            .collect::<Vec<_>>()
    };
    let (before, after) = (owners(&first), owners(&second));
    let moved = before
        .iter()
        .zip(&after)
        .filter(|(old, new)| old != new)
        .count();
    let forced = before.iter().filter(|owner| **owner == Some(10)).count();
    let disruption = &second.document().services[0].disruption;
    assert_eq!(disruption.slots_moved as usize, moved);
    assert_eq!(disruption.slots_forced as usize, forced);
    assert_eq!(disruption.slots_extra as usize, moved - forced);
    assert!((disruption.moved_ratio - moved as f64 / 4093.0).abs() < 1e-12);
}

#[test]
fn draining_and_weight_zero_keep_the_row_and_lose_the_slots() {
    let mut draining = backend(1);
    draining["state"] = json!("draining");
    let mut weightless = backend(2);
    weightless["weight"] = json!(0);
    let plan = plan_at(
        None,
        &with(json!([draining, weightless, backend(3)]), json!({})),
        1,
    );
    assert_eq!(
        (of(&plan, 1).slots, of(&plan, 2).slots, of(&plan, 3).slots),
        (0, 0, 4093)
    );
    use guideway::service::BackendState;
    let states = plan.generation().services[0]
        .rows
        .iter()
        .flatten()
        .map(|b| b.state);
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            BackendState::Draining,
            BackendState::Draining,
            BackendState::Ready
        ]
    );
}

#[test]
fn a_service_without_backends_is_planned() {
    let plan = plan_at(None, &with(json!([]), json!({})), 1);
    let warnings = plan.document().warnings.iter();
    assert_eq!(
        warnings
            .filter(|w| w.code.as_str() == "no-ready-backend")
            .count(),
        1
    );
    assert!(plan.generation().services[0]
        .slots
        .iter()
        .all(|slot| slot.owner == 0xffff));
}

#[test]
fn what_moves_nearly_everything_wants_a_word() {
    let live = plan_at(None, &spec(EXAMPLE), 1).as_live(1);
    let resized = with(backends(1..=2), json!({"maglev_table_size": 16381}));
    assert_eq!(
        refused(Some(&live), &resized, 2).as_slice()[0]
            .code
            .as_str(),
        "disruptive"
    );
    let disruptive = Options {
        disruptive: true,
        ..Options::default()
    };
    let plan = plan(Some(&live), &resized, &world_at(2), disruptive).expect("confirmed");
    assert_eq!(plan.document().services[0].disruption.slots_moved, 4093);
}

#[test]
fn what_sizes_the_maps_is_fixed() {
    let live = plan_at(None, &spec(EXAMPLE), 1).as_live(1);
    let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
    document["limits"] = json!({"flows": 2048, "cids": 2048, "slots": 8191});
    let faults = refused(Some(&live), &spec(&document.to_string()), 2);
    let pointers: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(pointers, ["/limits/flows", "/limits/cids", "/limits/slots"]);
    assert_eq!(
        faults.as_slice()[0].message,
        "the live instance has 1048576, and keeps it: detach --purge and apply again to make it anew"
    );
}

#[test]
fn a_place_in_a_root_array_is_fixed() {
    let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
    let on_hook = spec(EXAMPLE);
    let at = |index: u32| json!({"path": "/sys/fs/bpf/roots", "index": index});
    document["root_array"] = at(3);
    let third = spec(&document.to_string());
    document["root_array"] = at(4);
    let fourth = spec(&document.to_string());
    for (live, wanted, has) in [
        (&on_hook, &third, "no root array"),
        (&third, &on_hook, "index 3 of /sys/fs/bpf/roots"),
        (&third, &fourth, "index 3 of /sys/fs/bpf/roots"),
    ] {
        let live = plan_at(None, live, 1).as_live(1);
        let faults = refused(Some(&live), wanted, 2);
        let [fault] = faults.as_slice() else {
            panic!("{faults}")
        };
        assert_eq!(
            (fault.pointer.as_str(), fault.code),
            ("/root_array", FaultCode::Fixed)
        );
        let begin = format!("the live instance has {has}, and keeps it: ");
        assert!(fault.message.starts_with(&begin), "{}", fault.message);
    }
    let live = plan_at(None, &third, 1).as_live(1);
    plan(Some(&live), &third, &world_at(2), Options::default()).expect("the same place");
}

/// Where the interface has another owner that is looked at, and the hook is not.
#[test]
fn a_place_in_a_root_array_is_checked_before_anything_is_made() {
    let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
    document["root_array"] = json!({"path": "/sys/fs/bpf/roots", "index": 3});
    let spec = spec(&document.to_string());
    let checks = |place: Place, root: Option<(&str, Mode)>| {
        let mut world = world_at(1);
        world.hook = Some(Hook::Occupied("program 5 (root)".into()));
        let root = root.map(|(text, mode)| (text.to_owned(), mode));
        world.root_array = Some(Shared::new(place, root));
        let mut checks = preflight(&spec, &world)
            .into_iter()
            .map(|check| (check.code, check.object, check.result, check.message));
        [
            checks.next().expect("of the place"),
            checks.next().expect("of the root"),
        ]
    };
    let check = |code, object: &str, result, message: &str| {
        (code, object.to_owned(), result, message.to_owned())
    };
    let index = "index 3 of /sys/fs/bpf/roots";
    let root = "program 5 (root)";
    let runs = check(
        CheckCode::RootProgram,
        "edge0",
        CheckResult::Ok,
        "program 5 (root) runs there",
    );
    let message = "no foreign program at the place";
    let free = check(CheckCode::Occupied, index, CheckResult::Ok, message);
    let native = Some((root, Mode::Native));
    assert_eq!(checks(Place::Free, native), [free.clone(), runs.clone()]);

    let message = "program 7 (other) holds the place";
    let occupied = check(CheckCode::Occupied, index, CheckResult::Error, message);
    let place = Place::Occupied("program 7 (other)".into());
    assert_eq!(checks(place, native), [occupied, runs.clone()]);

    let missing = check(
        CheckCode::RootArray,
        index,
        CheckResult::Error,
        "nothing is pinned",
    );
    let place = Place::Missing("nothing is pinned".into());
    assert_eq!(checks(place, native), [missing, runs]);

    let message = format!("nothing runs on the interface: no root program calls {index}");
    let nobody = check(
        CheckCode::RootProgram,
        "edge0",
        CheckResult::Warning,
        &message,
    );
    assert_eq!(checks(Place::Free, None), [free.clone(), nobody]);

    let message =
        "program 5 (root) runs there, the specification says mode native: what redirected \
                   frames need was not looked at";
    let otherwise = check(CheckCode::RootProgram, "edge0", CheckResult::Error, message);
    assert_eq!(
        checks(Place::Free, Some((root, Mode::Generic))),
        [free, otherwise]
    );
}

#[test]
fn memory_is_counted_before_anything_is_made() {
    let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
    let service = document["services"][0].clone();
    document["services"] = (0..80)
        .map(|index| {
            let mut service = service.clone();
            service["name"] = json!(format!("s{index}"));
            service["port"] = json!(1000 + index);
            service["maglev_table_size"] = json!(65537);
            // Unequal backends, so that no two services share a table.
            service["backends"][0]["weight"] = json!(1 + index);
            service
        })
        .collect();
    document["limits"] = json!({"memory_mib": 16});
    let faults = refused(None, &spec(&document.to_string()), 1);
    let fault = &faults.as_slice()[0];
    assert_eq!(
        (fault.pointer.as_str(), fault.code.as_str()),
        ("/limits/memory_mib", "capacity")
    );
    assert!(
        fault
            .message
            .contains("an instance made with memory_mib 429 has room"),
        "{fault}"
    );
    document["limits"] = json!({"memory_mib": 429});
    let plan = plan_at(None, &spec(&document.to_string()), 1);
    let capacity = plan.document().capacity;
    let image = Image::build(plan.generation()).expect("an image");
    assert_eq!(capacity.cells.used * 256, image.bytes().len() as u64);
    assert_eq!(capacity.memory_bytes.generation, capacity.cells.limit * 256);
    let live = plan.as_live(1);
    let next = plan_at(Some(&live), live.spec(), 2)
        .document()
        .capacity
        .memory_bytes;
    assert_eq!(next.both_generations, 2 * next.generation);
}

#[test]
fn interfaces_of_both_generations_are_counted_before_anything_is_made() {
    const LIMIT: u32 = 4096;
    // Interfaces and their backends, 256 to a service.
    let on = |interfaces: std::ops::Range<u32>| {
        let backend = |index| {
            let interface = format!("v{index}");
            json!({"id": index + 1, "interface": interface, "mac": "02:00:00:00:00:01"})
        };
        let services = interfaces.clone().step_by(256).map(|first| {
            let backends: Value = (first..(first + 256).min(interfaces.end))
                .map(backend)
                .collect();
            json!({"name": format!("s{first}"), "vip": "203.0.113.80", "port": 1 + first,
                   "maglev_table_size": 1021, "backends": backends})
        });
        let services: Value = services.collect();
        let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        document["services"] = services;
        spec(&document.to_string())
    };
    let made_for =
        |live: Option<&Live>, spec: &Spec| plan(live, spec, &World::offline(), Options::default());
    let full = made_for(None, &on(0..LIMIT)).expect("a plan");
    let targets = full.document().capacity.targets;
    assert_eq!((targets.used, targets.limit), (LIMIT.into(), LIMIT.into()));
    let same = made_for(Some(&full.as_live(1)), &on(1..LIMIT)).expect("no new one");
    assert_eq!(same.document().capacity.targets.used, u64::from(LIMIT));
    for (live, wanted) in [
        (None, 0..LIMIT + 1),
        (Some(full.as_live(1)), LIMIT..LIMIT + 1),
    ] {
        let faults = made_for(live.as_ref(), &on(wanted)).expect_err("one too many");
        assert_eq!(
            faults.to_string(),
            "/services: interfaces of backends: 4097 needed, the limit is 4096"
        );
    }
}

#[test]
fn an_unchanged_world_is_unchanged_and_a_new_index_is_a_change() {
    let live = plan_at(None, &spec(EXAMPLE), 1).as_live(1);
    assert_eq!(
        plan_at(Some(&live), &spec(EXAMPLE), 9).document().result,
        PlanResult::Unchanged
    );
    let moved = World::new(
        vec![
            device("edge0", 3),
            device("vm-edge-a", 44),
            device("vm-edge-b", 5),
        ],
        Vec::new(),
        SECOND,
    );
    let plan = plan(Some(&live), &spec(EXAMPLE), &moved, Options::default()).expect("a plan");
    assert_eq!(plan.document().result, PlanResult::Change);
    assert_eq!(of(&plan, 1).change, Change::Changed);
}

#[test]
fn what_had_its_time_is_a_change_only_if_packets_see_it() {
    let first = plan_at(None, &with(backends([10, 20]), json!({})), 1).as_live(1);
    let spec = with(backends([20]), json!({}));
    let gone = plan_at(Some(&first), &spec, 10).as_live(2);
    for seconds in [11, 10 + 3601] {
        let again = plan_at(Some(&gone), &spec, seconds);
        assert_eq!(again.document().result, PlanResult::Unchanged, "{seconds}");
    }

    let first = plan_at(None, &server_ids(&[(1, "c460"), (2, "c461")], "10m"), 1).as_live(1);
    let spec = server_ids(&[(2, "c461")], "10m");
    let gone = plan_at(Some(&first), &spec, 100).as_live(2);
    for (seconds, result) in [(101, PlanResult::Unchanged), (701, PlanResult::Change)] {
        let again = plan_at(Some(&gone), &spec, seconds);
        assert_eq!(again.document().result, result, "{seconds}");
    }
}

#[test]
fn a_printed_plan_lacks_its_secrets_and_a_file_has_them() {
    let mut document: Value = serde_json::from_str(EXAMPLE).expect("JSON");
    document["hash_seed"] = json!("000102030405060708090a0b0c0d0e0f");
    let spec = spec(&document.to_string());
    let plan = plan_at(None, &spec, 1);
    let printed = serde_json::to_string(plan.document()).expect("JSON");
    assert!(!printed.contains("0001020304050607"));
    let refused = PlanFile::from_json(printed.as_bytes()).expect_err("no secrets, no plan");
    assert_eq!(refused.as_slice()[0].pointer, "/spec/hash_seed");
    assert_eq!(
        PlanFile::from_json(&plan.to_file()).expect("reads").spec,
        spec
    );
    assert!(
        !format!("{plan:?}").contains("0001020304050607"),
        "nor does Debug show them"
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_reading_a_plan_panic(bytes: Vec<u8>) {
        let _ = PlanFile::from_json(&bytes);
        let _ = PlanFile::recognises(&bytes);
    }
}
