// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A plan as a document: what is printed, kept in a file and applied later.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::capacity::Capacity;
use super::card::Lack;
use super::disruption::Disruption;
use super::generation::{Generation, PlacedBackend, PlacedService};
use super::preflight::Check;
use super::record::TableRecord;
use crate::addr::MacAddr;
use crate::hex;
use crate::id::InterfaceName;
use crate::maglev::Table;
use crate::quic::lb::Key;
use crate::service::{
    Backend, BackendState, CidConfig, Fragments, HashOf, Mode, Protocol, Routing, Service,
    Tracking, Warning,
};

/// What a plan says, in the order it is printed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlanDocument {
    /// Names this form.
    pub schema: PlanSchema,
    /// The instance's UUID.
    pub instance_id: String,
    /// Where clients' packets arrive.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interface: InterfaceName,
    /// Its index; none in a plan made offline.
    pub ifindex: Option<u32>,
    /// How the program is attached.
    pub mode: Mode,
    /// SHA-256 over the canonical specification.
    pub digest: String,
    /// The generation it was made against.
    pub base: Option<Base>,
    /// What applying it does.
    pub result: PlanResult,
    /// The canonical specification, without its secrets unless the plan is written to a file.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "serde_json::Map<String, serde_json::Value>")
    )]
    pub spec: Box<RawValue>,
    /// The services after the change in the order of their names, then those that go.
    pub services: Vec<ServicePlan>,
    /// What it uses of each limit.
    pub capacity: Capacity,
    /// What other modes have and this one has not; a specification that asks for it is refused.
    pub lacks: Vec<Lack>,
    /// What the machine offers.
    pub preflight: Vec<Check>,
    /// What may not be meant.
    pub warnings: Vec<Warning>,
    /// What the caller confirmed when it was made.
    pub options: Options,
}

/// Names the form of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PlanSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.plan/v1")]
    V1,
}

/// What a caller confirms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// A new table size, hash or hash seed may move nearly all live flows, and tracking all flows
    /// may move those of slots that are open.
    pub disruptive: bool,
    /// Server IDs may go to another backend before their quarantine is over.
    pub reuse_server_id: bool,
}

/// The generation that a plan continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Base {
    /// Its number.
    pub generation: u64,
    /// Digest of its specification.
    pub digest: String,
}

/// What applying a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlanResult {
    /// Nothing was published before.
    Create,
    /// The live generation is replaced.
    Change,
    /// The live generation says the same.
    Unchanged,
}

/// What becomes of a service or backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Added,
    /// Something about it differs.
    Changed,
    /// Nothing about it differs.
    Unchanged,
    /// It goes.
    Removed,
}

/// One service of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[allow(missing_docs)] // the members of the specification, and what is said of them there
pub struct ServicePlan {
    pub name: String,
    pub service_id: u32,
    pub vip: std::net::IpAddr,
    pub port: u16,
    pub protocol: Protocol,
    pub change: Change,
    pub routing: Routing,
    pub short_dcid_len: u8,
    pub quic_only: bool,
    pub tracking: Tracking,
    pub hash: HashOf,
    pub fragments: Fragments,
    pub table: TablePlan,
    pub configs: Vec<ConfigPlan>,
    /// Chance that a random connection ID of the right length names some backend.
    pub false_route_probability: f64,
    pub disruption: Disruption,
    pub backends: Vec<BackendPlan>,
}

/// The table of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TablePlan {
    /// Slots.
    pub size: u32,
    /// Digest of who owns which slot.
    pub digest: String,
    /// Slots of the backend that has fewest, among those with a weight.
    pub min_slots: u32,
    /// Slots of the backend that has most.
    pub max_slots: u32,
    /// Fewer than 100 slots per backend.
    pub below_rule: bool,
}

/// One form of connection ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ConfigPlan {
    /// Its number.
    pub config_id: u8,
    /// Bytes of the server ID.
    pub server_id_len: u8,
    /// Bytes of the nonce.
    pub nonce_len: u8,
    /// Bytes of the whole connection ID.
    pub cid_len: u8,
    /// Passes of the cipher that decoding takes: 0 in clear, else 1, 3 or 4.
    pub passes: u8,
    /// Check value of the key; none in clear.
    pub kcv: Option<String>,
}

/// One backend of a service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BackendPlan {
    /// The operator's number.
    pub id: u32,
    /// Its index in the service.
    pub row: u16,
    /// Tells two tenants of one row apart.
    pub incarnation: u32,
    /// The interface that leads to it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interface: InterfaceName,
    /// Index of that interface; none in a plan made offline.
    pub ifindex: Option<u32>,
    /// Its link-layer address.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mac: MacAddr,
    /// Weight.
    pub weight: u16,
    /// State.
    pub state: BackendState,
    /// Server IDs, lower-case hexadecimal.
    pub server_ids: Vec<String>,
    /// Slots that it owns.
    pub slots: u32,
    /// Those as a fraction of the table.
    pub share: f64,
    /// What becomes of it.
    pub change: Change,
}

/// A service before or after the change.
pub(super) type Side<'a> = (&'a Service, &'a PlacedService);

/// What the table of a service came to; none if the service goes.
pub(super) fn table_record(service: &ServicePlan) -> Option<TableRecord> {
    let stays = |backend: &&BackendPlan| backend.change != Change::Removed;
    let backends = service.backends.iter().filter(stays);
    (service.change != Change::Removed).then(|| TableRecord {
        service: service.service_id,
        digest: service.table.digest.clone(),
        slots: backends
            .map(|backend| (backend.id, backend.slots))
            .collect(),
    })
}

/// Every service of either side, with its disruption.
pub(super) fn services(before: Option<&Generation>, after: &Generation) -> Vec<ServicePlan> {
    let offline = after.services().any(|(_, placed)| {
        placed
            .rows
            .iter()
            .flatten()
            .any(|backend| backend.ifindex == 0)
    });
    let old = |service: &Service| before?.services().find(|(old, _)| old.id == service.id);
    let kept = |service: &Service| after.spec.services().iter().any(|new| new.id == service.id);
    let mut services: Vec<_> = after
        .services()
        .map(|side| service_plan(old(side.0), Some(side), offline))
        .collect();
    services.extend(
        before
            .into_iter()
            .flat_map(Generation::services)
            .filter(|(service, _)| !kept(service))
            .map(|side| service_plan(Some(side), None, offline)),
    );
    services.into_iter().flatten().collect()
}

/// What becomes of one service; none if it is on neither side.
fn service_plan(
    before: Option<Side<'_>>,
    after: Option<Side<'_>>,
    offline: bool,
) -> Option<ServicePlan> {
    let (service, placed) = after.or(before)?;
    let shares = placed.table.shares();
    let slots: BTreeMap<Vec<u8>, u32> = shares
        .members
        .iter()
        .map(|share| (share.key.to_vec(), share.slots))
        .collect();
    let after_backends = after.into_iter().flat_map(backends).map(|backend| {
        let old = before.and_then(|before| backends(before).find(|old| old.0.id == backend.0.id));
        let change = match old {
            None => Change::Added,
            Some(old) if old == backend => Change::Unchanged,
            Some(_) => Change::Changed,
        };
        (backend, change)
    });
    let gone = before
        .into_iter()
        .flat_map(backends)
        .filter(|(old, _)| after.is_none_or(|(service, _)| service.backend(old.id).is_none()));
    let backends: Vec<_> = after_backends
        .chain(gone.map(|backend| (backend, Change::Removed)))
        .map(|((backend, placed_backend), change)| {
            let key = backend.id.to_string().into_bytes();
            let owned = match change {
                Change::Removed if after.is_some() => 0,
                _ => slots.get(&key).copied().unwrap_or(0),
            };
            BackendPlan {
                id: backend.id.get(),
                row: placed_backend.row,
                incarnation: placed_backend.incarnation,
                interface: backend.interface.clone(),
                ifindex: Some(placed_backend.ifindex).filter(|_| !offline),
                mac: backend.mac,
                weight: backend.weight,
                state: backend.state,
                server_ids: backend.server_ids.iter().map(ToString::to_string).collect(),
                slots: owned,
                share: f64::from(owned) / f64::from(service.maglev_table_size.get()),
                change,
            }
        })
        .collect();
    let change = match (before, after) {
        (Some(_), None) => Change::Removed,
        (None, _) => Change::Added,
        (Some((old, _)), Some((new, _))) => {
            if old == new
                && backends
                    .iter()
                    .all(|backend| backend.change == Change::Unchanged)
            {
                Change::Unchanged
            } else {
                Change::Changed
            }
        }
    };
    let table = |side: Option<Side<'_>>| -> Option<std::sync::Arc<Table<u16>>> {
        side.map(|(_, placed)| placed.table.clone())
    };
    Some(ServicePlan {
        name: service.name.clone(),
        service_id: service.id.get(),
        vip: service.vip,
        port: service.port,
        protocol: service.protocol,
        change,
        routing: service.quic.routing,
        short_dcid_len: service.short_dcid_len,
        quic_only: service.quic_only,
        tracking: service.tracking,
        hash: service.hash,
        fragments: service.fragments,
        table: TablePlan {
            size: service.maglev_table_size.get(),
            digest: placed.table.digest().to_string(),
            min_slots: slots.values().copied().min().unwrap_or(0),
            max_slots: slots.values().copied().max().unwrap_or(0),
            below_rule: shares.below_rule,
        },
        configs: service.quic.configs.iter().map(config_plan).collect(),
        false_route_probability: service.false_route_probability(),
        disruption: Disruption::between(table(before).as_deref(), table(after).as_deref()),
        backends,
    })
}

/// The backends of one side, each with what was decided about it.
fn backends<'a>(
    (service, placed): Side<'a>,
) -> impl Iterator<Item = (&'a Backend, &'a PlacedBackend)> + 'a {
    service
        .backends
        .iter()
        .filter_map(move |backend| Some((backend, placed.backend_by_id(backend.id)?)))
}

fn config_plan(config: &CidConfig) -> ConfigPlan {
    ConfigPlan {
        config_id: config.config_id,
        server_id_len: config.server_id_len,
        nonce_len: config.nonce_len,
        cid_len: config.cid_len(),
        passes: config.decoder().decoder_passes(),
        kcv: config
            .key
            .as_ref()
            .and_then(Key::kcv)
            .map(|kcv| hex::encode(&kcv)),
    }
}
