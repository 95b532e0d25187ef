// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The JSON Schemas of the egress datapath's documents are those of the types, and are sound.

use guideway::egress::schema;
use serde_json::Value;

#[test]
fn the_files_are_the_generated_ones() {
    let written = schema::NAMES.iter().filter(|name| **name != "spec");
    let made = written.map(|name| (name, schema::generate(name).expect("a schema")));
    let made: Vec<_> = made.collect();
    if std::env::var_os("GUIDEWAY_WRITE_SCHEMAS").is_some() {
        for (name, made) in &made {
            let root = env!("CARGO_MANIFEST_DIR");
            let path = format!("{root}/src/egress/schema/{name}.json");
            std::fs::write(path, made).expect("written");
        }
    }
    for (name, made) in &made {
        let hint = "run this test with GUIDEWAY_WRITE_SCHEMAS=1 to write the files anew";
        assert!(schema::named(name) == Some(made.as_str()), "{name}: {hint}");
    }
}

#[test]
fn they_are_schemas_of_their_dialect() {
    for name in schema::NAMES {
        let schema: Value = serde_json::from_str(schema::named(name).expect("a schema")).unwrap();
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        assert_eq!(schema["$schema"], dialect, "{name}");
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
        assert_eq!(schema["$id"], format!("urn:guideway:egress:{name}:v1"));
    }
}

/// The keys that never go away, written here by hand.
#[test]
fn fixed_keys_are_required() {
    let required = |name: &str, pointer: &str, keys: &str| {
        let schema: Value = serde_json::from_str(schema::named(name).expect("a schema")).unwrap();
        let listed = schema
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{name} {pointer}"));
        let listed: Vec<_> = listed.as_array().expect("a list").iter().collect();
        for key in keys.split_whitespace() {
            assert!(
                listed.iter().any(|listed| **listed == key),
                "{name} {pointer}: {key}"
            );
        }
    };
    required(
        "plan",
        "/required",
        "schema digest result configuration classes retired duplicates tenants tenants_removed \
         interfaces_removed attached detached memory_bytes memory_total_bytes interface_warnings warnings",
    );
    required(
        "plan",
        "/$defs/ClassPlan/required",
        "class group hash_group change settings incarnation publication table_size digest moved \
         forced extra moves_unpinned upstream_compatible members pins without_slots",
    );
    required(
        "plan",
        "/$defs/MemberPlan/required",
        "sid change was is slot generation weight slots_before slots_after lost gained share_before \
         share_after pins",
    );
    required(
        "plan",
        "/$defs/PinsAtRisk/required",
        "live stay off_table leaving unreachable released removed",
    );
    required(
        "plan",
        "/$defs/TenantPlan/required",
        "table argument interfaces routes",
    );
    required("plan", "/$defs/RoutePlan/required", "prefix from to");
    required(
        "apply",
        "/required",
        "schema digest result not_applied configuration groups retired routes_written routes_removed \
         interfaces_written interfaces_removed tenants_removed attached detached warnings",
    );
    required(
        "apply",
        "/$defs/GroupApplied/required",
        "group class change publication publish_ms",
    );
    required("apply", "/$defs/NotApplied/required", "kind message");
    required(
        "explain",
        "/required",
        "schema source destination table interface routes",
    );
    let explain = "verdict end why tenant route group hash word member without_pin pin hop";
    required("explain", "/$defs/Explain/required", explain);
    required(
        "explain",
        "/$defs/ExplainedMember/required",
        "sid slot generation state by",
    );
    required(
        "explain",
        "/$defs/ExplainedPin/required",
        "fate flow slot generation idle_seconds left_seconds",
    );
    required(
        "trace",
        "/required",
        "schema table interface program pins_copied packets summary",
    );
    required("trace", "/$defs/Explain/required", explain);
    required(
        "trace",
        "/$defs/TracedPacket/required",
        "index length timestamp_ns verdict end counters shard output explain disagreement error",
    );
    required(
        "status",
        "/required",
        "schema health program preflight loop configuration groups tenants routes attachments packets selection \
         events pins memory_bytes findings",
    );
    required(
        "status",
        "/$defs/GroupStatus/required",
        "group class state hash_group settings incarnation publication age_seconds table_size digest \
         ineligible routes foreign_routes pins members",
    );
    required(
        "status",
        "/$defs/MemberStatus/required",
        "slot generation sid state weight table_slots share packets bytes pins former_pins interface",
    );
    required(
        "status",
        "/$defs/TenantStatus/required",
        "table argument hash_table interfaces routes pins pins_counted pin_quota pins_refused",
    );
    required(
        "status",
        "/$defs/RouteStatus/required",
        "total limit by_class dead foreign foreign_to_groups unknown",
    );
    required(
        "status",
        "/$defs/ForeignRouteStatus/required",
        "table prefix group class incarnation origin",
    );
    required(
        "status",
        "/$defs/LoopStatus/required",
        "mode classes pool_min_active interval_seconds unsynced swept_seconds_ago \
         succeeded_seconds_ago failures",
    );
    required(
        "status",
        "/$defs/CheckStatus/required",
        "name needed missing",
    );
    required(
        "status",
        "/$defs/Finding/required",
        "code severity object message remedy",
    );
    required(
        "attach",
        "/required",
        "schema interface table attachment replaced routes warnings",
    );
    required(
        "attach",
        "/$defs/ProgramAttached/required",
        "way link_id priority handle",
    );
    required("attach", "/$defs/AttachWarning/required", "code message");
    required(
        "detach",
        "/required",
        "schema interfaces tenants abandoned purged removed left",
    );
    required(
        "detach",
        "/$defs/InterfaceDetached/required",
        "interface detached tenant",
    );
    required(
        "detach",
        "/$defs/TenantDetached/required",
        "table routes pins",
    );
    required(
        "pin",
        "/required",
        "schema table source flow group class slot generation shard idle_seconds standing",
    );
    required(
        "sweep",
        "/required",
        "schema rule complete found removed changed torn busy uncounted duration_ms",
    );
}
