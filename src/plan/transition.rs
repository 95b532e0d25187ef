// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What becomes of the slots of live services.

use std::collections::BTreeMap;
use std::time::Duration;

use super::generation::PlacedBackend;
use super::live::Live;
use super::place::{looks_for_exact, Placed};
use super::record::ServiceRecord;
use super::world::World;
use super::Options;
use crate::affinity::rules::{Slot, SlotKind};
use crate::affinity::{advance, rounded, SlotChange, Slots};
use crate::service::{BackendState, Fault, FaultCode, Routing, Service, Spec, Tracking};

/// What a window is longer than the longest time that a flow may be silent: entries note the time
/// of a packet by the second, and clocks are read by the tick.
const MARGIN: Duration = Duration::from_secs(2);

/// For how long slots of a service stay open, in nanoseconds: longer than every time that it lets a
/// flow be silent.
pub(super) fn window_ns(service: &Service, record: &ServiceRecord) -> u64 {
    window(service, looks_for_exact(service, record))
}

/// The same where nobody registered or imported connection IDs.
pub(super) fn default_window_ns(service: &Service) -> u64 {
    let learned = service.reads_quic() && service.quic.routing == Routing::Learned;
    window(service, learned)
}

/// The same if packets were found by their flow alone: for so long an entry of a flow stays that is
/// silent from its first packet on.
pub(super) fn flow_window_ns(service: &Service) -> u64 {
    window(service, false)
}

fn window(service: &Service, exact: bool) -> u64 {
    let silent = if exact {
        service.flow_idle.max(service.cid_idle)
    } else {
        service.flow_idle
    };
    u64::try_from((silent + MARGIN).as_nanos()).unwrap_or(u64::MAX)
}

/// A change of a live instance.
#[derive(Clone, Copy)]
pub(super) struct Transition<'a> {
    pub(super) live: &'a Live,
    pub(super) before: &'a Placed,
    pub(super) spec: &'a Spec,
    pub(super) world: &'a World,
    /// Leave marks that could go: services whose slots are alike stay alike, and share memory.
    pub(super) hold_back: bool,
}

impl Transition<'_> {
    /// The slots of a service after the change, from their owners.
    pub(super) fn slots(&self, service: &Service, record: &ServiceRecord, owners: &[u16]) -> Slots {
        self.tracked(service, record, owners, service.tracking)
    }

    /// As if flows were tracked in this way afterwards.
    fn tracked(
        &self,
        service: &Service,
        record: &ServiceRecord,
        owners: &[u16],
        after: Tracking,
    ) -> Slots {
        let found = self.before.service(service.id);
        let before = self.live.record.service(record.id);
        let (Some((old, _, slots)), Some(before)) = (found, before) else {
            return self.newcomers(record, owners, after);
        };
        if self.hashes_anew(old, service) {
            // No entry is found under the new hash, and every flow has another slot.
            return Slots::plain(owners);
        }
        let state = self.live.flow_state.service(record.id);
        let refused_ns = state.and_then(|state| state.refused_ns);
        let sweep = state.and_then(|state| state.sweep.as_ref());
        advance(
            slots,
            &SlotChange {
                owners,
                removed: &before.rows_removed(record),
                now_ns: self.world.monotonic_ns,
                returned_ns: self.live.flow_state.returned_ns,
                // What was promised to flows under the longer time holds for this change.
                window_ns: window_ns(old, before).max(window_ns(service, record)),
                refused_ns: if self.hold_back {
                    Some(self.world.monotonic_ns)
                } else {
                    refused_ns
                },
                differing: sweep
                    .filter(|_| !self.hold_back)
                    .map(|sweep| &sweep.differing),
                before: old.tracking,
                after,
            },
        )
    }

    /// The slots of a service that is not live. One that was, and has its backends again, finds the
    /// entries again that no sweep has met since: its flows may be where those say.
    fn newcomers(&self, record: &ServiceRecord, owners: &[u16], after: Tracking) -> Slots {
        let mut retired = self.live.record.retired.iter();
        let returns = retired.any(|retired| {
            let backend = record.backend(retired.identity.id);
            retired.service == record.id
                && backend.is_some_and(|backend| backend.incarnation == retired.incarnation)
        });
        match after {
            Tracking::Exceptions if returns => Slots::held(owners),
            _ => Slots::plain(owners),
        }
    }

    /// The services of which some window ends with the change, each with its length: it must not if
    /// an insert was refused meanwhile.
    pub(super) fn closes(&self, after: &Placed, records: &[ServiceRecord]) -> BTreeMap<u32, u64> {
        let services = after.generation.services().zip(&after.slots).zip(records);
        let closing = services.filter_map(|(((service, _), slots), record)| {
            let (old, _, old_slots) = self.before.service(service.id)?;
            let before = self.live.record.service(record.id)?;
            let resized = old_slots.words().len() != slots.words().len();
            if resized || old_slots.openings().is_empty() {
                return None;
            }
            let removed = before.rows_removed(record);
            let mut words = old_slots.words().iter().zip(slots.words().iter());
            let closes = words.any(|(old, new)| {
                match (Slot::from_abi(*old).kind, Slot::from_abi(*new).kind) {
                    (SlotKind::Open { base }, SlotKind::Held | SlotKind::Plain) => {
                        base != new.owner && !removed.contains(&base)
                    }
                    _ => false,
                }
            });
            let window_ns = window_ns(old, before).max(window_ns(service, record));
            closes.then_some((record.id, window_ns))
        });
        closing.collect()
    }

    /// Whether flows get other slots, whatever the table.
    pub(super) fn hashes_anew(&self, old: &Service, new: &Service) -> bool {
        self.live.spec.hash_seed() != self.spec.hash_seed() || old.hash != new.hash
    }

    /// The fault of services that are to track all flows while slots are open: flows without an
    /// entry would move.
    pub(super) fn open_slots(
        &self,
        after: &Placed,
        records: &[ServiceRecord],
        options: Options,
    ) -> Vec<Fault> {
        let services = after.generation.services();
        let switched = services.filter(|(service, _)| {
            let old = self.before.service(service.id);
            service.tracking == Tracking::All
                && old.is_some_and(|(old, ..)| old.tracking == Tracking::Exceptions)
        });
        let faults = switched.filter(|_| !options.disruptive);
        faults
            .filter_map(|(service, placed)| {
                let id = service.id.get();
                let record = records.iter().find(|record| record.id == id)?;
                let owners = placed.table.slots();
                let slots = self.tracked(service, record, owners, Tracking::Exceptions);
                let open = slots.count().open;
                let window_ns = window_ns(service, record);
                let until = Until::of(&slots, window_ns, self.world.monotonic_ns)?;
                let message = match until {
                    Until::Open { seconds } => format!(
                        "{open} slots are open for another {seconds}s, and flows in them may have \
                         no entry yet: change the tracking then, or confirm with --disruptive"
                    ),
                    Until::Opens { seconds } => format!(
                        "the change would open slots ({open} open then): change the tracking \
                         first, or {seconds}s after it, or confirm with --disruptive"
                    ),
                };
                let pointer = format!("{}/tracking", service.pointer());
                Some(Fault::new(pointer, FaultCode::Disruptive, message))
            })
            .collect()
    }
}

impl Transition<'_> {
    /// The fault of services that have begun to track all flows a short while ago: flows that were
    /// silent since have no entry yet, and would move with their slots.
    pub(super) fn too_early(&self, after: &Placed, options: Options) -> Vec<Fault> {
        let services = after.generation.services().zip(&after.slots);
        let services = services.filter(|_| !options.disruptive);
        let faults = services.filter_map(|((service, placed), slots)| {
            let (old, old_placed, old_slots) = self.before.service(service.id)?;
            let before = self.live.record.service(service.id.get())?;
            let all = [old.tracking, service.tracking] == [Tracking::All; 2];
            // A table of another size has a fault of its own.
            if !all
                || old.maglev_table_size != service.maglev_table_size
                || !before.was_tracked_otherwise
                || is_tracked(self.live, old, before, self.world)
            {
                return None;
            }
            // Flows of a backend that is gone or dead are lost whatever happens.
            let keeps = |row| {
                let backend = placed.backend(row);
                backend.is_some_and(|backend| backend.state != BackendState::Unhealthy)
            };
            // Who has died must go at once, though it moves slots of others as well.
            let has_died = |backend: &PlacedBackend| {
                let is_dead = |backend: &PlacedBackend| backend.state == BackendState::Unhealthy;
                let old = old_placed.backend_by_id(backend.id);
                is_dead(backend) && old.is_some_and(|old| !is_dead(old))
            };
            if placed.rows.iter().flatten().any(has_died) {
                return None;
            }
            let words = old_slots.words().iter().zip(slots.words().iter());
            let moved = words.filter(|(old, new)| old.owner != new.owner && keeps(old.owner));
            let moved = moved.count();
            let rest_ns = tracked_in_ns(self.live, old, before, self.world);
            (moved > 0).then(|| {
                Fault::new(
                    format!("{}/backends", service.pointer()),
                    FaultCode::Disruptive,
                    format!(
                        "{moved} slots would move, and flows that were silent since tracking \
                         became \"all\" have no entry yet: wait {}s, or confirm with --disruptive",
                        rest_ns.div_ceil(1_000_000_000)
                    ),
                )
            })
        });
        faults.collect()
    }
}

/// When the next window of a service is over, on the monotonic clock, if no insert is refused until
/// then; none if no slot is open.
pub(super) fn closes_ns(
    live: &Live,
    service: &Service,
    record: &ServiceRecord,
    now_ns: u64,
) -> Option<u64> {
    let window_ns = window_ns(service, record);
    let opened = record.marks.openings().iter();
    let first = opened.map(|opened| rounded(live.settled(*opened, now_ns), window_ns));
    let state = live.flow_state.service(record.id);
    let refused_ns = state.and_then(|state| state.refused_ns).unwrap_or(0);
    Some(first.min()?.max(refused_ns).saturating_add(window_ns))
}

/// Whether every live flow of a service has had an entry for as long as it may be silent.
pub(super) fn is_tracked(
    live: &Live,
    service: &Service,
    record: &ServiceRecord,
    world: &World,
) -> bool {
    service.tracking == Tracking::All && tracked_in_ns(live, service, record, world) == 0
}

/// In how many nanoseconds a service that tracks all flows has tracked them for long enough.
pub(super) fn tracked_in_ns(
    live: &Live,
    service: &Service,
    record: &ServiceRecord,
    world: &World,
) -> u64 {
    let since = live.settled(record.tracking_since_ns, world.monotonic_ns);
    let until = since.saturating_add(window_ns(service, record));
    until.saturating_sub(world.monotonic_ns)
}

/// Until when slots are open.
pub(super) enum Until {
    /// Some open with the change, and stay open for so long after it.
    Opens {
        /// Whole seconds.
        seconds: u64,
    },
    /// Those that are open are so for that long.
    Open {
        /// Whole seconds.
        seconds: u64,
    },
}

impl Until {
    /// None if no slot is open. Refused inserts may make it later.
    pub(super) fn of(slots: &Slots, window_ns: u64, now_ns: u64) -> Option<Self> {
        let opens = slots.openings().iter().any(Option::is_none);
        let openings = slots.openings().iter();
        let last = openings.map(|opened| opened.unwrap_or(now_ns)).max()?;
        let rest = last.saturating_add(window_ns).saturating_sub(now_ns);
        let seconds = rest.div_ceil(1_000_000_000);
        Some(if opens {
            Self::Opens { seconds }
        } else {
            Self::Open { seconds }
        })
    }

    /// Whole seconds from now.
    pub(super) fn seconds(&self) -> u64 {
        match self {
            Self::Opens { seconds } | Self::Open { seconds } => *seconds,
        }
    }
}
