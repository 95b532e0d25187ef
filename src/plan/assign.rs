// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Rows, incarnations and counters: what a backend keeps from generation to generation.

use std::collections::{BTreeMap, BTreeSet};

use super::live::Live;
use super::marks::Marks;
use super::record::{BackendRecord, Fold, Identity, QuarantinedId, RetiredBackend, ServiceRecord};
use super::world::World;
use super::Options;
use crate::abi;
use crate::service::{
    Backend, Fault, FaultCode, Routing, Service, Spec, Tracking, Warning, WarningCode,
};

pub(super) const SERVICE_STATS: u32 = abi::Limit::GW_MAX_SERVICE_STATS.0;
pub(super) const BACKEND_STATS: u32 = abi::Limit::GW_MAX_BACKEND_STATS.0;
pub(super) const ROWS: u16 = abi::Limit::GW_MAX_BACKENDS.0 as u16;
/// For how long a removed backend without server IDs may come back as itself.
const RETURN_NS: u64 = 3_600_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Everything decided about identities, in the order of the specification's services.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    pub(super) services: Vec<ServiceRecord>,
    pub(super) retired: Vec<RetiredBackend>,
    pub(super) quarantine: Vec<QuarantinedId>,
    pub(super) folds: Vec<Fold>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Warning>,
}

impl Assignment {
    /// The highest incarnation of a backend.
    pub(super) fn highest_incarnation(&self) -> u32 {
        let backends = self.services.iter().flat_map(|service| &service.backends);
        backends
            .map(|backend| backend.incarnation)
            .max()
            .unwrap_or(0)
    }
}

/// Gives every backend of `spec` its row, incarnation and counters, continuing `live`.
///
/// Interface indices, source addresses and marks of slots are left empty.
pub(super) fn assign(
    live: Option<&Live>,
    spec: &Spec,
    options: Options,
    world: &World,
) -> Assignment {
    let now_ns = world.boot_ns;
    let mut assignment = Assignment::default();
    let base = live.map(|live| &live.record);
    let mut service_stats = Indices::new(
        SERVICE_STATS,
        base.iter()
            .flat_map(|record| &record.services)
            .map(|service| service.stats),
    );
    // Counters of backends that left with the last publication may still wait to be added to
    // their services'.
    let mut backend_stats = Indices::new(
        BACKEND_STATS,
        base.iter().flat_map(|record| {
            let live = record.services.iter().flat_map(|service| &service.backends);
            let folding = record.folds.iter().map(|fold| fold.backend_stats);
            live.map(|backend| backend.stats).chain(folding)
        }),
    );
    let mut incarnation = live.map_or(0, |live| live.incarnation_mark);

    let (retired, quarantine) = leaving(live, spec, now_ns);
    let (mut services_over, mut backends_over, mut incarnations_over) = (0, 0, 0);
    for service in spec.services() {
        let before = base.and_then(|record| record.service(service.id.get()));
        let Some(stats) = before
            .map(|before| before.stats)
            .or_else(|| service_stats.take())
        else {
            services_over += 1;
            continue;
        };
        let left: Vec<_> = retired
            .iter()
            .filter(|retired| retired.service == service.id.get())
            .collect();
        let mut rows = Rows::new(service, before, &left);
        let mut backends = Vec::with_capacity(service.backends.len());
        let mut newcomers = Vec::new();
        let mut rows_over = 0;
        for backend in &service.backends {
            if let Some(kept) = before.and_then(|before| before.backend(backend.id.get())) {
                backends.push(BackendRecord {
                    ifindex: 0,
                    source_mac: None,
                    ..*kept
                });
            } else if let Some(stats) = backend_stats.take() {
                let back = left.iter().find(|retired| returns(retired, backend));
                let back = back.filter(|back| rows.claim(back.row));
                newcomers.push((
                    backend,
                    stats,
                    back.map(|back| (back.row, back.incarnation)),
                ));
            } else {
                backends_over += 1;
            }
        }
        // Only now: a newcomer must not take the row that a returning backend finds free.
        for (backend, stats, back) in newcomers {
            let place = match back {
                Some(back) => Some(back),
                None => match (rows.take(), incarnation.checked_add(1)) {
                    (None, _) => {
                        rows_over += 1;
                        None
                    }
                    (_, None) => {
                        incarnations_over += 1;
                        None
                    }
                    (Some(row), Some(next)) => {
                        incarnation = next;
                        Some((row, next))
                    }
                },
            };
            let Some((row, incarnation)) = place else {
                continue;
            };
            backends.push(BackendRecord {
                id: backend.id.get(),
                row,
                incarnation,
                stats,
                ifindex: 0,
                source_mac: None,
            });
        }
        let pointer = format!("{}/backends", service.pointer());
        assignment
            .faults
            .extend(full(&pointer, "rows of backends", ROWS.into(), rows_over));
        backends.sort_unstable_by_key(|backend| backend.id);
        if let Some(before) = before {
            assignment.folds.extend(
                before
                    .backends
                    .iter()
                    .filter(|old| service.backends.iter().all(|new| new.id.get() != old.id))
                    .map(|old| Fold {
                        backend_stats: old.stats,
                        service_stats: stats,
                    }),
            );
        }
        assignment.services.push(ServiceRecord {
            id: service.id.get(),
            stats,
            backends,
            since_ns: before.map_or(0, |before| before.since_ns),
            exact: before.is_some_and(|before| before.exact)
                || live.is_some_and(|live| {
                    live.exact.contains(&service.id.get()) || leaves_learned(live, service)
                }),
            tracking_since_ns: tracking_since(live, before, service, world),
            was_tracked_otherwise: before.is_some_and(|before| {
                before.was_tracked_otherwise
                    || tracked_before(live, service) != Some(service.tracking)
            }),
            grace_until_ns: before.map_or(0, |before| before.grace_until_ns),
            marks: Marks::default(),
        });
    }

    assignment.faults.extend(
        [
            ("services", SERVICE_STATS, services_over),
            (
                "backends of all services together",
                BACKEND_STATS,
                backends_over,
            ),
            ("incarnations", u32::MAX, incarnations_over),
        ]
        .into_iter()
        .filter_map(|(what, limit, over)| full("/services", what, limit, over)),
    );

    let quarantine = check_quarantine(spec, quarantine, options, now_ns, &mut assignment);
    assignment.retired = retired;
    assignment
        .retired
        .retain(|retired| may_return(retired, &assignment.services));
    assignment.quarantine = quarantine;
    assignment
}

/// Since when the service's flows are tracked as they will be; none: since the publication.
fn tracking_since(
    live: Option<&Live>,
    before: Option<&ServiceRecord>,
    service: &Service,
    world: &World,
) -> Option<u64> {
    let (live, before) = (live?, before?);
    (tracked_before(Some(live), service)? == service.tracking)
        .then(|| live.settled(before.tracking_since_ns, world.monotonic_ns))
}

/// Whether connection IDs of the service were learned, and no more are: bindings stay in use.
fn leaves_learned(live: &Live, service: &Service) -> bool {
    let mut services = live.spec.services().iter();
    let old = services.find(|old| old.id == service.id);
    let learned = |of: &Service| of.reads_quic() && of.quic.routing == Routing::Learned;
    old.is_some_and(learned) && !learned(service)
}

/// How the service's flows are tracked at present.
fn tracked_before(live: Option<&Live>, service: &Service) -> Option<Tracking> {
    let mut services = live?.spec.services().iter();
    let old = services.find(|old| old.id == service.id)?;
    Some(old.tracking)
}

/// Whether a backend that left can still come back as itself: nobody has its id or row. So there
/// are never more of them than rows.
fn may_return(retired: &RetiredBackend, services: &[ServiceRecord]) -> bool {
    let service = services
        .iter()
        .find(|service| service.id == retired.service);
    service.is_none_or(|service| {
        let mut backends = service.backends.iter();
        backends.all(|placed| placed.id != retired.identity.id && placed.row != retired.row)
    })
}

/// The fault of a limit that `over` are too many for; none if it suffices. What leaves with this
/// change takes its place until it is made, and counts.
fn full(pointer: &str, what: &str, limit: u32, over: u32) -> Option<Fault> {
    let needed = u64::from(limit) + u64::from(over);
    let message = format!("{what}: {needed} needed, the limit is {limit}");
    (over > 0).then(|| Fault::new(pointer, FaultCode::Capacity, message))
}

/// Who may come back and which server IDs are reserved, once `spec` has replaced what is live:
/// those of before whose time is not over, and those that leave now.
fn leaving(
    live: Option<&Live>,
    spec: &Spec,
    now_ns: u64,
) -> (Vec<RetiredBackend>, Vec<QuarantinedId>) {
    let Some(live) = live else {
        return Default::default();
    };
    let record = &live.record;
    let mut retired: Vec<_> = record
        .retired
        .iter()
        .filter(|old| old.until_ns > now_ns)
        .cloned()
        .collect();
    let mut quarantine: Vec<_> = record
        .quarantine
        .iter()
        .filter(|old| old.until_ns > now_ns)
        .cloned()
        .collect();
    for old_service in live.spec.services() {
        let service = old_service.id.get();
        let new_service = spec.services().iter().find(|new| new.id == old_service.id);
        let Some(old_record) = record.service(service) else {
            continue;
        };
        let by_server_id = old_service.quic.routing == Routing::ServerId;
        let reserved_ns = if by_server_id {
            u64::try_from(old_service.quic.quarantine.as_nanos()).unwrap_or(u64::MAX)
        } else {
            RETURN_NS
        };
        let until_ns = now_ns.saturating_add(reserved_ns);
        for old in &old_service.backends {
            let stays = new_service.and_then(|new| new.backend(old.id));
            if let (None, Some(placed)) = (stays, old_record.backend(old.id.get())) {
                retired.push(RetiredBackend {
                    service,
                    identity: identity(old),
                    server_ids: old.server_ids.iter().map(ToString::to_string).collect(),
                    row: placed.row,
                    incarnation: placed.incarnation,
                    until_ns,
                });
            }
            let left = old
                .server_ids
                .iter()
                .filter(|id| !stays.is_some_and(|new| new.server_ids.contains(id)));
            quarantine.extend(left.filter(|_| by_server_id && reserved_ns > 0).map(|id| {
                QuarantinedId {
                    service,
                    server_id: id.to_string(),
                    identity: identity(old),
                    since_ns: now_ns,
                    until_ns,
                }
            }));
        }
    }
    (retired, quarantine)
}

/// Ends the quarantine of server IDs that return to their backends, refuses those that go to
/// another, and gives what stays reserved.
fn check_quarantine(
    spec: &Spec,
    quarantine: Vec<QuarantinedId>,
    options: Options,
    now_ns: u64,
    assignment: &mut Assignment,
) -> Vec<QuarantinedId> {
    let holders: BTreeMap<(u32, String), &Backend> = spec
        .services()
        .iter()
        .flat_map(|service| {
            service.backends.iter().flat_map(move |backend| {
                let ids = backend.server_ids.iter();
                ids.map(move |id| ((service.id.get(), id.to_string()), backend))
            })
        })
        .collect();
    let mut kept = Vec::new();
    for entry in quarantine {
        let Some(holder) = holders.get(&(entry.service, entry.server_id.clone())) else {
            kept.push(entry);
            continue;
        };
        if identity(holder) == entry.identity {
            continue;
        }
        let pointer = format!("{}/server_id", holder.pointer());
        let message = format!(
            "server ID {} belonged to backend {} until {} ago; free in {}",
            entry.server_id,
            entry.identity.id,
            seconds(now_ns.saturating_sub(entry.since_ns)),
            seconds(entry.until_ns.saturating_sub(now_ns)),
        );
        if options.reuse_server_id {
            assignment
                .warnings
                .push(Warning::new(pointer, WarningCode::ReusedServerId, message));
        } else {
            assignment
                .faults
                .push(Fault::new(pointer, FaultCode::Quarantine, message));
            kept.push(entry);
        }
    }
    kept
}

fn seconds(ns: u64) -> String {
    format!("{}s", ns.div_ceil(SECOND_NS))
}

fn identity(backend: &Backend) -> Identity {
    Identity {
        id: backend.id.get(),
        interface: backend.interface.as_str().to_owned(),
        mac: backend.mac.octets(),
    }
}

fn returns(retired: &RetiredBackend, backend: &Backend) -> bool {
    let server_ids = backend.server_ids.iter().map(ToString::to_string);
    retired.identity.id == backend.id.get()
        && retired.identity == identity(backend)
        && server_ids.eq(retired.server_ids.iter().cloned())
}

/// Indices below a limit that nobody holds, lowest first.
struct Indices {
    used: BTreeSet<u32>,
    next: u32,
    limit: u32,
}

impl Indices {
    fn new(limit: u32, used: impl IntoIterator<Item = u32>) -> Self {
        Self {
            used: used.into_iter().collect(),
            next: 0,
            limit,
        }
    }

    fn take(&mut self) -> Option<u32> {
        while self.next < self.limit {
            let index = self.next;
            self.next += 1;
            if !self.used.contains(&index) {
                return Some(index);
            }
        }
        None
    }
}

/// The rows of one service that are free, in the order in which newcomers get them: first those
/// that nobody can come back to, then those of backends that left, those that leave now last.
struct Rows {
    free: Vec<u16>,
}

impl Rows {
    /// `left` are the backends that left this service and may come back.
    fn new(service: &Service, before: Option<&ServiceRecord>, left: &[&RetiredBackend]) -> Self {
        let mut held = BTreeSet::new();
        let mut leaving = BTreeSet::new();
        for old in before.iter().flat_map(|before| &before.backends) {
            let stays = service.backends.iter().any(|new| new.id.get() == old.id);
            if stays { &mut held } else { &mut leaving }.insert(old.row);
        }
        let left: BTreeMap<u16, u64> = left
            .iter()
            .map(|retired| (retired.row, retired.until_ns))
            .collect();
        let mut free: Vec<_> = (0..ROWS).filter(|row| !held.contains(row)).collect();
        free.sort_by_key(|row| (leaving.contains(row), left.get(row).copied(), *row));
        free.reverse();
        Self { free }
    }

    fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    fn claim(&mut self, row: u16) -> bool {
        match self.free.iter().position(|&free| free == row) {
            Some(index) => {
                self.free.remove(index);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{plan, Device, World};

    fn spec(id: u32) -> Spec {
        let backend = serde_json::json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:01"});
        let document = serde_json::json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
            "interface": "edge0",
            "services": [{"name": "a", "vip": "203.0.113.80", "port": 443,
                          "maglev_table_size": 251, "backends": [backend]}],
        });
        Spec::from_json(document.to_string().as_bytes()).expect("valid")
    }

    #[test]
    fn no_more_backends_are_remembered_than_a_service_has_rows() {
        let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1);
        let mut live: Option<Live> = None;
        // A new one every second: all of them left within the hour in which they may return.
        for second in 1..=1000 {
            let world = World::new(
                vec![device("edge0", 2), device("lo", 1)],
                Vec::new(),
                second * SECOND_NS,
            );
            let spec = spec(second as u32);
            let plan = plan(live.as_ref(), &spec, &world, Options::default()).expect("a plan");
            live = Some(plan.as_live(second));
        }
        let retired = live.expect("live").record.retired;
        assert_eq!(retired.len(), usize::from(ROWS) - 1);
        let last: BTreeSet<_> = retired.iter().map(|retired| retired.identity.id).collect();
        assert!(
            last.iter().min() > Some(&(1000 - u32::from(ROWS))),
            "the latest"
        );
    }
}
