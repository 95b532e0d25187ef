// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Runs the tool, and makes a machine for it.

use std::ffi::OsStr;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use guideway::quiclb::schema;
use serde_json::{json, Value};

use crate::netns::{self, ip, veth};

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

/// The tool's binary: cargo builds examples with the tests.
pub(crate) fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let binary = test
        .parent()
        .and_then(Path::parent)
        .expect("a build directory")
        .join("examples/quiclb");
    assert!(
        binary.exists(),
        "{} is not there: cargo build --example quiclb",
        binary.display()
    );
    binary
}

/// How a run of the tool ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    what: String,
}

impl Ran {
    pub(crate) fn of(output: Output, what: String) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("no signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
            what,
        }
    }

    /// Insists on an exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "{}\nstdout: {}\nstderr: {}",
            self.what, self.stdout, self.stderr
        );
        self
    }

    /// The document on standard output: exactly one JSON object, which satisfies the schema that it
    /// names, and nothing on standard error.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        assert_eq!(self.stderr, "", "{}", self.what);
        let document = one_object(&self.stdout, &self.what);
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

    /// The error object: exactly one on standard error, nothing on standard output.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        assert_eq!(self.stdout, "", "{}", self.what);
        let error = one_object(&self.stderr, &self.what);
        let keys = ["faults", "kind", "message", "object", "schema"];
        let found: Vec<_> = error.as_object().expect("an object").keys().collect();
        assert_eq!(found, keys, "{}", self.what);
        assert_eq!(error["schema"], "guideway.error/v1");
        assert_valid("error", &error);
        error
    }

    /// The document of a successful run, which must satisfy its schema.
    #[track_caller]
    pub(crate) fn valid(self, name: &str) -> Value {
        let document = self.document();
        assert_valid(name, &document);
        document
    }

    /// Insists on an exit code and the kind of the error object.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, kind: &str) -> Value {
        let ran = self.exits(code);
        let error = ran.error();
        assert_eq!(error["kind"], kind, "{}: {error}", ran.what);
        error
    }
}

#[track_caller]
fn one_object(text: &str, what: &str) -> Value {
    assert_eq!(text.matches('\n').count(), 1, "{what}: {text}");
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{what}: {e}: {text}"));
    assert!(value.is_object(), "{what}: {text}");
    assert!(
        text.starts_with("{\"schema\":\"guideway."),
        "{what}: the first member is the schema: {text}"
    );
    value
}

/// Insists that a document satisfies the schema of this name.
#[track_caller]
pub(crate) fn assert_valid(name: &str, document: &Value) {
    let schema: Value = serde_json::from_str(schema::named(name).expect("a schema")).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<_> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{document:#}");
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments.iter().map(OsStr::new));
    command
}

/// Runs the tool, with text output unless the arguments say otherwise.
pub(crate) fn quiclb(arguments: &[&str]) -> Ran {
    let output = command(arguments).output().expect("the tool runs");
    Ran::of(output, format!("quiclb {}", arguments.join(" ")))
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
