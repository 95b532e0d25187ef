// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Takes pins over into tables of another size.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytemuck::Pod;
use nix::libc;

use super::Pins;
use crate::abi::{self, PinBind, PinState};
use crate::kernel::map::Update;
use crate::kernel::typed::Hash;
use crate::kernel::SysError;
use crate::route::TableId;

/// What became of the pins of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Copied {
    /// Taken over as they were.
    pub copied: u64,
    /// The other table had a pin of the same holder already, which stays.
    pub present: u64,
    /// The other table had no room for them.
    pub refused: u64,
    /// About to be deleted, and not taken over.
    pub dead: u64,
    /// By tenant, how many of its pins were refused or dead: where both tables share the counts of
    /// tenants' pins, those are too high by as many.
    pub left: BTreeMap<TableId, u64>,
}

/// Takes all live pins of both kinds over into the tables of `to`. Those of `from` stay as they are, and
/// so do the counts of pins per tenant.
///
/// Whatever packets bind in `from` meanwhile may be missed: they should not be using it any more.
///
/// # Errors
/// The kernel refuses to read, or to write for another reason than want of room. What was copied by then
/// stays.
pub fn copy(from: &Pins, to: &Pins) -> Result<Copied, SysError> {
    let mut copied = Copied::default();
    copy_table(&from.sources, &to.sources, |key| key.table_id, &mut copied)?;
    copy_table(&from.flows, &to.flows, |key| key.table_id, &mut copied)?;
    Ok(copied)
}

fn copy_table<K: Pod>(
    from: &Hash<K, abi::Pin>,
    to: &Hash<K, abi::Pin>,
    table_of: fn(&K) -> u32,
    copied: &mut Copied,
) -> Result<(), SysError> {
    let mut failure = None;
    from.for_each(|key, pin| {
        let table = TableId::new(table_of(key));
        let state = u32::from((pin.bind >> PinBind::GW_PIN_STATE_SHIFT.0) as u8);
        let counter = if state != PinState::GW_PIN_LIVE.0 {
            &mut copied.dead
        } else {
            match to.update(key, pin, Update::Insert) {
                Ok(()) => {
                    copied.copied += 1;
                    return ControlFlow::Continue(());
                }
                Err(error) if error.errno == libc::EEXIST => {
                    copied.present += 1;
                    return ControlFlow::Continue(());
                }
                Err(error) if error.errno == libc::E2BIG => &mut copied.refused,
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
        };
        *counter += 1;
        *copied.left.entry(table).or_default() += 1;
        ControlFlow::Continue(())
    })?;
    failure.map_or(Ok(()), Err)
}
