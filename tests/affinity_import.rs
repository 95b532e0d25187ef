// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of a document an instance takes, against a model that is written from the rules alone.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use guideway::affinity::{
    reconcile, AffinityDocument, BackendView, Binding, BindingOrigin, CidBinding, CidContract,
    CidKey, Conflict, ImportReport, InstanceView, Origin, Outcome, Phase, Reconciliation,
    ServiceBindings, ServiceView, Step, EXAMPLES,
};
use guideway::id::{BackendId, ServiceId};
use guideway::quic::Cid;
use guideway::service::{Protocol, Routing};
use proptest::prelude::*;

const NOW_NS: u64 = 1_000_000_000_000;

type Map = BTreeMap<(u32, Vec<u8>), Binding>;

fn backend_id(number: u32) -> BackendId {
    BackendId::new(number).expect("not 0")
}

fn entry(row: u16, incarnation: u32, origin: Origin) -> Binding {
    Binding {
        tag: 0,
        row,
        incarnation,
        seen_ns: 0,
        phase: Phase::Live,
        fin: false,
        rst: false,
        origin,
        learned: 0,
        hash: 0,
    }
}

fn binding(cid: &[u8], backend: u32) -> CidBinding {
    CidBinding {
        cid: Cid::new(cid).expect("a length"),
        backend: backend_id(backend),
        origin: BindingOrigin::Learned,
        last_seen_ns: 5,
    }
}

fn bindings(id: u32, port: u16, bindings: Vec<CidBinding>) -> ServiceBindings {
    ServiceBindings {
        id: ServiceId::new(id),
        name: format!("service-{id}"),
        vip: "203.0.113.80".parse().expect("an address"),
        protocol: Protocol::Udp,
        port,
        bindings,
    }
}

/// A service of connection IDs of two bytes with backends 1 (ready, row 4), 2 (draining, row 0) and 3 (unhealthy, row 2).
fn service(id: u32) -> ServiceView {
    let backend = |id: u32, row: u16, usable: bool| BackendView {
        id: backend_id(id),
        row,
        incarnation: 100 + id,
        usable,
    };
    ServiceView {
        id: ServiceId::new(id),
        vip: "203.0.113.80".parse().expect("an address"),
        protocol: Protocol::Udp,
        port: 443,
        contract: CidContract {
            reads_quic: true,
            routing: Routing::Learned,
            short_dcid_len: 2,
        },
        admits: true,
        backends: vec![
            backend(1, 4, true),
            backend(2, 0, true),
            backend(3, 2, false),
        ],
    }
}

fn instance(room: u64) -> InstanceView {
    InstanceView {
        services: vec![service(7), service(9)],
        room,
        now_ns: NOW_NS,
    }
}

fn document(services: Vec<ServiceBindings>) -> AffinityDocument {
    AffinityDocument::new("2026-07-31T08:00:00Z", "x", services)
}

fn key(key: &CidKey) -> (u32, Vec<u8>) {
    (key.service, key.cid.to_vec())
}

fn reconciled(
    document: &AffinityDocument,
    instance: &InstanceView,
    policy: Conflict,
    map: &Map,
) -> Reconciliation {
    let lookup = |of: &CidKey| Ok::<_, Infallible>(map.get(&key(of)).copied());
    match reconcile(document, instance, policy, lookup) {
        Ok(result) => result,
        Err(never) => match never {},
    }
}

/// Imports into a map as the kernel would hold it.
fn import(
    document: &AffinityDocument,
    instance: &InstanceView,
    policy: Conflict,
    map: &mut Map,
) -> ImportReport {
    let result = reconciled(document, instance, policy, map);
    let foreseen = result.clone().foreseen();
    let mut report = result.report;
    for action in &result.actions {
        let new = action.binding(NOW_NS);
        let before = map.insert(key(&action.key), new);
        match action.step {
            Step::Insert => assert_eq!(before, None, "an insert finds nothing"),
            Step::Exchange(expected) => assert_eq!(before, Some(expected)),
        }
        report.count(action, Outcome::Written);
    }
    assert_eq!(report, foreseen, "what is foreseen is what happens");
    report
}

#[test]
fn each_reason_has_its_number_and_examples() {
    let many = |from: u16, count: u16, backend: u32| {
        let cids = from..from + count;
        let all = cids.map(|cid| binding(&cid.to_be_bytes(), backend));
        all.collect::<Vec<_>>()
    };
    let mut mixed = many(0, 150, 77);
    mixed.extend(many(1000, 120, 3));
    mixed.extend(many(2000, 10, 1));
    mixed.extend(many(2000, 10, 1));
    mixed.extend(many(3000, 2, 1));
    mixed.extend((0..30).map(|number| binding(&[1, 2, number], 1)));
    mixed.push(binding(&[1], 1));
    let document = document(vec![
        bindings(5, 443, many(0, 200, 1)),
        bindings(7, 443, mixed),
        bindings(9, 444, many(0, 101, 1)),
    ]);
    let mut map = Map::new();
    let report = import(&document, &instance(1), Conflict::Keep, &mut map);
    let rejected = report.rejected;
    assert_eq!((report.accepted, map.len()), (1, 1));
    assert_eq!(rejected.unknown_service, 200);
    assert_eq!(rejected.unknown_backend, 150);
    assert_eq!(rejected.not_usable, 120);
    assert_eq!(rejected.duplicate_in_document, 20);
    assert_eq!(rejected.cid_length, 31);
    assert_eq!(rejected.table_full, 1);
    assert_eq!(rejected.service_differs, 101);
    assert_eq!(rejected.total(), 623);
    assert_eq!(report.total() as usize, document.bindings());
    let examples = &report.examples;
    assert_eq!(examples.unknown_service.len(), EXAMPLES);
    assert_eq!(examples.unknown_backend.len(), EXAMPLES);
    assert_eq!(examples.not_usable.len(), EXAMPLES);
    assert_eq!(examples.duplicate_in_document.len(), 20);
    assert_eq!(examples.service_differs.len(), EXAMPLES);
    assert_eq!(examples.cid_length.len(), 31);
    assert_eq!(examples.table_full.len(), 1);
    let text = serde_json::to_value(&examples.table_full).expect("JSON");
    let expected = serde_json::json!([
        {"service_id": 7, "cid": "0bb9", "backend": 1, "bound_to": null}
    ]);
    assert_eq!(text, expected);
    // 3000 is 0bb8: the first of the order has the room.
    assert!(map.contains_key(&(7, vec![0x0b, 0xb8])));
}

#[test]
fn a_million_duplicates_are_a_million_rejections() {
    let mut many = vec![binding(b"01", 1); 500_000];
    many.extend(vec![binding(b"01", 2); 500_000]);
    many.push(binding(b"02", 1));
    let mut map = Map::new();
    let of = document(vec![bindings(7, 443, many)]);
    let report = import(&of, &instance(10), Conflict::Keep, &mut map);
    assert_eq!(report.rejected.duplicate_in_document, 1_000_000);
    assert_eq!(report.examples.duplicate_in_document.len(), EXAMPLES);
    assert_eq!((report.accepted, map.len()), (1, 1));
}

#[test]
fn services_must_be_the_same_in_everything_and_read_connection_ids() {
    let one = || vec![binding(b"01", 1)];
    let with = |change: fn(&mut ServiceBindings)| {
        let mut of = bindings(7, 443, one());
        change(&mut of);
        document(vec![of])
    };
    let rejected = |document: &AffinityDocument, instance: &InstanceView| {
        let report = import(document, instance, Conflict::Keep, &mut Map::new());
        assert_eq!(report.accepted, 0);
        report.rejected
    };
    let differs: [fn(&mut ServiceBindings); 4] = [
        |of| of.vip = "203.0.113.81".parse().expect("an address"),
        |of| of.vip = "2001:db8::80".parse().expect("an address"),
        |of| of.protocol = Protocol::Tcp,
        |of| of.port = 444,
    ];
    for change in differs {
        let rejected = rejected(&with(change), &instance(10));
        assert_eq!((rejected.service_differs, rejected.total()), (1, 1));
    }
    // A name is for people.
    let renamed = with(|of| of.name = "other".into());
    let report = import(&renamed, &instance(10), Conflict::Keep, &mut Map::new());
    assert_eq!(report.accepted, 1);
    let mut other = instance(10);
    other.services[0].contract.reads_quic = false;
    assert_eq!(rejected(&with(|_| {}), &other).not_usable, 1);
    // A high level keeps imports out, whatever room there is.
    let mut other = instance(10);
    other.services[0].admits = false;
    assert_eq!(rejected(&with(|_| {}), &other).table_full, 1);
}

#[test]
fn the_clock_of_the_exporting_host_is_not_ours() {
    let mut late = binding(b"01", 1);
    late.last_seen_ns = u64::MAX;
    let mut map = Map::new();
    let of = document(vec![bindings(7, 443, vec![late])]);
    import(&of, &instance(10), Conflict::Keep, &mut map);
    let entry = map[&(7, b"01".to_vec())];
    assert_eq!(entry.seen_ns, NOW_NS);
    assert_eq!(
        (entry.row, entry.incarnation),
        (4, 101),
        "the row is this instance's"
    );
    assert_eq!((entry.origin, entry.phase), (Origin::Imported, Phase::Live));
}

#[test]
fn entries_that_bind_nothing_any_more_make_way() {
    let of = document(vec![bindings(7, 443, vec![binding(b"01", 1)])]);
    let gone = [
        // A row or incarnation that no backend has.
        entry(9, 101, Origin::Registered),
        entry(4, 100, Origin::Registered),
        entry(0, 101, Origin::Traffic),
        // A time to live that is over.
        Binding {
            seen_ns: NOW_NS,
            ..entry(0, 102, Origin::Registered)
        },
        Binding {
            phase: Phase::Dead,
            ..entry(0, 102, Origin::Traffic)
        },
        Binding {
            phase: Phase::Touched,
            ..entry(0, 102, Origin::Traffic)
        },
    ];
    for entry in gone {
        let mut map = Map::from([((7, b"01".to_vec()), entry)]);
        // It needs no room.
        let report = import(&of, &instance(0), Conflict::Keep, &mut map);
        assert_eq!((report.accepted, report.replaced), (1, 0), "{entry:?}");
    }
    let stays = [
        Binding {
            seen_ns: NOW_NS + 1,
            ..entry(0, 102, Origin::Registered)
        },
        Binding {
            phase: Phase::Expiring,
            ..entry(0, 102, Origin::Traffic)
        },
        // The backend is there, though it takes nothing at the moment.
        entry(2, 103, Origin::Traffic),
    ];
    for entry in stays {
        let mut map = Map::from([((7, b"01".to_vec()), entry)]);
        let report = import(&of, &instance(10), Conflict::Keep, &mut map);
        assert_eq!((report.accepted, report.kept), (0, 1), "{entry:?}");
        assert_eq!(report.examples.kept[0].bound_to.map(BackendId::get), {
            let row = map[&(7, b"01".to_vec())].row;
            Some(if row == 0 { 2 } else { 3 })
        });
    }
}

/// The rules, once more: what is bound afterwards, and the numbers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Model {
    /// Backend and origin.
    bound: BTreeMap<(u32, Vec<u8>), (u32, Origin)>,
    numbers: BTreeMap<&'static str, u64>,
}

/// Where the model's backends are: id to (row, incarnation), as `service` has them.
fn place(backend: u32) -> (u16, u32) {
    [(4, 101), (0, 102), (2, 103)][backend as usize - 1]
}

fn named(row: u16, incarnation: u32) -> Option<u32> {
    (1..=3).find(|&id| place(id) == (row, incarnation))
}

fn model(
    given: &[(u32, u16, Vec<u8>, u32)],
    before: &Map,
    policy: Conflict,
    mut room: u64,
) -> Model {
    let mut model = Model::default();
    for (at, entry) in before {
        if let Some(id) = named(entry.row, entry.incarnation) {
            model.bound.insert(at.clone(), (id, entry.origin));
        }
    }
    let untouched = model.bound.clone();
    let mut distinct = BTreeSet::new();
    for (id, port, cid, _) in given {
        distinct.insert((*id, *port, cid.clone()));
    }
    let mut conflicts = 0;
    for (id, port, cid) in distinct {
        let of: Vec<_> = given
            .iter()
            .filter(|(a, b, c, _)| (*a, *b, c) == (id, port, &cid))
            .collect();
        let count = of.len() as u64;
        let mut tell = |what| *model.numbers.entry(what).or_insert(0) += count;
        if id != 7 && id != 9 {
            tell("unknown_service");
        } else if port != 443 {
            tell("service_differs");
        } else if count > 1 {
            tell("duplicate_in_document");
        } else if cid.len() != 2 {
            tell("cid_length");
        } else if of[0].3 > 3 {
            tell("unknown_backend");
        } else if of[0].3 == 3 {
            tell("not_usable");
        } else {
            let backend = of[0].3;
            let at = (id, cid);
            match model.bound.get(&at) {
                Some((bound, _)) if *bound == backend => tell("unchanged"),
                Some((_, Origin::Imported)) if policy == Conflict::ReplaceImported => {
                    tell("replaced");
                    model.bound.insert(at, (backend, Origin::Imported));
                }
                Some(_) => {
                    tell("kept");
                    conflicts += 1;
                }
                // Bound to a backend that is gone: the entry is there and is used again.
                None if before.contains_key(&at) => {
                    tell("accepted");
                    model.bound.insert(at, (backend, Origin::Imported));
                }
                None if room == 0 => tell("table_full"),
                None => {
                    room -= 1;
                    tell("accepted");
                    model.bound.insert(at, (backend, Origin::Imported));
                }
            }
        }
    }
    if policy == Conflict::Fail && conflicts > 0 {
        model.bound = untouched;
        model.numbers.remove("accepted");
    }
    model
}

fn observed(map: &Map, report: &ImportReport) -> Model {
    let numbers = [
        ("accepted", report.accepted),
        ("unchanged", report.unchanged),
        ("kept", report.kept),
        ("replaced", report.replaced),
        ("unknown_service", report.rejected.unknown_service),
        ("service_differs", report.rejected.service_differs),
        ("unknown_backend", report.rejected.unknown_backend),
        ("not_usable", report.rejected.not_usable),
        (
            "duplicate_in_document",
            report.rejected.duplicate_in_document,
        ),
        ("cid_length", report.rejected.cid_length),
        ("table_full", report.rejected.table_full),
    ];
    let bound = map.iter().filter_map(|(at, entry)| {
        let id = named(entry.row, entry.incarnation)?;
        Some((at.clone(), (id, entry.origin)))
    });
    Model {
        bound: bound.collect(),
        numbers: numbers
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .collect(),
    }
}

/// Mostly of the length that the services know.
fn cid() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |len| proptest::collection::vec(0..3_u8, len);
    prop_oneof![8 => bytes(2..3), 1 => bytes(1..4)]
}

/// Few services, connection IDs and backends, so that everything meets everything.
fn given() -> impl Strategy<Value = Vec<(u32, u16, Vec<u8>, u32)>> {
    let id = prop_oneof![8 => Just(7_u32), 4 => Just(9_u32), 1 => Just(8_u32)];
    let port = prop_oneof![12 => Just(443_u16), 1 => Just(444_u16)];
    proptest::collection::vec((id, port, cid(), 1..5_u32), 0..40)
}

fn before() -> impl Strategy<Value = Map> {
    let at = (prop_oneof![Just(7_u32), Just(9_u32)], cid());
    let origin = prop_oneof![
        Just(Origin::Traffic),
        Just(Origin::Registered),
        Just(Origin::Imported)
    ];
    let bound = (
        prop_oneof![4 => (1..4_u32).prop_map(place), 1 => Just((4_u16, 55_u32))],
        origin,
    );
    proptest::collection::btree_map(
        at,
        bound.prop_map(|((row, incarnation), origin)| entry(row, incarnation, origin)),
        0..25,
    )
}

fn written(given: &[(u32, u16, Vec<u8>, u32)]) -> AffinityDocument {
    let each = given
        .iter()
        .map(|(id, port, cid, backend)| bindings(*id, *port, vec![binding(cid, *backend)]));
    document(each.collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn imports_follow_the_rules(
        given in given(),
        before in before(),
        policy in proptest::sample::select(Conflict::ALL.to_vec()),
        room in prop_oneof![Just(1_000_u64), 0..6_u64],
        turn in any::<prop::sample::Index>(),
    ) {
        let document = written(&given);
        let instance = instance(room);
        let mut map = before.clone();
        let report = import(&document, &instance, policy, &mut map);
        prop_assert_eq!(observed(&map, &report), model(&given, &before, policy, room));

        // Nothing that was learned or registered here has changed.
        for (at, entry) in &before {
            if entry.origin != Origin::Imported && named(entry.row, entry.incarnation).is_some() {
                prop_assert_eq!(map.get(at), Some(entry));
            }
        }

        // Again, in the room that is left: the same map, and nothing accepted.
        let left = InstanceView { room: room.saturating_sub((map.len() - before.len()) as u64), ..instance.clone() };
        let once = map.clone();
        let again = import(&document, &left, policy, &mut map);
        prop_assert_eq!(&map, &once);
        prop_assert_eq!((again.accepted, again.replaced), (0, 0));
        prop_assert_eq!(again.kept, report.kept);
        if policy != Conflict::Fail || report.kept == 0 {
            prop_assert_eq!(again.unchanged, report.unchanged + report.accepted + report.replaced);
            prop_assert_eq!(again.rejected, report.rejected);
        }

        // In another order: the same map and the same report.
        if !given.is_empty() {
            let mut turned = given.clone();
            turned.rotate_left(turn.index(given.len()));
            turned.reverse();
            let mut map = before.clone();
            let other = import(&written(&turned), &instance, policy, &mut map);
            prop_assert_eq!(&map, &once);
            prop_assert_eq!(other, report);
        }
    }
}
