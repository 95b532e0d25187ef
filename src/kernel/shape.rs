// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The shape of a map, and the check that a map has the one it should have.

use std::fmt;

/// The kind of a map, by the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapKind(pub u32);

macro_rules! map_kinds {
    ($($(#[$doc:meta])* $name:ident = $value:ident, $text:literal;)+) => {
        impl MapKind {
            $($(#[$doc])* pub const $name: Self = Self(libbpf_sys::$value);)+
        }

        impl fmt::Display for MapKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.write_str($text),)+
                    Self(number) => write!(f, "map type {number}"),
                }
            }
        }
    };
}

map_kinds! {
    /// Hash table.
    HASH = BPF_MAP_TYPE_HASH, "hash";
    /// Array.
    ARRAY = BPF_MAP_TYPE_ARRAY, "array";
    /// Hash table with a value per CPU.
    PERCPU_HASH = BPF_MAP_TYPE_PERCPU_HASH, "percpu_hash";
    /// Array with a value per CPU.
    PERCPU_ARRAY = BPF_MAP_TYPE_PERCPU_ARRAY, "percpu_array";
    /// LRU hash table with a value per CPU.
    LRU_PERCPU_HASH = BPF_MAP_TYPE_LRU_PERCPU_HASH, "lru_percpu_hash";
    /// Programs to tail-call.
    PROG_ARRAY = BPF_MAP_TYPE_PROG_ARRAY, "prog_array";
    /// Array of maps.
    ARRAY_OF_MAPS = BPF_MAP_TYPE_ARRAY_OF_MAPS, "array_of_maps";
    /// Values by prefix, the longest first.
    LPM_TRIE = BPF_MAP_TYPE_LPM_TRIE, "lpm_trie";
    /// Redirect targets by position.
    DEVMAP = BPF_MAP_TYPE_DEVMAP, "devmap";
    /// Redirect targets by key.
    DEVMAP_HASH = BPF_MAP_TYPE_DEVMAP_HASH, "devmap_hash";
    /// Ring buffer.
    RINGBUF = BPF_MAP_TYPE_RINGBUF, "ringbuf";
}

impl fmt::Debug for MapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What must be equal for one map to stand for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapShape {
    /// Name as the kernel lists it, at most 15 bytes.
    pub name: String,
    /// Kind of map.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value, of one CPU where there is one per CPU.
    pub value_size: u32,
    /// Number of entries, bytes for a ring buffer.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// One property in which a map differs from what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The property.
    pub property: &'static str,
    /// The value it should have.
    pub expected: String,
    /// The value it has.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, not {}",
            self.property, self.found, self.expected
        )
    }
}

/// A map of another shape than expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object} is another map: {}", join(differences))]
#[non_exhaustive]
pub struct ShapeError {
    /// Path or name of the map.
    pub object: String,
    /// All that differs; never empty.
    pub differences: Vec<Difference>,
}

fn join(differences: &[Difference]) -> String {
    differences
        .iter()
        .map(Difference::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl MapShape {
    /// Compares with the shape that `object` should have.
    pub fn check(&self, expected: &Self, object: impl fmt::Display) -> Result<(), ShapeError> {
        let mut differences = Vec::new();
        let mut compare = |property, found: &dyn fmt::Display, expected: &dyn fmt::Display| {
            let (found, expected) = (found.to_string(), expected.to_string());
            if found != expected {
                differences.push(Difference {
                    property,
                    expected,
                    found,
                });
            }
        };
        compare("type", &self.kind, &expected.kind);
        compare("name", &self.name, &expected.name);
        compare("key size", &self.key_size, &expected.key_size);
        compare("value size", &self.value_size, &expected.value_size);
        compare(
            "number of entries",
            &self.max_entries,
            &expected.max_entries,
        );
        let flags = |shape: &Self| format!("{:#x}", shape.kernel_flags());
        compare("flags", &flags(self), &flags(expected));
        if differences.is_empty() {
            return Ok(());
        }
        Err(ShapeError {
            object: object.to_string(),
            differences,
        })
    }

    /// The flags as the kernel reports them: it makes every device map read-only to programs.
    fn kernel_flags(&self) -> u32 {
        match self.kind {
            MapKind::DEVMAP | MapKind::DEVMAP_HASH => self.flags | libbpf_sys::BPF_F_RDONLY_PROG,
            _ => self.flags,
        }
    }
}
