// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the unit says.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use crate::tool::binary;

const FILE: &str = include_str!("../../examples/egressd/egressd.service");

/// Says on the terminal that a test cannot run here, and why; with `CI=true` it fails.
pub(crate) fn left_out(test: &str, missing: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} cannot run: {missing}"
    );
    // Not `eprintln!`, which the test runner would swallow.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
}

/// The values of each key of a section.
pub(crate) fn section(name: &str) -> BTreeMap<&'static str, Vec<&'static str>> {
    let begin = format!("[{name}]");
    let lines = FILE.lines().skip_while(|line| **line != begin).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let mut section: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once('=').expect("a key and a value");
        section.entry(key).or_default().push(value);
    }
    section
}

#[test]
fn it_grants_what_the_daemon_needs_and_no_more() {
    let service = section("Service");
    for (key, value) in [
        ("Type", "notify"),
        ("WatchdogSec", "60"),
        ("TimeoutStartSec", "infinity"),
        ("Restart", "on-failure"),
        ("AmbientCapabilities", "CAP_BPF CAP_NET_ADMIN"),
        ("CapabilityBoundingSet", "CAP_BPF CAP_NET_ADMIN"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("ReadWritePaths", "/sys/fs/bpf"),
        (
            "RestrictAddressFamilies",
            "AF_NETLINK AF_UNIX AF_INET AF_INET6",
        ),
        ("SystemCallFilter", "@system-service bpf"),
    ] {
        assert_eq!(
            service.get(key).map(Vec::as_slice),
            Some(&[value][..]),
            "{key}"
        );
    }
    // Ending the daemon ends nothing else.
    assert!(service.keys().all(|key| !key.starts_with("ExecStop")));
}

#[test]
fn what_older_kernels_take_is_told_where_rights_are_given() {
    let readme = include_str!("../../README.md");
    for said in [
        "CAP_BPF and\nCAP_NET_ADMIN, and before Linux 6.13 CAP_PERFMON",
        "Before Linux 6.13 give it, and the container of the DaemonSet, CAP_PERFMON",
    ] {
        assert!(readme.contains(said), "{said}");
    }
    let before = |file: &'static str, line: &str| {
        let (before, _) = file.split_once(line).expect("the rights");
        before.lines().rev().take(3).collect::<Vec<_>>().join("\n")
    };
    let daemon = include_str!("../../examples/egressd/kube/daemonset.yaml");
    for (told, right) in [
        (before(FILE, "AmbientCapabilities="), "CAP_PERFMON"),
        (before(daemon, "add: [BPF, NET_ADMIN]"), "PERFMON"),
    ] {
        assert!(
            told.contains("Linux 6.13") && told.contains(right),
            "{told}"
        );
    }
}

#[test]
fn systemd_accepts_it() {
    let name = "control_unit::systemd_accepts_it";
    let directory = tempdir(name);
    // The daemon is not where the unit looks for it.
    let daemon = binary("egressd").display().to_string();
    let unit = FILE.replace("/usr/local/bin/egressd", &daemon);
    assert_ne!(unit, FILE);
    let path = directory.join("egressd.service");
    let verify = |unit: &str| {
        std::fs::write(&path, unit).expect("written");
        let mut command = Command::new("systemd-analyze");
        command.arg("verify").arg("--man=no").arg(&path);
        command.output()
    };
    match verify(&unit) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            left_out(name, "no systemd-analyze");
        }
        output => {
            let output = output.expect("it runs");
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words}");
            // What it does not know is a warning, and wrong all the same.
            assert!(!words.contains("egressd.service"), "{words}");
            let wrong = verify(&unit.replace("WatchdogSec=60", "WatchdogSex=60"));
            let words = wrong.expect("it runs").stderr;
            assert!(String::from_utf8_lossy(&words).contains("WatchdogSex"));
        }
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn without_systemd_the_tests_say_so_and_fail_in_ci() {
    let directory = tempdir("control_unit::nothing_there");
    for test in ["unit::systemd_accepts_it", "verbs::they_are_in_force"] {
        let run = |ci: Option<&str>| {
            let mut command = Command::new(std::env::current_exe().expect("this test"));
            command.args(["--exact", test]).env("PATH", &directory);
            match ci {
                Some(ci) => command.env("CI", ci),
                None => command.env_remove("CI"),
            };
            command.output().expect("it starts")
        };
        let skipped = run(None);
        let words = String::from_utf8_lossy(&skipped.stderr);
        let (_, name) = test.split_once("::").expect("a module");
        let line = format!("SKIPPED control_unit::{name}: ");
        assert!(words.contains(&line), "{skipped:?}");
        assert!(words.contains("systemd-analyze"), "{words}");
        assert!(skipped.status.success(), "{skipped:?}");
        let failed = run(Some("true"));
        assert_eq!(failed.status.code(), Some(101), "{failed:?}");
        let words = String::from_utf8_lossy(&failed.stdout);
        assert!(words.contains("cannot run: "), "{words}");
        assert!(words.contains("systemd-analyze"), "{words}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

fn tempdir(name: &str) -> std::path::PathBuf {
    let name = format!(
        "guideway-{}-{}",
        name.replace("::", "-"),
        std::process::id()
    );
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}
