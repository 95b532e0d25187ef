// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What may happen, one thing after the other.

use guideway::service::BackendState;
use proptest::collection::vec;
use proptest::prelude::*;

/// Flows of one service; the first ones send more often than the last.
pub(crate) const FLOWS: usize = 24;
/// Backends that may be there, more than there are rows.
pub(crate) const BACKENDS: u8 = 6;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Time passes, in milliseconds.
    Wait(u16),
    /// A packet of a flow. If a publication has not returned, `late` is whether it still sees the
    /// table before. `first` is whether a new flow shows itself as one, `again` whether a client
    /// in its handshake sends another Initial.
    Packet {
        flow: usize,
        late: bool,
        first: bool,
        again: bool,
    },
    /// A publication: backends that change, of which `None` leave.
    Publish(Vec<(u8, Option<BackendState>)>),
    /// The publication under way returns: nobody sees the table before any more.
    Return,
    /// A sweep of all entries.
    Sweep,
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 0..most)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (1_u16..3_000).prop_map(Step::Wait),
        120 => packet(),
        5 => vec((0..BACKENDS, state()), 0..3).prop_map(Step::Publish),
        4 => Just(Step::Return),
        4 => Just(Step::Sweep),
    ]
}

fn packet() -> impl Strategy<Value = Step> {
    let bits = (any::<bool>(), 0..5, any::<bool>());
    (0..FLOWS, 0..FLOWS, bits).prop_map(|(one, two, (late, first, again))| Step::Packet {
        flow: one.min(two),
        late,
        first: first > 0,
        again,
    })
}

fn state() -> impl Strategy<Value = Option<BackendState>> {
    prop_oneof![
        4 => Just(Some(BackendState::Ready)),
        3 => Just(Some(BackendState::Draining)),
        1 => Just(Some(BackendState::Unhealthy)),
        1 => Just(None),
    ]
}
