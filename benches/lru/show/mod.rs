// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Runs the measurements, prints them, and says what they mean for the claims.

pub(crate) mod costs;
pub(crate) mod filling;
pub(crate) mod floods;
pub(crate) mod signals;
