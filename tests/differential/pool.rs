// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Few clients and connection IDs, so that frames meet what earlier ones left.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use guideway::plan::Generation;
use guideway::quic::Cid;
use guideway::service::Routing;

use crate::frames::any_client;
use crate::payloads::new_cid;
use crate::random::Random;

pub(crate) struct Pool {
    pub(crate) v4: Vec<IpAddr>,
    pub(crate) v6: Vec<IpAddr>,
    pub(crate) ports: Vec<u16>,
    /// Connection IDs of each service, none where it does not read QUIC.
    pub(crate) cids: Vec<Vec<Cid>>,
}

impl Pool {
    pub(crate) fn new(random: &mut Random, generation: &Generation) -> Self {
        let mut clients = |vip: IpAddr| (0..3).map(|_| any_client(random, vip)).collect();
        let v4 = clients(Ipv4Addr::UNSPECIFIED.into());
        let v6 = clients(Ipv6Addr::UNSPECIFIED.into());
        Self {
            v4,
            v6,
            ports: (0..3).map(|_| random.next() as u16).collect(),
            cids: (0..generation.services.len())
                .map(|index| cids(random, generation, index))
                .collect(),
        }
    }

    /// A client of a service with this address.
    pub(crate) fn client(&self, random: &mut Random, vip: IpAddr) -> IpAddr {
        *random.pick(self.clients(vip))
    }

    pub(crate) fn clients(&self, vip: IpAddr) -> &[IpAddr] {
        match vip {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        }
    }
}

fn cids(random: &mut Random, generation: &Generation, index: usize) -> Vec<Cid> {
    let service = &generation.spec.services()[index];
    if !service.reads_quic() {
        return vec![];
    }
    let agreed = usize::from(service.short_dcid_len);
    let by_server_id = service.quic.routing == Routing::ServerId;
    (0..8)
        .filter_map(|number| {
            let mut cid = match random.below(10) {
                0..=2 if by_server_id => new_cid(random, service, &generation.services[index]),
                0..=7 if agreed > 0 => random.bytes(agreed),
                _ => {
                    let len = random.between(1, 20);
                    random.bytes(len)
                }
            };
            match number {
                // One that resembles DTLS, and one that says how long it is.
                0 if cid.len() > 1 => cid[..2].copy_from_slice(&[0xfe, 0xfd]),
                1 if (1..=20).contains(&cid.len()) => cid[0] = 0xe0 | (cid.len() - 1) as u8,
                _ => {}
            }
            Cid::new(&cid).ok()
        })
        .collect()
}
