// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Looks at an instance.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::finding::{Finding, FindingCode};
use super::interfaces::Interfaces;
use super::plan::members;
use super::state;
use super::status::{
    AttachmentStatus, AttachmentWay, CheckStatus, ForeignRouteStatus, GroupStatus, Health,
    LoopStatus, MemberStatus, PacketStatus, PinStatus, ProgramStatus, RouteStatus, StatusDocument,
    StatusSchema, TenantStatus,
};
use super::Error;
use crate::egress::attachment::UnpinnedLink;
use crate::egress::pins::{self, TenantPins, Tick};
use crate::egress::{
    preflight, Attached, AttachmentView, Egress, InstanceError, LoopReport, PreflightCheck,
    RouteCensus, Stats, Subject,
};
use crate::encap::Encap;
use crate::group::{Class, Counters, GroupId, Slot, Snapshot};
use crate::hex;
use crate::kernel::build::Build;
use crate::kernel::clock;
use crate::kernel::exchange::Role;
use crate::kernel::program::Program;
use crate::kernel::statedir::{Section, StateDir};
use crate::reason::egress::EndKind;
use crate::route::{Origin, TableId};
use crate::tenant::{PinQuota, Tenant};

/// Looks after which what is counted of pins and what there is must have agreed once, if packets
/// only came in between.
const LOOKS: usize = 3;

/// What the instance of `dir` does, seen from the calling thread's network namespace. Takes no lock
/// and changes nothing.
///
/// # Errors
/// The instance cannot be read.
pub fn status(dir: &StateDir) -> Result<StatusDocument, Error> {
    for _ in 1..LOOKS {
        match look_at(dir) {
            // Migrated between two looks.
            Err(Error::Instance(InstanceError::Replaced { .. })) => {}
            looked => return looked,
        }
    }
    look_at(dir)
}

fn look_at(dir: &StateDir) -> Result<StatusDocument, Error> {
    let egress = Egress::open(dir)?;
    let (pins, drift) = pins_and_drift(&egress)?;
    let groups = egress.groups_as_they_are()?;
    let programs = egress.programs()?;
    let foreign = egress.foreign_pins()?;
    let mut attachments = egress.attachments()?;
    attachments.retain(|view| {
        let foreign = foreign.iter().filter_map(|pin| pin.ifindex);
        let is_link = matches!(view.how, Attached::Tcx { .. });
        !is_link || !foreign.into_iter().any(|ifindex| ifindex == view.ifindex)
    });
    let (encap, encap_lost) = match egress.encap() {
        Err(error @ InstanceError::Orphan { .. }) => {
            let path = dir.pin(Section::Generations, &Subject::Config.pin());
            (None, Some((path.display().to_string(), error.to_string())))
        }
        encap => (encap?, None),
    };
    let tenants = egress.tenants()?;
    let look = Look {
        encap,
        encap_lost,
        groups: groups.known,
        damaged: groups.damaged,
        unpinned: egress.unpinned_links(tenants.keys().copied())?,
        tenants,
        census: egress.census()?,
        attachments,
        stats: egress.stats()?,
        interfaces: Interfaces::read()?,
        program: egress.program().id(),
        preflight: preflight(dir),
        keeper: egress.loop_report().map_err(|error| error.to_string()),
        now_ns: clock::monotonic_ns(),
        build: egress.build_of(egress.program())?,
        is_of_this_build: egress.runs_this_build()?,
        next_program: programs.get(Role::Next).map(Program::id),
        successor: egress.successor()?.map(|program| program.id()),
        previous_program: programs.get(Role::Previous).map(Program::id),
        pins,
        drift,
    };
    let foreign = foreign.into_iter();
    let mut findings: Vec<_> = foreign
        .map(|pin| {
            let message = pin.error.to_string();
            Finding::new(FindingCode::ForeignPin, pin.path.display(), message)
        })
        .collect();
    findings.extend(look.findings());
    findings.extend(state::findings(&egress)?);
    let program = egress.program();
    let mut document = StatusDocument {
        schema: StatusSchema::V1,
        health: Health::Sound,
        program: ProgramStatus {
            id: program.id(),
            name: program.name().to_owned(),
            tag: hex::encode(&program.tag()),
            build: look.build.clone(),
            previous_id: look.previous_program,
        },
        preflight: look.preflight.iter().map(check).collect(),
        keeper: look.keeper(),
        configuration: look.encap.as_ref().map(members),
        groups: look
            .groups
            .iter()
            .map(|group| Ok(look.group(group, &egress.slot_counters(group.group)?)))
            .collect::<Result<_, Error>>()?,
        tenants: look.tenants(),
        routes: look.routes(egress.limits().routes()),
        attachments: look
            .attachments
            .iter()
            .map(|view| look.attachment(view))
            .collect(),
        packets: packets(&look.stats),
        selection: named(&look.stats.selection, |one| one.name()),
        events: named(&look.stats.events, |one| one.name()),
        pins: look.pin_status(),
        memory_bytes: egress.memory_bytes()?,
        findings,
    };
    if document.has_errors() {
        document.health = Health::Degraded;
    }
    Ok(document)
}

/// The pins, and the tenants whose count differs by the same in every look: packets that come in
/// between make other differences.
fn pins_and_drift(
    egress: &Egress,
) -> Result<(pins::Status, BTreeMap<TableId, i64>), InstanceError> {
    let mut status = egress.pin_status(Tick::now())?;
    let mut drift: BTreeMap<_, _> = status.drifts().collect();
    for _ in 1..LOOKS {
        if drift.is_empty() {
            break;
        }
        status = egress.pin_status(Tick::now())?;
        let again: BTreeMap<_, _> = status.drifts().collect();
        drift.retain(|table, drift| again.get(table) == Some(drift));
    }
    Ok((status, drift))
}

fn named<T: Copy + Ord>(
    counts: &BTreeMap<T, u64>,
    name: fn(T) -> &'static str,
) -> BTreeMap<&'static str, u64> {
    counts
        .iter()
        .map(|(one, count)| (name(*one), *count))
        .collect()
}

fn check(check: &PreflightCheck) -> CheckStatus {
    CheckStatus {
        name: check.name,
        needed: check.needed,
        missing: check.missing.clone(),
    }
}

fn packets(stats: &Stats) -> PacketStatus {
    let mut packets = PacketStatus::default();
    for (end, &count) in &stats.ends {
        packets.total += count;
        let kind = match end.kind() {
            EndKind::Outcome => &mut packets.outcomes,
            EndKind::Skip => &mut packets.skips,
            EndKind::Drop => &mut packets.drops,
        };
        kind.insert(end.name(), count);
    }
    packets
}

/// All that was seen.
pub(super) struct Look {
    pub(super) encap: Option<Encap>,
    /// The pin that it has lost, and that in words.
    pub(super) encap_lost: Option<(String, String)>,
    pub(super) groups: Vec<Snapshot>,
    pub(super) damaged: BTreeMap<GroupId, InstanceError>,
    /// By interface.
    pub(super) tenants: BTreeMap<u32, Tenant>,
    pub(super) census: RouteCensus,
    pub(super) attachments: Vec<AttachmentView>,
    pub(super) unpinned: Vec<UnpinnedLink>,
    pub(super) stats: Stats,
    pub(super) interfaces: Interfaces,
    pub(super) program: u32,
    pub(super) preflight: Vec<PreflightCheck>,
    /// What the loop said last; or why that is not known.
    pub(super) keeper: Result<Option<LoopReport>, String>,
    /// When that was looked at, by the monotonic clock.
    pub(super) now_ns: u64,
    pub(super) build: Option<Build>,
    pub(super) is_of_this_build: bool,
    pub(super) next_program: Option<u32>,
    /// What interfaces run or will run where a migration has not ended.
    pub(super) successor: Option<u32>,
    pub(super) previous_program: Option<u32>,
    pub(super) pins: pins::Status,
    pub(super) drift: BTreeMap<TableId, i64>,
}

impl Look {
    fn keeper(&self) -> Option<LoopStatus> {
        let report = self.keeper.as_ref().ok()?.as_ref()?;
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        let ago = |ns: u64| seconds(self.now_ns.saturating_sub(ns));
        Some(LoopStatus {
            mode: report.mode,
            classes: report.classes.clone(),
            pool_min_active: report.pool_min_active,
            interval_seconds: report.interval_ns.map(seconds),
            unsynced: report.unsynced.clone(),
            swept_seconds_ago: ago(report.swept_ns),
            succeeded_seconds_ago: report.succeeded_ns.map(ago),
            failures: report.failures.clone(),
        })
    }

    fn group(&self, group: &Snapshot, counters: &[Counters]) -> GroupStatus {
        let mut table: BTreeMap<u16, u32> = BTreeMap::new();
        for &slot in &group.table {
            *table.entry(slot).or_default() += 1;
        }
        let size = u32::try_from(group.table.len()).unwrap_or(u32::MAX);
        let members = group.members.iter().map(|member| {
            let slots = table.get(&member.slot.get()).copied().unwrap_or(0);
            let counted = counters.get(usize::from(member.slot.get()));
            let counted = counted.copied().unwrap_or_default();
            let pins = self.member_pins(group.group, member.slot);
            MemberStatus {
                slot: member.slot.get(),
                generation: member.generation.get(),
                sid: member.sid,
                state: member.state(),
                weight: member.weight,
                table_slots: slots,
                share: f64::from(slots) / f64::from(size.max(1)),
                packets: counted.packets.wrapping_sub(member.base.packets),
                bytes: counted.bytes.wrapping_sub(member.base.bytes),
                pins: pins.current,
                former_pins: pins.former,
                interface: member
                    .next_hop
                    .map(|hop| self.interfaces.name(hop.ifindex())),
            }
        });
        let age_ns = clock::wall_ns().saturating_sub(group.published_ns);
        let pins = self.pins.groups.get(&group.group);
        GroupStatus {
            group: group.group.get(),
            class: group.class,
            state: group.state,
            hash_group: group.hash_group.0,
            settings: (&group.settings).into(),
            incarnation: group.incarnation.get(),
            publication: group.publication.get(),
            age_seconds: age_ns / 1_000_000_000,
            table_size: size,
            digest: group.digest.to_string(),
            ineligible: group.ineligible,
            routes: self.census.of(group.group),
            foreign_routes: self.census.foreign_of(group.group),
            pins: pins.copied().unwrap_or_default(),
            members: members.collect(),
        }
    }

    fn member_pins(&self, group: GroupId, slot: Slot) -> pins::MemberPins {
        let pins = self.pins.members.get(&(group, slot));
        pins.copied().unwrap_or_default()
    }

    /// Everybody who has an interface, a route, or a count of pins.
    pub(super) fn tables(&self) -> BTreeSet<TableId> {
        let tenants = self.tenants.values().map(|tenant| tenant.table);
        let routed = self.census.tables.keys().copied();
        tenants
            .chain(routed)
            .chain(self.pins.tenants.keys().copied())
            .collect()
    }

    /// Interfaces of a tenant, and what they say of it.
    pub(super) fn rows(&self, table: TableId) -> impl Iterator<Item = (u32, &Tenant)> {
        let rows = self.tenants.iter();
        let rows = rows.filter(move |(_, tenant)| tenant.table == table);
        rows.map(|(ifindex, tenant)| (*ifindex, tenant))
    }

    fn tenants(&self) -> Vec<TenantStatus> {
        let tenants = self.tables().into_iter().map(|table| {
            let known = self.rows(table).next().map(|(_, tenant)| tenant);
            let pins = self.tenant_pins(table);
            TenantStatus {
                table: table.get(),
                argument: known.map(|tenant| tenant.argument.get()),
                hash_table: known.map(|tenant| tenant.hash_table.0),
                interfaces: self
                    .rows(table)
                    .map(|(index, _)| self.interfaces.name(index))
                    .collect(),
                routes: self.census.tables.get(&table).copied().unwrap_or(0),
                pins: pins.pins,
                pins_counted: pins.counted,
                pin_quota: known.and_then(quota),
                pins_refused: pins.refused,
            }
        });
        tenants.collect()
    }

    pub(super) fn tenant_pins(&self, table: TableId) -> TenantPins {
        self.pins.tenants.get(&table).copied().unwrap_or_default()
    }

    fn routes(&self, limit: u32) -> RouteStatus {
        let mut by_class: BTreeMap<String, u64> = BTreeMap::new();
        for (group, routes) in &self.census.groups {
            let class = self.class(*group);
            let class = class.map_or_else(|| format!("group {group}"), |class| class.to_string());
            *by_class.entry(class).or_default() += routes;
        }
        let origins = self.census.origins.iter();
        let foreign = origins.filter(|(origin, _)| **origin != Origin::default());
        RouteStatus {
            total: self.census.routes,
            limit,
            by_class,
            dead: self.census.dead,
            foreign: foreign.map(|(_, routes)| routes).sum(),
            foreign_to_groups: self.foreign_to_groups(),
            unknown: self.census.unknown.len() as u64,
        }
    }

    fn foreign_to_groups(&self) -> Vec<ForeignRouteStatus> {
        let routes = self.census.foreign.iter();
        let routes = routes.map(|route| ForeignRouteStatus {
            table: route.key.table.get(),
            prefix: route.key.prefix,
            group: route.group.get(),
            class: self.class(route.group),
            incarnation: route.incarnation.get(),
            origin: route.origin.0,
        });
        routes.collect()
    }

    /// Whose a group is, or was; none if it was never opened.
    fn class(&self, group: GroupId) -> Option<Class> {
        let mut groups = self.groups.iter();
        let found = groups.find(|snapshot| snapshot.group == group);
        found.map(|snapshot| snapshot.class)
    }

    /// Whether packets of the interface meet a program of the instance: the one that runs, or one that
    /// follows it or was before it, in these maps or in those of a migration.
    pub(super) fn is_alive(&self, view: &AttachmentView) -> bool {
        let others = [self.next_program, self.previous_program, self.successor];
        let id = view.program_id;
        id == Some(self.program) || id.is_some() && others.contains(&id)
    }

    fn attachment(&self, view: &AttachmentView) -> AttachmentStatus {
        let (way, link_id, filter) = match view.how {
            Attached::Tcx { link_id } => (AttachmentWay::Tcx, Some(link_id), None),
            Attached::Clsact { filter } => (AttachmentWay::Clsact, None, Some(filter)),
        };
        AttachmentStatus {
            interface: self.interfaces.name(view.ifindex),
            way,
            link_id,
            priority: filter.map(|filter| filter.priority.get()),
            handle: filter.map(|filter| filter.handle.get()),
            program_id: view.program_id,
            alive: self.is_alive(view),
        }
    }

    fn pin_status(&self) -> PinStatus {
        let pins = &self.pins;
        PinStatus {
            standing: pins.pins,
            by_source: pins.by_source,
            source_capacity: pins.source_capacity,
            by_flow: pins.by_flow,
            flow_capacity: pins.flow_capacity,
            unknown: pins.unreadable,
            drift: self
                .drift
                .iter()
                .map(|(table, drift)| (table.get(), *drift))
                .collect(),
        }
    }
}

/// How many pins a tenant may have, if that is limited.
pub(super) fn quota(tenant: &Tenant) -> Option<u32> {
    Some(tenant.pin_quota)
        .filter(|&quota| quota != PinQuota::UNLIMITED)
        .map(|quota| quota.0)
}
