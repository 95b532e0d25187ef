// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Plans as documents.

use guideway::control::{document, reconcile, schema, Desired, Known, Unreached};
use guideway::group::Class;
use serde_json::{json, Value};

use super::fixture::{
    dual, hashed, key, list, nat64, observed, ordered, shard66, sid, stale, to_shard, NAT64,
};
use super::world::{settled, World};

fn told(world: &World, desired: &Desired) -> Value {
    let plan = reconcile(&world.0, desired);
    let document = document(&plan, &world.0, desired, None).expect("a document");
    serde_json::to_value(&document).expect("plain data")
}

#[test]
fn the_schema_is_the_generated_one() {
    let made = schema::generate();
    if std::env::var_os("GUIDEWAY_WRITE_SCHEMAS").is_some() {
        let root = env!("CARGO_MANIFEST_DIR");
        std::fs::write(format!("{root}/src/control/schema/plan.json"), &made).expect("written");
    }
    let hint = "run this test with GUIDEWAY_WRITE_SCHEMAS=1 to write the file anew";
    assert!(schema::PLAN == made, "{hint}");
    let schema: Value = serde_json::from_str(schema::PLAN).expect("JSON");
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    assert_eq!(schema["$id"], "urn:guideway:egress:control-plan:v1");
}

#[test]
fn documents_are_as_both_schemas_say() {
    let mut disorder = settled(observed([1, 2]), &hashed(list((0..3).map(dual))));
    disorder
        .0
        .routes
        .insert(key(1, Class::Nat66), to_shard(1, 0));
    disorder.0.routes.remove(&key(2, Class::Nat66));
    disorder.0.reach.0.insert(sid(1), Err(Unreached::NoRoute));
    let mut first = World(observed([1]));
    first.0.encap = None;
    let shards = list([dual(0), shard66(1)]);
    let mut fewer = hashed(shards.clone());
    fewer.classes = super::fixture::classes(&[]);
    let wishes = [
        hashed(shards.clone()),
        hashed(stale(shards)),
        hashed(Known::Unknown),
        ordered(&[5]),
        ordered(&[]),
        fewer,
    ];
    for text in [schema::PLAN, guideway::egress::schema::PLAN] {
        let schema: Value = serde_json::from_str(text).expect("JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        for world in [&first, &disorder] {
            for desired in &wishes {
                let told = told(world, desired);
                let faults: Vec<_> = validator
                    .iter_errors(&told)
                    .map(|e| e.to_string())
                    .collect();
                assert!(faults.is_empty(), "{faults:?} in {told:#}");
            }
        }
    }
}

#[test]
fn a_document_says_what_would_be_done_and_what_comes_of_it() {
    let mut desired = hashed(list([dual(0), shard66(1)]));
    desired.static_sids = vec![sid(5)];
    let mut world = settled(observed([1]), &ordered(&[5]));
    world.0.encap = None;
    let before = format!("{:?}", world.0);
    let told = told(&world, &desired);
    assert_eq!(format!("{:?}", world.0), before);
    assert_eq!(told["schema"], "guideway.egress.plan/v1");
    assert_eq!(told["digest"], Value::Null);
    assert!(told["memory_total_bytes"].as_u64() > Some(0));
    assert!(!told["configuration"].as_array().expect("a list").is_empty());
    let classes = told["classes"].as_array().expect("a list");
    let names: Vec<_> = classes.iter().map(|class| class["class"].clone()).collect();
    assert_eq!(names, [json!("nat66"), json!(format!("nat64:{NAT64}"))]);
    assert_eq!(classes[0]["change"], "open");
    assert_eq!(classes[0]["members"].as_array().map(Vec::len), Some(2));
    let routes = json!([
        { "prefix": "::/0", "from": sid(5).to_string(), "to": "nat66" },
        { "prefix": NAT64, "from": sid(5).to_string(), "to": nat64(NAT64).to_string() },
    ]);
    assert_eq!(told["tenants"][0]["table"], 1);
    assert_eq!(told["tenants"][0]["routes"], routes);

    let control = &told["control"];
    assert_eq!(
        (&control["mode"], &control["shards"]),
        (&json!("hashed"), &json!("known"))
    );
    let steps = control["steps"].as_array().expect("a list");
    let kinds: Vec<_> = steps.iter().map(|step| step["step"].clone()).collect();
    assert_eq!(
        kinds,
        [
            "publish-config",
            "publish-groups",
            "move-routes",
            "move-routes"
        ]
    );
    assert_eq!(steps[2]["after"], json!([1]));
    assert_eq!(
        (&steps[2]["reason"], &steps[2]["routes"]),
        (&json!("group"), &json!(1))
    );
    let nat66 = &control["classes"][0];
    assert_eq!(
        (&nat66["served"], &nat66["routes_moved"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(control["tenants_moved"], 1);
    let ineligible = json!([{ "name": "ns/shard-1", "sid": sid(1).to_string() }]);
    assert_eq!(control["classes"][1]["ineligible"], ineligible);

    world.settle(&desired);
    let told = self::told(&world, &desired);
    assert_eq!(told["control"]["steps"], json!([]));
    // A class is told also where nothing becomes of it.
    assert_eq!(told["classes"][0]["change"], "unchanged");
    assert_eq!(told["classes"].as_array().map(Vec::len), Some(2));
}
