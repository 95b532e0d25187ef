// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where a value stood.

/// A position in the document a value came from, by default its index in a list. All are equal: two
/// documents that differ in order alone give equal specifications.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<T = usize>(pub(crate) T);

impl<T> PartialEq for Origin<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Origin<T> {}
