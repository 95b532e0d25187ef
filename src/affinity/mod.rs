// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flow state: which backend a flow or a connection ID is bound to, and until when.
//!
//! A Maglev table answers almost every packet without memory. State exists only for the packets
//! for which that answer would be wrong: flows that began under an earlier table, and connections
//! that moved to another address. This module holds its rules as pure functions over plain data;
//! the kernel's side is in [`quiclb`](crate::quiclb), the packets' side in the program and in
//! [`oracle`](crate::oracle).

mod advance;
mod binding;
pub mod collect;
mod contract;
mod document;
mod import;
pub mod level;
pub mod rules;
mod slots;
pub mod state;

pub(crate) use advance::rounded;
pub use advance::{advance, SlotChange};
pub use binding::{cid_tag, Binding, CidKey, Origin, Phase};
pub use contract::{CidContract, ContractError};
pub(crate) use document::{read, Guard, Stop};
pub use document::{
    rfc3339, AffinityDocument, BindingOrigin, CidBinding, DocumentError, ReadOptions,
    ServiceBindings, AFFINITY_SCHEMA,
};
pub(crate) use import::{meet, Meeting};
pub use import::{
    reconcile, Action, BackendView, Conflict, Example, Examples, ImportReport, InstanceView,
    Outcome, Reconciliation, Rejected, Rejection, ServiceView, Step, EXAMPLES,
};
pub use slots::{count_marks, Mark, MarkCount, MarkError, OpenedNs, SlotSet, Slots};
