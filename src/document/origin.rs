// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where a value stood.

/// A position in the document a value came from. All are equal: two documents that differ in
/// order alone give equal specifications.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin(pub(crate) usize);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}
