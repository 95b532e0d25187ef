// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the crate brings into a program that uses it: read off `cargo tree`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Beginnings of the names of async runtimes and what they bring, and of crates for Kubernetes.
const ASYNC_AND_KUBERNETES: &[&str] = &[
    "actix", "async-", "embassy", "futures", "glommio", "h2", "hyper", "k8s", "kube", "mio",
    "monoio", "polling", "reqwest", "smol", "tokio", "tower",
];

fn cargo(arguments: &[&str]) -> String {
    let run = |offline: &[&str]| {
        Command::new(env!("CARGO"))
            .args(arguments)
            .args(offline)
            .args(["--locked", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .output()
            .expect("Cargo runs")
    };
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        // Sources of features that were never built here may have to be fetched.
        output = run(&[]);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The crates in a build of the library: what it depends on, not what its tests and its build do.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let mut arguments = vec!["tree", "--edges=normal", "--prefix=none", "--format={lib}"];
    arguments.extend(features);
    let names = cargo(&arguments);
    let names = names.lines().map(|line| line.replace('_', "-"));
    names.filter(|name| !name.is_empty()).collect()
}

fn unwanted(crates: &BTreeSet<String>) -> Vec<&str> {
    let unwanted = crates.iter().filter(|name| {
        let begins = |start: &&str| name.starts_with(start);
        ASYNC_AND_KUBERNETES.iter().any(begins)
    });
    unwanted.map(String::as_str).collect()
}

#[test]
fn only_the_feature_kube_brings_a_runtime() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version=1"]))
            .expect("metadata is JSON");
    let package = &metadata["packages"][0];
    assert_eq!(package["name"], "guideway");
    let features = package["features"].as_object().expect("features").keys();
    let others: Vec<_> = features
        .map(String::as_str)
        .filter(|name| *name != "kube")
        .collect();
    assert!(
        others.contains(&"default") && others.contains(&"schema"),
        "{others:?}"
    );
    let others = format!("--features={}", others.join(","));
    for features in [&[][..], &["--no-default-features"], &[&others]] {
        let crates = crates(features);
        assert!(
            crates.contains("libbpf-rs") && crates.len() > 15,
            "{crates:?}"
        );
        assert_eq!(unwanted(&crates), [""; 0], "{features:?}");
    }
}

#[test]
fn what_the_feature_kube_brings_would_be_seen() {
    let crates = crates(&["--features=kube"]);
    let unwanted = unwanted(&crates);
    for name in ["k8s-openapi", "kube", "tokio"] {
        assert!(unwanted.contains(&name), "{unwanted:?}");
    }
}
