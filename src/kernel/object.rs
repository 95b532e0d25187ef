// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loads the compiled programs and takes them apart into owned handles.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, MapCore, OpenMap};
use libbpf_sys::bpf_object_open_opts;

use super::log::Capture;
use super::map::{Map, MapKind, MapShape, ShapeError};
use super::probe::{self, Capability};
use super::program::Program;
use super::publish;
use super::sys::size;
use super::SysError;
use crate::error::ErrorKind;

#[allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    dead_code
)]
mod quiclb {
    include!(concat!(env!("OUT_DIR"), "/quiclb.skel.rs"));
}

/// Room for the verifier's log; only the part that is written costs memory.
const LOG_BYTES: usize = 16 << 20;
/// The end of the log, which says why, is what an error carries.
const LOG_TAIL_BYTES: usize = 4096;
/// `BPF_LOG_STATS`: a summary of the verifier's work instead of its steps.
const LOG_STATS: u32 = 4;

/// How the load balancer's object is loaded.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Load the program that notes its decisions in the trace map.
    pub tracing: bool,
    /// Cells that each generation has room for, [`ROOM_CELLS`](super::publish::ROOM_CELLS) if
    /// none.
    pub cells: Option<u32>,
    /// Sizes of maps that differ from those in the object: name and number of entries.
    pub entries: &'a [(&'a str, u32)],
    /// Maps to use instead of new ones; each must have the shape of the map with its name.
    pub reuse: &'a [Map],
    /// Have the verifier summarise its work in [`Object::verifier_report`].
    pub verifier_report: bool,
}

/// A loaded program and its maps, each an owned handle.
#[derive(Debug)]
pub struct Object {
    /// The program, `gw_quiclb`.
    pub program: Program,
    maps: BTreeMap<String, Map>,
    verifier_report: String,
}

/// Why the object could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The process lacks rights that loading takes.
    #[error("cannot load {object}: missing right: {}", list(missing))]
    #[non_exhaustive]
    Permission {
        /// The program's object.
        object: &'static str,
        /// The rights.
        missing: Vec<Capability>,
    },
    /// The kernel's verifier rejected the program.
    #[error("the kernel's verifier rejected {program}: {cause}\n{log}")]
    #[non_exhaustive]
    Verifier {
        /// Name of the program.
        program: &'static str,
        /// The error of the call.
        cause: String,
        /// The end of the verifier's log.
        log: String,
    },
    /// A map to be reused has another shape, or the object has no map of that name.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The kernel or libbpf refused for another reason.
    #[error("cannot load {object}: {cause}{}{messages}", if messages.is_empty() { "" } else { "\n" })]
    #[non_exhaustive]
    Refused {
        /// The program's object.
        object: &'static str,
        /// The error of the call.
        cause: String,
        /// What libbpf had to say.
        messages: String,
    },
    /// A call on the loaded object failed.
    #[error(transparent)]
    Sys(#[from] SysError),
}

fn list(rights: &[Capability]) -> String {
    rights
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl LoadError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Permission { .. } => ErrorKind::Permission,
            Self::Verifier { .. } => ErrorKind::Verifier,
            Self::Shape(_) => ErrorKind::Incompatible,
            Self::Refused { .. } => ErrorKind::Kernel,
            Self::Sys(error) => error.kind(),
        }
    }
}

const NAME: &str = "gw_quiclb";

impl Options<'_> {
    /// The shape each map of the object will have, by name: what to open pinned maps with.
    pub fn shapes(&self) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let capture = Capture::start();
        let mut storage = MaybeUninit::uninit();
        let skeleton = match quiclb::QuiclbSkelBuilder::default().open(&mut storage) {
            Ok(skeleton) => skeleton,
            Err(error) => return Err(refused(&error, capture)),
        };
        let shapes = skeleton.open_object().maps().map(|map| self.shape_of(&map));
        Ok(shapes.map(|shape| (shape.name.clone(), shape)).collect())
    }

    fn shape_of(&self, map: &OpenMap<'_>) -> MapShape {
        let name = map.name().to_string_lossy().into_owned();
        let kind = MapKind(map.map_type() as u32);
        let raw = map.as_libbpf_object();
        // SAFETY: the opened object outlives this call, and the call only reads.
        let flags = unsafe { libbpf_sys::bpf_map__map_flags(raw.as_ptr()) };
        let entries = self
            .entries
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, entries)| *entries);
        MapShape {
            kind,
            key_size: map.key_size(),
            value_size: map.value_size(),
            max_entries: entries.unwrap_or_else(|| map.max_entries()),
            flags,
            name,
        }
    }

    /// Loads the object. Nothing is attached or pinned.
    pub fn load(&self) -> Result<Object, LoadError> {
        self.load_changed(|_| {})
    }

    /// Loads the object after `change` had its way with it.
    fn load_changed(
        &self,
        change: impl FnOnce(&mut quiclb::OpenQuiclbSkel<'_>),
    ) -> Result<Object, LoadError> {
        let mut log = vec![0_u8; LOG_BYTES];
        let capture = Capture::start();
        let options = bpf_object_open_opts {
            sz: size::<bpf_object_open_opts>(),
            kernel_log_buf: log.as_mut_ptr().cast::<c_char>(),
            kernel_log_size: log.len() as libbpf_sys::size_t,
            kernel_log_level: if self.verifier_report { LOG_STATS } else { 0 },
            ..Default::default()
        };
        let mut storage = MaybeUninit::uninit();
        let builder = quiclb::QuiclbSkelBuilder::default();
        let mut skeleton = match builder.open_opts(options, &mut storage) {
            Ok(skeleton) => skeleton,
            Err(error) => return Err(refused(&error, capture)),
        };
        if let Some(data) = skeleton.maps.rodata_data.as_mut() {
            data.gw_tracing = self.tracing;
        }
        for (name, entries) in self.entries {
            let mut maps = skeleton.open_object_mut().maps_mut();
            let Some(mut map) = maps.find(|map| map.name() == *name) else {
                return Err(no_such_map(name).into());
            };
            if let Err(error) = map.set_max_entries(*entries) {
                return Err(refused(&error, capture));
            }
        }
        let template = self
            .cells
            .map(|cells| Map::create(&publish::shape("gw_ql_cells", cells), None));
        // It must live until the object is loaded.
        let template = template.transpose()?;
        if let Some(template) = &template {
            if let Err(error) = skeleton.maps.gw_ql_gen.set_inner_map_fd(template.as_fd()) {
                return Err(refused(&error, capture));
            }
        }
        self.reuse(&mut skeleton)?;
        change(&mut skeleton);

        let loaded = match skeleton.load() {
            Ok(loaded) => loaded,
            Err(error) => return Err(load_error(&error, &tail(&log), capture)),
        };
        let mut maps = BTreeMap::new();
        for map in loaded.object().maps() {
            let name = map.name().to_string_lossy().into_owned();
            maps.insert(name.clone(), Map::from_fd(duplicate(map.as_fd(), &name)?)?);
        }
        let program = Program::from_fd(duplicate(loaded.progs.gw_quiclb.as_fd(), NAME)?)?;
        drop(loaded);
        let verifier_report = tail(&log);
        Ok(Object {
            program,
            maps,
            verifier_report,
        })
    }

    fn reuse(&self, skeleton: &mut quiclb::OpenQuiclbSkel<'_>) -> Result<(), LoadError> {
        for pinned in self.reuse {
            let name = pinned.shape().name.as_str();
            // libbpf checks nothing here and would use a map of any size.
            let expected = skeleton.open_object().maps().find(|map| map.name() == name);
            let Some(expected) = expected.map(|map| self.shape_of(&map)) else {
                return Err(no_such_map(name).into());
            };
            pinned
                .shape()
                .check(&expected, format_args!("map {name}"))?;
            for mut map in skeleton.open_object_mut().maps_mut() {
                if map.name() == name {
                    map.reuse_fd(pinned.as_fd())
                        .map_err(|error| LoadError::Refused {
                            object: NAME,
                            cause: format!("reuse of map {name}: {error:#}"),
                            messages: String::new(),
                        })?;
                }
            }
        }
        Ok(())
    }
}

impl Object {
    /// Takes a map out by its name.
    pub fn take_map(&mut self, name: &str) -> Result<Map, SysError> {
        self.maps
            .remove(name)
            .ok_or_else(|| SysError::new("take", format_args!("map {name}"), nix::libc::ENOENT))
    }

    /// The maps that were not taken yet, by name.
    pub fn maps(&self) -> impl Iterator<Item = &Map> {
        self.maps.values()
    }

    /// The verifier's summary, empty unless it was asked for.
    pub fn verifier_report(&self) -> &str {
        &self.verifier_report
    }
}

fn no_such_map(name: &str) -> ShapeError {
    ShapeError {
        object: format!("map {name}"),
        differences: vec![super::map::Difference {
            property: "name",
            expected: format!("that of a map of {NAME}"),
            found: name.to_owned(),
        }],
    }
}

fn duplicate(
    fd: std::os::fd::BorrowedFd<'_>,
    name: &str,
) -> Result<std::os::fd::OwnedFd, SysError> {
    fd.try_clone_to_owned()
        .map_err(|e| SysError::from_io("duplicate the descriptor of", name, &e))
}

fn refused(error: &libbpf_rs::Error, capture: Capture) -> LoadError {
    LoadError::Refused {
        object: NAME,
        cause: format!("{error:#}"),
        messages: capture.finish(),
    }
}

fn load_error(error: &libbpf_rs::Error, log: &str, capture: Capture) -> LoadError {
    if !log.is_empty() {
        let (cause, log) = (format!("{error:#}"), log.to_owned());
        return LoadError::Verifier {
            program: NAME,
            cause,
            log,
        };
    }
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        let missing = probe::missing(&[Capability::Bpf, Capability::NetAdmin]);
        if !missing.is_empty() {
            return LoadError::Permission {
                object: NAME,
                missing,
            };
        }
    }
    refused(error, capture)
}

/// The last lines of a log that ends at its first zero byte.
fn tail(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let from = end.saturating_sub(LOG_TAIL_BYTES);
    let text = String::from_utf8_lossy(&log[from..end]);
    let text = match text.split_once('\n') {
        Some((_, whole_lines)) if from > 0 => whole_lines,
        _ => &text,
    };
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netns;

    #[test]
    fn a_rejected_program_comes_with_the_end_of_the_verifiers_log() {
        netns::isolated("kernel::object::rejected", || {
            // Generations of single bytes: too small for whatever the program reads there.
            let cells = MapShape {
                name: "gw_ql_cells".into(),
                kind: MapKind::ARRAY,
                key_size: 4,
                value_size: 1,
                max_entries: 1,
                flags: 0,
            };
            let template = Map::create(&cells, None).expect("create");
            let error = Options::default()
                .load_changed(|skeleton| {
                    let outer = &mut skeleton.maps.gw_ql_gen;
                    outer
                        .set_inner_map_fd(template.as_fd())
                        .expect("a template");
                })
                .expect_err("the verifier refuses it");
            assert_eq!(error.kind(), ErrorKind::Verifier, "{error}");
            let LoadError::Verifier { program, log, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(*program, "gw_quiclb");
            assert!(
                log.contains("invalid access to map value, value_size=1"),
                "{log}"
            );
            // The last line of a verifier's log sums up its work.
            assert!(
                log.lines()
                    .last()
                    .is_some_and(|line| line.starts_with("processed ")),
                "{log}"
            );
            assert!(error.to_string().contains(log.as_str()));
        });
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_whole_lines() {
        let line = |n: usize| format!("{n:06} of the log\n");
        let mut log: Vec<u8> = (0..1000).flat_map(|n| line(n).into_bytes()).collect();
        let expected: String = (1000 - LOG_TAIL_BYTES / 18..1000).map(line).collect();
        log.extend([0; 5]);
        log.extend(b"left from before");
        assert_eq!(tail(&log), expected.trim_end());
        assert_eq!(tail(b"short\nlog\n\0"), "short\nlog");
        assert_eq!(tail(b"\0"), "");
        assert_eq!(tail(&[]), "");
        assert!(tail(&vec![b'x'; 3 * LOG_TAIL_BYTES]).len() <= LOG_TAIL_BYTES);
    }
}
