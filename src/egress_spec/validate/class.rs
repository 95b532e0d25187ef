// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The classes and their shards.

use std::collections::HashMap;

use super::super::members::{class as members, root, shard};
use super::super::spec::{ClassSpec, Place, ShardSpec};
use super::{limits, next_hop};
use crate::document::fault::FaultCode::{Capacity, Conflict, Duplicate, Range};
use crate::document::origin::Origin;
use crate::document::reader::{all, Checked, Reader, Report};
use crate::document::tree::Node;
use crate::encap::Ecn;
use crate::group::{Class, PinIdle, Settings};
use crate::placement::HashGroup;
use crate::route::Prefix;
use crate::srv6::BaseSid;

/// The classes, as far as they are sound.
pub(super) struct ConfiguredClasses {
    /// Those that are known, NAT66 among them.
    known: Vec<Class>,
    /// Whether a fault may hide another one.
    hidden: bool,
    /// All of them, if there is no fault.
    pub(super) whole: Checked<Vec<ClassSpec>>,
}

impl ConfiguredClasses {
    /// The class whose own prefix this is.
    pub(super) fn of_route(&self, prefix: Prefix) -> Option<Class> {
        let own = |class: &&Class| {
            let (address, bits) = class.prefix();
            prefix.address() == address && prefix.bits() == bits
        };
        self.known.iter().find(own).copied()
    }

    /// Whether a route may lead to the class. One that a fault may hide counts as configured.
    pub(super) fn may_have(&self, class: Class) -> bool {
        self.known.contains(&class) || self.hidden
    }

    /// The classes as messages name them.
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = self.known.iter().map(Class::to_string).collect();
        names.join(", ")
    }
}

/// A class of the document, as far as it is sound.
struct Part<'a> {
    reader: Reader<'a>,
    class: Checked<Class>,
    hash_group: Checked<Option<HashGroup>>,
    whole: Checked<ClassSpec>,
}

pub(super) fn read(
    parent: &Reader<'_>,
    limits: &limits::Part,
    node_ecn: Checked<Ecn>,
    report: &mut Report,
) -> ConfiguredClasses {
    let entries = parent.list(&root::CLASSES, report);
    let nodes = entries.iter().flatten().flat_map(|entries| entries.iter());
    let parts: Vec<_> = nodes
        .map(|(index, node, pointer)| Part::read(node, pointer, index, limits, node_ecn, report))
        .collect();
    let opened = || parts.iter().flatten();
    let mut known: Vec<Class> = opened().flat_map(|part| part.class).collect();
    let hidden = entries.is_err() || known.len() < parts.len();
    unique(opened(), report);

    let whole = all(parts.into_iter().map(|part| part?.whole));
    let mut whole = entries.and(whole);
    if !known.contains(&Class::Nat66) {
        known.insert(0, Class::Nat66);
        whole = whole.and_then(|mut classes| {
            classes.insert(0, nat66_without_shards(node_ecn?));
            Ok(classes)
        });
    }
    let classes = known.len();
    if let Some(groups) = limits
        .groups
        .filter(|&groups| classes as u64 > groups.into())
    {
        let message =
            format!("have {classes} classes, nat66 included, more than limits.groups {groups}");
        parent.fault(&root::CLASSES, Capacity, message, report);
    }
    ConfiguredClasses {
        known,
        hidden,
        whole,
    }
}

/// What NAT66 is where a document does not name it.
fn nat66_without_shards(node_ecn: Ecn) -> ClassSpec {
    ClassSpec {
        class: Class::Nat66,
        hash_group: None,
        settings: Settings {
            ecn_normal: node_ecn == Ecn::Normal,
            ..Settings::default()
        },
        shards: Vec::new(),
        origin: Origin(None),
    }
}

/// What no two classes share: the class itself, and the number that placement hashes.
fn unique<'a>(parts: impl Iterator<Item = &'a Part<'a>> + Clone, report: &mut Report) {
    let mut classes = HashMap::new();
    let mut hash_groups = HashMap::new();
    let nat66 = parts.clone().find(|part| part.class == Ok(Class::Nat66));
    // Unless it says another.
    let nat66_has_default = nat66.is_none_or(|nat66| nat66.hash_group == Ok(None));
    for part in parts {
        if let Ok(class) = part.class {
            let first = *classes.entry(class).or_insert(part);
            if !std::ptr::eq(first, part) {
                let message = format!("{class} is already {}", first.reader.pointer());
                part.reader
                    .fault(&members::CLASS, Duplicate, message, report);
            }
        }
        let Ok(Some(number)) = part.hash_group else {
            continue;
        };
        let first = *hash_groups.entry(number).or_insert(part);
        let HashGroup(shown) = number;
        let message = if !std::ptr::eq(first, part) {
            format!(
                "hash_group {shown} is already used by {}",
                first.reader.pointer()
            )
        } else if matches!(part.class, Ok(Class::Nat64(_)))
            && nat66_has_default
            && number == HashGroup::default()
        {
            format!("hash_group {shown} is that of nat66")
        } else {
            continue;
        };
        part.reader
            .fault(&members::HASH_GROUP, Duplicate, message, report);
    }
}

impl<'a> Part<'a> {
    /// Reads a class.
    fn read(
        node: &'a Node,
        pointer: String,
        index: usize,
        limits: &limits::Part,
        node_ecn: Checked<Ecn>,
        report: &mut Report,
    ) -> Checked<Self> {
        let reader = Reader::open(&members::TABLE, node, pointer, report)?;
        let class = reader.get(&members::CLASS, report);
        let hash_group = reader.optional(&members::HASH_GROUP, report);
        let settings = settings(&reader, node_ecn, report);
        let shards = shards(&reader, limits, report);
        let whole = || -> Checked<ClassSpec> {
            Ok(ClassSpec {
                class: class?,
                hash_group: hash_group?,
                settings: settings?,
                shards: shards?,
                origin: Origin(Some(Place {
                    at: reader.at(),
                    index,
                })),
            })
        };
        let whole = whole();
        Ok(Self {
            reader,
            class,
            hash_group,
            whole,
        })
    }
}

fn settings(reader: &Reader<'_>, node_ecn: Checked<Ecn>, report: &mut Report) -> Checked<Settings> {
    let hash_mode = reader.get(&members::HASH, report);
    let pin_idle = reader.get(&members::PIN_IDLE, report).and_then(|idle| {
        PinIdle::from_secs(idle.as_secs())
            .map_err(|error| reader.fault(&members::PIN_IDLE, Range, error.to_string(), report))
    });
    let reject = reader.get(&members::REJECT, report);
    let ecn = reader.optional(&members::ECN, report);
    if (ecn, node_ecn) == (Ok(Some(Ecn::Compatibility)), Ok(Ecn::Normal)) {
        let message = "compatibility does not undo the normal of encap.ecn";
        reader.fault(&members::ECN, Conflict, message, report);
    }
    Ok(Settings {
        hash_mode: hash_mode?,
        pin_idle: pin_idle?,
        reject: reject?,
        ecn_normal: ecn?.map_or(node_ecn, Ok)? == Ecn::Normal,
    })
}

/// The shards in the order of their SIDs.
fn shards(
    parent: &Reader<'_>,
    limits: &limits::Part,
    report: &mut Report,
) -> Checked<Vec<ShardSpec>> {
    let Some(entries) = parent.list(&members::SHARDS, report)? else {
        return Ok(Vec::new());
    };
    let given = entries.len() as u64;
    // Beyond the ceiling the list is too long whatever the limit.
    let in_bounds = given <= super::super::members::limits::MAX.members.into();
    if let Some(allowed) = limits
        .members
        .filter(|&most| in_bounds && given > most.into())
    {
        let message = format!("has {given} shards, more than limits.members {allowed}");
        parent.fault(&members::SHARDS, Capacity, message, report);
    }
    let mut taken = HashMap::new();
    let shards = entries
        .iter()
        .map(|(index, node, pointer)| shard(node, pointer, index, &mut taken, report));
    let mut shards = all(shards)?;
    shards.sort_by_key(|shard| shard.sid);
    let active = shards.iter().filter(|shard| shard.is_active()).count();
    if let Some(size) = limits
        .table_size
        .filter(|size| in_bounds && active > size.slots())
    {
        let message = format!(
            "has {active} shards for new addresses, more than the slots of a table \
             (limits.table_size {size})",
            size = size.get()
        );
        parent.fault(&members::SHARDS, Capacity, message, report);
    }
    Ok(shards)
}

fn shard(
    node: &Node,
    pointer: String,
    index: usize,
    taken: &mut HashMap<BaseSid, String>,
    report: &mut Report,
) -> Checked<ShardSpec> {
    let reader = Reader::open(&shard::TABLE, node, pointer, report)?;
    let sid = reader.get(&shard::SID, report);
    if let Ok(sid) = sid {
        if let Some(first) = taken.get(&sid) {
            let message = format!("SID {sid} is already that of {first}");
            reader.fault(&shard::SID, Duplicate, message, report);
        } else {
            taken.insert(sid, reader.pointer().to_owned());
        }
    }
    let weight = reader.get(&shard::WEIGHT, report);
    let draining = reader.get(&shard::DRAINING, report);
    let next_hop = next_hop::read(&reader, &shard::NEXT_HOP, report);
    Ok(ShardSpec {
        sid: sid?,
        weight: weight?,
        draining: draining?,
        next_hop: next_hop?,
        origin: Origin(Place {
            at: reader.at(),
            index,
        }),
    })
}
