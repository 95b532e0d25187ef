// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The end of threads that go on until they are told.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends threads of a scope that go on until this is true, also where the test fails: who leaves a
/// scope waits for them.
pub(crate) struct Stops<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
