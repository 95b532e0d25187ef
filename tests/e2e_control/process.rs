// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The loop as the tool runs it: `egressd run`, its configuration file and its manifests.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use guideway::control::{Desired, Known, Mode, Shard};
use guideway::group::Class;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

use crate::control::Setup;
use crate::namespace::Namespace;
use crate::tool;

/// The daemon. It ends with this.
pub(crate) struct Process {
    child: Child,
    files: Files,
}

/// What it reads and writes. They go with this.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("guideway-e2e-control-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("shards")).expect("a directory");
        Self(path)
    }

    fn write(&self, name: &str, text: &Value) {
        let next = self.0.join("next");
        fs::write(&next, text.to_string()).expect("written");
        fs::rename(next, self.0.join(name)).expect("renamed");
    }

    /// Says what is wanted: one manifest with all shards, and the configuration.
    fn want(&self, setup: &Setup, desired: &Desired) {
        let Known::Known(list) = &desired.shards else {
            panic!("files are known");
        };
        let items: Vec<_> = list.shards.iter().map(manifest).collect();
        self.write(
            "shards/all.json",
            &json!({"apiVersion": "v1", "kind": "List", "items": items}),
        );
        let prefixes = desired
            .classes
            .iter()
            .filter_map(|entry| match entry.class {
                Class::Nat66 => None,
                Class::Nat64(prefix) => Some(format!("{}/96", prefix.address())),
            });
        let prefixes: Vec<_> = prefixes.collect();
        let sids: Vec<_> = desired
            .static_sids
            .iter()
            .map(ToString::to_string)
            .collect();
        let uplinks: Vec<_> = setup.uplinks.iter().map(ToString::to_string).collect();
        self.write(
            "config.json",
            &json!({
                "mode": match desired.mode {
                    Mode::Ordered => "ordered",
                    Mode::Hashed => "hashed",
                },
                "nat64_prefixes": prefixes,
                "shard_sids": sids,
                "source": format!("dir:{}", self.0.join("shards").display()),
                "uplinks": uplinks,
                "node_sid": desired.encap.node_sid.to_string(),
                "pin_idle": format!("{}s", desired.settings.pin_idle.as_secs()),
                "pins": setup.pins,
                "metrics": "off",
            }),
        );
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A test that failed has more to say than a directory that stays.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the cluster says of a shard.
fn manifest(shard: &Shard) -> Value {
    let (namespace, name) = shard.name.split_once('/').expect("both");
    let is = |state: bool| if state { "True" } else { "False" };
    json!({
        "apiVersion": "network.datumapis.com/v1alpha1",
        "kind": "EgressShard",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"drain": shard.drain},
        "status": {
            "shardSID": shard.sid.map(|sid| sid.to_string()),
            "shardAddressIPv6": shard.ipv6.then_some("2001:db8:5::2"),
            "shardAddressIPv4": shard.ipv4.then_some("192.0.2.5"),
            "translatesWellKnownPrefix": shard.well_known_prefix,
            "conditions": [
                {"type": "Programmed", "status": is(shard.programmed)},
                {"type": "Ready", "status": is(shard.ready)},
            ],
        },
    })
}

impl Process {
    pub(crate) fn start(node: &Namespace, setup: &Setup, desired: &Desired) -> Self {
        tool::assert_current("egressd");
        let files = Files::new();
        files.want(setup, desired);
        let child = Self::spawn(node, &files);
        Self { child, files }
    }

    fn spawn(node: &Namespace, files: &Files) -> Child {
        let log = File::create(files.0.join("log")).expect("a log");
        let mut command = Command::new(tool::binary("egressd"));
        let config = format!("--config={}", files.0.join("config.json").display());
        command.args(["run", &config]).stdin(Stdio::null());
        command
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log);
        let child = node.run(|| command.spawn()).expect("inside");
        child.expect("the tool runs")
    }

    /// What it has said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.files.0.join("log")).unwrap_or_default()
    }

    pub(crate) fn want(&self, setup: &Setup, desired: &Desired) {
        self.files.want(setup, desired);
        self.signal(Signal::SIGHUP);
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("it ends");
    }

    /// Begins it again after it has ended.
    pub(crate) fn again(&mut self, node: &Namespace) {
        self.child = Self::spawn(node, &self.files);
    }

    /// Ends it in good order.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.log());
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("an id");
        kill(Pid::from_raw(id), signal).expect("it runs");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Of a test that failed; it has ended otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
