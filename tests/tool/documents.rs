// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The keys of the documents that have no schema of their own.

use serde_json::{json, Value};

use crate::harness::{coded, machine, quiclb, quiclb_json, Files, EXAMPLE, INSTANCE};
use crate::netns::{drivers_declare_xdp, ifindex, ip, isolated};

/// Insists that an object has exactly these keys.
#[track_caller]
fn has_keys(object: &Value, keys: &str) {
    let mut keys: Vec<_> = keys.split_whitespace().collect();
    keys.sort_unstable();
    let found: Vec<_> = object.as_object().expect("an object").keys().collect();
    assert_eq!(found, keys);
}

#[test]
fn a_probe_tells_of_interface_and_kernel() {
    isolated("tool::probe", || {
        machine();
        let probe = quiclb_json(&["probe", "edge0"]).exits(0).document();
        has_keys(
            &probe,
            "schema interface ifindex driver firmware bus pci_device phys_port_name mtu queues xdp \
             kernel offload",
        );
        assert_eq!(probe["schema"], "guideway.quiclb.probe/v1");
        assert_eq!(
            (&probe["driver"], &probe["mtu"]),
            (&json!("veth"), &json!(1500))
        );
        assert_eq!(
            (&probe["bus"], &probe["pci_device"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(probe["ifindex"], ifindex("edge0"));
        has_keys(&probe["queues"], "rx tx");
        has_keys(&probe["xdp"], "features modes occupants");
        assert_eq!(probe["xdp"]["occupants"], json!([]));
        let modes = probe["xdp"]["modes"].as_array().expect("a list");
        assert!(modes.contains(&json!("generic")));
        assert_eq!(modes.contains(&json!("native")), drivers_declare_xdp());
        has_keys(
            &probe["kernel"],
            "release xdp_link xdp_frags crypto_kfuncs map_count_kfunc",
        );
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
        assert_eq!(probe["kernel"]["release"], release.trim());
        has_keys(&probe["offload"], "eligible_hint blockers warnings");
        assert_eq!(probe["offload"]["eligible_hint"], false);
        assert!(!probe["offload"]["blockers"]
            .as_array()
            .expect("a list")
            .is_empty());
        let error = quiclb_json(&["probe", "no-such0"]).fails(1, "not-found");
        assert_eq!(error["object"], "no-such0");
    });
}

#[test]
fn a_diagnosis_of_a_specification_holds_all_that_stands_against_it() {
    isolated("tool::doctor_spec", || {
        let files = Files::new("doctor");
        let spec = files.write("spec.json", EXAMPLE);
        let diagnosis = quiclb_json(&["doctor", &spec]).exits(5).document();
        has_keys(&diagnosis, "schema object result checks");
        assert_eq!(diagnosis["schema"], "guideway.quiclb.doctor/v1");
        assert_eq!(
            (&diagnosis["object"], &diagnosis["result"]),
            (&json!(spec), &json!("error"))
        );
        let missing = coded(&diagnosis["checks"], "no-interface").expect("a check");
        has_keys(missing, "code object result message remedy");

        machine();
        ip(&["address", "add", "203.0.113.80/32", "dev", "lo"]);
        let diagnosis = quiclb_json(&["doctor", &spec]).exits(0).document();
        assert_eq!(diagnosis["result"], "warning");
        let local = coded(&diagnosis["checks"], "vip-local").expect("a check");
        assert_eq!(local["result"], "warning");
        let results = diagnosis["checks"].as_array().expect("a list").iter();
        assert!(results.clone().any(|check| check["result"] == "ok"));
    });
}

#[test]
fn an_instance_with_nothing_wrong_has_a_check_for_everything() {
    isolated("tool::doctor_instance", || {
        machine();
        let files = Files::new("doctor-instance");
        let spec = files.write("spec.json", EXAMPLE);
        quiclb(&["apply", &spec]).exits(0);
        let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(0).document();
        for code in "lost-pin no-generation orphan-generation unreadable-record leftover \
                     link-without-interface unpinned-link other-program foreign-program \
                     no-interface ifindex-drift source-mac-drift internal cid-length-mismatch \
                     no-redirect-errors-source target-xmit target-napi target-queues own-mac \
                     vip-local mtu"
            .split_whitespace()
        {
            let check = coded(&diagnosis["checks"], code).unwrap_or_else(|| panic!("{code}"));
            assert!(
                check["result"] == "ok" || check["result"] == "unknown",
                "{check}"
            );
        }
        for document in [
            quiclb_json(&["doctor", "no-such-file"]),
            quiclb_json(&["doctor", "/"]),
        ] {
            document.fails(1, "io");
        }
        let other = "1d9016f2-8957-42bc-9dd7-000000000000";
        let error = quiclb_json(&["doctor", other]).fails(1, "not-found");
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains(INSTANCE),
            "those that exist are named: {message}"
        );
    });
}

#[test]
fn what_was_applied_and_compared_has_its_keys() {
    isolated("tool::keys", || {
        machine();
        let files = Files::new("keys");
        let spec = files.write("spec.json", EXAMPLE);
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        has_keys(
            &applied,
            "schema instance_id result generation previous_generation publish_ms disruption \
             warnings repaired attachment findings",
        );
        has_keys(
            &applied["attachment"],
            "kind link_id program_id live_program_id owner previous_program_id root_array",
        );
        let disruption = "name service_id change slots_moved slots_forced slots_extra slots_open \
                          slots_held moved_ratio window_seconds flows_live flows_moved \
                          flows_at_risk entries_expected bindings_lost";
        has_keys(&applied["disruption"][0], disruption);
        let diff = quiclb_json(&["diff", &spec, INSTANCE]).exits(0).document();
        has_keys(
            &diff,
            "schema from to identical changes disruption warnings",
        );
        assert_eq!(diff["schema"], "guideway.quiclb.diff/v1");
        assert_eq!(
            (&diff["from"], &diff["to"]),
            (&json!(spec), &json!(INSTANCE))
        );
        has_keys(&diff["disruption"][0], disruption);

        let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
        // Every counter of a service, by name.
        has_keys(
            &status["services"][0]["counters"],
            "packets bytes starts quic_long quic_short fixed_bit_clear version_negotiation retry \
             unknown_version cid_zero cid_long unroutable_reserved unroutable_config \
             unroutable_short unroutable_length unknown_server_id quarantined_server_id \
             cid_learned cid_conflict cid_len_mismatch cid_refused rebind stale icmp fragments \
             removed_packets deleted_idle deleted_closed deleted_backend_gone \
             deleted_redundant resurrected imported plain hit reselected start_inserted base_inserted held_default \
             all_inserted raced refused_high refused_full refused_busy dead_used no_entry \
             no_backend tag_mismatch at_risk",
        );
        has_keys(
            &status["services"][0]["rules"],
            "server_id cid_registered cid_imported cid_learned flow previous table reselect",
        );
        has_keys(
            &status["reasons"],
            "forwarded no_generation not_ip vlan_depth short_frame bad_ipv4 bad_ipv6 ext_headers \
             routing_header l4_other bad_l4 no_service icmp_other icmp_bad icmp_no_service \
             fragment_pass not_quic bad_quic fragment_drop unknown_server_id \
             quarantined_server_id unhealthy no_backend no_target internal",
        );
    });
}
