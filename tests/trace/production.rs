// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The program that forwards traffic is the one that is traced, without the notes.

use std::os::fd::{AsFd, AsRawFd};

use guideway::abi::TraceNote;
use guideway::kernel::object::Options;
use guideway::kernel::program::Program;
use guideway::kernel::run::Run;
use guideway::kernel::typed::Array;
use guideway::reason::Reason;

use crate::build::*;
use crate::netns::isolated;

/// Bytes of the instructions that the verifier left.
fn instructions(program: &Program) -> u32 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = std::mem::size_of_val(&info) as u32;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: the structure is as long as said, and its pointers are null.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut length) };
    assert_eq!(result, 0);
    info.xlated_prog_len
}

#[test]
fn notes_are_not_even_compiled_into_it() {
    isolated("trace::production", || {
        let run = |tracing| {
            let options = Options {
                tracing,
                ..Options::default()
            };
            let mut object = options.load().expect("the program loads");
            let note = object.take_map("gw_ql_trace").expect("the map of the note");
            let note = Array::<TraceNote>::new(note).expect("an array");
            let frame = ipv4(UDP, &request());
            let ran = Run::new(&frame).run(&object.program).expect("a run");
            (
                instructions(&object.program),
                note.get(0).expect("a note"),
                ran,
            )
        };
        let (traced_size, traced, traced_run) = run(true);
        let (size, silent, silent_run) = run(false);
        assert!(size < traced_size, "{size} {traced_size}");
        // No generation was published.
        assert_eq!(
            (traced.packets, traced.reason),
            (1, Reason::NoGeneration.number())
        );
        assert_eq!(bytemuck::bytes_of(&silent), [0; 48]);
        assert_eq!(
            (silent_run.action, silent_run.frame),
            (traced_run.action, traced_run.frame)
        );
    });
}
