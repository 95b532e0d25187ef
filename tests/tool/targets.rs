// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where documents come from and plans go to: files, links, pipes and devices.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{symlink, FileTypeExt, PermissionsExt};
use std::process::Stdio;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::harness::{command, quiclb, quiclb_json, Files, Ran, EXAMPLE};

/// Whether this is the file that `plan` writes: whole, and with its secrets.
#[track_caller]
fn is_plan(text: &str) {
    let plan: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(plan["schema"], "guideway.quiclb.plan/v1");
    assert!(plan["spec"]["hash_seed"].is_string(), "{plan}");
}

/// Runs the tool with this on its standard input.
fn fed(arguments: &[&str], input: &str) -> Ran {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Ran::of(output, arguments.join(" "))
}

#[test]
fn a_pipe_is_written_to_and_stays_one() {
    let files = Files::new("fifo");
    let spec = files.write("spec.json", EXAMPLE);
    let fifo = files.path("fifo");
    mkfifo(fifo.as_str(), Mode::S_IRWXU).expect("a FIFO");
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).expect("read")
    });
    quiclb(&["plan", "--offline", &spec, &fifo]).exits(0);
    let kind = fs::symlink_metadata(&fifo).expect("there").file_type();
    assert!(kind.is_fifo());
    is_plan(&reader.join().expect("no panic"));
    assert_eq!(files.names(), ["fifo", "spec.json"]);
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    let files = Files::new("device");
    let spec = files.write("spec.json", EXAMPLE);
    // A copy of /dev/null and one of /dev/full, which nobody misses.
    for (name, minor, code) in [("null", 3, 0), ("full", 7, 1)] {
        let node = files.path(name);
        let device = nix::sys::stat::makedev(1, minor);
        let kind = nix::sys::stat::SFlag::S_IFCHR;
        nix::sys::stat::mknod(node.as_str(), kind, Mode::S_IRWXU, device).expect("a device");
        quiclb(&["plan", "--offline", &spec, &node]).exits(code);
        let kind = fs::symlink_metadata(&node).expect("there").file_type();
        assert!(kind.is_char_device(), "{name}");
    }
}

#[test]
fn standard_output_has_the_plan_and_nothing_else() {
    let files = Files::new("stdout");
    let spec = files.write("spec.json", EXAMPLE);
    for out in ["-", "/dev/stdout", "/proc/self/fd/1"] {
        let ran = quiclb(&["plan", "--offline", &spec, out]).exits(0);
        is_plan(&ran.stdout);
        // Likewise where it is a file.
        let written = files.path("written");
        let status = command(&["plan", "--offline", &spec, out])
            .stdout(fs::File::create(&written).expect("a file"))
            .status();
        assert!(status.expect("the tool runs").success());
        is_plan(&fs::read_to_string(&written).expect("read"));
    }
    assert_eq!(files.names(), ["spec.json", "written"]);
}

#[test]
fn a_link_stays_and_what_it_names_is_replaced() {
    let files = Files::new("link");
    let spec = files.write("spec.json", EXAMPLE);
    fs::create_dir(files.path("store")).expect("a directory");
    let stored = files.path("store/plan.json");
    symlink("store/plan.json", files.path("link")).expect("a link");
    symlink("link", files.path("second")).expect("a link");
    // First to a file that is not there yet, then to the one that is.
    for link in ["second", "link"] {
        quiclb(&["plan", "--offline", &spec, &files.path(link)]).exits(0);
        for link in ["second", "link"] {
            let kind = fs::symlink_metadata(files.path(link)).expect("there");
            assert!(kind.file_type().is_symlink(), "{link}");
        }
        is_plan(&fs::read_to_string(&stored).expect("read"));
        let mode = fs::metadata(&stored).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&stored, "before").expect("written");
    }
    symlink("round", files.path("round")).expect("a link");
    let round = files.path("round");
    quiclb_json(&["plan", "--offline", &spec, &round]).fails(1, "io");
    assert!(fs::symlink_metadata(&round).expect("there").is_symlink());
}

#[test]
fn the_specification_is_not_replaced_by_its_plan() {
    let files = Files::new("same");
    let spec = files.write("spec.json", EXAMPLE);
    let (link, hard) = (files.path("link"), files.path("hard"));
    symlink(&spec, &link).expect("a link");
    fs::hard_link(&spec, &hard).expect("a link");
    for out in [&spec, &link, &hard] {
        let error = quiclb_json(&["plan", "--offline", &spec, out]).fails(1, "invalid");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("the file that was read"), "{message}");
        assert_eq!(fs::read_to_string(&spec).expect("there"), EXAMPLE);
    }
}

#[test]
fn a_dash_is_standard_input() {
    for arguments in [
        &["-o", "json", "plan", "--offline", "-"][..],
        &["-o", "json", "diff", "-", "-"],
    ] {
        // The second "-" of a difference finds nothing left.
        let ran = fed(arguments, EXAMPLE);
        if arguments.contains(&"plan") {
            assert_eq!(ran.exits(0).valid("plan")["result"], "create");
        } else {
            let error = ran.fails(1, "invalid");
            assert_eq!(error["object"], "standard input");
        }
    }
    let files = Files::new("stdin");
    let plan = files.path("plan.json");
    fed(&["plan", "--offline", "-", &plan], EXAMPLE).exits(0);
    let plan = fs::read_to_string(&plan).expect("a plan");
    // Made offline: read, and refused for that.
    let error = fed(&["-o", "json", "apply", "-"], &plan).fails(1, "invalid");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("offline"), "{message}");
    let error = fed(&["-o", "json", "plan", "-"], "{").fails(1, "invalid");
    let message = error["message"].as_str().expect("text");
    assert!(message.starts_with("standard input"), "{message}");
}

#[test]
fn a_plan_is_not_planned() {
    let files = Files::new("plan-of-plan");
    let spec = files.write("spec.json", EXAMPLE);
    let plan = files.path("plan.json");
    quiclb(&["plan", "--offline", &spec, &plan]).exits(0);
    let error = quiclb_json(&["plan", "--offline", &plan]).fails(1, "invalid");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("is a plan: apply it"), "{message}");
}
