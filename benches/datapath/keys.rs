// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Encrypted server IDs on the bench: connection IDs of each number of passes, and what the cipher
//! costs by itself.

use std::os::fd::{AsFd, OwnedFd};

use guideway::kernel::keys::Contexts;
use guideway::quic::lb::{CidGenerator, ServerId};
use guideway::service::Spec;
use serde_json::{json, Value};

use super::programs::{Programs, Use};

/// A number of passes that a decoder makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    One,
    Three,
    Four,
}

impl Passes {
    pub(crate) const ALL: [Self; 3] = [Self::One, Self::Three, Self::Four];

    pub(crate) fn case(self) -> &'static str {
        match self {
            Self::One => "server_id_1_pass",
            Self::Three => "server_id_3_pass",
            Self::Four => "server_id_4_pass",
        }
    }

    /// The name of what the cipher takes of it.
    pub(crate) fn cipher(self) -> &'static str {
        match self {
            Self::One => "cipher_1_pass",
            Self::Three => "cipher_3_pass",
            Self::Four => "cipher_4_pass",
        }
    }

    /// Number of the config of these passes, behind that in clear.
    fn config(self) -> usize {
        1 + self as usize
    }

    /// What calls the cipher as often.
    fn program(self) -> &'static str {
        match self {
            Self::One => "gw_cipher_one",
            Self::Three => "gw_cipher_three",
            Self::Four => "gw_cipher_four",
        }
    }
}

/// The configs with keys; their server IDs have four bytes and five.
pub(crate) fn configs() -> Vec<Value> {
    let lengths = [(4, 12), (4, 7), (5, 4)];
    let config = |(passes, (server_id_len, nonce_len)): (Passes, (u8, u8))| {
        json!({"config_id": passes.config(), "server_id_len": server_id_len,
               "nonce_len": nonce_len, "key": "8f95f09245765f80256934e50c66207f"})
    };
    Passes::ALL.into_iter().zip(lengths).map(config).collect()
}

/// The server IDs of a backend, in clear and encrypted.
pub(crate) fn server_ids(backend: u32) -> Value {
    json!([format!("{backend:08x}"), format!("{backend:010x}")])
}

/// A short header with a connection ID of backend 7, and bytes to follow.
pub(crate) fn short_header(spec: &Spec, passes: Passes) -> Vec<u8> {
    let service = spec
        .services()
        .iter()
        .find(|service| !service.quic.configs.is_empty());
    let configs = &service.expect("a service with server IDs").quic.configs;
    let config = *configs[passes.config()].decoder();
    let mut server_id = vec![0; config.server_id_len()];
    *server_id.last_mut().expect("bytes") = 7;
    let server_id = ServerId::new(&server_id).expect("a length");
    let mut generator = CidGenerator::new(config, server_id, |bytes| bytes.fill(0x5a));
    let cid = generator.as_mut().expect("it fits").generate();
    let mut payload = vec![0x40];
    payload.extend(&cid.expect("a nonce")[..]);
    payload.extend([0xa5; 40]);
    payload
}

/// Programs that call the cipher and do nothing else.
pub(crate) struct Cipher {
    none: OwnedFd,
    calls: [OwnedFd; 3],
}

impl Cipher {
    /// With the first of these contexts.
    pub(crate) fn load(contexts: &Contexts) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/cipher.bpf.o"));
        let programs = Programs::load(bytes, |name| match name {
            "gw_ql_crypto" => Use::Shared(contexts.map().as_fd()),
            _ => Use::Own,
        });
        Self {
            none: programs.program("gw_cipher_none"),
            calls: Passes::ALL.map(|passes| programs.program(passes.program())),
        }
    }

    /// What calls it as often as these passes do, and what does all but call it.
    pub(crate) fn programs(&self, passes: Passes) -> [&OwnedFd; 2] {
        [&self.calls[passes as usize], &self.none]
    }
}
