// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One entry of flow state, as both maps hold it.

use crate::abi;

use crate::id::ServiceId;
use crate::image_hash;
use crate::quic::Cid;

/// What a connection ID is known by within an instance: its service and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CidKey {
    /// Number of the service.
    pub service: u32,
    /// The connection ID.
    pub cid: Cid,
}

impl CidKey {
    /// The key of a connection ID of a service.
    pub fn new(service: ServiceId, cid: Cid) -> Self {
        Self {
            service: service.get(),
            cid,
        }
    }

    /// The key as it stands in the map.
    pub fn to_abi(&self) -> abi::CidKey {
        let mut key = abi::CidKey {
            service: self.service,
            length: self.cid.len() as u8,
            ..Default::default()
        };
        key.cid[..self.cid.len()].copy_from_slice(&self.cid);
        key
    }

    /// The key that stands in the map; none if no connection ID has that length.
    pub fn from_abi(key: &abi::CidKey) -> Option<Self> {
        let bytes = key.cid.get(..usize::from(key.length))?;
        Some(Self {
            service: key.service,
            cid: Cid::new(bytes).ok()?,
        })
    }
}

/// The tag of a connection ID's entry, under the secret that an instance drew when its map was
/// made: tells its entry from a stranger's in a reused map element.
pub fn cid_tag(key: &abi::CidKey, seed: u64) -> u16 {
    image_hash::cid_hash(key, seed) as u16
}

/// How far an entry is from being forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Phase {
    /// In use, as far as anybody knows.
    #[default]
    Live,
    /// Idle when the last sweep saw it; the next one deletes it unless a packet comes first.
    Expiring,
    /// About to be deleted.
    Dead,
    /// Dead, and a packet came: the sweep puts it back.
    Touched,
}

/// Where an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Origin {
    /// A packet: the entry of a flow, or a connection ID that was learned.
    #[default]
    Traffic,
    /// The server's control plane said so.
    Registered,
    /// Another instance said so.
    Imported,
}

/// What a flow or a connection ID is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Tells whose entry this is.
    pub tag: u16,
    /// Row of the backend.
    pub row: u16,
    /// Incarnation of the row's backend; never 0.
    pub incarnation: u32,
    /// Coarse monotonic time of a recent packet in nanoseconds. Of a registered connection ID: the
    /// end of its time to live, 0 for none.
    pub seen_ns: u64,
    /// How far it is from being forgotten.
    pub phase: Phase,
    /// A FIN was seen since the last payload.
    pub fin: bool,
    /// A RST was seen since the last payload.
    pub rst: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// Connection IDs that were learned from this flow.
    pub learned: u8,
    /// Placement hash of the flow, or of the flow that taught the connection ID.
    pub hash: u32,
}

impl Binding {
    /// The entry as it stands in a map.
    pub fn to_abi(&self) -> abi::Binding {
        use abi::BindingState as S;
        let phase = match self.phase {
            Phase::Live => S::GW_BINDING_LIVE,
            Phase::Expiring => S::GW_BINDING_EXPIRING,
            Phase::Dead => S::GW_BINDING_DEAD,
            Phase::Touched => S::GW_BINDING_TOUCHED,
        };
        let origin = match self.origin {
            Origin::Traffic => S::GW_BINDING_TRAFFIC,
            Origin::Registered => S::GW_BINDING_REGISTERED,
            Origin::Imported => S::GW_BINDING_IMPORTED,
        };
        let hint = |set: bool, flag: S| if set { flag.0 } else { 0 };
        abi::Binding {
            tag: self.tag,
            row: self.row,
            incarnation: self.incarnation,
            seen_ns: self.seen_ns,
            state: phase.0
                | origin.0
                | hint(self.fin, S::GW_BINDING_FIN)
                | hint(self.rst, S::GW_BINDING_RST)
                | (u32::from(self.learned) << S::GW_BINDING_LEARNED_SHIFT.0)
                    & S::GW_BINDING_LEARNED.0,
            hash: self.hash,
        }
    }

    /// The entry that stands in a map. Bits without a meaning are ignored.
    pub fn from_abi(value: &abi::Binding) -> Self {
        use abi::BindingState as S;
        let state = value.state;
        Self {
            tag: value.tag,
            row: value.row,
            incarnation: value.incarnation,
            seen_ns: value.seen_ns,
            phase: match state & S::GW_BINDING_PHASE.0 {
                phase if phase == S::GW_BINDING_LIVE.0 => Phase::Live,
                phase if phase == S::GW_BINDING_EXPIRING.0 => Phase::Expiring,
                phase if phase == S::GW_BINDING_DEAD.0 => Phase::Dead,
                _ => Phase::Touched,
            },
            fin: state & S::GW_BINDING_FIN.0 != 0,
            rst: state & S::GW_BINDING_RST.0 != 0,
            origin: match state & S::GW_BINDING_ORIGIN.0 {
                origin if origin == S::GW_BINDING_REGISTERED.0 => Origin::Registered,
                origin if origin == S::GW_BINDING_IMPORTED.0 => Origin::Imported,
                _ => Origin::Traffic,
            },
            learned: ((state & S::GW_BINDING_LEARNED.0) >> S::GW_BINDING_LEARNED_SHIFT.0) as u8,
            hash: value.hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    #[test]
    fn an_entry_has_the_specified_bytes() {
        let binding = Binding {
            tag: 0x1122,
            row: 0x3344,
            incarnation: 0x5566_7788,
            seen_ns: 0x99aa_bbcc_ddee_ff00,
            phase: Phase::Touched,
            fin: true,
            rst: false,
            origin: Origin::Imported,
            learned: 5,
            hash: 0x0102_0304,
        };
        let value = binding.to_abi();
        let mut expected = Vec::new();
        expected.extend(0x1122_u16.to_ne_bytes());
        expected.extend(0x3344_u16.to_ne_bytes());
        expected.extend(0x5566_7788_u32.to_ne_bytes());
        expected.extend(0x99aa_bbcc_ddee_ff00_u64.to_ne_bytes());
        // Phase 3, FIN, origin 2, five learned.
        expected.extend(0b0101_0010_0111_u32.to_ne_bytes());
        expected.extend(0x0102_0304_u32.to_ne_bytes());
        assert_eq!(bytemuck::bytes_of(&value), expected);
        assert_eq!(Binding::from_abi(&value), binding);
    }

    #[test]
    fn a_key_keeps_its_connection_id_and_zeros_the_rest() {
        let cid: Cid = "c46001".parse().expect("a connection ID");
        let key = CidKey::new(ServiceId::new(0x8cd5_d28f), cid);
        let value = key.to_abi();
        let mut expected = 0x8cd5_d28f_u32.to_ne_bytes().to_vec();
        expected.extend(
            hex::decode_exact::<24>(&format!("03000000c46001{}", "00".repeat(17))).expect("hex"),
        );
        assert_eq!(bytemuck::bytes_of(&value), expected);
        assert_eq!(CidKey::from_abi(&value), Some(key));
        for length in [0, 21, 255] {
            assert_eq!(CidKey::from_abi(&abi::CidKey { length, ..value }), None);
        }
    }
}
