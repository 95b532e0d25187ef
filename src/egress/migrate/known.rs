// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an older version of this library would not understand of an instance.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use crate::abi::RouteKind;
use crate::egress::Egress;
use crate::kernel::statedir::AbiVersion;
use crate::kernel::SysError;

/// The first version of the layout.
const FIRST: AbiVersion = AbiVersion { major: 2, minor: 0 };

/// Each kind of route, and the version of the layout since which programs know it.
const KINDS: [(RouteKind, &str, AbiVersion); 4] = [
    (RouteKind::GW_ROUTE_PASS, "pass", FIRST),
    (RouteKind::GW_ROUTE_SHARD, "shard", FIRST),
    (RouteKind::GW_ROUTE_GROUP, "group", FIRST),
    (RouteKind::GW_ROUTE_BLOCK, "block", FIRST),
];

/// Routes that a version drops the packets of, as it does not know what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownRoutes {
    /// Their kind.
    pub kind: String,
    /// How many there are.
    pub routes: u64,
}

impl fmt::Display for UnknownRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of kind {}", self.routes, self.kind)
    }
}

/// Of routes that were counted by the number of their kind, those that a version does not know.
pub fn unknown_to(version: AbiVersion, counted: &BTreeMap<u8, u64>) -> Vec<UnknownRoutes> {
    let unknown = counted.iter().filter_map(|(&number, &routes)| {
        let known = KINDS.iter().find(|(kind, ..)| kind.0 == u32::from(number));
        let kind = match known {
            Some((.., since)) if *since <= version => return None,
            Some((_, name, _)) => (*name).to_owned(),
            None => number.to_string(),
        };
        Some(UnknownRoutes { kind, routes })
    });
    unknown.collect()
}

impl Egress {
    /// How many routes there are of each kind, by its number.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn route_kinds(&self) -> Result<BTreeMap<u8, u64>, SysError> {
        let mut kinds = BTreeMap::new();
        self.for_each_route_as_it_is(|_, row| {
            *kinds.entry(row.kind).or_default() += 1;
            ControlFlow::Continue(())
        })?;
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_knows_the_kinds_that_came_with_it_or_before() {
        let counted = BTreeMap::from([(2, 5), (3, 7), (9, 1)]);
        let texts = |version| -> Vec<String> {
            let unknown = unknown_to(version, &counted);
            unknown.iter().map(ToString::to_string).collect()
        };
        let older = AbiVersion { major: 1, minor: 9 };
        assert_eq!(
            texts(older),
            ["5 of kind shard", "7 of kind group", "1 of kind 9"]
        );
        assert_eq!(texts(AbiVersion::EGRESS), ["1 of kind 9"]);
        let newer = AbiVersion { major: 2, minor: 7 };
        assert_eq!(texts(newer), ["1 of kind 9"]);
        assert_eq!(unknown_to(older, &BTreeMap::new()), []);
    }

    #[test]
    fn every_kind_of_route_is_listed() {
        let listed = KINDS.map(|(kind, ..)| kind.0);
        let last = RouteKind::GW_ROUTE_BLOCK.0;
        assert_eq!(listed.to_vec(), (1..=last).collect::<Vec<_>>());
        assert!(KINDS.iter().all(|(.., since)| *since <= AbiVersion::EGRESS));
    }
}
