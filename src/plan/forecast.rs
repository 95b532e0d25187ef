// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How many flows a change moves, from what is known of those that are live.

use std::time::Duration;

use super::disruption::Disruption;
use super::live::{Live, ServiceFlowState};
use super::place::Placed;
use super::record::ServiceRecord;
use super::transition::{flow_window_ns, is_tracked, window_ns, Until};
use super::world::World;
use crate::affinity::Slots;
use crate::service::{Protocol, Routing, Service, Spec, Tracking};

/// For how long a flow is taken to last where only the rate of starts is known: a closed one may be
/// looked for no longer.
const LASTS: Duration = Duration::from_secs(240);

/// A change, and what is known of the flows that it meets.
pub(super) struct Forecast<'a> {
    pub(super) live: Option<&'a Live>,
    pub(super) before: Option<&'a Placed>,
    pub(super) after: &'a Placed,
    pub(super) spec: &'a Spec,
    /// What was decided about the services afterwards.
    pub(super) records: &'a [ServiceRecord],
    pub(super) world: &'a World,
}

/// A service on one side of the change.
#[derive(Clone, Copy)]
struct Side<'a> {
    service: &'a Service,
    record: &'a ServiceRecord,
    slots: &'a Slots,
}

impl Forecast<'_> {
    /// Completes what becomes of each service's flows, by its number.
    pub(super) fn complete<'d>(
        &self,
        services: impl IntoIterator<Item = (u32, &'d mut Disruption)>,
    ) {
        let mut services: Vec<_> = services.into_iter().collect();
        for (id, disruption) in &mut services {
            self.service(*id, disruption);
        }
        let known = self.live.and_then(|live| live.flow_state.flows);
        let free = u64::from(self.spec.limits().flows).saturating_sub(known.unwrap_or(0));
        let needed: u64 = services.iter().map(|(_, to)| to.entries_expected).sum();
        if needed <= free {
            return;
        }
        // Who comes last finds no room, and nobody can tell who that will be.
        let refused = (needed - free) as f64 / needed as f64;
        for (_, disruption) in services {
            let more = (disruption.entries_expected as f64 * refused).ceil() as u64;
            disruption.flows_at_risk = disruption.flows_at_risk.map(|flows| flows + more);
        }
    }

    fn service(&self, id: u32, disruption: &mut Disruption) {
        let before = self
            .live
            .zip(self.before)
            .and_then(|(live, before)| side(before, &live.record.services, id));
        let after = side(self.after, self.records, id);
        let known = self.live.and_then(|live| live.flow_state.service(id));
        let flows = before.and_then(|before| Flows::of(before.service, known));
        match (before, after) {
            (Some(before), Some(after)) => self.kept(before, after, known, flows, disruption),
            (None, _) => {
                disruption.flows_moved = Some(0);
                disruption.flows_at_risk = Some(0);
                disruption.bindings_lost = Some(0);
            }
            (Some(_), None) => {
                disruption.flows_moved = flows.map(|flows| flows.live.ceil() as u64);
                disruption.flows_at_risk = disruption.flows_moved;
                disruption.bindings_lost = known.and_then(entries);
            }
        }
        disruption.flows_live = counted(before.map(|before| before.service), known);
    }

    fn kept(
        &self,
        before: Side<'_>,
        after: Side<'_>,
        known: Option<&ServiceFlowState>,
        flows: Option<Flows>,
        disruption: &mut Disruption,
    ) {
        let now_ns = self.world.monotonic_ns;
        let marked = after.slots.count();
        disruption.slots_open = marked.open;
        disruption.slots_held = marked.held;
        let window_ns = window_ns(after.service, after.record);
        let until = Until::of(after.slots, window_ns, now_ns);
        disruption.window_seconds = until.map_or(0, |until| until.seconds());

        let slots = after.slots.words().len().max(1) as f64;
        let openings = after.slots.openings();
        let opens = after.slots.marks().filter(|mark| {
            let opening = mark.open.and_then(|(_, at)| openings.get(usize::from(at)));
            opening.is_some_and(Option::is_none)
        });
        let opened = opens.count() as f64 / slots;
        if let Some(flows) = flows {
            // What began earlier than that has been forgotten again.
            let begin = flows.starts_per_second * flow_window_ns(after.service) as f64 / 1e9;
            disruption.entries_expected = (opened * (flows.placed + begin)).ceil() as u64;
        }

        let rehashed = self.live.is_some_and(|live| {
            live.spec.hash_seed() != self.spec.hash_seed()
                || before.service.hash != after.service.hash
        });
        let resized = before.slots.words().len() != after.slots.words().len();
        let moved = if rehashed {
            1.0
        } else {
            disruption.moved_ratio
        };
        let share = |share: f64| {
            let some = |flows: Flows| (flows.placed * share.min(1.0)).ceil() as u64;
            if share > 0.0 {
                flows.map(some)
            } else {
                Some(0)
            }
        };
        disruption.flows_moved = share(moved);
        let at_risk = match before.service.tracking {
            _ if rehashed => share(1.0),
            Tracking::All if moved > 0.0 => {
                let lacking = self.without_entry(before, known);
                lacking.map(|flows| (flows * moved).ceil() as u64)
            }
            Tracking::All => Some(0),
            Tracking::Exceptions if resized => share(1.0),
            // Open slots forget whose flows they had.
            Tracking::Exceptions if after.service.tracking == Tracking::All => {
                share(moved + f64::from(before.slots.count().open) / slots)
            }
            Tracking::Exceptions => Some(0),
        };
        // Whether entries of unknown number fit, nobody can tell.
        disruption.flows_at_risk = at_risk.filter(|_| opened == 0.0 || flows.is_some());

        let removed = before.record.rows_removed(after.record);
        let by_row = known.and_then(|known| known.by_row.as_ref());
        disruption.bindings_lost = if removed.is_empty() {
            Some(0)
        } else {
            by_row.map(|rows| removed.iter().filter_map(|row| rows.get(row)).sum())
        };
    }
}

impl Forecast<'_> {
    /// Live flows of a service that tracks all and that have no entry: those that were silent since
    /// it began to, and those for which there is no room. None where their number is unknown.
    fn without_entry(&self, of: Side<'_>, known: Option<&ServiceFlowState>) -> Option<f64> {
        let live = self.live?;
        let began_with_none =
            of.record.was_tracked_otherwise && !is_tracked(live, of.service, of.record, self.world);
        // Who was refused gets one with the next packet that is not.
        if !began_with_none && !known.is_some_and(|known| known.refuses) {
            return Some(0.0);
        }
        let expected = started(of.service, known)? * lasts(of.service);
        let entries = counted(Some(of.service), known)?;
        Some((expected - entries as f64).max(0.0))
    }
}

fn side<'a>(placed: &'a Placed, records: &'a [ServiceRecord], id: u32) -> Option<Side<'a>> {
    let record = records.iter().find(|record| record.id == id)?;
    let mut services = placed.generation.services().zip(&placed.slots);
    let ((service, _), slots) = services.find(|((service, _), _)| service.id.get() == id)?;
    Some(Side {
        service,
        record,
        slots,
    })
}

/// The flows of a service that are counted.
fn counted(service: Option<&Service>, known: Option<&ServiceFlowState>) -> Option<u64> {
    let all = service.is_some_and(|service| service.tracking == Tracking::All);
    let known = known.filter(|_| all)?;
    let sweep = known.sweep.as_ref();
    sweep.map(|sweep| sweep.flows).or(known.flows)
}

/// Everything that is bound to some backend of the service.
fn entries(known: &ServiceFlowState) -> Option<u64> {
    let by_row = known.by_row.as_ref().map(|rows| rows.values().sum());
    by_row.or_else(|| known.sweep.as_ref().map(|sweep| sweep.flows + sweep.cids))
}

/// How many flows begin per second, on average.
fn started(service: &Service, known: Option<&ServiceFlowState>) -> Option<f64> {
    // No packet of plain UDP tells that it is the first.
    let tells = service.protocol == Protocol::Tcp || service.reads_quic();
    known?.mean_starts_per_second.filter(|_| tells)
}

/// For how many seconds a flow is taken to last.
fn lasts(service: &Service) -> f64 {
    service.flow_idle.min(LASTS).as_secs_f64()
}

/// An estimate of the flows of a service.
#[derive(Clone, Copy)]
struct Flows {
    live: f64,
    /// Of these, the flows whose packets go where their slot says.
    placed: f64,
    starts_per_second: f64,
}

impl Flows {
    /// None where nothing tells.
    fn of(service: &Service, known: Option<&ServiceFlowState>) -> Option<Self> {
        let rate = started(service, known);
        let live = match counted(Some(service), known) {
            Some(flows) => flows as f64,
            None => rate? * lasts(service),
        };
        // A connection whose backend is named by its connection ID has its start placed, no more.
        let by_server_id = service.reads_quic() && service.quic.routing == Routing::ServerId;
        Some(Self {
            live,
            placed: if by_server_id { 0.0 } else { live },
            starts_per_second: rate.unwrap_or(0.0),
        })
    }
}
