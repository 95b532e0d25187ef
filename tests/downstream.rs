// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a user gets: the packaged crate, as a dependency of a fresh crate elsewhere, builds and
//! loads the program, and building again compiles nothing.

#[path = "common/netns.rs"]
mod netns;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const MANIFEST: &str = r#"
[package]
name = "downstream"
version = "0.0.0"
edition = "2021"

[dependencies]
guideway = { path = "GUIDEWAY" }

[workspace]
"#;

const MAIN: &str = r#"
use guideway::maglev::{Member, Table, TableSize};

fn main() {
    let member = |key, index| Member { key, index, weight: 1, eligible: true };
    let members = [member(b"a".as_slice(), 0_u16), member(b"b", 1), member(b"c", 2)];
    let table = Table::build(TableSize::new(13).unwrap(), &members).unwrap();
    println!("digest {}", table.digest());
    let object = guideway::kernel::object::Options::default().load().unwrap();
    println!("program {}", object.program.name());
}
"#;

fn cargo(arguments: &[&str], directory: &Path) -> Output {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(directory)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

#[test]
fn a_fresh_crate_elsewhere_builds_and_loads_it() {
    if !netns::require_kernel("a_fresh_crate_elsewhere") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory =
        std::env::temp_dir().join(format!("guideway-downstream-{}", std::process::id()));
    let target = root.join("target");
    let packages = directory.join("packages");
    fs::create_dir_all(directory.join("src")).expect("a directory");

    let at = packages.to_string_lossy().into_owned();
    cargo(
        &[
            "package",
            "--no-verify",
            "--allow-dirty",
            "--target-dir",
            &at,
        ],
        root,
    );
    let archive = packages.join(concat!(
        "package/guideway-",
        env!("CARGO_PKG_VERSION"),
        ".crate"
    ));
    let unpacked = Command::new("tar")
        .args([
            "-xzf",
            &archive.to_string_lossy(),
            "-C",
            &directory.to_string_lossy(),
        ])
        .status();
    assert!(unpacked.expect("tar runs").success());

    let crate_name = concat!("guideway-", env!("CARGO_PKG_VERSION"));
    fs::write(
        directory.join("Cargo.toml"),
        MANIFEST.replace("GUIDEWAY", crate_name),
    )
    .expect("a manifest");
    fs::write(directory.join("src/main.rs"), MAIN).expect("a program");
    // The versions that are here already: nothing is fetched.
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock")).expect("versions");

    // The dependencies of this build serve that one too.
    let at = target.to_string_lossy().into_owned();
    let run = cargo(&["run", "--target-dir", &at], &directory);
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    let again = cargo(&["build", "--target-dir", &at], &directory);
    let compiled = String::from_utf8_lossy(&again.stderr).into_owned();
    fs::remove_dir_all(&directory).expect("removed");

    // The published digest of three equal members in thirteen slots.
    assert_eq!(printed, "digest 5c3df3eb8133d7d3\nprogram gw_quiclb\n");
    assert!(!compiled.contains("Compiling"), "{compiled}");
}
