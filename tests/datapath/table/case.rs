// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A frame with its end, and what frames are made of.

use guideway::abi::Counter;
use guideway::reason::{Reason, Rule};

use crate::build::*;
use crate::generations::*;

/// Where a frame ends. Backends by the last two bytes of their address.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Redirected([u8; 2], Rule),
    Transmitted([u8; 2]),
    Passed(Reason),
    Dropped(Reason),
}

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) frame: Vec<u8>,
    pub(super) service: Option<&'static str>,
    pub(super) end: End,
    pub(super) counters: &'static [Counter],
}

pub(super) fn case(
    name: &'static str,
    frame: Vec<u8>,
    service: impl Into<Option<&'static str>>,
    end: End,
    counters: &'static [Counter],
) -> Case {
    let service = service.into();
    Case {
        name,
        frame,
        service,
        end,
        counters,
    }
}

pub(super) const PLAIN: Counter = Counter::GW_COUNTER_PLAIN;
pub(super) const ALL_INSERTED: Counter = Counter::GW_COUNTER_ALL_INSERTED;
pub(super) const NO_ENTRY: Counter = Counter::GW_COUNTER_NO_ENTRY;
pub(super) const STARTS: Counter = Counter::GW_COUNTER_STARTS;
pub(super) const LONG: Counter = Counter::GW_COUNTER_QUIC_LONG;
pub(super) const SHORT: Counter = Counter::GW_COUNTER_QUIC_SHORT;
pub(super) const FIXED_BIT_CLEAR: Counter = Counter::GW_COUNTER_FIXED_BIT_CLEAR;
pub(super) const NEGOTIATION: Counter = Counter::GW_COUNTER_VERSION_NEGOTIATION;
pub(super) const RETRY: Counter = Counter::GW_COUNTER_RETRY;
pub(super) const UNKNOWN_VERSION: Counter = Counter::GW_COUNTER_UNKNOWN_VERSION;
pub(super) const CID_ZERO: Counter = Counter::GW_COUNTER_CID_ZERO;
pub(super) const CID_LONG: Counter = Counter::GW_COUNTER_CID_LONG;
pub(super) const IS_RESERVED: Counter = Counter::GW_COUNTER_UNROUTABLE_RESERVED;
pub(super) const NO_CONFIG: Counter = Counter::GW_COUNTER_UNROUTABLE_CONFIG;
pub(super) const TOO_SHORT: Counter = Counter::GW_COUNTER_UNROUTABLE_SHORT;
pub(super) const OTHER_LENGTH: Counter = Counter::GW_COUNTER_UNROUTABLE_LENGTH;
pub(super) const UNKNOWN_ID: Counter = Counter::GW_COUNTER_UNKNOWN_SERVER_ID;
pub(super) const QUARANTINED_ID: Counter = Counter::GW_COUNTER_QUARANTINED_SERVER_ID;
pub(super) const ICMP_ERROR: Counter = Counter::GW_COUNTER_ICMP;
pub(super) const FRAGMENTS: Counter = Counter::GW_COUNTER_FRAGMENTS;
pub(super) const NO_BACKEND: Counter = Counter::GW_COUNTER_NO_BACKEND;

pub(super) const V1: u32 = 1;
pub(super) const V2: u32 = 0x6b33_43cf;
pub(super) const GREASE: u32 = 0x0a0a_0a0a;

pub(super) fn long(first: u8, version: u32, dcid: &[u8], scid: &[u8]) -> Vec<u8> {
    let mut payload = vec![first];
    payload.extend(version.to_be_bytes());
    for cid in [dcid, scid] {
        payload.push(cid.len() as u8);
        payload.extend(cid);
    }
    payload.extend([0x77; 20]);
    payload
}

pub(super) fn short(dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x40];
    payload.extend(dcid);
    payload.extend([0x99; 16]);
    payload
}

pub(super) fn to(port: u16, payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(50000, port, payload))
}

pub(super) fn quic(payload: &[u8]) -> Vec<u8> {
    to(443, payload)
}

pub(super) fn to_tcp(port: u16, flags: u8) -> Vec<u8> {
    ipv4(TCP, &tcp(50000, port, flags))
}

/// A short header of 3 bytes, and the rest of the connection ID in the padding of the frame.
pub(super) fn padded(port: u16, cid: &[u8]) -> Vec<u8> {
    let mut frame = to(port, &[0x40, cid[0], cid[1]]);
    frame.extend(&cid[2..]);
    frame.resize(60, 0);
    frame
}

pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

pub(super) fn stun() -> Vec<u8> {
    let mut message = vec![0, 1, 0, 4, 0x21, 0x12, 0xa4, 0x42];
    message.extend([0x33; 16]);
    message
}

pub(super) fn dtls() -> Vec<u8> {
    let mut record = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4];
    record.extend([0x44; 4]);
    record
}

pub(super) fn tagged(tags: &[(u16, u16)]) -> Vec<u8> {
    ethernet(
        tags,
        0x0800,
        &ipv4_options(UDP, 0, &udp(50000, 443, &short(&READY))),
    )
}

pub(super) fn about(port: u16, payload: &[u8]) -> Vec<u8> {
    error4(&quoted4(UDP, &udp(port, 50000, payload)))
}

pub(super) fn routed(payload: &[u8]) -> Vec<u8> {
    ethernet(
        &[],
        0x0800,
        &ipv4_between(CLIENT4, ROUTED_VIP, UDP, 0, payload),
    )
}

pub(super) fn fragment_of(frame: Vec<u8>, offset: u16, more: bool) -> Vec<u8> {
    let [high, low] = (offset | u16::from(more) << 13).to_be_bytes();
    with(frame, &[(20, high), (21, low)])
}
