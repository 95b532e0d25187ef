// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a specification to what packets see: [`Egress::compare`](super::Egress::compare) says what would change, and
//! [`Writer::apply`](super::Writer::apply) changes it.

mod compare;
mod error;
mod run;

pub use compare::{Changes, RouteChange, TenantChanges};
pub use error::{ApplyError, CompareError, Part};
pub use run::{Applied, How};
