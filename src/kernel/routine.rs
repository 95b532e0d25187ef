// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Programs that user space calls: work on pinned maps that takes what only a program can do, such
//! as exchanging a word of an entry while packets use it.
//!
//! They live in objects of their own, are loaded when they are needed around maps that are there
//! already, and are never pinned or attached. A call passes one plain value in and out.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use bytemuck::Pod;
use libbpf_sys::bpf_test_run_opts;

use super::load::{self, Loading};
use super::map::{Map, MapShape};
use super::probe::Capability;
use super::program::Program;
use super::skeleton;
use super::sys::{check, size};
use super::SysError;

pub use super::load::LoadError;

/// An object of routines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// `gw_add_shard` and `gw_add_pins`: add to counts of egress while packets do.
    Adjust,
    /// `gw_bind`: binds connection IDs while packets use them.
    Bind,
    /// `gw_occupancy`: how many entries flow state has. Minimum kernel: 6.6.
    Occupancy,
    /// `gw_put_key`: makes contexts for encrypted server IDs, and `gw_try_key`, an XDP program that
    /// tries one. Minimum kernel: 6.11.
    #[cfg(guideway_keys)]
    Key,
    /// `gw_sweep_flows` and `gw_sweep_cids`: one pass over a table of flow state. `gw_sweep_count`:
    /// counts what user space has deleted. `gw_sweep_level`: sets admission levels.
    Sweep,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Adjust => "gw_adjust",
            Self::Bind => "gw_bind",
            Self::Occupancy => "gw_occupancy",
            #[cfg(guideway_keys)]
            Self::Key => "gw_key",
            Self::Sweep => "gw_sweep",
        }
    }
}

/// How an object of routines is loaded.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Sizes of maps that differ from those in the object: name and number of entries. Shared maps
    /// need theirs here, too.
    pub entries: &'a [(&'a str, u32)],
    /// Maps to use instead of new ones; each must have the shape of the map with its name.
    pub reuse: &'a [Map],
    /// Names of the routines to load, all if none.
    pub only: Option<&'a [&'a str]>,
    /// Have the verifier summarise its work in [`Routines::verifier_report`].
    pub verifier_report: bool,
}

/// The routines of an object and their maps, each an owned handle.
#[derive(Debug)]
pub struct Routines {
    routines: BTreeMap<String, Program>,
    maps: BTreeMap<String, Map>,
    verifier_report: String,
}

/// A program that user space calls.
#[derive(Debug)]
pub struct Routine {
    program: Program,
}

/// Runs `$do` with the builder of the skeleton of an object.
macro_rules! with_builder {
    ($source:expr, $builder:ident => $do:expr) => {
        match $source {
            Source::Adjust => {
                let $builder = skeleton::adjust::AdjustSkelBuilder::default();
                $do
            }
            Source::Bind => {
                let $builder = skeleton::bind::BindSkelBuilder::default();
                $do
            }
            Source::Occupancy => {
                let $builder = skeleton::occupancy::OccupancySkelBuilder::default();
                $do
            }
            #[cfg(guideway_keys)]
            Source::Key => {
                let $builder = skeleton::key::KeySkelBuilder::default();
                $do
            }
            Source::Sweep => {
                let $builder = skeleton::sweep::SweepSkelBuilder::default();
                $do
            }
        }
    };
}

impl Options<'_> {
    fn loading(&self, source: Source) -> Loading<'_> {
        Loading {
            name: source.name(),
            rights: &[Capability::Bpf],
            entries: self.entries,
            reuse: self.reuse,
            only: self.only,
            verifier_report: self.verifier_report,
        }
    }

    /// The shape each map of the object will have, by name.
    pub fn shapes(&self, source: Source) -> Result<BTreeMap<String, MapShape>, LoadError> {
        let mut storage = MaybeUninit::uninit();
        let loading = self.loading(source);
        with_builder!(source, builder => loading.shapes(builder, &mut storage))
    }

    /// Loads the object. Takes CAP_BPF.
    ///
    /// # Errors
    /// [`LoadError`]; a kernel that lacks a function the routines call refuses them.
    pub fn load(&self, source: Source) -> Result<Routines, LoadError> {
        let mut storage = MaybeUninit::uninit();
        let loading = self.loading(source);
        let parts = with_builder!(source, builder => {
            loading.load(builder, &mut storage, |_| Ok(()))?
        });
        Ok(Routines {
            routines: parts.programs,
            maps: parts.maps,
            verifier_report: parts.verifier_report,
        })
    }
}

impl Routines {
    /// Takes a routine out by its name.
    pub fn take(&mut self, name: &str) -> Result<Routine, SysError> {
        let program = load::take(&mut self.routines, "program", name)?;
        Ok(Routine::new(program))
    }

    /// Takes a map out by its name.
    pub fn take_map(&mut self, name: &str) -> Result<Map, SysError> {
        load::take(&mut self.maps, "map", name)
    }

    /// The verifier's summary, empty unless it was asked for.
    pub fn verifier_report(&self) -> &str {
        &self.verifier_report
    }
}

impl Routine {
    /// A program of a kind that user space calls.
    pub(super) fn new(program: Program) -> Self {
        Self { program }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Calls the routine, which reads and writes `context`, and gives what it returns.
    ///
    /// # Errors
    /// The kernel refuses the call: EPERM without CAP_BPF, EINVAL for a context larger than 64 KiB
    /// or smaller than the routine's.
    pub fn call<C: Pod>(&self, context: &mut C) -> Result<u32, SysError> {
        let mut options = bpf_test_run_opts {
            sz: size::<bpf_test_run_opts>(),
            ctx_in: std::ptr::from_mut(context).cast_const().cast(),
            ctx_size_in: std::mem::size_of::<C>() as u32,
            ..Default::default()
        };
        // SAFETY: the kernel reads and writes `ctx_size_in` bytes at `ctx_in`, which is a whole `C`
        // that is exclusively ours during the call; any bytes are a `C`.
        let result = unsafe {
            libbpf_sys::bpf_prog_test_run_opts(self.program.as_fd().as_raw_fd(), &mut options)
        };
        check(result, "call", self.program.name())?;
        Ok(options.retval)
    }
}
