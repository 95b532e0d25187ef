// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A trace takes two rights, and says which one is missing.

use guideway::capture::Frame;
use guideway::error::ErrorKind;
use guideway::quiclb::trace::{run, Reset, TraceError};
use nix::libc;

use crate::netns::isolated;
use crate::{elsewhere, example};

const NET_ADMIN: u32 = 12;
const BPF: u32 = 39;

/// Leaves the calling thread with these rights alone.
fn keep(rights: &[u32]) {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut data = [Data::default(); 2];
    for right in rights {
        let half = &mut data[(right / 32) as usize];
        half.effective |= 1 << (right % 32);
        half.permitted |= 1 << (right % 32);
    }
    // Version 3 of the structure, of the calling thread.
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    // SAFETY: version 3 takes a header and two elements of data, and writes to the header only if
    // it does not know the version.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn attempt(rights: &'static [u32]) -> Result<(), TraceError> {
    let scenario = elsewhere(&example());
    keep(rights);
    let frame = Frame::new(0, vec![0; 60]);
    run(&scenario, [frame], Reset::Never).map(|document| {
        assert_eq!(document.summary.pass, 1);
    })
}

#[test]
fn two_rights_suffice() {
    isolated("trace::rights", || {
        attempt(&[NET_ADMIN, BPF]).expect("a trace")
    });
}

#[test]
fn a_missing_right_is_named() {
    for (rights, missing) in [
        (&[BPF][..], "CAP_NET_ADMIN"),
        (&[NET_ADMIN], "CAP_BPF"),
        (&[], "CAP_BPF, CAP_NET_ADMIN"),
    ] {
        isolated("trace::missing", move || {
            let error = attempt(rights).expect_err("a missing right");
            assert_eq!(error.kind(), ErrorKind::Permission);
            let message = error.to_string();
            assert!(
                message.ends_with(&format!("missing right: {missing}")),
                "{message}"
            );
        });
    }
}
