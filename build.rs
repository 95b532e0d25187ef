// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Compiles the BPF programs into skeletons under `OUT_DIR`.
//!
//! `GUIDEWAY_CLANG` names the compiler. The default is the first of `clang` and the versioned names
//! of Debian and Ubuntu, newest first, that can compile all of them; if none can, the first that
//! exists, and the crate is built without the programs that decrypt server IDs.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{exit, Command, Stdio};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 9] = [
    "abi",
    "adjust",
    "bind",
    "egress",
    "occupancy",
    "pins",
    "quiclb",
    "quiclb_offload",
    "sweep",
];
/// Programs that keep pointers to kernel objects in maps, which only compilers with type tags can
/// express.
const TAGGED: [&str; 2] = ["key", "quiclb_keys"];
/// Has all that it knows of a packet on its stack, which lasts only if slots of it are shared; it is
/// not loaded without CAP_PERFMON.
const ONE_FRAME: &str = "quiclb_offload";
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
    println!("cargo:rustc-check-cfg=cfg(guideway_keys)");
    println!("cargo:rustc-env=GUIDEWAY_COMPILER={}", clang.version);
    let tagged: &[&str] = if clang.tags_types {
        println!("cargo:rustc-cfg=guideway_keys");
        &TAGGED
    } else {
        &[]
    };
    let clang = clang.name;
    for program in PROGRAMS.iter().chain(tagged) {
        let built = compiler(&root, &out, &clang, "bpf", program)
            .build_and_generate(out.join(format!("{program}.skel.rs")));
        if let Err(error) = built {
            fail(&clang, "bpf", program, &format!("{error:#}"));
        }
        let object = std::fs::read(out.join(format!("{program}.bpf.o"))).unwrap_or_default();
        let Some(digest) = digest(&object) else {
            fail(
                &clang,
                "bpf",
                program,
                "the object is no ELF file of 64 bits",
            );
        };
        let program = program.to_uppercase();
        println!("cargo:rustc-env=GUIDEWAY_DIGEST_{program}={digest:016x}");
    }
    for program in test_programs(&root) {
        if let Err(error) = compiler(&root, &out, &clang, TEST_PROGRAMS, &program).build() {
            fail(&clang, TEST_PROGRAMS, &program, &format!("{error:#}"));
        }
    }
}

/// A number of what of an object becomes part of loaded programs: instructions, what they refer to,
/// constants. Lines and names of sources are not in it.
fn digest(object: &[u8]) -> Option<u64> {
    const ALLOCATED: usize = 2;
    const RELOCATIONS: usize = 9;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = object.get(at..at.checked_add(bytes)?)?;
        let mut word = [0; 8];
        // An object has the byte order of the machine that it was built on.
        match cfg!(target_endian = "little") {
            true => word[..bytes.len()].copy_from_slice(bytes),
            false => word[8 - bytes.len()..].copy_from_slice(bytes),
        }
        usize::try_from(u64::from_ne_bytes(word)).ok()
    };
    let (headers, header_bytes, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let header = |section: usize| headers.checked_add(section.checked_mul(header_bytes)?);
    let allocated = |at: usize| Some(number(at + 8, 8)? & ALLOCATED != 0);
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for section in 0..count {
        let at = header(section)?;
        let kind = number(at + 4, 4)?;
        let counts = match kind {
            RELOCATIONS => allocated(header(number(at + 0x2c, 4)?)?)?,
            _ => allocated(at)?,
        };
        // What has no bytes in the file begins as zeros.
        let (from, bytes) = (number(at + 0x18, 8)?, number(at + 0x20, 8)?);
        let content = object
            .get(from..from.checked_add(bytes)?)
            .unwrap_or_default();
        if counts {
            for byte in bytes.to_ne_bytes().iter().chain(content) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    Some(hash)
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
    let mut arguments = vec![
        format!("-I{}", root.join("bpf").display()),
        format!("-I{}", root.join("include").display()),
        format!("-I{}", root.join("vmlinux").display()),
        // Newer compilers default to newer instructions; compare-and-exchange needs v3.
        "-mcpu=v3".into(),
        // Line information holds source paths; equal sources must give equal objects anywhere.
        format!("-ffile-prefix-map={}=.", root.display()),
        "-Wall".into(),
        "-Werror".into(),
    ];
    if program != ONE_FRAME {
        // Older kernels refuse a program loaded without CAP_PERFMON that spills half a register where
        // it spilled a whole one before.
        arguments.extend(["-mllvm".into(), "-no-stack-slot-sharing".into()]);
    }
    let mut builder = SkeletonBuilder::new();
    builder
        .source(root.join(format!("{directory}/{program}.bpf.c")))
        .obj(out.join(format!("{program}.bpf.o")))
        .clang(clang)
        .clang_args(arguments)
        // Nobody reads the skeletons, and a `rustfmt` of rustup without its component would fail the
        // build. A formatter that does not exist is skipped.
        .rustfmt(out.join("no-rustfmt"));
    builder
}

struct Clang {
    name: String,
    /// First line of what it says about itself.
    version: String,
    /// Whether it writes the tags of pointers where the kernel reads them: clang 15 and newer.
    tags_types: bool,
}

impl Clang {
    /// None if it cannot be run.
    fn named(name: String) -> Option<Self> {
        let run = Command::new(&name).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        run.status.success().then(|| Self {
            version: text.lines().next().unwrap_or_default().to_owned(),
            tags_types: tags_types(&name).unwrap_or(false),
            name,
        })
    }
}

/// clang 14 takes the attribute, and writes it for debuggers alone.
fn tags_types(clang: &str) -> std::io::Result<bool> {
    let source = "struct s { int i; };\n\
                  struct t { struct s __attribute__((btf_type_tag(\"gw_tag\"))) *p; } t;\n";
    let mut compiler = Command::new(clang)
        .args([
            "-target", "bpf", "-g", "-O2", "-x", "c", "-S", "-o", "-", "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut stdin) = compiler.stdin.take() {
        stdin.write_all(source.as_bytes())?;
    }
    let assembly = compiler.wait_with_output()?.stdout;
    let assembly = String::from_utf8_lossy(&assembly);
    let mut sections = assembly.split(".section").map(str::trim_start);
    let types = sections.find(|section| section.starts_with(".BTF,"));
    Ok(types.is_some_and(|types| types.contains("gw_tag")))
}

fn clang() -> Clang {
    if let Ok(named) = env::var("GUIDEWAY_CLANG") {
        return Clang::named(named.clone()).unwrap_or_else(|| {
            eprintln!("guideway compiles BPF programs, and GUIDEWAY_CLANG={named} cannot be run");
            exit(1);
        });
    }
    let versioned = (14..=22).rev().map(|version| format!("clang-{version}"));
    let candidates = std::iter::once("clang".to_owned()).chain(versioned);
    let mut first = None;
    for clang in candidates.filter_map(Clang::named) {
        if clang.tags_types {
            return clang;
        }
        first.get_or_insert(clang);
    }
    first.unwrap_or_else(|| {
        eprintln!(
            "guideway compiles BPF programs and found no clang (14 or newer).\n\
             Debian and Ubuntu: apt-get install clang libelf-dev zlib1g-dev pkg-config make gcc\n\
             A compiler under another name: GUIDEWAY_CLANG=/path/to/clang"
        );
        exit(1);
    })
}
