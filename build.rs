// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Compiles the BPF programs into skeletons under `OUT_DIR`.
//!
//! `GUIDEWAY_CLANG` names the compiler; the default is the first of `clang` and the versioned names
//! of Debian and Ubuntu that exists.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 3] = ["abi", "occupancy", "quiclb"];
/// Programs for tests and benches alone, which a packaged crate does not have.
const TEST_PROGRAMS: &str = "tests/bpf";
const WATCHED: [&str; 4] = ["bpf", "include", "vmlinux", TEST_PROGRAMS];

fn main() {
    for path in WATCHED.into_iter().filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=GUIDEWAY_CLANG");

    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let clang = clang();
    for program in PROGRAMS {
        let built = compiler(&root, &out, &clang, "bpf", program)
            .build_and_generate(out.join(format!("{program}.skel.rs")));
        if let Err(error) = built {
            fail(&clang, "bpf", program, &format!("{error:#}"));
        }
    }
    for program in test_programs(&root) {
        if let Err(error) = compiler(&root, &out, &clang, TEST_PROGRAMS, &program).build() {
            fail(&clang, TEST_PROGRAMS, &program, &format!("{error:#}"));
        }
    }
}

fn test_programs(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(TEST_PROGRAMS)) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter_map(|name| name.strip_suffix(".bpf.c").map(str::to_owned))
        .collect()
}

fn fail(clang: &str, directory: &str, program: &str, error: &str) -> ! {
    eprintln!("{directory}/{program}.bpf.c does not compile with {clang}:\n{error}");
    exit(1);
}

fn compiler(
    root: &Path,
    out: &Path,
    clang: &str,
    directory: &str,
    program: &str,
) -> SkeletonBuilder {
    let mut builder = SkeletonBuilder::new();
    builder
        .source(root.join(format!("{directory}/{program}.bpf.c")))
        .obj(out.join(format!("{program}.bpf.o")))
        .clang(clang)
        .clang_args([
            format!("-I{}", root.join("bpf").display()),
            format!("-I{}", root.join("include").display()),
            format!("-I{}", root.join("vmlinux").display()),
            // Newer compilers default to newer instructions; compare-and-exchange needs v3.
            "-mcpu=v3".into(),
            // Linux 6.1 to 6.5 refuse a program loaded without CAP_PERFMON that spills half a register
            // where it spilled a whole one before.
            "-mllvm".into(),
            "-no-stack-slot-sharing".into(),
            // Line information holds source paths; equal sources must give equal objects anywhere.
            format!("-ffile-prefix-map={}=.", root.display()),
            "-Wall".into(),
            "-Werror".into(),
        ])
        // Nobody reads the skeletons, and a `rustfmt` of rustup without its component would fail the
        // build. A formatter that does not exist is skipped.
        .rustfmt(out.join("no-rustfmt"));
    builder
}

fn clang() -> String {
    if let Ok(named) = env::var("GUIDEWAY_CLANG") {
        return named;
    }
    let versioned = (14..=22).rev().map(|version| format!("clang-{version}"));
    for candidate in std::iter::once("clang".to_owned()).chain(versioned) {
        if Command::new(&candidate)
            .arg("--version")
            .output()
            .is_ok_and(|run| run.status.success())
        {
            return candidate;
        }
    }
    eprintln!(
        "guideway compiles BPF programs and found no clang (14 or newer).\n\
         Debian and Ubuntu: apt-get install clang libelf-dev zlib1g-dev pkg-config make gcc\n\
         A compiler under another name: GUIDEWAY_CLANG=/path/to/clang"
    );
    exit(1);
}
