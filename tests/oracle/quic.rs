// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Forms of QUIC, and what is none.

use guideway::abi::Counter;
use guideway::reason::{Reason, Rule};
use serde_json::{json, Value};

use crate::build::*;
use crate::world::*;

const VERSION_2: u32 = 0x6b33_43cf;

fn stun() -> Vec<u8> {
    let mut message = vec![0, 1, 0, 4, 0x21, 0x12, 0xa4, 0x42];
    message.extend([7; 16]);
    message
}

fn dtls(record: usize) -> Vec<u8> {
    let mut payload = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0];
    payload.extend((record as u16).to_be_bytes());
    payload.extend(vec![1; record]);
    payload
}

fn flexible(spec: Value) -> Value {
    let mut spec = spec;
    spec["services"][0]["quic_only"] = json!(false);
    spec
}

#[test]
fn what_is_not_quic_passes_where_the_service_is_quic_alone() {
    for (payload, reason) in [
        (vec![], Reason::BadQuic),
        (vec![0xc0, 0, 0, 0, 1], Reason::BadQuic),
        // A DCID of eight bytes, of which seven are there.
        (long(0xc0, 1, &[1; 8])[..13].to_vec(), Reason::BadQuic),
        // Fewer bytes than the agreed eight.
        (vec![0x40, 1, 2, 3, 4, 5, 6, 7], Reason::BadQuic),
        (vec![0x40], Reason::BadQuic),
        (stun(), Reason::NotQuic),
        (dtls(0), Reason::NotQuic),
        (dtls(9), Reason::NotQuic),
    ] {
        // The first learns, so it tracks every flow.
        for (spec, outcome) in [
            (example(), Counter::GW_COUNTER_ALL_INSERTED),
            (with_server_ids(), Counter::GW_COUNTER_PLAIN),
        ] {
            let frame = to_vip(&payload);
            let verdict = run(&generation(&spec), &frame);
            assert_left(&verdict, &frame, reason);
            assert_eq!(verdict.flow_start, Some(false));
            assert_counts(&verdict, &[]);

            let verdict = run(&generation(&flexible(spec)), &frame);
            assert_forwarded(&verdict, Rule::Table, 2);
            assert_counts(&verdict, &[outcome]);
        }
    }
}

#[test]
fn patterns_that_do_not_fit_are_short_headers() {
    let cut_stun = stun()[..23].to_vec();
    let mut long_dtls = dtls(4);
    long_dtls[12] = 5;
    for payload in [cut_stun, long_dtls] {
        let verdict = run(&generation(&example()), &to_vip(&payload));
        assert_forwarded(&verdict, Rule::Table, 2);
        assert_counts(
            &verdict,
            &[
                Counter::GW_COUNTER_QUIC_SHORT,
                Counter::GW_COUNTER_FIXED_BIT_CLEAR,
                Counter::GW_COUNTER_ALL_INSERTED,
            ],
        );
    }
}

#[test]
fn short_headers_without_agreed_length_go_by_flow() {
    let mut spec = example();
    spec["services"][0]["short_dcid_len"] = json!(0);
    let generation = generation(&spec);
    for payload in [&[0x40][..], &[0x40, 1, 2], &short(&[1; 8])] {
        let verdict = run(&generation, &to_vip(payload));
        assert_forwarded(&verdict, Rule::Table, 2);
        assert_counts(
            &verdict,
            &[Counter::GW_COUNTER_QUIC_SHORT, Counter::GW_COUNTER_PLAIN],
        );
    }
}

/// A payload of three bytes in a frame of sixty: the padding is no connection ID.
#[test]
fn padding_is_not_read() {
    let mut frame = to_vip(&[0x40, 1, 2]);
    frame.resize(60, 0x5a);
    let verdict = run(&generation(&example()), &frame);
    assert_left(&verdict, &frame, Reason::BadQuic);
}

#[test]
fn packets_that_can_begin_a_flow() {
    use Counter as C;
    let mut spec = example();
    spec["services"][0]["quic"] = json!({"routing": "tuple"});
    let generation = generation(&spec);
    for (first, version, start, counter) in [
        (0xc0, 1, true, None),
        (0xd0, 1, true, None),
        (0xe0, 1, false, None),
        (0xf0, 1, false, Some(C::GW_COUNTER_RETRY)),
        (0xd0, VERSION_2, true, None),
        (0xe0, VERSION_2, true, None),
        (0xf0, VERSION_2, false, None),
        (0xc0, VERSION_2, false, Some(C::GW_COUNTER_RETRY)),
        (0xc0, 0, false, Some(C::GW_COUNTER_VERSION_NEGOTIATION)),
        (0xc0, 2, false, Some(C::GW_COUNTER_UNKNOWN_VERSION)),
        (
            0xc0,
            0xff00_001d,
            false,
            Some(C::GW_COUNTER_UNKNOWN_VERSION),
        ),
    ] {
        let verdict = run(&generation, &to_vip(&long(first, version, &[9; 8])));
        assert_forwarded(&verdict, Rule::Table, 2);
        assert_eq!(verdict.flow_start, Some(start), "{first:x} {version:x}");
        let mut counters = vec![C::GW_COUNTER_QUIC_LONG, C::GW_COUNTER_PLAIN];
        counters.extend(start.then_some(C::GW_COUNTER_STARTS));
        counters.extend(counter);
        assert_counts(&verdict, &counters);
    }
}

/// Empty connection IDs, and those longer than versions 1 and 2 allow, are legal and say nothing.
#[test]
fn connection_ids_of_other_lengths_go_by_flow() {
    for (len, counter) in [
        (0, Some(Counter::GW_COUNTER_CID_ZERO)),
        (1, None),
        (20, None),
        (21, Some(Counter::GW_COUNTER_CID_LONG)),
        (255, Some(Counter::GW_COUNTER_CID_LONG)),
    ] {
        // The first byte would name config 0.
        let payload = long(0xe0, 1, &vec![0; len]);
        let verdict = run(&generation(&with_server_ids()), &to_vip(&payload));
        assert_forwarded(&verdict, Rule::Table, 2);
        let mut counters = vec![Counter::GW_COUNTER_QUIC_LONG, Counter::GW_COUNTER_PLAIN];
        counters.extend(counter);
        match len {
            1 => counters.push(Counter::GW_COUNTER_UNROUTABLE_SHORT),
            20 => counters.push(Counter::GW_COUNTER_UNROUTABLE_LENGTH),
            _ => {}
        }
        assert_counts(&verdict, &counters);
    }
}

/// Both sides may send bit 6 at random.
#[test]
fn the_fixed_bit_is_counted_and_decides_nothing() {
    for spec in [example(), with_server_ids()] {
        let generation = generation(&spec);
        for payload in [
            long(0xc0, 1, &[9; 8]),
            long(0xe0, 1, &[0, 0xc4, 0x60, 1, 2, 3, 4, 5]),
            long(0xc0, 0, &[9; 8]),
            long(0xc0, 7, &[9; 8]),
            short(&[9; 8]),
            short(&[0, 0xd5, 0xe7, 1, 2, 3, 4, 5]),
            short(&[0, 1, 2, 3, 4, 5, 6, 7]),
            vec![0x40, 1],
        ] {
            let set = run(&generation, &to_vip(&payload));
            let mut greased = payload;
            greased[0] &= !0x40;
            let mut clear = run(&generation, &to_vip(&greased));
            clear
                .counters
                .retain(|&counter| counter != Counter::GW_COUNTER_FIXED_BIT_CLEAR);
            clear.output[42] |= 0x40;
            assert_eq!(clear, set);
        }
    }
}

/// Clients invent the first connection ID and see others later: no part of it moves the flow.
#[test]
fn connection_ids_never_enter_the_hash() {
    let generation = generation(&example());
    for cid in 0..=u8::MAX {
        for payload in [long(0xc0, 1, &[cid; 8]), short(&[cid; 8])] {
            let verdict = run(&generation, &to_vip(&payload));
            assert_eq!(verdict.hash, Some(0x5630_5f65_43cb_2707));
        }
    }
}

#[test]
fn frames_of_every_length_have_a_verdict() {
    let generation = generation(&with_server_ids());
    let whole = ethernet(
        &[(0x88a8, 5), (0x8100, 7)],
        0x0800,
        &ipv4_options(UDP, 4, &udp(50000, 443, &long(0xc0, 1, &[1; 8]))),
    );
    for len in 0..whole.len() {
        let verdict = run(&generation, &whole[..len]);
        assert_ne!(verdict.reason, Reason::Forwarded, "{len} bytes");
        assert_eq!(verdict.output, &whole[..len]);
    }
    assert_eq!(run(&generation, &whole).reason, Reason::Forwarded);
}
