// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! quinn servers whose connection IDs name their backend: the whole adapter.

use guideway::quic::lb::{CidGenerator, Config, ServerId};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use quinn_proto::InvalidCid;

/// Makes every connection ID of `endpoint` carry `server_id` as `config` says.
pub(crate) fn name_backend(endpoint: &mut EndpointConfig, config: Config, server_id: ServerId) {
    endpoint.cid_generator(move || Box::new(Cids(generator(config, server_id))));
}

/// The cryptographic random source of rustls: connection IDs must not be predictable.
type Random = fn(&mut [u8]);

struct Cids(CidGenerator<Random>);

impl ConnectionIdGenerator for Cids {
    fn generate_cid(&mut self) -> ConnectionId {
        let cid = self.0.generate();
        // Of the shortest nonces there are four thousand million, and quinn has no way out.
        ConnectionId::new(&cid.expect("a nonce is left under this key"))
    }

    /// Refuses what a misdirected packet carries: it is dropped then, where quinn would otherwise
    /// answer with a stateless reset.
    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        match self.0.config().decode(cid) {
            Ok(server_id) if server_id == self.0.server_id() => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        self.0.config().cid_len()
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

fn generator(config: Config, server_id: ServerId) -> CidGenerator<Random> {
    let random: Random = |bytes| {
        rustls::crypto::ring::default_provider()
            .secure_random
            .fill(bytes)
            .expect("the system has a random source");
    };
    CidGenerator::new(config, server_id, random)
        .expect("the caller's server ID has the length that its configuration says")
}
