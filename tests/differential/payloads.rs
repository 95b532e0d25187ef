// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random UDP payloads: QUIC with connection IDs that a service may know, and what resembles it.

use guideway::plan::PlacedService;
use guideway::quic::lb::CidGenerator;
use guideway::quic::Cid;
use guideway::service::Service;

use crate::random::Random;

const VERSIONS: [u32; 8] = [1, 1, 1, 0x6b33_43cf, 0x6b33_43cf, 0, 0xff00_001d, 2];

/// The service that a payload is for, and connection IDs that come often.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) service: &'a Service,
    pub(crate) placed: &'a PlacedService,
    pub(crate) cids: &'a [Cid],
}

/// A payload for a service, from its clients.
pub(crate) fn payload(random: &mut Random, about: &About<'_>) -> Vec<u8> {
    let mut payload = match random.below(100) {
        0..=44 => long(random, about),
        45..=84 => short(random, about),
        85..=88 => stun(random),
        89..=93 => dtls(random, about),
        94..=95 => vec![],
        _ => {
            let len = random.below(40);
            random.bytes(len)
        }
    };
    if random.percent(12) {
        payload.truncate(random.below(payload.len() + 1));
    }
    payload
}

fn long(random: &mut Random, about: &About<'_>) -> Vec<u8> {
    let (dcid, scid) = (cid(random, about), cid(random, about));
    long_between(random, &dcid, &scid)
}

/// A payload that a service sends: its own connection ID is the source.
pub(crate) fn sent(random: &mut Random, about: &About<'_>) -> Vec<u8> {
    let dcid = random.bytes(8);
    let scid = match random.percent(70) {
        true => new_cid(random, about.service, about.placed),
        false => cid(random, about),
    };
    long_between(random, &dcid, &scid)
}

fn long_between(random: &mut Random, dcid: &[u8], scid: &[u8]) -> Vec<u8> {
    let mut payload = vec![random.byte() | 0x80];
    let version = match random.percent(90) {
        true => *random.pick(&VERSIONS),
        false => random.next() as u32,
    };
    payload.extend(version.to_be_bytes());
    for cid in [dcid, scid] {
        payload.push(cid.len() as u8);
        payload.extend(cid);
    }
    tail(random, &mut payload);
    payload
}

fn short(random: &mut Random, about: &About<'_>) -> Vec<u8> {
    let mut payload = vec![random.byte() & 0x7f];
    payload.extend(cid(random, about));
    tail(random, &mut payload);
    payload
}

fn tail(random: &mut Random, payload: &mut Vec<u8>) {
    let len = match random.below(10) {
        0 => 0,
        9 => random.between(100, 1200),
        _ => random.below(30),
    };
    payload.extend(random.bytes(len));
}

/// Connection IDs: ones that came before or are bound, or new ones.
fn cid(random: &mut Random, about: &About<'_>) -> Vec<u8> {
    if random.percent(40) {
        if let Some(cid) = random.pick_any(about.cids) {
            return cid.to_vec();
        }
    }
    new_cid(random, about.service, about.placed)
}

/// With a server ID that is known, gone or nobody's, right or nearly right, or with none.
pub(crate) fn new_cid(random: &mut Random, service: &Service, placed: &PlacedService) -> Vec<u8> {
    let config = match random.percent(75) {
        true => random.pick_any(&service.quic.configs),
        false => None,
    };
    let Some(config) = config else {
        let len = match random.below(10) {
            0 => 0,
            1 => random.between(0, 255),
            2 => random.between(18, 23),
            _ => random.between(1, 20),
        };
        return random.bytes(len);
    };
    let mut cid = random.bytes(usize::from(config.cid_len()));
    let known: Vec<_> = placed
        .server_ids
        .iter()
        .filter(|known| known.config_id == config.config_id)
        .collect();
    let server_id = match random.percent(85) {
        true => random.pick_any(&known),
        false => None,
    };
    if let (Some(known), true) = (server_id, config.key.is_some()) {
        let source = |bytes: &mut [u8]| bytes.fill_with(|| random.byte());
        let generator = CidGenerator::new(*config.decoder(), known.server_id, source);
        cid = generator.unwrap().generate().unwrap().to_vec();
    } else if let Some(known) = server_id {
        let bytes = known.server_id.as_bytes();
        cid[1..=bytes.len()].copy_from_slice(bytes);
        if random.percent(5) {
            let at = 1 + random.below(bytes.len());
            cid[at] ^= 1 << random.below(8);
        }
    }
    let low_bits = match config.encodes_length && random.percent(90) {
        true => config.cid_len() - 1,
        false => random.byte() & 0x1f,
    };
    let id = match random.percent(95) {
        true => config.config_id,
        false => random.byte() & 7,
    };
    cid[0] = id << 5 | low_bits;
    match random.below(12) {
        0 => cid.truncate(random.below(cid.len() + 1)),
        1 => cid.extend(random.bytes(1)),
        _ => {}
    }
    cid
}

fn stun(random: &mut Random) -> Vec<u8> {
    let len = random.below(12);
    let mut message = vec![random.byte() & 0x3f, random.byte(), 0, len as u8];
    message.extend([0x21, 0x12, 0xa4, 0x42]);
    message.extend(random.bytes(12 + len));
    near_miss(random, message, &[2, 3, 4, 7])
}

fn dtls(random: &mut Random, about: &About<'_>) -> Vec<u8> {
    let len = random.below(12);
    let mut record = vec![
        random.between(19, 26) as u8,
        0xfe,
        *random.pick(&[0xfd, 0xff]),
    ];
    record.extend(random.bytes(8));
    record.extend([0, len as u8]);
    record.extend(random.bytes(len));
    // A connection ID may be the beginning of a record, up to its length.
    let alike = |cid: &&Cid| cid.starts_with(&[0xfe, 0xfd]) && cid.len() <= 10;
    if let Some(cid) = about.cids.iter().find(alike).filter(|_| random.percent(60)) {
        record[1..=cid.len()].copy_from_slice(cid);
        return record;
    }
    near_miss(random, record, &[1, 2, 11, 12])
}

/// Most often as it is, else with one of these bytes changed, or with another length.
fn near_miss(random: &mut Random, mut payload: Vec<u8>, at: &[usize]) -> Vec<u8> {
    match random.below(6) {
        0 => payload[*random.pick(at)] ^= 1,
        1 => payload.push(0),
        2 => {
            payload.pop();
        }
        _ => {}
    }
    payload
}
