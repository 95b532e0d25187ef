// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Requests and their answers, over sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::http::{address, Limits, Request, Response, Server, Status};

/// Long enough for a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that answers with what it was asked.
pub(crate) fn echo(limits: Limits) -> Server {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::start(loopback, limits, |request| match &*request.path {
        "/nothing" => Response::text(Status::NotFound, "there is nothing here"),
        "/broken" => Response::text(Status::ServiceUnavailable, "not now"),
        path => Response {
            status: Status::Ok,
            content_type: "application/x-echo",
            body: format!("{path}|{}", request.accept),
        },
    })
    .expect("a server")
}

pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// The head and the body of what comes of sending these bytes.
pub(crate) fn ask(server: &Server, request: &[u8]) -> (String, String) {
    let mut stream = connect(server);
    stream.write_all(request).expect("the request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn status(server: &Server, request: &[u8]) -> String {
    let (head, _) = ask(server, request);
    let line = head.lines().next().expect("a line");
    line.strip_prefix("HTTP/1.1 ").expect("a status").to_owned()
}

#[test]
fn a_request_gets_its_answer() {
    let server = echo(Limits::default());
    let request =
        b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: text/plain\r\naccept: b/c\r\n\r\n";
    let (head, body) = ask(&server, request);
    assert_eq!(body, "/metrics|text/plain,b/c");
    let lines: Vec<_> = head.lines().collect();
    assert_eq!(lines[0], "HTTP/1.1 200 OK");
    assert!(
        lines.contains(&"Content-Type: application/x-echo"),
        "{head}"
    );
    assert!(lines.contains(&"Content-Length: 23"), "{head}");
    assert!(lines.contains(&"Connection: close"), "{head}");
}

#[test]
fn a_head_is_an_answer_without_a_body() {
    let server = echo(Limits::default());
    let (head, body) = ask(&server, b"HEAD /healthz HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Length: 9\r\n"), "{head}");
    assert_eq!(body, "");
}

#[test]
fn each_status_is_said() {
    let server = echo(Limits::default());
    let (head, body) = ask(&server, b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
    assert_eq!(body, "there is nothing here\n");
    let broken = status(&server, b"GET /broken HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(broken, "503 Service Unavailable");
}

#[test]
fn what_is_no_request_is_refused() {
    let server = echo(Limits::default());
    for (request, expected) in [
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("get /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (
            "GET /metrics HTTP/2.0\r\n\r\n",
            "505 HTTP Version Not Supported",
        ),
        ("GET /metrics\r\n\r\n", "400 Bad Request"),
        ("GET  /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET /metrics XTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\na b: c\r\n\r\n", "400 Bad Request"),
        ("\u{16}\u{3}\u{1}", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nX: \u{e9}\r\n\r\n", "200 OK"),
    ] {
        assert_eq!(status(&server, request.as_bytes()), expected, "{request:?}");
    }
    let not_text = status(&server, b"GET / HTTP/1.1\r\nX: \xff\r\n\r\n");
    assert_eq!(not_text, "400 Bad Request");
    let (head, _) = ask(&server, b"PUT / HTTP/1.1\r\n\r\n");
    assert!(head.contains("\r\nAllow: GET, HEAD\r\n"), "{head}");
}

#[test]
fn a_request_has_a_size() {
    let limits = Limits {
        request_bytes: 1000,
        ..Limits::default()
    };
    let server = echo(limits);
    let of = |size: usize| {
        let rest = size - "GET / HTTP/1.1\r\nX: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(rest)).into_bytes()
    };
    assert_eq!(status(&server, &of(1000)), "200 OK");
    let too_long = "431 Request Header Fields Too Large";
    assert_eq!(status(&server, &of(1001)), too_long);
    // Also where much more of it was sent before the answer.
    assert_eq!(status(&server, &of(50_000)), too_long);
}

#[test]
fn a_request_may_come_in_pieces() {
    let server = echo(Limits::default());
    let mut stream = connect(&server);
    for byte in b"GET /slowly HTTP/1.1\r\nHost: a\r\n\r\n" {
        stream.write_all(&[*byte]).expect("it is taken");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("\r\n\r\n/slowly|"), "{answer}");
}

#[test]
fn a_large_answer_arrives_whole() {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let body = "0123456789abcdef".repeat(1 << 18);
    let expected = body.clone();
    let server = Server::start(loopback, Limits::default(), move |_: &Request| Response {
        status: Status::Ok,
        content_type: "text/plain",
        body: body.clone(),
    })
    .expect("a server");
    let (_, received) = ask(&server, b"GET / HTTP/1.1\r\n\r\n");
    assert!(received == expected, "{} bytes", received.len());
}

#[test]
fn an_end_ends_the_thread_and_frees_the_port() {
    let (told, tell) = mpsc::channel();
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(loopback, Limits::default(), move |request: &Request| {
        let _ = told.send(request.path.clone());
        Response::text(Status::Ok, "")
    })
    .expect("a server");
    let address = server.address();
    let taken = Server::start(address, Limits::default(), |_| {
        Response::text(Status::Ok, "")
    });
    assert_eq!(
        taken.expect_err("it is taken").kind(),
        std::io::ErrorKind::AddrInUse
    );
    ask(&server, b"GET /one HTTP/1.1\r\n\r\n");
    drop(server);
    assert_eq!(tell.iter().collect::<Vec<_>>(), ["/one"]);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn an_address_is_an_address_and_a_port_or_off() {
    assert_eq!(address("off").expect("nowhere"), None);
    for text in ["127.0.0.1:9477", "[::1]:9477", "0.0.0.0:1"] {
        let listen = address(text).expect("an address");
        assert_eq!(
            listen.map(|listen| listen.to_string()).as_deref(),
            Some(text)
        );
    }
    for text in [
        "",
        "9477",
        ":9477",
        "localhost:9477",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "::1:9477",
        "[ff02::1]:9477",
        "Off",
    ] {
        let error = address(text).expect_err(text).to_string();
        assert!(
            error.contains("127.0.0.1:9477") && error.contains("off"),
            "{error}"
        );
    }
}
