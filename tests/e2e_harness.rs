// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The test network itself, without a load balancer: what the other tests with real traffic find
//! must not come from the network.

#[path = "common/e2e.rs"]
mod e2e;

use e2e::quic::{Ids, ServerOptions};
use e2e::{all, local, World};

const SERVERS: ServerOptions = ServerOptions {
    ids: Ids::Plain,
    retry: false,
};

#[test]
fn a_routed_backend_answers_and_follows_migration() {
    if !e2e::require_kernel("a_routed_backend_answers_and_follows_migration") {
        return;
    }
    let world = World::new(2, SERVERS);
    world
        .network
        .balancer
        .run(|| {
            for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{switch}"), "1").expect("a switch");
            }
        })
        .expect("the balancer's namespace");
    let mac = &world.network.backends[1].mac;
    world
        .network
        .balancer
        .ip(&format!(
            "route add 203.0.113.80 dev be-2\nneigh add 203.0.113.80 lladdr {mac} dev be-2\n\
             route add 2001:db8::80 dev be-2\nneigh add 2001:db8::80 lladdr {mac} dev be-2\n"
        ))
        .expect("routes to the second backend");
    e2e::block_on(async {
        let clients = world.connect_all(0..20).await;
        assert!(clients.iter().all(|client| client.backend == 2));
        for round in 1..=3 {
            for (n, client) in clients.iter().enumerate() {
                let before = client.local();
                client
                    .migrate(&world.network.clients, local(n + 2 * round))
                    .expect("a socket");
                assert_ne!(client.local(), before);
            }
            let echoes = all(clients.iter().map(|client| client.echo())).await;
            assert_eq!(echoes, vec![Ok(()); 20]);
        }
    });
    assert_eq!(world.servers[0].accepted(), 0);
    assert_eq!(world.servers[1].accepted(), 20);
}

#[test]
fn nothing_gets_through_by_itself() {
    if !e2e::require_kernel("nothing_gets_through_by_itself") {
        return;
    }
    let world = World::new(2, SERVERS);
    e2e::block_on(async {
        let refused = e2e::quic::Client::connect(
            &world.network.clients,
            &world.identity,
            local(0),
            e2e::vip(0),
            std::time::Duration::from_millis(500),
        )
        .await
        .expect("a socket");
        assert!(matches!(refused, Err(e2e::quic::Broken::NotOpened(_))));
    });
}
