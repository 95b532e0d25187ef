// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A machine with tenants' interfaces and an uplink, documents for it, and what is on it.

use std::path::{Path, PathBuf};

use guideway::egress::schema;
use guideway::egress::Egress;
use guideway::kernel::program::Program;
use guideway::kernel::run::ClassifierRun;
use guideway::kernel::statedir::StateRoot;
use serde_json::{json, Value};

use crate::netns::{self, veth};
use crate::tool::Ran;
use crate::udp6::frame;

/// A directory of a test's own, removed with it.
pub(crate) struct Files {
    path: PathBuf,
}

impl Files {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("guideway-egressd-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self { path }
    }

    /// Writes a document and gives its path.
    pub(crate) fn write(&self, name: &str, document: &Value) -> String {
        self.text(name, &document.to_string())
    }

    /// The same of any text.
    pub(crate) fn text(&self, name: &str, text: &str) -> String {
        self.bytes(name, text.as_bytes())
    }

    /// The same of any bytes.
    pub(crate) fn bytes(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path.join(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("text").to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A test that failed has more to say than a directory that stays.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The interfaces `tap0`, `tap1` and `uplink0`, each one end of a pair.
pub(crate) fn machine() {
    for (near, far) in [("tap0", "vm0"), ("tap1", "vm1"), ("uplink0", "peer0")] {
        veth(near, far);
    }
}

pub(crate) fn shard(number: u16) -> Value {
    json!({
        "sid": sid(number),
        "next_hop": {"interface": "uplink0", "destination": "02:00:00:00:09:10"},
    })
}

pub(crate) fn sid(number: u16) -> String {
    format!("2001:db8:ff09:{number:x}:e000::")
}

/// Two tenants whose packets go to two shards, and a prefix of NAT64 that a third one translates.
pub(crate) fn document() -> Value {
    json!({
        "schema": "guideway.egress.spec/v1",
        "node_sid": "2001:db8:ff01:1:e000::",
        "limits": {"pins": 4096, "flow_pins": 1024, "tenants": 64, "routes": 256},
        "classes": [
            {"class": "nat66", "shards": [shard(0x10), shard(0x11)]},
            {"class": "64:ff9b::/96", "shards": [shard(0x12)]},
        ],
        "tenants": [
            {"table": 42, "argument": "0x2a5", "pin_quota": 1024,
                "interfaces": [{"name": "tap0", "gateway6": "fe80::1"}],
                "routes": [{"prefix": "10.0.0.0/8", "to": "block"}]},
            {"table": 43, "argument": "0x2a6", "pin_quota": 1024,
                "interfaces": [{"name": "tap1", "gateway6": "fe80::1"}]},
        ],
    })
}

pub(crate) fn open() -> Egress {
    Egress::open(&StateRoot::new(netns::BPFFS).egress()).expect("an instance")
}

/// The shard that the program sends a packet of a tenant to, by its number; none if it does not.
pub(crate) fn send(interface: &str, source: &str, destination: &str) -> Option<u16> {
    send_by(open().program(), interface, source, destination)
}

/// The same of a program that is not known to be the pinned one.
pub(crate) fn send_by(
    program: &Program,
    interface: &str,
    source: &str,
    destination: &str,
) -> Option<u16> {
    let frame = frame(source, destination);
    let run = ClassifierRun {
        frame: &frame,
        ifindex: netns::ifindex(interface),
        gso_bytes: 0,
        mark: 0,
        priority: 0,
    };
    let done = run.run(program).expect("a run");
    const REDIRECT: i32 = 7;
    // The fourth word of the outer destination address.
    (done.action == REDIRECT).then(|| u16::from_be_bytes([done.frame[44], done.frame[45]]))
}

/// Has so many addresses of tenant 42 send a packet; where each went.
pub(crate) fn send_from(addresses: u16) -> Vec<u16> {
    let sent = (1..=addresses).map(|host| {
        let source = format!("2001:db8:aaaa::{host:x}");
        send("tap0", &source, "2001:db8:ffff::1").expect("a shard")
    });
    sent.collect()
}

impl Ran {
    /// The document on standard output, which satisfies the schema that it names.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        let document = self.object();
        assert_valid(&self.what, &document);
        document
    }
}

#[track_caller]
pub(crate) fn assert_valid(what: &str, document: &Value) {
    let form = document["schema"].as_str().expect("text");
    let name = form.strip_prefix("guideway.egress.");
    let name = name.and_then(|name| name.strip_suffix("/v1"));
    let name = name.unwrap_or_else(|| panic!("{what}: {form}"));
    let schema: Value = serde_json::from_str(schema::named(name).expect("a schema")).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<_> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{document:#}");
}

/// Everything that the instance keeps and what is attached, to see that nothing was changed.
pub(crate) fn state() -> String {
    fn walk(path: &Path, names: &mut Vec<String>) {
        let mut entries: Vec<_> = std::fs::read_dir(path)
            .map(|entries| {
                entries
                    .map(|entry| entry.expect("an entry").path())
                    .collect()
            })
            .unwrap_or_default();
        entries.sort();
        for entry in entries {
            names.push(entry.display().to_string());
            walk(&entry, names);
        }
    }
    let mut names = Vec::new();
    walk(&Path::new(netns::BPFFS).join("guideway"), &mut names);
    if names.is_empty() {
        return String::new();
    }
    let egress = open();
    let mut routes = Vec::new();
    egress
        .for_each_route(|row| {
            routes.push(format!("{row:?}"));
            std::ops::ControlFlow::Continue(())
        })
        .expect("readable");
    routes.sort();
    format!(
        "{names:#?}\n{:#?}\n{:#?}\n{routes:#?}\n{:?}\n{:?}",
        egress.groups().expect("readable"),
        egress.tenants().expect("readable"),
        egress.encap().expect("readable"),
        egress.attachments().expect("readable"),
    )
}
