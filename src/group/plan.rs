// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From what is published and what is wanted to the next snapshot.

use super::disruption::Disruption;
use super::error::PlanError;
use super::number::{Generation, GroupId, HighWater, Incarnation, Publication, Slot};
use super::places::Place;
use super::settings::Settings;
use super::slots::{assign, Assigned};
use super::snapshot::{self, Counters, Member, Snapshot, State};
use super::spec::{merge, Candidate, GroupSpec, Keyed, MemberState};
use super::warning::{warnings, Warning};
use super::{Class, Limits};
use crate::placement::{upstream_compatible, HashGroup};
use crate::srv6::{BaseSid, NextHop};

/// What a plan depends on beside what is published and what is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// What the maps have room for.
    pub limits: Limits,
    /// The numbers that this process has used in the group.
    pub high_water: HighWater,
    /// The group's counters by slot; what is missing is zero. They need not be exact: what a slot
    /// counts between this reading and the publication goes to its next member.
    pub counters: &'a [Counters],
    /// The real-time clock in nanoseconds.
    pub now_ns: u64,
    /// Whether what is published is damaged, and `previous` what is [left](Snapshot::salvage) of it: it
    /// is to be written anew even if it is as it should be.
    pub rewrite: bool,
}

/// What a plan does to its group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Nothing: there is nothing to publish.
    Unchanged,
    /// A group that was absent or disabled opens, in a new incarnation.
    Open,
    /// A closing group is open again, in the same incarnation.
    Reopen,
    /// Members or settings change.
    Update,
    /// An open group takes no new routes any more.
    Close,
    /// A closing group forwards no more.
    Disable,
}

/// The next snapshot of a group, and what it does to packets.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    change: Change,
    base: Option<Publication>,
    snapshot: Snapshot,
    high_water: HighWater,
    next: Generation,
    purge: Option<Vec<(Slot, Generation)>>,
    joined: Vec<Member>,
    left: Vec<Member>,
    disruption: Disruption,
    upstream_compatible: bool,
    rewrites_routes: bool,
    moves_unpinned: bool,
    changes_settings: bool,
    repairs: bool,
    warnings: Vec<Warning>,
}

/// Plans what `spec` asks for in the group of `place`, of which `previous` is published.
///
/// A group that is absent or disabled is opened, a closing one is opened again. The order of
/// candidates has no influence.
///
/// # Errors
/// Shards that contradict themselves, more of them than fit, and a group that is not the class's;
/// see [`PlanError`].
pub fn plan(
    previous: Option<&Snapshot>,
    place: &Place,
    spec: &GroupSpec,
    context: &Context<'_>,
) -> Result<GroupPlan, PlanError> {
    if let Some(previous) = previous {
        if previous.group != place.group {
            return Err(PlanError::OtherGroup {
                published: previous.group,
                wanted: place.group,
            });
        }
        if previous.forwards() && previous.class != place.class {
            return Err(PlanError::OtherClass {
                group: previous.group,
                state: previous.state,
                published: previous.class,
                wanted: place.class,
            });
        }
    }
    let wanted = Wanted {
        group: place.group,
        class: place.class,
        hash_group: place.hash_group,
        state: State::Open,
        incarnation: match previous {
            None => Incarnation::FIRST,
            Some(previous) if previous.forwards() => previous.incarnation,
            Some(previous) => previous.incarnation.next(),
        },
        settings: spec.settings,
        ineligible: spec.ineligible.try_into().unwrap_or(u16::MAX),
    };
    let change = match previous.map(|previous| previous.state) {
        None | Some(State::Disabled) => Change::Open,
        Some(State::Closing) => Change::Reopen,
        Some(State::Open) => Change::Update,
    };
    finish(previous, wanted, merge(&spec.candidates)?, change, context)
}

/// Plans new next hops for the members that a group has, and nothing else: the one change that a
/// closing group sees, and one that is safe without knowing which shards there should be.
///
/// `next_hop` says how packets get to a shard; none while nothing reaches it.
///
/// # Errors
/// The group is disabled, or there is no room for what it has.
pub fn track(
    previous: &Snapshot,
    next_hop: impl Fn(BaseSid) -> Option<NextHop>,
    context: &Context<'_>,
) -> Result<GroupPlan, PlanError> {
    let candidates = |member: &Member| Candidate {
        next_hop: next_hop(member.sid),
        ..member.candidate()
    };
    match previous.state {
        State::Disabled => Err(state_error(
            previous,
            "an open or closing group has members",
        )),
        state => again(previous, state, candidates, Change::Update, context),
    }
}

/// Plans that an open group takes no new routes, and changes in nothing else.
///
/// # Errors
/// The group is not open.
pub fn close(previous: &Snapshot, context: &Context<'_>) -> Result<GroupPlan, PlanError> {
    match previous.state {
        State::Open => again(
            previous,
            State::Closing,
            Member::candidate,
            Change::Close,
            context,
        ),
        _ => Err(state_error(previous, "an open group can be closed")),
    }
}

/// Plans that a closing group forwards nothing any more; of a disabled one, nothing.
///
/// It is for the caller to know that no route names the group.
///
/// # Errors
/// The group is open.
pub fn disable(previous: &Snapshot, context: &Context<'_>) -> Result<GroupPlan, PlanError> {
    if previous.state == State::Open {
        return Err(state_error(previous, "a closing group can be disabled"));
    }
    let wanted = Wanted {
        state: State::Disabled,
        settings: Settings::DISABLED,
        ineligible: 0,
        ..Wanted::of(previous)
    };
    finish(Some(previous), wanted, Vec::new(), Change::Disable, context)
}

fn state_error(snapshot: &Snapshot, needed: &'static str) -> PlanError {
    PlanError::State {
        group: snapshot.group,
        class: snapshot.class,
        state: snapshot.state,
        needed,
    }
}

/// Plans the same group in another state or with other candidates.
fn again(
    previous: &Snapshot,
    state: State,
    candidate: impl Fn(&Member) -> Candidate,
    change: Change,
    context: &Context<'_>,
) -> Result<GroupPlan, PlanError> {
    let candidates: Vec<_> = previous.members.iter().map(candidate).collect();
    let wanted = Wanted {
        state,
        ..Wanted::of(previous)
    };
    finish(Some(previous), wanted, merge(&candidates)?, change, context)
}

/// What does not depend on members.
struct Wanted {
    group: GroupId,
    class: Class,
    hash_group: HashGroup,
    state: State,
    incarnation: Incarnation,
    settings: Settings,
    ineligible: u16,
}

impl Wanted {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            group: snapshot.group,
            class: snapshot.class,
            hash_group: snapshot.hash_group,
            state: snapshot.state,
            incarnation: snapshot.incarnation,
            settings: snapshot.settings,
            ineligible: snapshot.ineligible,
        }
    }
}

fn check(
    previous: &[Member],
    wanted: &Wanted,
    candidates: &[Keyed],
    limits: Limits,
) -> Result<(), PlanError> {
    let (group, class) = (wanted.group, wanted.class);
    if let Some(last) = previous.last() {
        if last.slot.get() >= limits.members() {
            return Err(PlanError::SlotBeyondLimit {
                group,
                slot: last.slot.get(),
                members: limits.members(),
            });
        }
    }
    if candidates.len() > limits.members().into() {
        return Err(PlanError::TooManyMembers {
            group,
            class,
            candidates: candidates.len(),
            members: limits.members(),
        });
    }
    let active = |keyed: &&Keyed| keyed.candidate.state() == MemberState::Active;
    let active = candidates.iter().filter(active).count();
    if active > limits.table_size().slots() {
        return Err(PlanError::TableTooSmall {
            group,
            class,
            active,
            size: limits.table_size().get(),
        });
    }
    Ok(())
}

fn finish(
    previous: Option<&Snapshot>,
    wanted: Wanted,
    candidates: Vec<Keyed>,
    change: Change,
    context: &Context<'_>,
) -> Result<GroupPlan, PlanError> {
    let limits = context.limits;
    let published = previous.map_or(Generation::FIRST, |previous| previous.next_slot_generation);
    let continues = previous.filter(|previous| previous.incarnation == wanted.incarnation);
    let before = continues.map_or(&[][..], |continues| &continues.members);
    check(before, &wanted, &candidates, limits)?;
    let Assigned {
        members,
        next,
        wraps,
    } = assign(
        before,
        published,
        context.high_water,
        &candidates,
        limits.members(),
        context.counters,
    );
    let table = snapshot::table(limits.table_size(), &members)?;
    let publication = previous.map(|previous| previous.publication);
    let mut snapshot = Snapshot {
        group: wanted.group,
        class: wanted.class,
        hash_group: wanted.hash_group,
        state: wanted.state,
        incarnation: wanted.incarnation,
        publication: publication.map_or(Publication::FIRST, Publication::next),
        published_ns: context.now_ns,
        next_slot_generation: next,
        settings: wanted.settings,
        ineligible: wanted.ineligible,
        members,
        table: table.slots().into(),
        digest: table.digest(),
    };
    let sound = previous.filter(|_| !context.rewrite);
    let unchanged = sound.filter(|previous| {
        let numbers = Snapshot {
            publication: snapshot.publication,
            published_ns: snapshot.published_ns,
            next_slot_generation: snapshot.next_slot_generation,
            ..(*previous).clone()
        };
        numbers == snapshot
    });
    if let Some(previous) = unchanged {
        snapshot = previous.clone();
    }

    let absent_from = |other: &[Member]| {
        let tenures: Vec<_> = other.iter().map(|m| (m.slot, m.generation)).collect();
        move |member: &&Member| !tenures.contains(&(member.slot, member.generation))
    };
    let joined = snapshot.members.iter().filter(absent_from(before));
    let left = before.iter().filter(absent_from(&snapshot.members));
    let rewrites_routes =
        continues.is_some_and(|continues| continues.hash_group != snapshot.hash_group);
    let moves_unpinned = rewrites_routes
        || continues.is_some_and(|continues| {
            continues.settings.hash_mode != snapshot.settings.hash_mode
                && snapshot.state != State::Disabled
        });
    let purge = wraps && unchanged.is_none();
    Ok(GroupPlan {
        change: match unchanged {
            Some(_) => Change::Unchanged,
            None => change,
        },
        base: publication,
        high_water: context.high_water,
        next,
        purge: purge.then(|| before.iter().map(|m| (m.slot, m.generation)).collect()),
        joined: joined.copied().collect(),
        left: left.copied().collect(),
        disruption: Disruption::between(continues, &snapshot, &table)?,
        upstream_compatible: upstream_compatible(
            limits.table_size(),
            snapshot.members.iter().map(|member| member.weight),
        ),
        rewrites_routes,
        moves_unpinned,
        changes_settings: continues.is_some_and(|before| before.settings != wanted.settings),
        repairs: context.rewrite,
        warnings: warnings(continues, &snapshot, &table),
        snapshot,
    })
}

impl GroupPlan {
    /// What it does.
    #[must_use]
    pub const fn change(&self) -> Change {
        self.change
    }

    /// Whether there is anything to publish.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        !matches!(self.change, Change::Unchanged)
    }

    /// The group.
    #[must_use]
    pub const fn group(&self) -> GroupId {
        self.snapshot.group
    }

    /// The class that it is for.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.snapshot.class
    }

    /// Number of the publication that it was made against; none if the group was absent. It may be
    /// published only while that is in force.
    #[must_use]
    pub const fn base(&self) -> Option<Publication> {
        self.base
    }

    /// What will be published; what is published, if nothing changes.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The mark that it was made with; see [`HighWater::claim`].
    #[must_use]
    pub const fn high_water(&self) -> HighWater {
        self.high_water
    }

    /// The first slot generation that it leaves.
    #[must_use]
    pub const fn next_generation(&self) -> Generation {
        self.next
    }

    /// The slots and generations whose pins stay, if all other pins of the group have to be removed
    /// before this is published: its numbers go into another round.
    #[must_use]
    pub fn purge(&self) -> Option<&[(Slot, Generation)]> {
        self.purge.as_deref()
    }

    /// The members that get a slot.
    #[must_use]
    pub fn joined(&self) -> &[Member] {
        &self.joined
    }

    /// The members that lose theirs. What is pinned to them moves.
    #[must_use]
    pub fn left(&self) -> &[Member] {
        &self.left
    }

    /// What moves in the table.
    #[must_use]
    pub const fn disruption(&self) -> &Disruption {
        &self.disruption
    }

    /// Whether shard groups of datum-cloud/galactic have the same table of these members; see
    /// [`placement::upstream_compatible`](crate::placement::upstream_compatible).
    #[must_use]
    pub const fn upstream_compatible(&self) -> bool {
        self.upstream_compatible
    }

    /// Whether the number that placement hashes for the group changes, so that routes to it have to
    /// be written again after the publication.
    #[must_use]
    pub const fn rewrites_routes(&self) -> bool {
        self.rewrites_routes
    }

    /// Whether all addresses without a pin are placed anew, beyond what moves in the table.
    #[must_use]
    pub const fn moves_unpinned(&self) -> bool {
        self.moves_unpinned
    }

    /// Whether how the group treats packets changes: what it hashes, its pins, what it does with
    /// packets that nobody takes.
    #[must_use]
    pub const fn changes_settings(&self) -> bool {
        self.changes_settings
    }

    /// Whether what is published is damaged, so that it is written anew.
    #[must_use]
    pub const fn repairs(&self) -> bool {
        self.repairs
    }

    /// What may not be meant.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}
