// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One TCP connection of a tenant.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::namespace::Namespace;
use super::net::SERVER;
use super::server::{ANSWER, QUESTION};

/// An answer that takes longer counts as lost.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// Why a connection is one no more.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Broken {
    NotOpened(String),
    NoAnswer,
    WrongAnswer,
    Ended(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::NotOpened(why) => write!(f, "not opened: {why}"),
            Broken::NoAnswer => f.write_str("no answer in time"),
            Broken::WrongAnswer => f.write_str("another answer than the right one"),
            Broken::Ended(why) => f.write_str(why),
        }
    }
}

/// An open connection.
pub(crate) struct Client {
    stream: TcpStream,
    number: u64,
    /// The shard it goes through, as the server sees it.
    pub(crate) shard: u32,
}

impl Client {
    /// Opens a connection from an address of a tenant, and learns its shard.
    pub(crate) async fn connect(tenant: &Namespace, local: Ipv6Addr) -> Result<Client, Broken> {
        let not_opened = |error: io::Error| Broken::NotOpened(error.to_string());
        let socket = tenant.run(TcpSocket::new_v6).and_then(|socket| socket);
        let socket = socket.map_err(not_opened)?;
        let local = SocketAddr::new(local.into(), 0);
        socket.bind(local).map_err(not_opened)?;
        let opened = timeout(DEADLINE, socket.connect(SERVER)).await;
        let stream = opened.map_err(|_| Broken::NotOpened("no answer in time".to_owned()))?;
        let mut client = Client {
            stream: stream.map_err(not_opened)?,
            number: 0,
            shard: 0,
        };
        client.shard = client.ask().await?;
        Ok(client)
    }

    /// Sends the next number, and receives it from the same shard as ever.
    pub(crate) async fn exchange(&mut self) -> Result<(), Broken> {
        match self.ask().await? {
            shard if shard == self.shard => Ok(()),
            _ => Err(Broken::WrongAnswer),
        }
    }

    /// The shard that the answer names.
    async fn ask(&mut self) -> Result<u32, Broken> {
        self.number += 1;
        let question = self.number.to_be_bytes();
        let mut answer = [0; ANSWER];
        let asked = async {
            self.stream.write_all(&question).await?;
            self.stream.read_exact(&mut answer).await
        };
        match timeout(DEADLINE, asked).await {
            Err(_) => return Err(Broken::NoAnswer),
            Ok(Err(error)) => return Err(Broken::Ended(error.kind().to_string())),
            Ok(Ok(_)) => {}
        }
        let (number, shard) = answer.split_at(QUESTION);
        match shard.try_into() {
            Ok(shard) if number == question => Ok(u32::from_be_bytes(shard)),
            _ => Err(Broken::WrongAnswer),
        }
    }

    /// Ends it in good order: the server has nothing more to say then.
    pub(crate) async fn close(mut self) -> Result<(), Broken> {
        let ended = async {
            self.stream.shutdown().await?;
            self.stream.read(&mut [0]).await
        };
        match timeout(DEADLINE, ended).await {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(_)) => Err(Broken::WrongAnswer),
            Ok(Err(error)) => Err(Broken::Ended(error.kind().to_string())),
            Err(_) => Err(Broken::NoAnswer),
        }
    }
}
