// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer's specification document: what an instance serves, validated and typed.

mod choice;
mod fault;
mod spec;

pub use fault::{Fault, FaultCode, Faults, Warning, WarningCode};
pub use spec::{
    Backend, BackendState, CidConfig, CidKey, Fragments, HashOf, HashSeed, Limits, Mode, Protocol,
    Quic, Routing, ServerId, Service, SourceMac, Spec, Tracking, Unhealthy, UnknownServerId,
};
