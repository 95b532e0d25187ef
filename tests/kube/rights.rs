// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the shipped role allows, and what is said of what a role does not.

use guideway::control::kube::KubeSource;
use guideway::control::source::{Source, SourceErrorReason};
use guideway::control::Known;
use serde_json::json;

use crate::server::Server;
use crate::*;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/guideway/roles/egressd";

/// Leaves the role these verbs alone.
fn grant(server: &Server, verbs: &[&str]) {
    let rule = json!({"apiGroups": ["network.datumapis.com"], "resources": ["egressshards"], "verbs": verbs});
    server.must("PATCH", ROLE, &json!({"rules": [rule]}));
}

#[track_caller]
fn until_missing(source: &KubeSource, verb: &str) -> String {
    let start = format!(
        "the verb {verb} on egressshards.network.datumapis.com in namespace guideway is missing"
    );
    until(source, &start, |_| {
        source.failure().is_some_and(|why| why.starts_with(&start))
    });
    assert!(source.errors().get(SourceErrorReason::Forbidden) >= 1);
    source.failure().unwrap_or_default()
}

#[test]
#[ignore = "needs an API server: make test-kube"]
fn the_role_allows_what_is_needed_and_nothing_else() {
    let mut server = Server::start("role");
    create(&server, "shard-a", 0x10);
    let shard = format!("{SHARDS}/shard-a");
    server.within("the role is in force", |server| {
        server.ask_as("egressd", "GET", SHARDS) == 200
    });
    assert_eq!(server.ask_as("egressd", "GET", &shard), 200);
    let watch = format!("{SHARDS}?watch=true&timeoutSeconds=1");
    assert_eq!(server.ask_as("egressd", "GET", &watch), 200);
    for (method, path) in [
        ("DELETE", shard.as_str()),
        ("DELETE", SHARDS),
        ("POST", SHARDS),
        ("PUT", &shard),
        ("PATCH", &shard),
        ("GET", &SHARDS.replace("guideway", "default")),
        ("GET", "/apis/network.datumapis.com/v1alpha1/egressshards"),
        ("GET", "/api/v1/namespaces/guideway/secrets"),
        ("GET", "/api/v1/nodes"),
    ] {
        assert_eq!(
            server.ask_as("egressd", method, path),
            403,
            "{method} {path}"
        );
    }
    // And the server accepts the rest of what is shipped.
    server.post_yaml(
        include_str!("../../examples/egressd/kube/daemonset.yaml"),
        "?dryRun=All",
    );
}

#[test]
#[ignore = "needs an API server: make test-kube"]
fn a_missing_verb_is_named() {
    let server = Server::start("verbs");
    create(&server, "shard-a", 0x10);
    grant(&server, &["get", "watch"]);
    let source = source(&server);
    let why = until_missing(&source, "list");
    assert!(
        why.contains("system:serviceaccount:guideway:egressd"),
        "{why}"
    );
    assert_eq!(source.latest(), Known::Unknown);
    grant(&server, &["get", "list"]);
    until_missing(&source, "watch");
    let list = source.latest();
    assert!(
        is_stale(&list) && candidates(&list) == ["shard-a"],
        "{list:?}"
    );
    grant(&server, &["get", "list", "watch"]);
    until_known(&source, &["shard-a"]);
    create(&server, "shard-b", 0x20);
    until_known(&source, &["shard-a", "shard-b"]);
}
