// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The programs of tests/bpf, loaded around maps of what they test.

#![allow(dead_code)] // each binary uses a part

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder};

/// What becomes of a map that an object declares.
pub(crate) enum Use<'a> {
    Own,
    OwnOf(u32),
    Shared(BorrowedFd<'a>),
    /// None: no program that is loaded uses it.
    Not,
}

pub(crate) struct Programs(Object);

impl Programs {
    /// Loads them all; `choose` is asked about each map.
    pub(crate) fn load<'a>(bytes: &[u8], choose: impl Fn(&str) -> Use<'a>) -> Self {
        let mut open = ObjectBuilder::default()
            .open_memory(bytes)
            .expect("the object opens");
        for mut map in open.maps_mut() {
            match choose(map.name().to_str().expect("a name")) {
                Use::Own => {}
                Use::OwnOf(entries) => map.set_max_entries(entries).expect("a size"),
                Use::Shared(shared) => map.reuse_fd(shared).expect("a map of this shape"),
                Use::Not => map.set_autocreate(false).expect("not needed"),
            }
        }
        Self(open.load().expect("the programs load"))
    }

    pub(crate) fn program(&self, name: &str) -> OwnedFd {
        let mut programs = self.0.progs();
        let program = programs.find(|program| program.name() == name);
        let program = program.expect("a program of this name");
        program.as_fd().try_clone_to_owned().expect("a handle")
    }

    pub(crate) fn map(&self, name: &str) -> MapHandle {
        let mut maps = self.0.maps();
        let map = maps.find(|map| map.name() == name);
        MapHandle::try_from(&map.expect("a map of this name")).expect("a handle")
    }
}

/// Calls a program without a context; what it returned.
pub(crate) fn call(program: impl AsFd) -> u32 {
    call_with(program, &mut ())
}

/// Calls a program with this context, which it may write to; what it returned.
pub(crate) fn call_with<T>(program: impl AsFd, context: &mut T) -> u32 {
    let bytes = size_of::<T>();
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    if bytes > 0 {
        options.ctx_in = std::ptr::from_mut(context).cast();
        options.ctx_size_in = bytes as u32;
    }
    let program = program.as_fd().as_raw_fd();
    // SAFETY: the context has as many bytes as is said and outlives the call.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &mut options) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    options.retval
}
