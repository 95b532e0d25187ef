// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Sizes of Maglev tables, which are primes.

use super::fault::FaultCode;
use super::field::Field;
use super::reader::{Checked, Reader, Report};
use super::scalar::Number;
use crate::maglev::TableSize;

/// The member's value or its default. What is no prime in these bounds is reported with the nearest
/// that are.
pub(crate) fn prime(
    reader: &Reader<'_>,
    field: &Field<Number>,
    (min, max): (u32, u32),
    report: &mut Report,
) -> Checked<TableSize> {
    let number = reader.get(field, report)?;
    let asked = match &number {
        Number::Integer(value) => *value,
        Number::Other(text) if text.starts_with('-') => 0,
        Number::Other(_) => u64::MAX,
    };
    let size = u32::try_from(asked)
        .ok()
        .filter(|size| (min..=max).contains(size));
    if let Some(Ok(size)) = size.map(TableSize::new) {
        return Ok(size);
    }
    let nearest: Vec<String> = neighbours(asked, min, max).map(|p| p.to_string()).collect();
    let nearest = nearest.join(" and ");
    let message = format!("must be a prime from {min} to {max}, got {number} (nearest {nearest})");
    Err(reader.fault(field, FaultCode::Prime, message, report))
}

/// The primes from `min` to `max` next below and next above `n`.
fn neighbours(n: u64, min: u32, max: u32) -> impl Iterator<Item = u32> {
    let is_prime = |p: &u32| TableSize::new(*p).is_ok();
    // Beyond u32 is beyond `max` as well.
    let n = u32::try_from(n).unwrap_or(u32::MAX);
    let below = (min..=max.min(n.saturating_sub(1))).rev().find(is_prime);
    let above = (min.max(n.saturating_add(1))..=max).find(is_prime);
    below.into_iter().chain(above)
}
