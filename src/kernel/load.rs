// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What loading any compiled object takes: sizes, maps to share, the verifier's log, and the parts
//! as owned handles.

use std::collections::BTreeMap;
use std::ffi::{c_char, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, MapCore, OpenMap, OpenObject};
use libbpf_sys::bpf_object_open_opts;

use super::log::Capture;
use super::map::{Difference, Map, MapKind, MapShape, ShapeError};
use super::probe::{self, Capability};
use super::program::Program;
use super::sys::size;
use super::SysError;
use crate::error::ErrorKind;

/// Room for the verifier's log; only the part that is written costs memory.
const LOG_BYTES: usize = 16 << 20;
/// The end of the log, which says why, is what an error carries.
const LOG_TAIL_BYTES: usize = 4096;
/// `BPF_LOG_STATS`: a summary of the verifier's work instead of its steps.
const LOG_STATS: u32 = 4;

/// How an object is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loading<'a> {
    /// What errors call it.
    pub(super) name: &'static str,
    /// The rights that its programs take.
    pub(super) rights: &'static [Capability],
    /// Sizes of maps that differ from those in the object: name and number of entries.
    pub(super) entries: &'a [(&'a str, u32)],
    /// Maps to use instead of new ones; each must have the shape of the map with its name.
    pub(super) reuse: &'a [Map],
    /// Names of the programs to load, all if none.
    pub(super) only: Option<&'a [&'a str]>,
    /// Have the verifier summarise its work.
    pub(super) verifier_report: bool,
}

/// A loaded object taken apart.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) programs: BTreeMap<String, Program>,
    pub(super) maps: BTreeMap<String, Map>,
    pub(super) verifier_report: String,
}

/// Why an object could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The process lacks rights that loading takes.
    #[error("cannot load {object}: missing right: {}", probe::list(missing))]
    #[non_exhaustive]
    Permission {
        /// The program's object.
        object: &'static str,
        /// The rights.
        missing: Vec<Capability>,
    },
    /// The kernel's verifier rejected the program.
    #[error(
        "the kernel's verifier rejected {program}{}: {cause}\n{log}",
        without(missing)
    )]
    #[non_exhaustive]
    Verifier {
        /// Name of the program.
        program: &'static str,
        /// Rights that the process lacks and with which the verifier is less strict: CAP_PERFMON
        /// or none.
        missing: Vec<Capability>,
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

fn without(rights: &[Capability]) -> String {
    if rights.is_empty() {
        return String::new();
    }
    format!(", which was loaded without {}", probe::list(rights))
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

impl Loading<'_> {
    /// The shape each map of the object will have, by name: what to open pinned maps with.
    pub(super) fn shapes<'o, B: SkelBuilder<'o>>(
        &self,
        builder: B,
        storage: &'o mut MaybeUninit<OpenObject>,
    ) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let capture = Capture::start();
        let skeleton = match builder.open(storage) {
            Ok(skeleton) => skeleton,
            Err(error) => return Err(self.refused(&error, capture)),
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

    /// Opens the object, lets `change` have its way with it, loads it. Nothing is attached or
    /// pinned.
    pub(super) fn load<'o, B: SkelBuilder<'o>>(
        &self,
        builder: B,
        storage: &'o mut MaybeUninit<OpenObject>,
        change: impl FnOnce(&mut B::Output) -> Result<(), libbpf_rs::Error>,
    ) -> Result<Parts, LoadError> {
        let mut log = vec![0_u8; LOG_BYTES];
        let capture = Capture::start();
        let options = bpf_object_open_opts {
            sz: size::<bpf_object_open_opts>(),
            kernel_log_buf: log.as_mut_ptr().cast::<c_char>(),
            kernel_log_size: log.len() as libbpf_sys::size_t,
            kernel_log_level: if self.verifier_report { LOG_STATS } else { 0 },
            ..Default::default()
        };
        let mut skeleton = match builder.open_opts(options, storage) {
            Ok(skeleton) => skeleton,
            Err(error) => return Err(self.refused(&error, capture)),
        };
        for (name, entries) in self.entries {
            let mut maps = skeleton.open_object_mut().maps_mut();
            let Some(mut map) = maps.find(|map| map.name() == *name) else {
                return Err(self.no_such_map(name).into());
            };
            if let Err(error) = map.set_max_entries(*entries) {
                return Err(self.refused(&error, capture));
            }
        }
        self.share(skeleton.open_object_mut())?;
        for mut program in skeleton.open_object_mut().progs_mut() {
            let wanted = self.wants(program.name());
            program.set_autoload(wanted);
        }
        if let Err(error) = change(&mut skeleton) {
            return Err(self.refused(&error, capture));
        }

        let loaded = match skeleton.load() {
            Ok(loaded) => loaded,
            Err(error) => return Err(self.load_error(&error, &tail(&log), capture)),
        };
        let mut maps = BTreeMap::new();
        for map in loaded.object().maps() {
            let name = map.name().to_string_lossy().into_owned();
            maps.insert(name.clone(), Map::from_fd(duplicate(map.as_fd(), &name)?)?);
        }
        let mut programs = BTreeMap::new();
        for program in loaded.object().progs().filter(|p| self.wants(p.name())) {
            let name = program.name().to_string_lossy().into_owned();
            let handle = Program::from_fd(duplicate(program.as_fd(), &name)?)?;
            programs.insert(name, handle);
        }
        drop(loaded);
        let verifier_report = tail(&log);
        Ok(Parts {
            programs,
            maps,
            verifier_report,
        })
    }

    fn wants(&self, program: &OsStr) -> bool {
        self.only
            .is_none_or(|names| names.iter().any(|name| program == *name))
    }

    fn share(&self, object: &mut OpenObject) -> Result<(), LoadError> {
        for shared in self.reuse {
            let name = shared.shape().name.as_str();
            // libbpf checks nothing here and would use a map of any size.
            let expected = object.maps().find(|map| map.name() == name);
            let Some(expected) = expected.map(|map| self.shape_of(&map)) else {
                return Err(self.no_such_map(name).into());
            };
            shared
                .shape()
                .check(&expected, format_args!("map {name}"))?;
            for mut map in object.maps_mut() {
                if map.name() == name {
                    map.reuse_fd(shared.as_fd())
                        .map_err(|error| LoadError::Refused {
                            object: self.name,
                            cause: format!("reuse of map {name}: {error:#}"),
                            messages: String::new(),
                        })?;
                }
            }
        }
        Ok(())
    }

    fn no_such_map(&self, name: &str) -> ShapeError {
        ShapeError {
            object: format!("map {name}"),
            differences: vec![Difference {
                property: "name",
                expected: format!("that of a map of {}", self.name),
                found: name.to_owned(),
            }],
        }
    }

    fn refused(&self, error: &libbpf_rs::Error, capture: Capture) -> LoadError {
        LoadError::Refused {
            object: self.name,
            cause: format!("{error:#}"),
            messages: capture.finish(),
        }
    }

    fn load_error(&self, error: &libbpf_rs::Error, log: &str, capture: Capture) -> LoadError {
        if !log.is_empty() {
            let (cause, log) = (format!("{error:#}"), log.to_owned());
            return LoadError::Verifier {
                program: self.name,
                missing: probe::missing(&[Capability::Perfmon]),
                cause,
                log,
            };
        }
        if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            let missing = probe::missing(self.rights);
            if !missing.is_empty() {
                return LoadError::Permission {
                    object: self.name,
                    missing,
                };
            }
        }
        self.refused(error, capture)
    }
}

fn duplicate(fd: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, SysError> {
    fd.try_clone_to_owned()
        .map_err(|e| SysError::from_io("duplicate the descriptor of", name, &e))
}

/// Takes a part out by its name.
pub(super) fn take<T>(
    parts: &mut BTreeMap<String, T>,
    kind: &str,
    name: &str,
) -> Result<T, SysError> {
    parts
        .remove(name)
        .ok_or_else(|| SysError::new("take", format_args!("{kind} {name}"), nix::libc::ENOENT))
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
