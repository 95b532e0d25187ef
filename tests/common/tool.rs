// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Runs a built tool and looks at how it ended.

#![allow(dead_code)] // each binary uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use guideway::quiclb::schema;
use serde_json::Value;

/// A tool's binary: cargo builds examples with the tests.
pub(crate) fn binary(tool: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let binary = test
        .parent()
        .and_then(Path::parent)
        .expect("a build directory")
        .join("examples")
        .join(tool);
    assert!(
        binary.exists(),
        "{} is not there: cargo build --example {tool}",
        binary.display()
    );
    binary
}

/// Insists that a tool's binary is not older than its sources.
#[track_caller]
pub(crate) fn assert_current(tool: &str) {
    let changed = |path: &Path| {
        let metadata = std::fs::metadata(path).expect("metadata");
        metadata.modified().expect("a time")
    };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let built = changed(&binary(tool));
    let mut directories = vec![examples.join(tool), examples.join("common/tool")];
    while let Some(directory) = directories.pop() {
        for source in std::fs::read_dir(directory).expect("the sources") {
            let source = source.expect("an entry").path();
            if source.is_dir() {
                directories.push(source);
                continue;
            }
            // What else is there is no part of the binary, and cargo does not look at it.
            if source.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let hint = format!("is newer than the binary: cargo build --example {tool}");
            assert!(changed(&source) <= built, "{} {hint}", source.display());
        }
    }
}

/// How a run of a tool ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) what: String,
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

    /// Runs a tool with these arguments.
    pub(crate) fn with(tool: &str, arguments: &[&str]) -> Self {
        let output = Command::new(binary(tool)).args(arguments).output();
        let what = format!("{tool} {}", arguments.join(" "));
        Self::of(output.expect("the tool runs"), what)
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

    /// The object on standard output: exactly one, on one line, and nothing on standard error.
    #[track_caller]
    pub(crate) fn object(&self) -> Value {
        assert_eq!(self.stderr, "", "{}", self.what);
        one_object(&self.stdout, &self.what)
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
        assert!(self.stderr.starts_with("{\"schema\":"), "{}", self.what);
        assert_valid("error", &error);
        error
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
