// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Runs a program on given bytes: an XDP program without an interface, a classifier as on one.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libbpf_sys::{bpf_test_run_opts, xdp_md};

use super::program::Program;
use super::sys::{check, size};
use super::SysError;
use crate::abi::SkBuff;

/// Room beyond the frame, for programs that grow it.
const HEADROOM_BYTES: usize = 256;

/// Room for a context, which newer kernels make longer.
const CONTEXT_BYTES: usize = 512;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The frame: at least 14 bytes, up to 65,000.
    pub frame: &'a [u8],
    /// Bytes of the frame that the program sees; fewer than the frame has cuts it short.
    pub visible_bytes: Option<u32>,
    /// Interface on which the frame seems to arrive, in the calling thread's network namespace;
    /// 0 is loopback.
    pub ingress_ifindex: u32,
    /// Number of runs. The frame is not restored in between.
    pub repeat: u32,
}

impl<'a> Run<'a> {
    /// One run of a whole frame on loopback.
    pub fn new(frame: &'a [u8]) -> Self {
        Self {
            frame,
            visible_bytes: None,
            ingress_ifindex: 0,
            repeat: 1,
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The program's result, such as `XDP_PASS`.
    pub action: u32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Average duration of a run as the kernel measured it.
    pub duration: Duration,
}

impl Run<'_> {
    /// Runs `program`.
    pub fn run(&self, program: &Program) -> Result<Ran, SysError> {
        let mut frame = Vec::new();
        let (action, duration) = self.run_into(program, &mut frame)?;
        Ok(Ran {
            action,
            frame,
            duration,
        })
    }

    /// Runs `program` and leaves the frame in `output`, whose room is used again.
    pub fn run_into(
        &self,
        program: &Program,
        output: &mut Vec<u8>,
    ) -> Result<(u32, Duration), SysError> {
        let context = xdp_md {
            data_end: self.visible_bytes.unwrap_or(self.frame.len() as u32),
            ingress_ifindex: self.ingress_ifindex,
            ..Default::default()
        };
        test_run(program, self.frame, &context, self.repeat, output, &mut [])
    }
}

/// One run of a classifier.
#[derive(Debug, Clone, Copy)]
pub struct ClassifierRun<'a> {
    /// The frame: at least 14 bytes, up to about 3,500.
    pub frame: &'a [u8],
    /// Interface on which the frame seems to arrive; it must exist in the calling thread's network
    /// namespace.
    pub ifindex: u32,
    /// Bytes of a segment, of a frame that is to be segmented; else 0. The kernel marks it as a
    /// segmented one of no protocol, so that growing it fails.
    pub gso_bytes: u32,
    /// The packet's mark.
    pub mark: u32,
    /// The packet's priority.
    pub priority: u32,
}

/// What a run of a classifier came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// The program's result, such as `TC_ACT_UNSPEC`, which is -1.
    pub action: i32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// The packet's mark afterwards.
    pub mark: u32,
    /// The packet's priority afterwards.
    pub priority: u32,
    /// How long it took as the kernel measured it.
    pub duration: Duration,
}

impl ClassifierRun<'_> {
    /// Runs `program` once.
    ///
    /// # Errors
    /// ENODEV if there is no such interface; EINVAL for a frame that is too short.
    pub fn run(&self, program: &Program) -> Result<Classified, SysError> {
        self.run_repeatedly(program, 1)
    }

    /// Runs `program` many times, without restoring the frame in between. What is returned is of the last
    /// run, and the duration the average.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_repeatedly(&self, program: &Program, times: u32) -> Result<Classified, SysError> {
        let context = SkBuff {
            ifindex: self.ifindex,
            gso_size: self.gso_bytes,
            mark: self.mark,
            priority: self.priority,
            ..Default::default()
        };
        let mut frame = Vec::new();
        let mut after = [0; CONTEXT_BYTES];
        let (action, duration) =
            test_run(program, self.frame, &context, times, &mut frame, &mut after)?;
        let word = |at: usize| {
            let bytes = after.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |&bytes| u32::from_ne_bytes(bytes))
        };
        Ok(Classified {
            action: action as i32,
            frame,
            mark: word(offset_of!(SkBuff, mark)),
            priority: word(offset_of!(SkBuff, priority)),
            duration,
        })
    }
}

/// Runs `program` with the kernel's context for its kind. Leaves the frame in `output`, and the context,
/// if there is room for it, in `after`.
fn test_run<C>(
    program: &Program,
    frame: &[u8],
    context: &C,
    repeat: u32,
    output: &mut Vec<u8>,
    after: &mut [u8],
) -> Result<(u32, Duration), SysError> {
    output.clear();
    output.resize(frame.len() + HEADROOM_BYTES, 0);
    let mut options = bpf_test_run_opts {
        sz: size::<bpf_test_run_opts>(),
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: output.as_mut_ptr().cast(),
        data_size_out: output.len() as u32,
        ctx_in: std::ptr::from_ref(context).cast(),
        ctx_size_in: std::mem::size_of::<C>() as u32,
        repeat: i32::try_from(repeat).unwrap_or(i32::MAX),
        ..Default::default()
    };
    // The kernel takes no pointer without a length.
    if !after.is_empty() {
        options.ctx_out = after.as_mut_ptr().cast();
        options.ctx_size_out = after.len() as u32;
    }
    // SAFETY: each pointer leads to as many bytes as the size beside it says, all outlive the call,
    // and those to be written are exclusively ours.
    let result =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &mut options) };
    check(result, "run program", program.name())?;
    output.truncate(options.data_size_out as usize);
    Ok((
        options.retval,
        Duration::from_nanos(u64::from(options.duration)),
    ))
}
