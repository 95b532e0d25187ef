// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A trace takes two rights, and says which one is missing.

use guideway::capture::Frame;
use guideway::error::ErrorKind;
use guideway::quiclb::trace::{run, Reset, TraceError};

use crate::capabilities::{keep, BPF, NET_ADMIN};
use crate::netns::isolated;

use crate::{elsewhere, example};

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
