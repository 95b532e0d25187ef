// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The page of embedding that readers copy does what it says.

#[path = "common/netns.rs"]
mod netns;

use std::path::Path;
use std::process::Command;

use netns::{ip, isolated, veth, xdp_seen_by_ip};

fn run(arguments: &[&str]) -> std::process::Output {
    let test = std::env::current_exe().expect("this test");
    // Cargo builds examples beside the directory of tests.
    let path = test
        .parent()
        .and_then(Path::parent)
        .expect("a directory")
        .join("examples/quickstart");
    let mut command = Command::new(&path);
    command
        .args(arguments)
        .output()
        .expect("the example is built")
}

fn quickstart(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn it_attaches_one_service_and_ends_it() {
    isolated("quickstart", || {
        veth("in0", "out0");
        veth("b0", "b1");
        let before = ip(&["-details", "link", "show", "dev", "in0"]);
        let printed = quickstart(&["in0", "203.0.113.80", "b0", "02:00:00:00:01:01"]);
        assert!(printed.starts_with("generation 1\nAttached"), "{printed}");
        assert!(printed.contains("\"no_service\": 0"), "{printed}");
        let (mode, _) = xdp_seen_by_ip("in0").expect("a program");
        assert_eq!(mode, "native");

        for wrong in [&[][..], &["--help"], &["in0", "203.0.113.80", "b0"]] {
            assert!(!run(wrong).status.success(), "{wrong:?}");
            assert!(xdp_seen_by_ip("in0").is_some(), "{wrong:?} ends nothing");
        }
        let removed = quickstart(&["--detach"]);
        assert!(removed.contains("progs/gw_quiclb"), "{removed}");
        assert_eq!(xdp_seen_by_ip("in0"), None);
        assert_eq!(ip(&["-details", "link", "show", "dev", "in0"]), before);
        let left = Path::new(netns::BPFFS).join("guideway/quiclb").read_dir();
        assert_eq!(left.expect("the directory").count(), 0);
    });
}
