// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Clients that mean ill, beside one that does not.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::http::{Limits, Request, Response, Server, Status};
use crate::requests::{ask, connect, echo, PATIENCE};

const REQUEST: &[u8] = b"GET /alive HTTP/1.1\r\nHost: a\r\n\r\n";

fn is_alive(server: &Server) {
    let (head, body) = ask(server, REQUEST);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "/alive|");
}

/// Whether the other side has ended, within the patience of the test.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn who_says_nothing_is_left_after_a_while() {
    let limits = Limits {
        patience: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = echo(limits);
    let mut silent = connect(&server);
    let mut halfway = connect(&server);
    halfway.write_all(b"GET / HT").expect("it is taken");
    assert!(is_closed(&mut silent) && is_closed(&mut halfway));
    is_alive(&server);
}

#[test]
fn who_goes_on_byte_by_byte_is_left_at_the_same_time() {
    let limits = Limits {
        patience: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = echo(limits);
    let mut drip = connect(&server);
    let started = Instant::now();
    drip.write_all(b"GET / HTTP/1.1\r\nX: ")
        .expect("it is taken");
    while drip.write_all(b"x").is_ok() {
        assert!(started.elapsed() < PATIENCE, "it may go on for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    is_alive(&server);
}

#[test]
fn crowds_of_the_silent_keep_nobody_out() {
    let limits = Limits {
        connections: 8,
        patience: Duration::from_secs(3600),
        ..Limits::default()
    };
    let server = echo(limits);
    let mut crowd = Vec::new();
    for _ in 0..10 {
        crowd.extend((0..20).map(|_| connect(&server)));
        is_alive(&server);
    }
    // Those that came first have made room.
    assert!(is_closed(&mut crowd[0]));
}

#[test]
fn who_does_not_take_its_answer_keeps_nobody_waiting() {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let limits = Limits {
        connections: 4,
        patience: Duration::from_millis(200),
        ..Limits::default()
    };
    let body = "x".repeat(32 << 20);
    let server = Server::start(loopback, limits, move |request: &Request| Response {
        status: Status::Ok,
        content_type: "text/plain",
        body: match &*request.path {
            "/large" => body.clone(),
            path => format!("{path}|"),
        },
    })
    .expect("a server");
    let mut deaf: Vec<_> = (0..8).map(|_| connect(&server)).collect();
    for stream in &mut deaf {
        // It may have had to make room already.
        let _ = stream.write_all(b"GET /large HTTP/1.1\r\n\r\n");
    }
    is_alive(&server);
    // Many times as long as anybody is waited for: the rest of the answer never comes.
    std::thread::sleep(Duration::from_secs(3));
    let mut taken = Vec::new();
    let _ = deaf[7].read_to_end(&mut taken);
    assert!(taken.len() < 32 << 20, "{} bytes", taken.len());
}

#[test]
fn who_never_stops_sending_keeps_nobody_waiting() {
    let server = echo(Limits::default());
    let mut talker = connect(&server);
    talker.write_all(REQUEST).expect("it is taken");
    let chunk = [b'x'; 4096];
    let mut sent = 0;
    while sent < 256 << 20 && talker.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 256 << 20, "all of it is read");
    is_alive(&server);
}

#[test]
fn who_leaves_early_is_forgotten() {
    let server = echo(Limits::default());
    for _ in 0..100 {
        let mut stream = connect(&server);
        stream.write_all(&REQUEST[..20]).expect("it is taken");
        stream.shutdown(Shutdown::Both).expect("it ends");
    }
    is_alive(&server);
}
