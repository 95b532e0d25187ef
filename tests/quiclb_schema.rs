// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The JSON Schemas of outputs are those of the types, and are sound.

use guideway::quiclb::schema;
use serde_json::Value;

#[test]
fn the_files_are_the_generated_ones() {
    let written = schema::NAMES.iter().filter(|name| **name != "spec");
    let made = written.map(|name| (name, schema::generate(name).expect("a schema")));
    let made: Vec<_> = made.collect();
    if std::env::var_os("GUIDEWAY_WRITE_SCHEMAS").is_some() {
        for (name, made) in &made {
            let root = env!("CARGO_MANIFEST_DIR");
            let path = format!("{root}/src/quiclb/schema/{name}.json");
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
        assert_eq!(schema["$id"], format!("urn:guideway:quiclb:{name}:v1"));
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
        "apply",
        "/required",
        "schema instance_id result generation previous_generation publish_ms disruption warnings \
         attachment findings",
    );
    required("error", "/required", "schema kind message object faults");
    required(
        "error",
        "/$defs/ErrorFault/required",
        "pointer code message",
    );
    required(
        "affinity",
        "/required",
        "schema exported_at instance services",
    );
    required(
        "affinity-export",
        "/required",
        "schema instance_id file services bindings",
    );
    required(
        "affinity-import",
        "/required",
        "schema instance_id file dry_run accepted unchanged kept replaced rejected examples",
    );
    required(
        "affinity-import",
        "/$defs/Rejected/required",
        "unknown_service service_differs unknown_backend not_usable duplicate_in_document \
         table_full",
    );
    required("list", "/required", "schema instances");
    required(
        "detach",
        "/required",
        "schema instance_id detached removed left",
    );
    required(
        "diff",
        "/required",
        "schema from to identical changes disruption",
    );
    required("doctor", "/required", "schema object result checks");
    required(
        "probe",
        "/required",
        "schema interface ifindex driver firmware bus pci_device phys_port_name mtu queues xdp \
         kernel offload",
    );
    required(
        "watch",
        "/required",
        "schema time interval_seconds services reasons findings",
    );
    required(
        "watch",
        "/$defs/ServiceRates/required",
        "name packets_per_second bytes_per_second rules backends",
    );
    required(
        "watch",
        "/$defs/BackendRates/required",
        "id packets_per_second share",
    );
    required(
        "plan",
        "/required",
        "schema instance_id interface ifindex mode digest base result spec services capacity \
         preflight warnings",
    );
    required(
        "plan",
        "/$defs/ServicePlan/required",
        "name service_id vip port protocol change routing short_dcid_len quic_only tracking hash \
         fragments table configs false_route_probability disruption backends",
    );
    required(
        "plan",
        "/$defs/TablePlan/required",
        "size digest min_slots max_slots below_rule",
    );
    required(
        "plan",
        "/$defs/ConfigPlan/required",
        "config_id server_id_len nonce_len cid_len passes kcv",
    );
    required(
        "plan",
        "/$defs/Disruption/required",
        "slots_moved slots_forced slots_extra slots_open slots_held moved_ratio window_seconds \
         flows_live entries_expected bindings_lost",
    );
    required(
        "plan",
        "/$defs/BackendPlan/required",
        "id row incarnation interface ifindex mac weight state server_ids slots share change",
    );
    required(
        "plan",
        "/$defs/Capacity/required",
        "services backends server_ids crypto_contexts flows cids memory_bytes",
    );
    required(
        "plan",
        "/$defs/MemoryUse/required",
        "generation both_generations affinity limit",
    );
    required(
        "plan",
        "/$defs/Check/required",
        "code object result message remedy",
    );
    required("plan", "/$defs/Warning/required", "pointer code message");
    required(
        "status",
        "/required",
        "schema instance_id interface ifindex mode health attachment program generation services \
         reasons affinity events redirect_errors findings",
    );
    required(
        "status",
        "/$defs/Attachment/required",
        "kind link_id program_id live_program_id owner previous_program_id",
    );
    required(
        "status",
        "/$defs/ProgramStatus/required",
        "name tag abi profile",
    );
    required(
        "status",
        "/$defs/GenerationStatus/required",
        "number digest age_seconds high_water",
    );
    required(
        "status",
        "/$defs/ServiceStatus/required",
        "name service_id vip port protocol routing tracking table counters rules backends",
    );
    required(
        "status",
        "/$defs/BackendStatus/required",
        "id row incarnation interface ifindex mac state weight server_ids slots base_slots entries \
         counters",
    );
    required(
        "status",
        "/$defs/BackendCounters/required",
        "packets bytes redirect_errors",
    );
    required(
        "status",
        "/$defs/FlowState/required",
        "used capacity level refused open_slots held_slots",
    );
    required(
        "status",
        "/$defs/CidState/required",
        "used capacity level refused",
    );
    required(
        "status",
        "/$defs/Sweep/required",
        "age_seconds learned registered imported blast_radius",
    );
    required(
        "status",
        "/$defs/EventStats/required",
        "emitted suppressed lost",
    );
    required("status", "/$defs/RedirectErrors/required", "source total");
    required(
        "status",
        "/$defs/Finding/required",
        "code severity object message remedy",
    );
    required(
        "event",
        "/$defs/Event/required",
        "schema time_ns kind service service_id backend_id generation rule reason family protocol \
         source source_port destination_port cid slot ingress_ifindex suppressed",
    );
    required(
        "event",
        "/$defs/EventSummary/required",
        "schema kind lines suppressed lost",
    );
}
