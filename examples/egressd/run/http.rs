// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A small HTTP/1.1 server for scrapes and probes: GET and HEAD, one request a connection.
//!
//! One thread serves everybody and waits for nobody: connections, the size of a request and the time
//! for it are bounded, and where there are too many connections the one that has dawdled longest makes
//! room. It shares no thread and no lock with the control loop.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// How much anybody may take of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Bytes of a request up to the end of its headers.
    pub(crate) request_bytes: usize,
    /// Time for the request to come, and again for the answer to be taken.
    pub(crate) patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            request_bytes: 8 << 10,
            patience: Duration::from_secs(5),
        }
    }
}

/// For how long, and how much, of the rest of what a client sends is read after its answer: a
/// connection that is closed with unread bytes is reset, and the answer is lost with it.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 10;
/// For how long nobody is let in when the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// A request that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Without the query.
    pub(crate) path: String,
    /// The `Accept` headers, as one.
    pub(crate) accept: String,
}

/// What a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Response {
    /// A line of text.
    pub(crate) fn text(status: Status, line: impl fmt::Display) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{line}\n"),
        }
    }
}

/// The statuses that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadersTooLarge,
    ServiceUnavailable,
    VersionNotSupported,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadersTooLarge => "431 Request Header Fields Too Large",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        })
    }
}

/// Text that is no address to listen at.
#[derive(Debug, thiserror::Error)]
#[error("must be an IP address and a port (127.0.0.1:9477, [::1]:9477) or off")]
pub(crate) struct AddressError;

/// Where to listen; nowhere if it is `off`.
pub(crate) fn address(text: &str) -> Result<Option<SocketAddr>, AddressError> {
    if text == "off" {
        return Ok(None);
    }
    let address: SocketAddr = text.parse().map_err(|_| AddressError)?;
    if address.port() == 0 || address.ip().is_multicast() {
        return Err(AddressError);
    }
    Ok(Some(address))
}

/// A server in a thread of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    /// Its other end becomes readable when this is closed.
    stop: Option<OwnedFd>,
}

impl Server {
    /// Listens at `address`, and answers each request by `answer`, one after the other.
    ///
    /// # Errors
    /// The address cannot be had, or the thread cannot be started.
    pub(crate) fn start(
        address: SocketAddr,
        limits: Limits,
        answer: impl FnMut(&Request) -> Response + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stopped, stop) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let mut serving = Serving {
            listener,
            stopped,
            limits,
            answer,
            connections: VecDeque::new(),
            paused: None,
        };
        let thread = thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || while serving.turn() {})?;
        Ok(Self {
            address,
            thread: Some(thread),
            stop: Some(stop),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panicked, and said so.
            let _ = thread.join();
        }
    }
}

struct Serving<A> {
    listener: TcpListener,
    stopped: OwnedFd,
    limits: Limits,
    answer: A,
    /// The oldest first.
    connections: VecDeque<Connection>,
    /// Nobody is let in until then.
    paused: Option<Instant>,
}

impl<A: FnMut(&Request) -> Response> Serving<A> {
    /// Waits for something to do and does it; false at the end.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.paused = self.paused.filter(|until| *until > now);
        let ends = self.connections.iter().map(|connection| connection.until);
        let next = ends.chain(self.paused).min();
        let timeout = next.map_or(PollTimeout::NONE, |next| {
            // Rounded up: a turn that comes too early finds nothing to do.
            let wait = next.saturating_duration_since(now).as_micros();
            PollTimeout::try_from(wait.div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        let accepting = match self.paused {
            None => PollFlags::POLLIN,
            Some(_) => PollFlags::empty(),
        };
        let mut wanted = vec![
            PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), accepting),
        ];
        let connections = self.connections.iter();
        wanted.extend(connections.map(|one| PollFd::new(one.stream.as_fd(), one.wants())));
        if let Err(error) = poll(&mut wanted, timeout) {
            return error == nix::errno::Errno::EINTR;
        }
        let ready = |fd: &PollFd<'_>| fd.revents().is_none_or(|events| !events.is_empty());
        let [stopped, listener, connections @ ..] = wanted.as_slice() else {
            return false;
        };
        if ready(stopped) {
            return false;
        }
        let comes = ready(listener);
        let ready: Vec<bool> = connections.iter().map(ready).collect();
        drop(wanted);
        let now = Instant::now();
        let connections = std::mem::take(&mut self.connections);
        for (mut connection, ready) in connections.into_iter().zip(ready) {
            if connection.until > now && (!ready || self.go_on(&mut connection)) {
                self.connections.push_back(connection);
            }
        }
        if comes {
            self.let_in(now);
        }
        true
    }

    fn let_in(&mut self, now: Instant) {
        // As many as there is room for; the others wait for the next turn.
        for _ in 0..self.limits.connections {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    self.paused = Some(now + PAUSE);
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut connection = Connection {
                stream,
                state: State::Asking(Vec::new()),
                until: now + self.limits.patience,
            };
            // Most have sent their request by now.
            if !self.go_on(&mut connection) {
                continue;
            }
            if self.connections.len() >= self.limits.connections {
                let asks = |one: &Connection| matches!(one.state, State::Asking(_));
                let slowest = self.connections.iter().position(asks).unwrap_or(0);
                self.connections.remove(slowest);
            }
            self.connections.push_back(connection);
        }
    }

    /// Reads, answers and writes as far as it goes without waiting; whether the connection goes on.
    fn go_on(&mut self, connection: &mut Connection) -> bool {
        loop {
            let step = match &mut connection.state {
                State::Asking(request) => {
                    let room = self.limits.request_bytes;
                    match read(&mut connection.stream, request, room) {
                        Ok(true) => Ok(()),
                        Ok(false) => return false,
                        Err(error) => Err(error),
                    }
                }
                State::Answering(answer, written) => {
                    match connection.stream.write(&answer[*written..]) {
                        Ok(0) => return false,
                        Ok(count) => {
                            *written += count;
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
                State::Leaving(more) => {
                    let mut rest = [0; 4096];
                    match connection.stream.read(&mut rest) {
                        Ok(0) => return false,
                        Ok(count) if count > *more => return false,
                        Ok(count) => {
                            *more -= count;
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            match step {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
                Ok(()) => {}
            }
            let next = match &connection.state {
                State::Asking(bytes) => {
                    let room = self.limits.request_bytes;
                    self.answer(bytes, room).map(|answer| {
                        connection.until = Instant::now() + self.limits.patience;
                        State::Answering(answer, 0)
                    })
                }
                State::Answering(answer, written) => (*written == answer.len()).then(|| {
                    // What it does not take now it will not take later.
                    let _ = connection.stream.shutdown(Shutdown::Write);
                    connection.until = Instant::now() + LINGER;
                    State::Leaving(LINGER_BYTES)
                }),
                State::Leaving(_) => None,
            };
            if let Some(next) = next {
                connection.state = next;
            }
        }
    }

    /// The answer to what was read; none as long as it is no whole request.
    fn answer(&mut self, bytes: &[u8], room: usize) -> Option<Vec<u8>> {
        let (head, response) = match parse(bytes) {
            Parsed::Part if bytes.len() < room => return None,
            Parsed::Part => {
                let refusal = Response::text(Status::HeadersTooLarge, "the request is too long");
                (false, refusal)
            }
            Parsed::Fault(status, why) => (false, Response::text(status, why)),
            Parsed::Request { head, request } => (head, (self.answer)(&request)),
        };
        let Response {
            status,
            content_type,
            body,
        } = response;
        let allow = match status {
            Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len(),
        );
        if !head {
            answer.push_str(&body);
        }
        Some(answer.into_bytes())
    }
}

/// Reads what is there of a request; false at the end of what comes.
fn read(stream: &mut TcpStream, request: &mut Vec<u8>, room: usize) -> io::Result<bool> {
    let start = request.len();
    let most = room.saturating_sub(start).clamp(1, 4096);
    request.resize(start + most, 0);
    let result = stream.read(&mut request[start..]);
    request.truncate(start + result.as_ref().map_or(0, |count| *count));
    Ok(result? > 0)
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    state: State,
    /// When it is closed, whatever it has come to.
    until: Instant,
}

#[derive(Debug)]
enum State {
    /// What came of the request.
    Asking(Vec<u8>),
    /// The answer, and how much of it is written.
    Answering(Vec<u8>, usize),
    /// It has its answer, and so many bytes more are read.
    Leaving(usize),
}

impl Connection {
    fn wants(&self) -> PollFlags {
        match self.state {
            State::Answering(..) => PollFlags::POLLOUT,
            State::Asking(_) | State::Leaving(_) => PollFlags::POLLIN,
        }
    }
}

/// What bytes are as a request.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// Its beginning, perhaps.
    Part,
    Request {
        /// Whether only the headers of the answer are asked for.
        head: bool,
        request: Request,
    },
    Fault(Status, &'static str),
}

fn parse(bytes: &[u8]) -> Parsed {
    let fault = |why| Parsed::Fault(Status::BadRequest, why);
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        // What begins with no method is not waited for.
        let begin = &bytes[..bytes.len().min(8)];
        let plausible = |byte: &u8| byte.is_ascii_uppercase() || *byte == b' ' || *byte == b'/';
        return match begin
            .iter()
            .take_while(|byte| **byte != b'/')
            .all(plausible)
        {
            true => Parsed::Part,
            false => fault("this is no request"),
        };
    };
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else {
        return fault("the request is not UTF-8");
    };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return fault("the first line is not a method, a path and a version");
    };
    match version.strip_prefix("HTTP/") {
        None => return fault("the first line is not a method, a path and a version"),
        Some(version) if version.starts_with("1.") => {}
        Some(_) => {
            return Parsed::Fault(
                Status::VersionNotSupported,
                "only HTTP/1.0 and 1.1 are spoken",
            )
        }
    }
    let mut accept = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return fault("a header has no colon");
        };
        if name.is_empty() || name.contains([' ', '\t']) {
            return fault("a header has no name");
        }
        if name.eq_ignore_ascii_case("accept") {
            accept.push(value.trim());
        }
    }
    let head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Parsed::Fault(Status::MethodNotAllowed, "only GET and HEAD are answered"),
    };
    let path = target.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return fault("the path does not begin with /");
    }
    Parsed::Request {
        head,
        request: Request {
            path: path.to_owned(),
            accept: accept.join(","),
        },
    }
}
