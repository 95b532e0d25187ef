// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a sweep would do, told by `plan --loop` before it does it.

use guideway::kernel::statedir::StateRoot;
use guideway::route::TableId;
use serde_json::{json, Value};

use crate::daemon::*;
use crate::netns::BPFFS;

/// The plan of a sweep, which changes nothing.
fn plan(node: &Node, more: &[&str]) -> Value {
    let before = everything();
    let document = node
        .ran(&["-o", "json", "plan", "--loop"], more)
        .exits(0)
        .object();
    assert_eq!(everything(), before);
    assert_eq!(document["schema"], "guideway.egress.plan/v1");
    document
}

/// All that there is.
fn everything() -> String {
    if !StateRoot::new(BPFFS).egress().path().exists() {
        return String::new();
    }
    let egress = egress();
    let routes = egress.routes(TableId::new(42)).expect("routes");
    let mut pins = Vec::new();
    let each = |pin| {
        pins.push(format!("{pin:?}"));
        std::ops::ControlFlow::Continue(())
    };
    egress.pins().expect("pins").for_each(each).expect("all");
    pins.sort();
    format!(
        "{:?} {:?} {:?} {routes:?} {pins:?}",
        egress.groups().expect("groups"),
        egress.encap().expect("a configuration"),
        egress.tenants().expect("tenants"),
    )
}

fn steps(plan: &Value) -> Vec<&str> {
    let steps = plan["control"]["steps"].as_array().expect("a list");
    let steps = steps.iter().map(|step| step["step"].as_str());
    steps.map(|step| step.expect("a name")).collect()
}

#[test]
fn a_sweep_does_what_was_foreseen_and_looking_does_nothing() {
    on_node("foreseen", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let first = plan(node, &[]);
        assert_eq!(first["result"], "create");
        assert_eq!(steps(&first), ["publish-config", "publish-groups"]);
        assert_eq!(first["control"]["classes"][0]["members"]["active"], 2);

        node.once(&[]).exits(0);
        node.attach();
        let nothing = plan(node, &[]);
        assert_eq!(nothing["result"], "unchanged");
        assert_eq!(steps(&nothing), Vec::<&str>::new());

        // Forty addresses get a pin each, and one of their shards is taken away.
        let sent = send_from(1..41);
        let lost = sent.iter().filter(|shard| **shard == Some(0x11)).count();
        assert!(lost > 0 && lost < 40, "{sent:?}");
        node.remove("b.json");
        let leaving = plan(node, &[]);
        assert_eq!(steps(&leaving), ["publish-groups"]);
        let risk = &leaving["control"]["classes"][0]["pins"];
        assert_eq!(
            (&risk["live"], &risk["leaving"]),
            (&json!(40), &json!(lost))
        );
        assert_eq!(leaving["classes"][0]["pins"]["leaving"], json!(lost));
        let text = node.ran(&["plan", "--loop"], &[]).exits(0).stdout;
        let risk = format!("{lost} of 40 sessions with a pin are at risk");
        assert!(text.contains(&risk), "{text}");
        assert!(text.contains("hashed mode, shards known"), "{text}");
        let foreseen = leaving["classes"][0]["publication"].clone();
        node.once(&[]).exits(0);
        assert_eq!(json!(group().publication.get()), foreseen);
        assert_eq!(group().members.len(), 1);
        // What was pinned to the lost shard goes where the table says.
        assert!(send_from(1..41).iter().all(|shard| *shard == Some(0x10)));

        let sid = format!("--shard-sids={}", sid(0x12));
        let back = plan(node, &["--mode=ordered", &sid]);
        assert_eq!(steps(&back), ["close-groups", "move-routes", "retire"]);
        let class = &back["control"]["classes"][0];
        assert_eq!(
            class["addresses_moved"]["part"],
            class["addresses_moved"]["whole"]
        );
        assert_eq!(back["tenants"][0]["table"], 42);
    });
}

#[test]
fn a_list_that_is_not_there_is_told_as_unknown() {
    on_node("foreseen-unknown", |node| {
        std::fs::remove_dir(node.path("shards")).expect("empty");
        let told = plan(node, &[]);
        assert_eq!(told["control"]["shards"], "unknown");
        assert_eq!(steps(&told), ["publish-config"]);
        let kinds = told["control"]["problems"].as_array().expect("a list");
        assert!(kinds
            .iter()
            .any(|problem| problem["kind"] == "shards-unknown"));
        // What run is told is no part of a specification.
        node.ran(&["-o", "json", "plan", "/dev/null"], &[])
            .fails(2, "usage");
    });
}
