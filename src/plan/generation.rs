// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One complete picture of an instance, typed: what every packet sees once it is published.

use std::sync::Arc;

use super::contexts::PlacedContext;
use crate::abi;
use crate::addr::MacAddr;
use crate::affinity::rules::Standing;
use crate::id::BackendId;
use crate::maglev::Table;
use crate::quic::lb::ServerId;
use crate::service::{BackendState, Service, Spec};

/// One generation of an instance: its specification with everything decided that packets need.
///
/// Immutable. The kernel's form of it is an [`Image`](super::Image), the model of what the program
/// does with a packet under it is [`oracle::route`](crate::oracle::route).
#[derive(Debug, Clone)]
pub struct Generation {
    /// Number of the generation; 0 until a publication gives it one.
    pub number: u64,
    /// What was asked for.
    pub spec: Arc<Spec>,
    /// The placed services, in the order of [`Spec::services`].
    pub services: Vec<PlacedService>,
    /// The contexts of the kernel's cipher, one for each key of encrypted server IDs.
    pub contexts: Vec<PlacedContext>,
}

impl Generation {
    /// The services, each with what the specification says about it.
    pub fn services(&self) -> impl Iterator<Item = (&Service, &PlacedService)> {
        self.spec.services().iter().zip(&self.services)
    }

    /// Whether packets find the same server IDs, quarantined ones included, and the same slots in
    /// both.
    pub(super) fn has_ids_and_slots_of(&self, other: &Self) -> bool {
        let mut both = self.services.iter().zip(&other.services);
        let same = |(one, two): (&PlacedService, &PlacedService)| {
            one.server_ids == two.server_ids
                && (Arc::ptr_eq(&one.slots, &two.slots)
                    || bytemuck::cast_slice::<_, u8>(&one.slots)
                        == bytemuck::cast_slice::<_, u8>(&two.slots))
        };
        self.services.len() == other.services.len() && both.all(same)
    }
}

/// One service of a generation.
#[derive(Debug, Clone)]
pub struct PlacedService {
    /// Index of its counters.
    pub stats: u32,
    /// End of the handshake grace on the coarse monotonic clock, in nanoseconds; 0: none.
    pub grace_until_ns: u64,
    /// The backends by row; an empty row belongs to nobody.
    pub rows: Vec<Option<PlacedBackend>>,
    /// Whether connection IDs may be bound to backends, so that packets look theirs up.
    pub exact: bool,
    /// The server IDs that name a backend or are in quarantine.
    pub server_ids: Vec<PlacedServerId>,
    /// Who owns which slot; the slots hold rows.
    pub table: Arc<Table<u16>>,
    /// What packets read: owner and kind of each slot.
    pub slots: Arc<[abi::Slot]>,
}

impl PlacedService {
    /// The backend in this row.
    pub fn backend(&self, row: u16) -> Option<&PlacedBackend> {
        self.rows.get(usize::from(row))?.as_ref()
    }

    /// How the backend in this row stands to its packets.
    pub fn standing(&self, row: u16) -> Option<Standing> {
        self.backend(row).map(PlacedBackend::standing)
    }

    /// The backend with this id.
    pub fn backend_by_id(&self, id: BackendId) -> Option<&PlacedBackend> {
        self.rows.iter().flatten().find(|backend| backend.id == id)
    }
}

/// One backend in its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedBackend {
    /// The operator's number.
    pub id: BackendId,
    /// Its index in the service; kept while the backend stays.
    pub row: u16,
    /// Tells two tenants of one row apart; never 0.
    pub incarnation: u32,
    /// Index of its counters.
    pub stats: u32,
    /// The interface that frames leave through.
    pub ifindex: u32,
    /// Whether that is the interface they came in by: frames are sent back, not redirected.
    pub transmit: bool,
    /// Destination address of forwarded frames.
    pub mac: MacAddr,
    /// Source address of forwarded frames; none leaves the one they came with.
    pub source_mac: Option<MacAddr>,
    /// The state that packets see: a ready backend of weight 0 counts as draining.
    pub state: BackendState,
}

impl PlacedBackend {
    /// How it stands to its packets.
    pub fn standing(&self) -> Standing {
        Standing {
            state: self.state,
            incarnation: self.incarnation,
        }
    }
}

/// One server ID under one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedServerId {
    /// The config whose connection IDs carry it.
    pub config_id: u8,
    /// The bytes.
    pub server_id: ServerId,
    /// Row of the backend it names; none while it is in quarantine.
    pub row: Option<u16>,
}
