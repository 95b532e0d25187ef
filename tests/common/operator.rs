// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tool in the balancer's namespaces: what an operator does by hand, and the process that
//! collects beside it.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::net::Namespace;
use super::spec::INSTANCE;

/// The tool's binary, which Cargo builds beside the tests.
fn tool() -> PathBuf {
    let test = std::env::current_exe().expect("this test's file");
    let target = test.ancestors().nth(2).expect("target/debug/deps");
    target.join("examples/quiclb")
}

/// A file of a test's own, removed with it.
struct SpecFile(PathBuf);

impl Drop for SpecFile {
    fn drop(&mut self) {
        // A test that failed has more to say than a file that stays.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Somebody who calls the tool.
pub(crate) struct Operator {
    file: SpecFile,
}

impl Operator {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("guideway-{}-{test}.json", std::process::id());
        Self {
            file: SpecFile(std::env::temp_dir().join(name)),
        }
    }

    fn call(balancer: &Namespace, arguments: &[&str]) -> Output {
        let run = || {
            Command::new(tool())
                .args(["-o", "json"])
                .args(arguments)
                .output()
        };
        balancer.run(run).expect("a thread").expect("the tool")
    }

    /// Calls the tool, which must end with one of these codes, and gives what it prints.
    fn must(balancer: &Namespace, arguments: &[&str], codes: &[i32]) -> Value {
        let output = Self::call(balancer, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().expect("no signal");
        assert!(codes.contains(&code), "{arguments:?}: {code}: {error}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Makes `document` what packets see. Another writer may be at work: then again.
    pub(crate) fn apply(&self, balancer: &Namespace, document: &Value) -> Value {
        const LOCKED: i32 = 4;
        std::fs::write(&self.file.0, document.to_string()).expect("a file");
        let path = self.file.0.to_str().expect("text");
        for _ in 0..100 {
            // A backend that has lost its power is down, and told to be unhealthy all the same.
            let output = Self::call(balancer, &["apply", path, "--force", "target-down"]);
            let error = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => return serde_json::from_slice(&output.stdout).expect("JSON"),
                Some(LOCKED) => std::thread::sleep(std::time::Duration::from_millis(50)),
                code => panic!("apply ended with {code:?}: {error}"),
            }
        }
        panic!("apply found the instance locked for five seconds");
    }

    /// Writes the bindings of connection IDs to a file, and reads them from it elsewhere.
    pub(crate) fn hand_over(from: &Namespace, to: &Namespace, file: &str) -> Value {
        Self::must(from, &["affinity-export", INSTANCE, file], &[0]);
        Self::must(to, &["affinity-import", INSTANCE, file], &[0])
    }

    pub(crate) fn status(balancer: &Namespace) -> Value {
        // A dead backend is a finding.
        const DEGRADED: i32 = 5;
        Self::must(balancer, &["status", INSTANCE], &[0, DEGRADED])
    }
}

/// A running `quiclb run`.
pub(crate) struct Collecting(Child);

impl Collecting {
    pub(crate) fn start(balancer: &Namespace) -> Self {
        let spawn = || {
            Command::new(tool())
                .args(["run", INSTANCE])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
        };
        Self(balancer.run(spawn).expect("a thread").expect("the tool"))
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let ended = self.0.try_wait().expect("a child");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        self.0.kill().expect("a child");
        self.0.wait().expect("a child");
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
