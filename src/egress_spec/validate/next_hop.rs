// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The way to a shard.

use super::super::members::next_hop as members;
use super::super::spec::NextHopSpec;
use crate::document::field::Field;
use crate::document::reader::{Checked, Reader, Report};

/// The next hop in this member; none where it is null and may be.
pub(super) fn read(
    parent: &Reader<'_>,
    field: &Field<()>,
    report: &mut Report,
) -> Checked<Option<NextHopSpec>> {
    let Some(reader) = parent.object(field, report)? else {
        return Ok(None);
    };
    let interface = reader.get(&members::INTERFACE, report);
    let destination = reader.get(&members::DESTINATION, report);
    let source = reader.optional(&members::SOURCE, report);
    let mtu = reader.optional(&members::MTU, report);
    Ok(Some(NextHopSpec {
        interface: interface?,
        destination: destination?,
        source: source?,
        mtu: mtu?,
    }))
}
