// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is not as it should be with the egress of a node.

use std::fmt;

use serde::Serialize;

use crate::document::choice::choice;
use crate::document::severity::Severity;
use crate::egress::error::PUBLISH;
use crate::error::NOT_OURS;

choice! {
    /// Machine name of a finding.
    #[non_exhaustive]
    pub enum FindingCode {
        /// No configuration is published: packets pass untouched.
        NoConfiguration = "no-configuration",
        /// No member of a group takes new addresses: packets without a pin are dropped.
        NobodyActive = "nobody-active",
        /// Fewer members of a group take new addresses than its loop is told to have at least.
        BelowMinimum = "below-minimum",
        /// No group forwards for a class that tenants should have, or in ordered mode no shard is reached.
        UnservedClass = "unserved-class",
        /// The loop holds no current list of shards: members stay as they are.
        Unsynced = "unsynced",
        /// The loop has not done its work for a while: what changes is not followed.
        StaleSweep = "stale-sweep",
        /// The last sweep of the loop failed; the next one tries again.
        FailingSweep = "failing-sweep",
        /// The kernel lacks what the datapath goes without, or makes do with something else.
        MissingFeature = "missing-feature",
        /// Nothing reaches a member.
        UnreachableShard = "unreachable-shard",
        /// A group waits to be disabled.
        ClosingGroup = "closing-group",
        /// Two groups forward for one class.
        DuplicateClass = "duplicate-class",
        /// What is published of a group is damaged, or cannot be read.
        DamagedGroup = "damaged-group",
        /// Routes lead to a group that is gone: their packets are dropped.
        DeadRoutes = "dead-routes",
        /// Rows that no writer of this library makes.
        UnknownRows = "unknown-rows",
        /// The program is not on an interface of a tenant.
        NotAttached = "not-attached",
        /// The program is on an interface of a tenant through a link that has lost its pin.
        UnpinnedLink = "unpinned-link",
        /// An interface of a tenant, or one to a shard, does not exist.
        NoInterface = "no-interface",
        /// An interface of a tenant is down.
        InterfaceDown = "interface-down",
        /// An interface of a tenant brings packets that are too long to be encapsulated.
        LargeSegments = "large-segments",
        /// An interface to shards is down, or has no carrier: what is sent there is lost.
        UplinkDown = "uplink-down",
        /// The program is on an interface that is no tenant's.
        AttachedForNobody = "attached-for-nobody",
        /// Routes or pins of a tenant without an interface.
        AbandonedTenant = "abandoned-tenant",
        /// The count of a tenant's pins is not that of its pins.
        PinDrift = "pin-drift",
        /// A table of pins fills up.
        PinsFill = "pins-fill",
        /// A tenant has as many pins as it may have.
        QuotaReached = "quota-reached",
        /// A migration was interrupted, and nobody has ended it.
        InterruptedMigration = "interrupted-migration",
        /// The maps are of an older layout.
        OlderLayout = "older-layout",
        /// The program was loaded by another build of the library than the one that looks.
        OtherBuild = "other-build",
        /// An exchange of the program has come to some interfaces only, or is under way.
        OpenExchange = "open-exchange",
        /// What is published has lost its pin. Packets go on by it.
        LostPin = "lost-pin",
        /// Published rows were lost, and nobody has published since.
        LostRows = "lost-rows",
        /// Somebody else's program or link is pinned in the place of one of the instance's.
        ForeignPin = "foreign-pin",
        /// The program met what it never should.
        Internal = "internal",
    }
}

impl FindingCode {
    /// How bad it is.
    pub const fn severity(self) -> Severity {
        match self {
            Self::FailingSweep
            | Self::MissingFeature
            | Self::UnreachableShard
            | Self::ClosingGroup
            | Self::InterfaceDown
            | Self::LargeSegments
            | Self::AttachedForNobody
            | Self::AbandonedTenant
            | Self::PinsFill
            | Self::QuotaReached
            | Self::OtherBuild
            | Self::OpenExchange
            | Self::OlderLayout => Severity::Warning,
            Self::NoConfiguration
            | Self::NobodyActive
            | Self::BelowMinimum
            | Self::UnservedClass
            | Self::Unsynced
            | Self::StaleSweep
            | Self::DuplicateClass
            | Self::DamagedGroup
            | Self::DeadRoutes
            | Self::UnknownRows
            | Self::NotAttached
            | Self::UnpinnedLink
            | Self::NoInterface
            | Self::UplinkDown
            | Self::PinDrift
            | Self::InterruptedMigration
            | Self::LostPin
            | Self::LostRows
            | Self::ForeignPin
            | Self::Internal => Severity::Error,
        }
    }

    /// What to do about it; nothing where that depends.
    const fn remedy(self) -> Option<&'static str> {
        match self {
            // A specification says which groups there are, too: those that a loop keeps would go.
            Self::NoConfiguration | Self::LostPin => Some(PUBLISH),
            Self::DeadRoutes => Some(
                "apply the specification again; beside egressd run: its next sweep mends its own, those \
                 of others are for who wrote them",
            ),
            Self::DuplicateClass => Some(
                "apply the specification again; beside egressd run: its next sweep ends all but one",
            ),
            Self::ClosingGroup => Some(
                "apply the specification again; beside egressd run: it ends by itself when no route of \
                 others leads to it",
            ),
            Self::LostRows => Some(
                "apply the specification again; beside egressd run: attach its interfaces again",
            ),
            Self::NotAttached | Self::UnpinnedLink => Some(
                "apply the specification again; beside egressd run: attach it, or detach --interface",
            ),
            Self::AttachedForNobody => Some(
                "apply the specification again; beside egressd run: detach --interface, or attach it",
            ),
            Self::AbandonedTenant => Some(
                "apply the specification again; beside egressd run: detach --tenant, or attach an \
                 interface",
            ),
            Self::NoInterface => Some(
                "apply a specification that names interfaces which are there; beside egressd run: attach \
                 the interface that took its place, or detach --interface with its index",
            ),
            Self::StaleSweep => Some("see whether egressd run goes on, and what it says"),
            Self::InterruptedMigration => Some("migrate, apply or run ends it"),
            Self::OlderLayout => Some("migrate, without limits, brings it to this version"),
            Self::OtherBuild => Some("upgrade it, or use the tool of its build"),
            Self::ForeignPin => Some(NOT_OURS),
            Self::OpenExchange => Some("upgrade again, or rollback"),
            Self::PinDrift => Some("pins --expire makes the count right"),
            Self::PinsFill => Some("pins --expire removes those that nobody uses"),
            Self::NobodyActive
            | Self::BelowMinimum
            | Self::UnservedClass
            | Self::Unsynced
            | Self::FailingSweep
            | Self::MissingFeature
            | Self::UnreachableShard
            | Self::DamagedGroup
            | Self::UnknownRows
            | Self::InterfaceDown
            | Self::LargeSegments
            | Self::UplinkDown
            | Self::QuotaReached
            | Self::Internal => None,
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Finding {
    /// Machine name.
    pub code: FindingCode,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a class, a tenant, an interface.
    pub object: String,
    /// What is the matter.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<&'static str>,
}

impl Finding {
    pub(super) fn new(
        code: FindingCode,
        object: impl fmt::Display,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity: code.severity(),
            object: object.to_string(),
            message: message.into(),
            remedy: code.remedy(),
        }
    }
}
