// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flow state: what a packet does to it and what it does to the packet. Slots, entries and levels
//! are put there by hand, so that every rule is met whether a publisher would ever meet it or not.

mod all;
mod bindings;
mod case;
mod entries;
mod events;
mod exceptions;
mod hints;
mod learning;
mod races;
mod refusals;
mod reuse;
mod sums;
mod unroutable;
mod unsettled;
mod world;
