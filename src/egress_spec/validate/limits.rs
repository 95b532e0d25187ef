// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The sizes of the maps.

use super::super::members::{limits as members, root};
use super::super::spec::Limits;
use super::class::ConfiguredClasses;
use crate::document::fault::FaultCode::Range;
use crate::document::prime::prime;
use crate::document::reader::{Checked, Reader, Report};
use crate::group::{self, HashMode};
use crate::maglev::TableSize;

/// The limits as far as they are sound. What depends on the classes is open yet.
pub(super) struct Part {
    /// `None` for a faulty limit, which adds no faults to what it bounds.
    pub(super) groups: Option<u32>,
    pub(super) members: Option<u32>,
    pub(super) table_size: Option<TableSize>,
    tenants: Checked<u32>,
    routes: Checked<u32>,
    whole_groups: Checked<group::Limits>,
    pins: Checked<u32>,
    flow_pins: Checked<Option<u32>>,
    ring_bytes: Checked<u32>,
}

impl Part {
    pub(super) fn read(parent: &Reader<'_>, report: &mut Report) -> Self {
        let reader = match parent.object_or_empty(&root::LIMITS, report) {
            Ok(reader) => reader,
            Err(reported) => {
                return Self {
                    groups: None,
                    members: None,
                    table_size: None,
                    tenants: Err(reported),
                    routes: Err(reported),
                    whole_groups: Err(reported),
                    pins: Err(reported),
                    flow_pins: Err(reported),
                    ring_bytes: Err(reported),
                }
            }
        };
        let tenants = reader.get(&members::TENANTS, report);
        let routes = reader.get(&members::ROUTES, report);
        let groups = reader.get(&members::GROUPS, report);
        let of_group = reader.get(&members::MEMBERS, report);
        let bounds = (members::MIN_TABLE_SIZE, members::MAX.table_size);
        let table_size = prime(&reader, &members::TABLE_SIZE, bounds, report);
        let pins = reader.get(&members::PINS, report);
        let flow_pins = reader.optional(&members::FLOW_PINS_OF, report);
        let ring_bytes = ring_bytes(&reader, report);
        let whole_groups = (|| {
            // The bounds of all three are those of the document.
            group::Limits::new(groups?, of_group?, table_size?)
                .map_err(|error| reader.fault(&members::GROUPS, Range, error.to_string(), report))
        })();
        Self {
            groups: groups.ok(),
            members: of_group.ok(),
            table_size: table_size.ok(),
            tenants,
            routes,
            whole_groups,
            pins,
            flow_pins,
            ring_bytes,
        }
    }

    /// The limits of a node with these classes.
    pub(super) fn whole(self, classes: &ConfiguredClasses) -> Checked<Limits> {
        let mut classes = classes.whole.iter().flatten();
        let default = if classes.any(|class| class.settings.hash_mode == HashMode::Flow) {
            members::FLOW_PINS
        } else {
            members::NO_FLOW_PINS
        };
        Ok(Limits {
            tenants: self.tenants?,
            routes: self.routes?,
            groups: self.whole_groups?,
            pins: self.pins?,
            flow_pins: self.flow_pins?.unwrap_or(default),
            ring_bytes: self.ring_bytes?,
        })
    }
}

fn ring_bytes(reader: &Reader<'_>, report: &mut Report) -> Checked<u32> {
    let bytes = reader.get(&members::RING_BYTES, report)?;
    if bytes.is_power_of_two() {
        return Ok(bytes);
    }
    let message = format!("must be a power of two, got {bytes}");
    Err(reader.fault(&members::RING_BYTES, Range, message, report))
}
