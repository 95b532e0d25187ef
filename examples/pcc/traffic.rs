// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Connections and their packets.

use std::net::Ipv4Addr;

use guideway::affinity::state::FlowId;
use guideway::hash::{self, FlowHashKey, FlowKey, HashSeed};
use guideway::id::ServiceId;
use guideway::maglev::TableSize;

use crate::random::{Random, Stream, DURATIONS, MEAN_DURATION};

/// The service that all connections are to.
pub(crate) const SERVICE: ServiceId = ServiceId::new(1);
pub(crate) const PORT: u16 = 443;
/// How finely time is divided, in seconds.
pub(crate) const STEP: f64 = 0.05;
/// Mean time between two packets of a connection, in seconds.
const PACKET_GAP: f64 = 2.0;
/// Ports that a client uses before the next client's turn.
const PORTS: u32 = 50_000;

/// A packet of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// Number of the connection.
    pub(crate) connection: u32,
    /// Whether it begins the connection.
    pub(crate) starts: bool,
    pub(crate) flow: FlowId,
    pub(crate) h64: u64,
    pub(crate) slot: u32,
}

/// A packet that will be sent.
#[derive(Debug, Clone, Copy)]
struct Due {
    connection: u32,
    starts: bool,
    at: f64,
    /// When the connection ends.
    end: f64,
}

/// Connections arrive independently of each other, at a rate that leads to the wanted number at a
/// time. Each sends a packet when it begins, one when it ends, and others between.
pub(crate) struct Traffic {
    random: Random,
    hash: FlowHashKey,
    arrivals_gap: f64,
    next_arrival: f64,
    arrived: u32,
    /// What is due in each step from now on.
    steps: Vec<Vec<Due>>,
}

impl Traffic {
    pub(crate) fn new(seed: u64, connections: u32, steps: usize) -> Self {
        let mut random = Random::new(seed, Stream::Traffic);
        let mut secret = Random::new(seed, Stream::Hash);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&secret.bits().to_be_bytes());
        bytes[8..].copy_from_slice(&secret.bits().to_be_bytes());
        let arrivals_gap = MEAN_DURATION / f64::from(connections);
        Self {
            next_arrival: random.exponential(arrivals_gap),
            random,
            hash: FlowHashKey::new(HashSeed::from_bytes(bytes)),
            arrivals_gap,
            arrived: 0,
            steps: vec![Vec::new(); steps],
        }
    }

    /// How many connections have begun.
    pub(crate) fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Sends the packets of one step.
    pub(crate) fn send(&mut self, step: usize, mut to: impl FnMut(&Packet)) {
        self.arrive(step);
        let mut sent = 0;
        // A packet may have its next one in the same step.
        while let Some(&due) = self.steps[step].get(sent) {
            sent += 1;
            to(&self.packet(&due));
            if due.at < due.end {
                let at = due.at + self.random.exponential(PACKET_GAP);
                let next = Due {
                    starts: false,
                    at: at.min(due.end),
                    ..due
                };
                self.schedule(step, next);
            }
        }
        self.steps[step] = Vec::new();
    }

    fn arrive(&mut self, step: usize) {
        let end = (step + 1) as f64 * STEP;
        while self.next_arrival < end {
            let at = self.next_arrival;
            self.next_arrival += self.random.exponential(self.arrivals_gap);
            let end = at + self.random.draw(&DURATIONS);
            let first = Due {
                connection: self.arrived,
                starts: true,
                at,
                end,
            };
            self.schedule(step, first);
            self.arrived += 1;
        }
    }

    /// What is due after the last step is never sent.
    fn schedule(&mut self, now: usize, due: Due) {
        let step = ((due.at / STEP) as usize).max(now);
        if let Some(step) = self.steps.get_mut(step) {
            step.push(due);
        }
    }

    fn packet(&self, due: &Due) -> Packet {
        let Due {
            connection, starts, ..
        } = *due;
        let client = Ipv4Addr::from(0x0a00_0000 + connection / PORTS);
        let port = 10_000 + (connection % PORTS) as u16;
        let key = FlowKey::new(SERVICE, port, PORT, client.into());
        let h64 = self.hash.h64(&key, false);
        let hash = hash::hash32(h64);
        Packet {
            connection,
            starts,
            flow: FlowId {
                key,
                tag: hash::tag16(h64),
                hash,
            },
            h64,
            slot: TableSize::SERVICE.slot_by_multiply_shift(hash),
        }
    }
}
