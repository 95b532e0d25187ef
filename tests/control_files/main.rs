// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Manifests of shards, and files that hold them. Needs no root.

mod files;
mod fuzz;
mod manifest;
mod notice;

use std::path::{Path, PathBuf};

use serde_json::{json, Value};

/// A shard that translates IPv6, as an API server would answer.
fn shard(name: &str, number: u16) -> Value {
    json!({
        "apiVersion": "network.datumapis.com/v1alpha1",
        "kind": "EgressShard",
        "metadata": {
            "name": name, "namespace": "edge", "resourceVersion": "17", "labels": {"a": "b"},
        },
        "spec": {"nodeName": "n1"},
        "status": {
            "shardSID": format!("2001:db8:ff09:{number:x}:e000::"),
            "shardAddressIPv6": "2001:db8:cccc::1",
            "conditions": [
                {"type": "Programmed", "status": "True", "reason": "x", "lastTransitionTime": "t"},
                {"type": "Ready", "status": "True"},
            ],
        },
    })
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// A directory of a test's own, removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("guideway-files-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in place.
    fn write(&self, name: &str, text: impl ToString) {
        std::fs::write(self.join(name), text.to_string()).expect("written");
    }

    /// Replaces a file as writers should.
    fn replace(&self, name: &str, text: impl ToString) {
        self.write("next.tmp", text);
        std::fs::rename(self.join("next.tmp"), self.join(name)).expect("renamed");
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.join(name)).expect("removed");
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A test that failed has more to say than a directory that stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
