// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The kernel's side of things: maps, programs, attachments, the state directory, interfaces.
//!
//! Everything here owns its file descriptors, knows nothing of services or plans, and reports
//! failures with the object and the errno. A handle is `Send` and needs no lifetime: an
//! [`object::Object`] is loaded once and taken apart into [`map::Map`]s and a
//! [`program::Program`], which are pinned in a [`statedir::StateDir`] and opened from it later.

pub mod attach;
pub mod barrier;
pub mod build;
pub mod clock;
pub mod egress_object;
pub mod exchange;
pub mod keys;
pub mod map;
pub mod memory;
pub mod netdev;
pub mod object;
pub mod offload_object;
pub mod pin_object;
pub mod probe;
pub mod prog_array;
pub mod program;
pub mod publish;
pub mod random;
pub mod record;
pub mod repair;
pub mod ring;
pub mod routine;
pub mod routing;
pub mod run;
pub mod snapshot;
pub mod statedir;
pub mod tc;
pub mod typed;
pub mod write_barrier;

mod ethtool;
mod load;
mod log;
mod netlink;
mod shape;
mod skeleton;
mod sys;
mod xdp_features;

pub use sys::object::{ObjectType, PinError};
pub use sys::SysError;

#[cfg(test)]
#[path = "../tests/common/netns.rs"]
pub(crate) mod netns;
