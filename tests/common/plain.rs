// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! TCP and UDP echo without QUIC: servers that say which backend they are, and flows to them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::net::Namespace;
use super::quic::bind;

/// Bytes of a question; the answer has the backend's number before them.
const QUESTION: usize = 32;
const ANSWER: usize = 4 + QUESTION;
/// When a datagram that was not answered is sent once more.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The server process of one backend, with TCP and UDP on the same port.
pub(crate) struct PlainServer {
    kill: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl PlainServer {
    pub(crate) fn start(
        namespace: &Namespace,
        number: u32,
        addresses: &[SocketAddr],
    ) -> io::Result<PlainServer> {
        let mut sockets = Vec::new();
        for &address in addresses {
            let listener = namespace.run(|| std::net::TcpListener::bind(address))??;
            let datagrams = bind(namespace, address)?;
            listener.set_nonblocking(true)?;
            datagrams.set_nonblocking(true)?;
            sockets.push((listener, datagrams));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (kill, killed) = oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                for (listener, datagrams) in sockets {
                    let listener = TcpListener::from_std(listener).expect("a listener");
                    let datagrams = UdpSocket::from_std(datagrams).expect("a socket");
                    tokio::spawn(accept(listener, number));
                    tokio::spawn(answer_datagrams(datagrams, number));
                }
                // Sent or dropped, it means the end.
                let _ = killed.await;
            });
        });
        Ok(PlainServer {
            kill: Some(kill),
            thread: Some(thread),
        })
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        self.kill.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the server was already printed by its thread.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, number: u32) {
    while let Ok((stream, _)) = listener.accept().await {
        // Ends when the client closes or resets.
        tokio::spawn(answer_stream(stream, number));
    }
}

async fn answer_stream(mut stream: TcpStream, number: u32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answer = [0; ANSWER];
    answer[..4].copy_from_slice(&number.to_be_bytes());
    loop {
        stream.read_exact(&mut answer[4..]).await?;
        stream.write_all(&answer).await?;
    }
}

async fn answer_datagrams(socket: UdpSocket, number: u32) {
    let mut answer = [0; ANSWER];
    answer[..4].copy_from_slice(&number.to_be_bytes());
    while let Ok((QUESTION, client)) = socket.recv_from(&mut answer[4..]).await {
        // A client that has gone is no reason to stop.
        let _ = socket.send_to(&answer, client).await;
    }
}

/// One flow of a client.
pub(crate) struct Flow {
    transport: Transport,
    pub(crate) local: SocketAddr,
}

enum Transport {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Flow {
    pub(crate) async fn tcp(
        namespace: &Namespace,
        local: IpAddr,
        remote: SocketAddr,
    ) -> io::Result<Flow> {
        let socket = namespace.run(|| {
            let socket = match local {
                IpAddr::V4(_) => TcpSocket::new_v4()?,
                IpAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.bind(SocketAddr::new(local, 0))?;
            Ok::<_, io::Error>(socket)
        })??;
        let stream = socket.connect(remote).await?;
        stream.set_nodelay(true)?;
        Ok(Flow {
            local: stream.local_addr()?,
            transport: Transport::Tcp(stream),
        })
    }

    pub(crate) async fn udp(
        namespace: &Namespace,
        local: IpAddr,
        remote: SocketAddr,
    ) -> io::Result<Flow> {
        let socket = bind(namespace, SocketAddr::new(local, 0))?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        socket.connect(remote).await?;
        Ok(Flow {
            local: socket.local_addr()?,
            transport: Transport::Udp(socket),
        })
    }

    /// Asks, and returns the number of the backend that answered.
    pub(crate) async fn ask(&mut self, patience: Duration) -> io::Result<u32> {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let mut question = [0; QUESTION];
        let serial = ASKED.fetch_add(1, Ordering::Relaxed);
        question[..8].copy_from_slice(&serial.to_be_bytes());
        let mut answer = [0; ANSWER];
        let exchange = async {
            match &mut self.transport {
                Transport::Tcp(stream) => {
                    stream.write_all(&question).await?;
                    stream.read_exact(&mut answer).await?;
                }
                Transport::Udp(socket) => loop {
                    socket.send(&question).await?;
                    // Rings of interfaces are short, so bursts on a busy machine lose datagrams.
                    let answered = answer_to(&question, socket, &mut answer);
                    if let Ok(answered) = timeout(ASK_AGAIN, answered).await {
                        break answered?;
                    }
                },
            }
            Ok::<_, io::Error>(())
        };
        timeout(patience, exchange)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))??;
        let (backend, echoed) = answer.split_at(4);
        if echoed != question {
            return Err(io::Error::other("wrong bytes in the answer"));
        }
        Ok(u32::from_be_bytes(
            backend.try_into().expect("four bytes were split off"),
        ))
    }
}

/// Receives the answer to this question: there may be more than one to a question before it.
async fn answer_to(
    question: &[u8; QUESTION],
    socket: &UdpSocket,
    answer: &mut [u8; ANSWER],
) -> io::Result<()> {
    loop {
        socket.recv(answer).await?;
        if answer[4..][..8] >= question[..8] {
            return Ok(());
        }
    }
}
