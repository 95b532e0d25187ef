// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a run is played: by all rules, or without one of them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    /// Of several Initials in each handshake.
    Quic,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) protocol: Protocol,
    /// Entries that the table takes.
    pub(crate) capacity: usize,
    /// Starts that may go on with a handshake stay, for a while.
    pub(crate) grace: bool,
    /// A miss in an open slot makes an entry.
    pub(crate) inserts: bool,
    /// Windows close although flows were refused an entry.
    pub(crate) closes_despite_refusals: bool,
    /// Flows that are refused when windows are about to close are counted.
    pub(crate) says_that_it_closes: bool,
    /// Slots are unmarked by what a sweep found while packets still saw the table before.
    pub(crate) sweeps_before_return: bool,
    /// A second change in a window moves the base.
    pub(crate) moves_base: bool,
    /// Sweeps leave entries that say what packets without an entry get as well, and those in slots
    /// where no packet looks for them.
    pub(crate) keeps_redundant: bool,
}

impl Variant {
    /// All rules, and room for every flow.
    pub(crate) fn sound(protocol: Protocol) -> Self {
        Self {
            protocol,
            capacity: 1_000,
            grace: true,
            inserts: true,
            closes_despite_refusals: false,
            says_that_it_closes: true,
            sweeps_before_return: false,
            moves_base: false,
            keeps_redundant: false,
        }
    }
}
