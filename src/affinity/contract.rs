// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which connection IDs packets of a service can be found by.

use crate::quic::Cid;
use crate::service::{Routing, Service};

/// The first three bits of a connection ID that tells its own length.
const SELF_DESCRIBED: u8 = 0b111;

/// Why no short header can ever show a connection ID to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The service reads no QUIC.
    #[error("it reads no connection IDs")]
    NotQuic,
    /// The service knows no length of connection IDs.
    #[error("its short_dcid_len is 0, so that it knows no connection ID in a short header")]
    NoLength,
    /// The service takes another length out of short headers.
    #[error("the connection ID has {len} bytes, and packets with a short header show {expected}")]
    #[non_exhaustive]
    Length {
        /// Bytes that it has.
        len: usize,
        /// Bytes that are looked up.
        expected: u8,
    },
}

/// What a service and its servers agree on: which connection IDs a short header shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidContract {
    /// Whether packets have connection IDs to look up at all.
    pub reads_quic: bool,
    /// How connection IDs are read.
    pub routing: Routing,
    /// Bytes of a connection ID that does not tell its length itself; 0 where that is not known.
    pub short_dcid_len: u8,
}

impl Service {
    /// Which connection IDs a short header shows to the service.
    pub fn cid_contract(&self) -> CidContract {
        CidContract {
            reads_quic: self.reads_quic(),
            routing: self.quic.routing,
            short_dcid_len: self.short_dcid_len,
        }
    }

    /// Whether a packet with a short header can be found by this connection ID.
    ///
    /// # Errors
    /// As [`CidContract::admits`].
    pub fn admits_cid(&self, cid: &Cid) -> Result<(), ContractError> {
        self.cid_contract().admits(cid)
    }
}

impl CidContract {
    /// Whether a packet with a short header can be found by this connection ID: by its length, or
    /// because it is one that tells its length itself, which services routed by server ID read.
    ///
    /// # Errors
    /// [`ContractError`]: packets would never find its binding.
    pub fn admits(&self, cid: &Cid) -> Result<(), ContractError> {
        if !self.reads_quic {
            return Err(ContractError::NotQuic);
        }
        let first = cid.first().copied().unwrap_or(0);
        let described = (first >> 5 == SELF_DESCRIBED).then_some((first & 31) + 1);
        let expected = match (self.routing, described) {
            (Routing::ServerId, Some(described)) => described,
            _ if self.short_dcid_len == 0 => return Err(ContractError::NoLength),
            _ => self.short_dcid_len,
        };
        if cid.len() == usize::from(expected) {
            Ok(())
        } else {
            Err(ContractError::Length {
                len: cid.len(),
                expected,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Spec;

    fn service(fields: &str) -> Spec {
        let text = format!(
            r#"{{"instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
                "services": [{{"name": "a", "vip": "203.0.113.80", "port": 443, "backends": []
                {fields}}}]}}"#
        );
        Spec::from_json(text.as_bytes()).expect("valid")
    }

    #[track_caller]
    fn judged(spec: &Spec, cid: &str) -> Result<(), ContractError> {
        spec.services()[0].admits_cid(&cid.parse().expect("a connection ID"))
    }

    #[test]
    fn short_headers_show_the_length_of_the_contract() {
        let learned = service(r#", "short_dcid_len": 8"#);
        let tuple = service(r#", "short_dcid_len": 8, "quic": {"routing": "tuple"}"#);
        for spec in [&learned, &tuple] {
            assert_eq!(judged(spec, "c4600102030405aa"), Ok(()));
            // What would describe seven bytes is read by the contract all the same.
            assert_eq!(judged(spec, "e600010203040506"), Ok(()));
            for (cid, len) in [
                ("c46001", 3),
                ("c4600102030405aabb", 9),
                ("e6000102030405", 7),
            ] {
                let error = judged(spec, cid).expect_err(cid);
                assert_eq!(error, ContractError::Length { len, expected: 8 });
            }
        }
        assert_eq!(judged(&service(""), "c46001"), Err(ContractError::NoLength));
    }

    #[test]
    fn unroutable_connection_ids_describe_their_length_to_services_routed_by_server_id() {
        let quic = r#""quic": {"routing": "server-id",
            "configs": [{"config_id": 0, "server_id_len": 2, "nonce_len": 5}]}"#;
        let by_id = service(&format!(", {quic}"));
        // 0b111_00111: eight bytes.
        assert_eq!(judged(&by_id, "e700010203040506"), Ok(()));
        assert_eq!(judged(&by_id, "e0"), Ok(()));
        assert_eq!(
            judged(&by_id, "e7000102030405"),
            Err(ContractError::Length {
                len: 7,
                expected: 8
            })
        );
        // 0b111_10100: 21 bytes, more than any has.
        let cid = format!("f4{}", "00".repeat(19));
        assert_eq!(
            judged(&by_id, &cid),
            Err(ContractError::Length {
                len: 20,
                expected: 21
            })
        );
        assert_eq!(
            judged(&by_id, "0000010203040506"),
            Err(ContractError::NoLength)
        );
        let both = service(&format!(r#", "short_dcid_len": 8, {quic}"#));
        assert_eq!(judged(&both, "0000010203040506"), Ok(()));
        assert_eq!(
            judged(&both, "00000102030405"),
            Err(ContractError::Length {
                len: 7,
                expected: 8
            })
        );
    }

    #[test]
    fn what_is_not_quic_has_no_connection_ids() {
        for fields in [r#", "protocol": "tcp""#, r#", "quic_only": false"#] {
            assert_eq!(
                judged(&service(fields), "c46001"),
                Err(ContractError::NotQuic)
            );
        }
    }
}
