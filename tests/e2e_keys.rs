// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Real QUIC stacks whose connection IDs hide the backend from everybody but the balancer: they
//! survive what those in clear survive. Assertions are about application bytes.

#[path = "common/e2e.rs"]
mod e2e;

use std::collections::BTreeSet;

use e2e::quic::{server_id, Client, Ids, ServerOptions};
use e2e::spec::{Member, Routing, State};
use e2e::{all, World};
use guideway::quic::lb::{Config, ConfigId, Key};
use serde_json::{json, Value};

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

const KEY: &str = "8f95f09245765f80256934e50c66207f";

fn config(server_id_len: usize, nonce_len: usize) -> Config {
    let key: Key = KEY.parse().expect("a key");
    let id = ConfigId::new(3).expect("an ID");
    let config = Config::new(id, server_id_len, nonce_len).expect("legal lengths");
    config.with_key(Some(key))
}

/// The specification with connection IDs of this form and not of the usual one.
fn document(world: &World, members: &[Member], config: &Config) -> Value {
    let mut document = world.document(Routing::ServerId, members);
    for service in document["services"].as_array_mut().expect("services") {
        service["quic"]["configs"] = json!([{
            "config_id": config.id().get(),
            "server_id_len": config.server_id_len(),
            "nonce_len": config.nonce_len(),
            "key": KEY,
        }]);
        for backend in service["backends"].as_array_mut().expect("backends") {
            let number = backend["id"].as_u64().expect("a number") as u32;
            backend["server_id"] = json!(server_id(config, number).to_string());
        }
    }
    document
}

async fn assert_echoes(clients: &[Client]) {
    let echoes = all(clients.iter().map(Client::echo)).await;
    for (n, echo) in echoes.iter().enumerate() {
        assert_eq!(echo, &Ok(()), "client {n}");
    }
}

async fn migrate(world: &World, clients: &[Client]) {
    for client in clients {
        let migrated = client.migrate(&world.network.clients, client.local().ip());
        migrated.expect("a socket");
    }
    assert_echoes(clients).await;
}

/// A hundred connections move ten times each, with a drain in between; all survive.
fn ten_migrations(test: &str, backends: u32, config: Config, passes: u8) {
    if !e2e::require_kernel(test) || !e2e::netns::require_keys(test) {
        return;
    }
    assert_eq!(config.decoder_passes(), passes);
    let options = ServerOptions {
        ids: Ids::Encrypted(config),
        retry: false,
    };
    let mut world = World::new(backends, options);
    let mut members = vec![READY; backends as usize];
    world.publish_document(&document(&world, &members, &config));
    e2e::block_on(async {
        let clients = world.connect_all(0..100).await;
        let reached: BTreeSet<_> = clients.iter().map(|client| client.backend).collect();
        assert!(reached.len() > 1, "{reached:?}");
        for _ in 0..5 {
            migrate(&world, &clients).await;
        }
        members[0].state = State::Draining;
        world.publish_document(&document(&world, &members, &config));
        for _ in 0..5 {
            migrate(&world, &clients).await;
        }
        assert_eq!(clients.iter().map(Client::answered).sum::<u64>(), 1100);
    });
    // As in clear: only Initials with the client's own ID went by flow, one a connection and perhaps
    // repetitions of it, and what the greased bit is made no difference.
    let mut rules = world.rules();
    let by_server_id = rules.remove("server_id");
    assert!(by_server_id > Some(2000), "{by_server_id:?}");
    let by_flow: u64 = rules.values().sum();
    assert!((100..=300).contains(&by_flow), "{rules:?}");
    let others = world.counters().others;
    assert!(by_flow <= others["starts"], "{rules:?} {others:?}");
    assert!(others["fixed_bit_clear"] > 500, "{others:?}");
}

#[test]
fn server_ids_in_a_single_block_survive_ten_migrations() {
    ten_migrations("e2e_keys::single", 16, config(8, 8), 1);
    if std::env::var_os("GW_LONG").is_some() {
        ten_migrations("e2e_keys::single", 2, config(8, 8), 1);
        ten_migrations("e2e_keys::single", 64, config(8, 8), 1);
    }
}

#[test]
fn server_ids_of_four_passes_survive_ten_migrations() {
    ten_migrations("e2e_keys::four", 2, config(10, 5), 4);
    if std::env::var_os("GW_LONG").is_some() {
        ten_migrations("e2e_keys::four", 16, config(10, 5), 4);
        ten_migrations("e2e_keys::four", 64, config(10, 9), 4);
        ten_migrations("e2e_keys::three", 64, config(3, 4), 3);
    }
}
