// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Specifications with keys: what the tool shows of them, does with them, and refuses.

use guideway::kernel::keys::{self, Support};
use serde_json::{json, Value};

use crate::harness::{example, machine, quiclb, quiclb_json, Files, Ran, INSTANCE};
use crate::netns::{isolated, require_keys, BPFFS};

const KEY: &str = "8f95f09245765f80256934e50c66207f";
/// The published connection ID of server ID ed793a under this key, behind a short header.
const PAYLOAD: &str = "400720b1d07b359d3c0000000000000000000000000000000000000000";

/// The example with server IDs; that of backend 2 is the published one.
fn keyed() -> Value {
    let mut spec = example();
    let service = &mut spec["services"][0];
    service["quic"] = json!({"routing": "server-id", "configs": [
        {"config_id": 0, "server_id_len": 3, "nonce_len": 4, "key": KEY}]});
    service["backends"][0]["server_id"] = json!("000001");
    service["backends"][1]["server_id"] = json!("ed793a");
    spec
}

fn shows_no_key(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.to_lowercase().contains(&KEY[..8]), "{text}");
    }
}

#[test]
fn a_plan_shows_passes_and_the_check_value_of_a_key() {
    let files = Files::new("keys-plan");
    let spec = files.write("spec.json", keyed().to_string());
    let out = files.path("plan.json");
    let ran = quiclb_json(&["plan", "--offline", &spec, &out]).exits(0);
    shows_no_key(&ran);
    let plan = ran.valid("plan");
    let expected = json!([{"config_id": 0, "server_id_len": 3, "nonce_len": 4, "cid_len": 8,
                           "passes": 3, "kcv": "d59d5b"}]);
    assert_eq!(plan["services"][0]["configs"], expected);
    let shown = &plan["spec"]["services"][0]["quic"]["configs"][0]["key"];
    assert_eq!(*shown, json!({"kcv": "d59d5b"}));
    let contexts = json!({"used": 1, "limit": 1024});
    assert_eq!(plan["capacity"]["crypto_contexts"], contexts);
    assert!(std::fs::read_to_string(&out).expect("a plan").contains(KEY));

    let text = quiclb(&["plan", "--offline", &spec]).exits(0);
    shows_no_key(&text);
    assert!(
        text.stdout.contains("passes 3, key check d59d5b"),
        "{}",
        text.stdout
    );
}

#[test]
fn an_instance_with_keys_lives_like_others() {
    isolated("tool::keys", || {
        if !require_keys("tool::keys") {
            return;
        }
        machine();
        let files = Files::new("keys-life");
        let spec = files.write("spec.json", keyed().to_string());
        let out = files.path("plan.json");
        shows_no_key(&quiclb_json(&["plan", &spec, &out]).exits(0));
        let applied = quiclb_json(&["apply", &out]).exits(0);
        shows_no_key(&applied);
        assert_eq!(applied.document()["findings"], json!([]));
        let again = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(again["result"], "unchanged");
        for verb in [
            &["status", INSTANCE][..],
            &["doctor", INSTANCE],
            &["diff", &spec, &out],
        ] {
            shows_no_key(&quiclb_json(verb).exits(0));
            shows_no_key(&quiclb(verb).exits(0));
        }
        for of in [&["trace", &spec][..], &["trace", "--from", INSTANCE]] {
            let rest = ["--payload", PAYLOAD, "--service", "quic-api"];
            let ran = quiclb_json(&[of, &rest].concat()).exits(0);
            shows_no_key(&ran);
            let packet = &ran.valid("trace")["packets"][0];
            assert_eq!(packet["rule"], "server_id", "{packet}");
            assert_eq!(packet["backend"]["id"], 2);
            assert_eq!(packet["quic"]["server_id"], "ed793a");
        }

        // What is lost of the keys is found and made good.
        let map = format!("{BPFFS}/guideway/quiclb/{INSTANCE}/maps/{}", keys::MAP);
        let map = guideway::kernel::map::Map::open_any(map.as_ref()).expect("the map of contexts");
        let contexts = keys::Contexts::new(map).expect("its shape");
        contexts.remove(0).expect("removed");
        let status = quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
        let mut codes = status["findings"].as_array().expect("a list").iter();
        assert!(
            codes.any(|finding| finding["code"] == "missing-key"),
            "{status}"
        );
        let applied = quiclb_json(&["apply", &spec]).exits(0).document();
        assert_eq!(
            (&applied["result"], &applied["findings"]),
            (&json!("unchanged"), &json!([]))
        );
        quiclb_json(&["detach", INSTANCE, "--purge"]).exits(0);
    });
}

#[test]
fn keys_that_cannot_be_used_are_refused_with_the_remedy() {
    isolated("tool::keys_refused", || {
        machine();
        let files = Files::new("keys-refused");
        let spec = files.write("spec.json", keyed().to_string());
        if keys::support() == Support::Works {
            quiclb_json(&["plan", &spec]).exits(0);
            return;
        }
        for verb in ["plan", "apply"] {
            let error = quiclb_json(&[verb, &spec]).fails(1, "invalid");
            let fault = &error["faults"][0];
            assert_eq!(fault["pointer"], "/services/0/quic/configs/0/key");
            assert_eq!(fault["code"], "kernel");
            let message = fault["message"].as_str().expect("text");
            for remedy in ["plaintext server IDs", "\"tuple\" routing"] {
                assert!(message.contains(remedy), "{message}");
            }
            assert!(!error.to_string().contains(&KEY[..8]), "{error}");
        }
        let list = quiclb_json(&["status"]).exits(0).document();
        assert_eq!(list["instances"], json!([]), "nothing was made");
    });
}
