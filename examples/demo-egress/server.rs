// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The server behind the shards: it answers each number with itself, and with the shard that the
//! connection comes through, which the NAT's address tells.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::namespace::Namespace;
use super::net::{shard_of, SERVER};

/// Bytes of a question: a number.
pub(crate) const QUESTION: usize = 8;
/// Bytes of an answer: the number, and that of the shard.
pub(crate) const ANSWER: usize = QUESTION + 4;

/// Takes connections as long as it lives.
pub(crate) struct Server {
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(namespace: &Namespace) -> io::Result<Server> {
        let listener = namespace.run(|| std::net::TcpListener::bind(SERVER))??;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let task = tokio::spawn(async move {
            // An error is about the connection that was to be taken.
            loop {
                if let Ok((stream, peer)) = listener.accept().await {
                    tokio::spawn(serve(stream, peer));
                }
            }
        });
        Ok(Server { task })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers until the connection ends; how it ends is the client's account.
async fn serve(mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
    let IpAddr::V6(outside) = peer.ip() else {
        return Ok(());
    };
    let mut answer = [0; ANSWER];
    answer[QUESTION..].copy_from_slice(&shard_of(outside).to_be_bytes());
    loop {
        stream.read_exact(&mut answer[..QUESTION]).await?;
        stream.write_all(&answer).await?;
    }
}
