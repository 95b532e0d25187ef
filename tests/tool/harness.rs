// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Runs the tool, and makes a machine for it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

use guideway::kernel::map::Map;
use serde_json::{json, Value};

use crate::netns::{self, ip, veth, xdp_seen_by_ip};
use crate::tool;
pub(crate) use crate::tool::{assert_valid, Ran};

/// The specification that the documentation shows, to the letter.
pub(crate) const EXAMPLE: &str = r#"{ "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0", "mode": "native",
  "services": [{ "name": "quic-api", "vip": "203.0.113.80", "port": 443, "short_dcid_len": 8, "quic_only": true, "maglev_table_size": 4093,
    "backends": [
      {"id": 1, "interface": "vm-edge-a", "mac": "02:00:00:00:01:01", "weight": 1, "state": "ready"},
      {"id": 2, "interface": "vm-edge-b", "mac": "02:00:00:00:01:02", "weight": 1, "state": "ready"} ] }] }"#;

pub(crate) const INSTANCE: &str = "1d9016f2-8957-42bc-9dd7-32d684d76446";

/// The example as a value to change.
pub(crate) fn example() -> Value {
    serde_json::from_str(EXAMPLE).expect("JSON")
}

/// The example with its first backend draining.
pub(crate) fn draining() -> Value {
    let mut spec = example();
    spec["services"][0]["backends"][0]["state"] = json!("draining");
    spec
}

/// A directory of a test's own, removed with it.
pub(crate) struct Files {
    path: PathBuf,
}

impl Files {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("guideway-tool-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self { path }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("text").to_owned()
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names_in(&self.path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A test that failed has more to say than a directory that stays.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn names_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    names
}

/// The tool's binary.
pub(crate) fn binary() -> PathBuf {
    tool::binary("quiclb")
}

impl Ran {
    /// The document on standard output, which satisfies the schema that it names.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        let document = self.object();
        assert!(
            self.stdout.starts_with("{\"schema\":\"guideway."),
            "{}: the first member is the schema: {}",
            self.what,
            self.stdout
        );
        let form = document["schema"].as_str().expect("text");
        let name = form.strip_prefix("guideway.").and_then(|name| {
            let name = name.strip_suffix("/v1")?;
            Some(
                name.strip_prefix("quiclb.")
                    .unwrap_or(name)
                    .replace('.', "-"),
            )
        });
        assert_valid(&name.unwrap_or_else(|| panic!("{form}")), &document);
        document
    }

    /// The document of a successful run, which must satisfy its schema.
    #[track_caller]
    pub(crate) fn valid(self, name: &str) -> Value {
        let document = self.document();
        assert_valid(name, &document);
        document
    }
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments.iter().map(OsStr::new));
    command
}

/// Runs the tool, with text output unless the arguments say otherwise.
pub(crate) fn quiclb(arguments: &[&str]) -> Ran {
    Ran::with("quiclb", arguments)
}

/// Runs the tool with JSON output.
pub(crate) fn quiclb_json(arguments: &[&str]) -> Ran {
    quiclb(&[&["-o", "json"], arguments].concat())
}

/// The interfaces of the example, each a veth whose other end polls; clients are behind `client0`.
pub(crate) fn machine() {
    for (near, far) in PAIRS {
        veth(near, far);
        poll(far);
    }
    let ends = ["client0", "203.0.113.80", "02:00:00:00:00:80"];
    let [client, vip, mac] = ends;
    ip(&["address", "add", "198.51.100.7/24", "dev", client]);
    ip(&["route", "add", vip, "dev", client]);
    ip(&[
        "neigh",
        "add",
        vip,
        "lladdr",
        mac,
        "nud",
        "permanent",
        "dev",
        client,
    ]);
}

pub(crate) const PAIRS: [(&str, &str); 3] = [
    ("edge0", "client0"),
    ("vm-edge-a", "peer-a"),
    ("vm-edge-b", "peer-b"),
];

/// Makes the end of a veth pair poll, so that frames redirected to the other end arrive.
pub(crate) fn poll(interface: &str) {
    ethtool(&["-K", interface, "gro", "on"]);
}

pub(crate) fn ethtool(arguments: &[&str]) {
    let output = Command::new("ethtool").args(arguments).output();
    let output = output.expect("ethtool");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Sends QUIC Initials from this many ports of the client.
pub(crate) fn send_initials(flows: u16) {
    let mut initial = vec![0xc0, 0, 0, 0, 1, 8];
    initial.extend([0x5a; 8]);
    initial.extend([0; 1186]);
    for _ in 0..flows {
        let socket = UdpSocket::bind("198.51.100.7:0").expect("a socket");
        socket.send_to(&initial, "203.0.113.80:443").expect("sent");
    }
}

/// Everything that instances keep, to see that nothing was changed.
pub(crate) fn state() -> Vec<String> {
    fn walk(path: &Path, names: &mut Vec<String>) {
        if path.is_dir() {
            for name in names_in(path) {
                let child = path.join(name);
                names.push(child.display().to_string());
                walk(&child, names);
            }
        }
    }
    // The kernel may have put files of its own beside it.
    let root = Path::new(netns::BPFFS).join("guideway");
    let mut names = Vec::new();
    walk(&root, &mut names);
    names
}

/// Where the instance's objects are pinned.
pub(crate) fn state_dir() -> PathBuf {
    Path::new(netns::BPFFS)
        .join("guideway/quiclb")
        .join(INSTANCE)
}

/// The finding or check of this code, if there is one.
pub(crate) fn coded<'a>(list: &'a Value, code: &str) -> Option<&'a Value> {
    let mut entries = list.as_array().expect("a list").iter();
    entries.find(|entry| entry["code"] == code)
}

/// An applied example on a machine of its own.
pub(crate) fn applied(test: &str) -> (Files, String) {
    machine();
    let files = Files::new(test);
    let spec = files.write("spec.json", EXAMPLE);
    quiclb(&["apply", &spec]).exits(0);
    (files, spec)
}

/// The status of a damaged instance: one finding of this code is an error, and looking changed
/// nothing.
pub(crate) fn finding(code: &str) -> Value {
    let before = state();
    let status = quiclb_json(&["status", INSTANCE]).exits(5).valid("status");
    let found = coded(&status["findings"], code).unwrap_or_else(|| panic!("{code}: {status:#}"));
    assert_eq!(found["severity"], "error", "{code}");
    assert!(found["remedy"].is_string(), "{code}");
    let diagnosis = quiclb_json(&["doctor", INSTANCE]).exits(5).document();
    let check = coded(&diagnosis["checks"], code).expect("a check");
    assert_eq!(
        (&check["result"], &check["message"]),
        (&json!("error"), &found["message"])
    );
    assert_eq!(state(), before);
    status
}

pub(crate) fn is_well() {
    let status = quiclb_json(&["status", INSTANCE]).exits(0).valid("status");
    assert_eq!(status["health"], "ok", "{status:#}");
    let (_, id) = xdp_seen_by_ip("edge0").expect("a program");
    assert_eq!(status["attachment"]["live_program_id"], id);
    quiclb(&["doctor", INSTANCE]).exits(0);
}

/// The number of each pinned map, by name.
pub(crate) fn maps() -> BTreeMap<String, u32> {
    let maps = state_dir().join("maps");
    let id = |name: &str| Map::open_any(&maps.join(name)).expect("a map").id();
    let names = names_in(&maps).into_iter();
    names.map(|name| (name.clone(), id(&name))).collect()
}

pub(crate) const LEFT_ALONE: &str = "it was left alone: if nothing needs it, remove it by hand";

/// Whoever looks or changes is refused, told where the matter is and what to do; nothing is changed.
#[track_caller]
pub(crate) fn is_named_and_left_alone(spec: &str, object: &Path, remedy: &str) {
    let id = |path: &Path| Map::open_any(path).map(|map| map.id()).ok();
    let (before, there) = (state(), id(object));
    for arguments in [
        &["status", INSTANCE][..],
        &["doctor", INSTANCE],
        &["plan", spec],
        &["apply", spec],
        &["run", INSTANCE],
        &["upgrade", INSTANCE],
    ] {
        let error = quiclb_json(arguments).fails(4, "incompatible");
        let message = error["message"].as_str().expect("text");
        let named = message.contains(&object.display().to_string());
        assert!(
            named && message.contains(remedy),
            "{arguments:?}: {message}"
        );
        assert_eq!(
            (state(), id(object)),
            (before.clone(), there),
            "{arguments:?}"
        );
    }
}
