// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Repairs that are killed before any change: packets go on meanwhile, the next one ends them, and
//! nothing stays behind.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use guideway::kernel::program::Program;
use guideway::kernel::tc::TcxLink;
use serde_json::json;

use crate::killing::{as_many, killed_before, objects};
use crate::machine::{document, machine, send, send_by, Files};
use crate::netns::{self, ifindex, isolated};
use crate::{egressd, egressd_json, tool};

fn directory() -> PathBuf {
    Path::new(netns::BPFFS).join("guideway/egress")
}

/// The pin of the link on an interface; none where it is held by a filter.
fn link_of(interface: &str) -> Option<String> {
    let start = format!("{}-", ifindex(interface));
    let names = fs::read_dir(directory().join("links")).expect("links");
    let mut names = names.map(|entry| entry.expect("an entry").file_name());
    let name = names.find(|name| name.to_string_lossy().starts_with(&start))?;
    Some(format!("links/{}", name.to_str().expect("text")))
}

/// The program that packets of an interface meet, by its link, whatever is pinned; none where a filter
/// holds it.
fn running(interface: &str) -> Option<Program> {
    let link = TcxLink::open(&directory().join(link_of(interface)?)).expect("a link");
    let id = link.state().expect("a state").program_id;
    // SAFETY: a call without pointers.
    let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) };
    assert!(fd >= 0, "program {id}");
    // SAFETY: the descriptor is new.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let path = Path::new(netns::BPFFS).join("running");
    netns::pin(&fd, &path);
    let program = Program::open(&path).expect("a program");
    fs::remove_file(&path).expect("removed");
    Some(program)
}

#[track_caller]
fn packets_go_on(what: &str) {
    for (interface, source) in [("tap0", "2001:db8:aaaa::1"), ("tap1", "2001:db8:bbbb::1")] {
        if let Some(program) = running(interface) {
            let sent = send_by(&program, interface, source, "2001:db8:ffff::1");
            assert!(sent.is_some(), "{what}: {interface}");
        }
    }
}

fn is_well(what: &str) {
    let status = egressd_json(&["status"]).exits(0).document();
    assert_eq!(status["findings"], json!([]), "{what}: {status:#}");
    let sent = send("tap0", "2001:db8:aaaa::1", "2001:db8:ffff::1");
    assert!(sent.is_some(), "{what}");
    packets_go_on(what);
}

#[test]
fn a_repair_of_lost_pins_is_ended_by_the_next_one() {
    isolated("tool_egress::killed_repair", || {
        machine();
        let files = Files::new("killed-repair");
        let spec = files.write("spec.json", &document());
        egressd(&["apply", &spec]).exits(0);
        let pins = [
            "progs/gw_egress",
            "maps/gw_tenants",
            "maps/gw_routes",
            "maps/gw_eg_stat",
        ];
        let mut lost: Vec<_> = pins.map(str::to_owned).into();
        lost.extend(link_of("tap0"));
        lost.extend(link_of("uplink0"));
        for lost in lost {
            let mut changes = vec![];
            loop {
                let before = objects(&directory());
                fs::remove_file(directory().join(&lost)).expect("removed");
                let mut apply = Command::new(tool::binary("egressd"));
                let killed = killed_before(apply.args(["apply", &spec]), changes.len());
                let what = format!("{lost}: before change {} ({killed:?})", changes.len());
                if !lost.starts_with("links") {
                    packets_go_on(&what);
                }
                egressd(&["apply", &spec]).exits(0);
                is_well(&what);
                as_many(&directory(), &before, &what);
                match killed {
                    Some(change) => changes.push(change),
                    None => break,
                }
            }
            println!("{lost}: {changes:?}");
            assert!(changes.len() > 1, "{lost}: {changes:?}");
        }
    });
}
