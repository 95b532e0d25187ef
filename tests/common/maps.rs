// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maps that belong to somebody else.

use guideway::kernel::map::{Map, MapKind, MapShape};

/// One that no program of this library has.
pub(crate) fn foreign_map() -> Map {
    let shape = MapShape {
        name: "theirs".into(),
        kind: MapKind::HASH,
        key_size: 4,
        value_size: 8,
        max_entries: 16,
        flags: 0,
    };
    Map::create(&shape, None).expect("a map")
}
