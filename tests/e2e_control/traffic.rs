// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants' packets, and a server that answers with the shard that they came through.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use crate::net::{self, SERVER};

/// An answer that takes longer is none.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// Answers as long as it lives: what it is sent, and behind that the shard.
pub(crate) struct Server {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// At the server's address, and by UDP at another one of it, too.
    pub(crate) fn start(namespace: &Namespace, other: Ipv6Addr) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let other = SocketAddr::new(other.into(), SERVER.port());
        for at in [SERVER, other] {
            let socket = namespace.run(|| bind(at))??;
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || datagrams(&socket, &stop)));
        }
        let listener = namespace.run(|| TcpListener::bind(SERVER))??;
        listener.set_nonblocking(true)?;
        let stopped = Arc::clone(&stop);
        threads.push(std::thread::spawn(move || connections(&listener, &stopped)));
        Ok(Self { stop, threads })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn bind(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    // Now and then it looks whether it is to end.
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(socket)
}

fn shard(peer: SocketAddr) -> [u8; 4] {
    let IpAddr::V6(outside) = peer.ip() else {
        return [0; 4];
    };
    net::shard_of(outside).to_be_bytes()
}

fn datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            let answer = [&buffer[..length], &shard(peer)].concat();
            // A peer that is gone is its own business.
            let _ = socket.send_to(&answer, peer);
        }
    }
}

fn connections(listener: &TcpListener, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // They end with their clients.
            Ok((stream, peer)) => drop(std::thread::spawn(move || answer(stream, peer))),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn answer(mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut question = [0; 8];
    loop {
        stream.read_exact(&mut question)?;
        let answer = [&question[..], &shard(peer)].concat();
        stream.write_all(&answer)?;
    }
}

/// Addresses that nobody had before, of all tenants in turn.
#[derive(Default)]
pub(crate) struct Fresh(AtomicU32);

impl Fresh {
    /// The number of a tenant and an address of it. The first ones are those that it begins with.
    pub(crate) fn next(&self, tenants: u32) -> (u32, Ipv6Addr) {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let tenant = number % tenants;
        (tenant, net::address(tenant, 1000 + number / tenants))
    }
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// It was answered through this shard.
    By(u32),
    /// It was not.
    Silence,
}

/// Where most questions go.
pub(crate) fn server() -> Ipv6Addr {
    match SERVER.ip() {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!("it is IPv6"),
    }
}

/// Asks the server, or whoever has that address, by one datagram.
pub(crate) fn probe(tenant: &Namespace, from: Ipv6Addr, to: Ipv6Addr, limit: Duration) -> Answer {
    let to = SocketAddr::new(to.into(), SERVER.port());
    let from = SocketAddr::from(SocketAddrV6::new(from, 0, 0, 0));
    let socket = tenant.run(|| UdpSocket::bind(from)).expect("inside");
    let socket = socket.expect("an address of the tenant");
    socket.set_read_timeout(Some(limit)).expect("a time-out");
    let question = question(&socket);
    socket.connect(to).expect("a route");
    if socket.send(&question).is_err() {
        return Answer::Silence;
    }
    let mut buffer = [0; 64];
    match socket.recv(&mut buffer) {
        Ok(12) if buffer[..8] == question => {
            let shard = buffer[8..12].try_into().expect("four bytes");
            Answer::By(u32::from_be_bytes(shard))
        }
        _ => Answer::Silence,
    }
}

/// Bytes that no other socket asks at the same time.
fn question(socket: &UdpSocket) -> [u8; 8] {
    let local = socket.local_addr().expect("an address");
    let port = u64::from(local.port());
    (port << 48 | 0x6775_6964).to_be_bytes()
}

/// Where new addresses go: the answers to `count` questions from as many of them.
pub(crate) fn spread(
    tenants: &[Namespace],
    fresh: &Fresh,
    to: Ipv6Addr,
    count: usize,
) -> Vec<Answer> {
    let one = || {
        let (tenant, from) = fresh.next(tenants.len() as u32);
        probe(&tenants[tenant as usize], from, to, LIMIT)
    };
    std::iter::repeat_with(one).take(count).collect()
}

/// The answers, each once.
pub(crate) fn distinct(answers: &[Answer]) -> BTreeSet<Answer> {
    answers.iter().copied().collect()
}

/// A TCP connection of a tenant that is kept busy.
pub(crate) struct Connection {
    stream: TcpStream,
    pub(crate) shard: u32,
    asked: u64,
}

impl Connection {
    pub(crate) fn open(tenant: &Namespace, from: Ipv6Addr) -> io::Result<Self> {
        use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn6};
        use std::os::fd::AsRawFd;
        let connect = || {
            let flags = SockFlag::SOCK_CLOEXEC;
            let socket = socket::socket(AddressFamily::Inet6, SockType::Stream, flags, None)?;
            let from = SocketAddrV6::new(from, 0, 0, 0);
            socket::bind(socket.as_raw_fd(), &SockaddrIn6::from(from))?;
            let server = SocketAddrV6::new(server(), SERVER.port(), 0, 0);
            socket::connect(socket.as_raw_fd(), &SockaddrIn6::from(server))?;
            io::Result::Ok(TcpStream::from(socket))
        };
        let stream = tenant.run(connect)??;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let (shard, asked) = (0, 0);
        let mut connection = Self {
            stream,
            shard,
            asked,
        };
        connection.shard = connection.ask()?;
        Ok(connection)
    }

    /// Asks once more; an error, if it is not answered through the same shard.
    pub(crate) fn exchange(&mut self) -> io::Result<()> {
        match self.ask()? {
            shard if shard == self.shard => Ok(()),
            shard => Err(io::Error::other(format!("by {shard}, not {}", self.shard))),
        }
    }

    fn ask(&mut self) -> io::Result<u32> {
        self.asked += 1;
        let question = self.asked.to_be_bytes();
        self.stream.write_all(&question)?;
        let mut answer = [0; 12];
        self.stream.read_exact(&mut answer)?;
        let (number, shard) = answer.split_at(8);
        if number != question {
            return Err(io::Error::other("another answer"));
        }
        Ok(u32::from_be_bytes(shard.try_into().expect("four bytes")))
    }
}

/// One connection from each of `count` new addresses.
pub(crate) fn connect(tenants: &[Namespace], fresh: &Fresh, count: usize) -> Vec<Connection> {
    let one = || {
        let (tenant, from) = fresh.next(tenants.len() as u32);
        Connection::open(&tenants[tenant as usize], from).expect("a connection")
    };
    std::iter::repeat_with(one).take(count).collect()
}

/// Fewer questions of a stream would tell nothing.
const ENOUGH: usize = 50;

/// Questions from new addresses that go on until it is told to stop.
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, Answer)>>,
}

impl Stream {
    pub(crate) fn start(tenants: &Arc<Vec<Namespace>>, fresh: &Arc<Fresh>, to: Ipv6Addr) -> Self {
        let (tenants, fresh) = (Arc::clone(tenants), Arc::clone(fresh));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut answers = Vec::new();
            while answers.len() < ENOUGH || !stopped.load(Ordering::Relaxed) {
                let at = Instant::now();
                answers.push((at, spread(&tenants, &fresh, to, 1)[0]));
                std::thread::sleep(Duration::from_millis(2));
            }
            answers
        });
        Self { stop, thread }
    }

    /// Stops it when it has asked enough; what came of each question, and when it was asked.
    pub(crate) fn stop(self) -> Vec<(Instant, Answer)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}
