// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Real QUIC stacks through the program: which connections must survive what.
//!
//! Every assertion is about application bytes: a handshake completes even where every later packet
//! goes astray. quinn's defaults stand, the greased QUIC bit among them.

#[path = "common/e2e.rs"]
mod e2e;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use e2e::quic::{Broken, Client, Ids, ServerOptions};
use e2e::spec::{Member, Routing, State};
use e2e::{all, local, vip, World};

const READY: Member = Member {
    weight: 1,
    state: State::Ready,
};

const ROUTABLE: ServerOptions = ServerOptions {
    ids: Ids::Plain,
    retry: false,
};

const RANDOM_IDS: ServerOptions = ServerOptions {
    ids: Ids::Random,
    retry: false,
};

/// Every client goes on from a new port, and has one more echo answered.
async fn migrate(world: &World, clients: &[Client]) {
    for client in clients {
        move_to(world, client, client.local().ip());
    }
    assert_echoes(clients).await;
}

fn move_to(world: &World, client: &Client, address: IpAddr) {
    client
        .migrate(&world.network.clients, address)
        .expect("a socket");
}

async fn assert_echoes(clients: &[Client]) {
    for (n, echo) in all(clients.iter().map(Client::echo))
        .await
        .iter()
        .enumerate()
    {
        assert_eq!(echo, &Ok(()), "client {n}");
    }
}

/// How many of `clients`, which were opened under the plan in force, reached each backend; each
/// must have reached the owner of its slot.
fn landed(world: &World, clients: &[Client]) -> Vec<usize> {
    let mut landed = vec![0; world.network.backends.len()];
    for (n, client) in clients.iter().enumerate() {
        let owner = world.plan().owner(["v4", "v6"][n % 2], client.local());
        assert_eq!(owner, Some(client.backend), "client {n}");
        landed[client.backend as usize - 1] += 1;
    }
    landed
}

fn ten_migrations(backends: u32) {
    let mut world = World::new(backends, ROUTABLE);
    let members = vec![READY; backends as usize];
    world.publish(Routing::ServerId, &members);
    e2e::block_on(async {
        let clients = world.connect_all(0..100).await;
        assert!(landed(&world, &clients).iter().filter(|&&n| n > 0).count() > 1);
        for _ in 0..10 {
            migrate(&world, &clients).await;
        }
        // 100 connections x (1 + 10) echoes came back: what `migrate` asserted.
        assert_eq!(clients.iter().map(Client::answered).sum::<u64>(), 1100);
    });
    // Only the Initials that still carry the client's own ID went by the table: one a connection,
    // and perhaps repetitions of it.
    let rules = world.rules();
    assert!((100..=300).contains(&rules["table"]), "{rules:?}");
    assert!(rules["server_id"] > 2000, "{rules:?}");
    assert_eq!(rules.keys().len(), 2, "{rules:?}");
    let others = world.counters().others;
    assert!(rules["table"] <= others["starts"], "{rules:?} {others:?}");
    // The greased bit was random, as it is by default, and made no difference.
    assert!(others["fixed_bit_clear"] > 500, "{others:?}");
}

#[test]
fn server_ids_survive_ten_migrations_with_2_backends() {
    if e2e::require_kernel("server_ids_survive_ten_migrations_with_2_backends") {
        ten_migrations(2);
    }
}

#[test]
fn server_ids_survive_ten_migrations_with_16_backends() {
    if e2e::require_kernel("server_ids_survive_ten_migrations_with_16_backends") {
        ten_migrations(16);
        // The full grid takes its time.
        if std::env::var_os("GW_LONG").is_some() {
            ten_migrations(64);
        }
    }
}

#[test]
fn server_ids_survive_a_change_of_address() {
    if !e2e::require_kernel("server_ids_survive_a_change_of_address") {
        return;
    }
    let mut world = World::new(3, ROUTABLE);
    world.publish(Routing::ServerId, &[READY; 3]);
    e2e::block_on(async {
        let clients = world.connect_all(0..30).await;
        for round in 1..=5 {
            for (n, client) in clients.iter().enumerate() {
                let before = client.local().ip();
                move_to(&world, client, local(n + 2 * round));
                assert_ne!(client.local().ip(), before);
            }
            assert_echoes(&clients).await;
        }
    });
}

#[test]
fn connections_go_on_and_migrate_while_the_program_is_exchanged() {
    if !e2e::require_kernel("connections_go_on_and_migrate_while_the_program_is_exchanged") {
        return;
    }
    let mut world = World::new(3, ROUTABLE);
    world.publish(Routing::ServerId, &[READY; 3]);
    let ((), exchanges) = world.exchanging(|world| {
        e2e::block_on(async {
            let clients = world.connect_all(0..200).await;
            for _ in 0..5 {
                assert_echoes(&clients).await;
                migrate(world, &clients).await;
            }
        })
    });
    println!("200 connections through {exchanges} exchanges");
}

#[test]
fn retry_changes_nothing() {
    if !e2e::require_kernel("retry_changes_nothing") {
        return;
    }
    let options = ServerOptions {
        retry: true,
        ..ROUTABLE
    };
    let mut world = World::new(3, options);
    world.publish(Routing::ServerId, &[READY; 3]);
    e2e::block_on(async {
        let clients = world.connect_all(0..30).await;
        for _ in 0..3 {
            migrate(&world, &clients).await;
        }
    });
}

#[test]
fn early_data_reaches_the_backend_of_its_handshake() {
    if !e2e::require_kernel("early_data_reaches_the_backend_of_its_handshake") {
        return;
    }
    let mut world = World::new(3, ROUTABLE);
    world.publish(Routing::ServerId, &[READY; 3]);
    e2e::block_on(async {
        // One configuration, so that each connection resumes the session of an earlier one. The
        // backends share their sessions.
        let config = world.identity.client();
        assert!(!early_data(&world, &config, 0).await, "nothing to resume");
        for n in 1..20 {
            assert!(early_data(&world, &config, n).await, "connection {n}");
        }
    });
}

/// Has one echo answered, asked in 0-RTT where that is possible. Returns whether it was accepted.
async fn early_data(world: &World, config: &quinn::ClientConfig, n: usize) -> bool {
    let socket = e2e::quic::bind(&world.network.clients, SocketAddr::new(local(n), 0));
    let socket = socket.expect("a socket");
    let client = socket.local_addr().expect("a bound socket");
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = quinn::Endpoint::new(quinn::EndpointConfig::default(), None, socket, runtime)
        .expect("an endpoint");
    let connecting = endpoint
        .connect_with(config.clone(), vip(n), e2e::quic::NAME)
        .expect("a configuration");
    let (connection, accepted) = match connecting.into_0rtt() {
        Ok((connection, accepted)) => (connection, Some(accepted)),
        Err(connecting) => (connecting.await.expect("a connection"), None),
    };
    let (mut request, mut answer) = connection.open_bi().await.expect("a stream");
    request.write_all(b"early").await.expect("a question");
    request.finish().expect("a question");
    let answer = answer.read_to_end(100).await.expect("an answer");
    let owner = world.plan().owner(["v4", "v6"][n % 2], client);
    let expected = [&owner.expect("an owner").to_be_bytes()[..], b"early"].concat();
    assert_eq!(answer, expected);
    match accepted {
        Some(accepted) => accepted.await,
        None => false,
    }
}

#[test]
fn tuple_routing_lives_until_it_migrates() {
    if !e2e::require_kernel("tuple_routing_lives_until_it_migrates") {
        return;
    }
    let mut world = World::new(4, RANDOM_IDS);
    world.publish(Routing::Tuple, &[READY; 4]);
    e2e::block_on(async {
        let deadline = Duration::from_secs(5);
        let clients = world.connect_within(0..80, deadline).await;
        for _ in 0..3 {
            assert_echoes(&clients).await;
        }
        for client in &clients {
            move_to(&world, client, client.local().ip());
        }
        let echoes = all(clients.iter().map(Client::echo)).await;
        let alive = echoes.iter().filter(|echo| echo.is_ok()).count();
        // One of four by chance: 20 of 80, with a standard deviation of 3.9.
        assert!((1..=39).contains(&alive), "{alive} of 80 are alive");
        let broken = echoes.iter().filter_map(|echo| echo.as_ref().err());
        for reason in broken {
            assert_eq!(reason, &Broken::NoAnswer);
        }
    });
    assert!(!world.rules().contains_key("server_id"));
}

/// Publishes back and forth every 50 ms while `steps` run. Returns how often.
fn while_publishing<T: Send>(
    world: &mut World,
    routing: Routing,
    pictures: [&[Member]; 2],
    steps: impl FnOnce(&World) -> T + Send,
) -> (usize, T) {
    let mut publisher = world.take_balancer();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let world = &*world;
        let done = &done;
        let publishing = scope.spawn(move || {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                let document = world.document(routing, pictures[count % 2]);
                publisher
                    .publish(&world.network, &document)
                    .expect("a publication");
                count += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            count
        });
        // Also when a step panics: the publisher must end, or the panic would never be seen.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| steps(world)));
        done.store(true, Ordering::Relaxed);
        let count = publishing.join().expect("the publisher");
        match result {
            Ok(result) => (count, result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[test]
fn server_ids_survive_tables_that_change_all_the_time() {
    if !e2e::require_kernel("server_ids_survive_tables_that_change_all_the_time") {
        return;
    }
    let mut world = World::new(4, ROUTABLE);
    let heavy = Member {
        weight: 10,
        ..READY
    };
    let (one, other) = ([heavy, READY, READY, READY], [READY, READY, READY, heavy]);
    world.publish(Routing::ServerId, &one);
    let (count, ()) = while_publishing(&mut world, Routing::ServerId, [&other, &one], |world| {
        e2e::block_on(async {
            let clients = world.connect_all(0..60).await;
            for _ in 0..10 {
                migrate(world, &clients).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    });
    assert!(count >= 10, "{count} publications");
}

#[test]
fn tuple_routing_survives_publications_that_move_nothing() {
    if !e2e::require_kernel("tuple_routing_survives_publications_that_move_nothing") {
        return;
    }
    let mut world = World::new(4, RANDOM_IDS);
    world.publish(Routing::Tuple, &[READY; 4]);
    // Weights in the same proportion make the same table, so each publication is one anew.
    let twice = Member { weight: 2, ..READY };
    let pictures: [&[Member]; 2] = [&[twice; 4], &[READY; 4]];
    let (count, ()) = while_publishing(&mut world, Routing::Tuple, pictures, |world| {
        e2e::block_on(async {
            let clients = world.connect_all(0..60).await;
            for _ in 0..10 {
                assert_echoes(&clients).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    });
    assert!(count >= 10, "{count} publications");
}

#[test]
fn a_drained_backend_keeps_its_connections_and_gets_no_new_ones() {
    if !e2e::require_kernel("a_drained_backend_keeps_its_connections_and_gets_no_new_ones") {
        return;
    }
    let mut world = World::new(3, ROUTABLE);
    world.publish(Routing::ServerId, &[READY; 3]);
    e2e::block_on(async {
        let clients = world.connect_all(0..60).await;
        let before = landed(&world, &clients);
        assert!(before.iter().all(|&count| count > 0), "{before:?}");

        let draining = Member {
            state: State::Draining,
            ..READY
        };
        world.publish(Routing::ServerId, &[READY, draining, READY]);
        let later = world.connect_all(0..60).await;
        assert_eq!(landed(&world, &later)[1], 0);
        for _ in 0..3 {
            migrate(&world, &clients).await;
            migrate(&world, &later).await;
        }

        // Removed once its connections have ended: nobody else notices.
        let (gone, mut rest): (Vec<_>, Vec<_>) =
            clients.into_iter().partition(|client| client.backend == 2);
        assert_eq!(gone.len(), before[1]);
        gone.iter().for_each(Client::close);
        world.publish_without(Routing::ServerId, &[READY; 3], 2);
        rest.extend(later);
        migrate(&world, &rest).await;
    });
}

#[test]
fn a_dead_backend_takes_only_its_own_connections() {
    if !e2e::require_kernel("a_dead_backend_takes_only_its_own_connections") {
        return;
    }
    let mut world = World::new(3, ROUTABLE);
    world.publish(Routing::ServerId, &[READY; 3]);
    e2e::block_on(async {
        let clients = world.connect_within(0..60, Duration::from_secs(5)).await;
        world.servers[0].kill();
        world.network.backends[0].unplug().expect("its interfaces");
        let unhealthy = Member {
            state: State::Unhealthy,
            ..READY
        };
        world.publish(Routing::ServerId, &[unhealthy, READY, READY]);
        let echoes = all(clients.iter().map(Client::echo)).await;
        for (client, echo) in clients.iter().zip(echoes) {
            let expected = match client.backend {
                1 => Err(Broken::NoAnswer),
                _ => Ok(()),
            };
            assert_eq!(echo, expected);
        }
        let later = world.connect_all(0..30).await;
        assert_eq!(landed(&world, &later)[0], 0);
        assert!(world.counters().reasons["unhealthy"] > 0);
    });
}

#[test]
fn two_connections_of_one_socket_may_live_on_two_backends() {
    if !e2e::require_kernel("two_connections_of_one_socket_may_live_on_two_backends") {
        return;
    }
    let mut world = World::new(2, ROUTABLE);
    world.publish(Routing::ServerId, &[READY; 2]);
    e2e::block_on(async {
        let firsts = world.connect_all(0..20).await;
        let draining = Member {
            state: State::Draining,
            ..READY
        };
        world.publish(Routing::ServerId, &[draining, READY]);
        let mut seconds = Vec::new();
        for first in firsts.iter().filter(|first| first.backend == 1) {
            let second = first.another().await.expect("a second connection");
            assert_eq!((second.local(), second.backend), (first.local(), 2));
            seconds.push(second);
        }
        assert!(!seconds.is_empty());
        for _ in 0..3 {
            assert_echoes(&firsts).await;
            assert_echoes(&seconds).await;
        }
        // Both move together: they share the socket.
        migrate(&world, &firsts).await;
        assert_echoes(&seconds).await;
    });
}
