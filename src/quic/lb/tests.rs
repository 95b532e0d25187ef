// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use super::*;
use crate::hash::splitmix64;
use crate::quic::CidLengthError;
use proptest::prelude::*;

/// A source of bytes that repeats for each seed.
fn random(mut state: u64) -> impl FnMut(&mut [u8]) {
    move |bytes| bytes.fill_with(|| splitmix64(&mut state) as u8)
}

fn config(id: u8, server_id_len: usize, nonce_len: usize) -> Config {
    Config::new(ConfigId::new(id).unwrap(), server_id_len, nonce_len).unwrap()
}

/// Every legal pair of server ID and nonce length.
fn length_pairs() -> Vec<(usize, usize)> {
    let pairs = (1..=15).flat_map(|s| (4..=18).map(move |n| (s, n)));
    pairs.filter(|(s, n)| s + n <= 19).collect()
}

#[test]
fn configurations_have_bounded_lengths() {
    let id = ConfigId::new(0).unwrap();
    for server_id_len in 0..=22 {
        for nonce_len in 0..=22 {
            let config = Config::new(id, server_id_len, nonce_len);
            let expected = if !(1..=15).contains(&server_id_len) {
                Err(ConfigError::ServerIdLength(server_id_len))
            } else if !(4..=18).contains(&nonce_len) {
                Err(ConfigError::NonceLength(nonce_len))
            } else if server_id_len + nonce_len > 19 {
                Err(ConfigError::CidLength(server_id_len + nonce_len))
            } else {
                Ok(1 + server_id_len + nonce_len)
            };
            assert_eq!(config.map(|c| c.cid_len()), expected);
        }
    }
    assert_eq!(
        config(0, 2, 5).with_extra_len(12).map(|c| c.cid_len()),
        Ok(20)
    );
    assert_eq!(
        config(0, 2, 5).with_extra_len(13),
        Err(ConfigError::CidLength(20))
    );
    let huge = config(0, 2, 5).with_extra_len(usize::MAX);
    assert_eq!(huge, Err(ConfigError::CidLength(usize::MAX)));
    assert_eq!(
        (0..=255).filter_map(ConfigId::new).collect::<Vec<_>>(),
        ConfigId::ALL
    );
}

#[test]
fn server_ids_have_1_to_15_bytes() {
    for len in 0..=20usize {
        let bytes: Vec<u8> = (0..len as u8).collect();
        let expected = (1..=15).contains(&len);
        match ServerId::new(&bytes) {
            Ok(id) => {
                assert!(expected && id.as_bytes() == bytes && id.to_string().parse() == Ok(id))
            }
            Err(error) => assert!(!expected && error == ServerIdLengthError { len }),
        }
    }
    let id: ServerId = "C460".parse().unwrap();
    assert_eq!(
        (id.to_string(), format!("{id:?}")),
        ("c460".into(), "ServerId(c460)".into())
    );
    assert_ne!(id, "c46000".parse().unwrap());
}

#[test]
fn a_key_is_never_printed_and_its_ciphertext_never_read() {
    let key: Key = "8f95f09245765f80256934e50c66207f".parse().unwrap();
    let keyed = config(0, 3, 4).with_key(Some(key));
    let printed = format!("{keyed:?}");
    assert!(printed.contains("Key(..)"), "{printed}");
    for secret in ["8f95", "8f, 95", "143"] {
        assert!(!printed.contains(secret), "{printed}");
    }
    let cid = [0x07, 0x20, 0xb1, 0xd0, 0x7b, 0x35, 0x9d, 0x3c];
    assert_eq!(keyed.decode(&cid), Err(Unroutable::Config));
    assert!(keyed.with_key(None).decode(&cid).is_ok());
    // Faults that need no key are still told apart.
    assert_eq!(keyed.decode(&cid[..7]), Err(Unroutable::Short));

    let server_id = "ed793a".parse().unwrap();
    let refused = CidGenerator::new(keyed, server_id, random(0)).unwrap_err();
    let config = keyed.id();
    assert_eq!(refused, GeneratorError::Keyed { config });
}

#[test]
fn faults_are_found_in_order() {
    let mut configs = Configs::new();
    configs.insert(config(1, 2, 5)).unwrap();
    configs
        .insert(config(2, 2, 5).with_encoded_length(true))
        .unwrap();
    let again = configs.insert(config(2, 1, 4));
    assert_eq!(again, Err(DuplicateConfig(ConfigId::new(2).unwrap())));
    assert_eq!(configs.iter().count(), 2);

    let cid = |first: u8, len: usize| {
        let mut cid = vec![0xaa; len];
        cid[0] = first;
        cid
    };
    let ok = |id: u8| Ok((ConfigId::new(id).unwrap(), "aaaa".parse().unwrap()));
    use Delimited::{Exactly, Prefix};
    use Unroutable::{Config, Length, Reserved, Short};
    for (first, len, exactly, prefix) in [
        // The reserved value, whatever follows.
        (0xe7, 8, Err(Reserved), Err(Reserved)),
        (0xff, 1, Err(Reserved), Err(Reserved)),
        // A configuration that is not there.
        (0x00, 8, Err(Config), Err(Config)),
        (0xc7, 1, Err(Config), Err(Config)),
        // Random low bits.
        (0x20, 8, ok(1), ok(1)),
        (0x3f, 8, ok(1), ok(1)),
        (0x20, 7, Err(Short), Err(Short)),
        (0x20, 1, Err(Short), Err(Short)),
        (0x20, 9, Err(Length), ok(1)),
        // Length bits.
        (0x47, 8, ok(2), ok(2)),
        (0x46, 8, Err(Length), Err(Length)),
        (0x48, 8, Err(Length), Err(Length)),
        (0x48, 9, Err(Length), Err(Length)),
        (0x47, 9, Err(Length), ok(2)),
        (0x46, 7, Err(Short), Err(Short)),
    ] {
        let cid = cid(first, len);
        assert_eq!(
            configs.decode(&cid, Exactly),
            exactly,
            "{first:02x}, {len} bytes"
        );
        assert_eq!(
            configs.decode(&cid, Prefix),
            prefix,
            "{first:02x}, {len} bytes"
        );
    }
    assert_eq!(configs.decode(&[], Prefix), Err(Short));
    assert_eq!(Configs::new().decode(&[0x20], Exactly), Err(Config));

    let alone = config(1, 2, 5);
    assert_eq!(alone.decode(&[]), Err(Short));
    assert_eq!(alone.decode(&cid(0xe7, 8)), Err(Reserved));
    assert_eq!(alone.decode(&cid(0x47, 8)), Err(Config));
}

#[test]
fn extra_bytes_count_for_the_length_only() {
    let config = config(3, 2, 5)
        .with_extra_len(4)
        .unwrap()
        .with_encoded_length(true);
    let mut cid = [0x55; 12];
    cid[0] = 3 << 5 | 11;
    assert_eq!(
        config.decode(&cid),
        ServerId::new(&[0x55; 2]).map_err(|_| Unroutable::Config)
    );
    assert_eq!(config.decode(&cid[..8]), Err(Unroutable::Length));
    assert!(config
        .decode_delimited(&cid[..8], Delimited::Prefix)
        .is_ok());
}

#[test]
fn a_generator_needs_a_server_id_that_fits() {
    let server_id: ServerId = "c460".parse().unwrap();
    let refused = CidGenerator::new(config(5, 3, 4), server_id, random(0)).unwrap_err();
    let text = "config 5 has server IDs of 3 bytes, c460 is none";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn bytes_without_a_meaning_are_random() {
    let config = config(6, 1, 4).with_extra_len(3).unwrap();
    let mut generator = CidGenerator::new(config, "7f".parse().unwrap(), random(7)).unwrap();
    let (mut ones, mut zeros) = ([0; 9], [0xff; 9]);
    for _ in 0..200 {
        let cid = generator.generate();
        assert_eq!((cid[0] >> 5, cid[1], cid.len()), (6, 0x7f, 9));
        for (i, byte) in cid.iter().enumerate() {
            ones[i] |= byte;
            zeros[i] &= byte;
        }
    }
    assert_eq!(ones, [0xdf, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(zeros, [0xc0, 0x7f, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn unroutable_connection_ids_say_so_and_tell_their_length() {
    for len in 0..=24 {
        match unroutable(len, random(len as u64)) {
            Ok(cid) => {
                assert!((8..=20).contains(&len));
                assert_eq!(cid.len(), len);
                assert_eq!((cid[0] >> 5, usize::from(cid[0] & 0x1f)), (7, len - 1));
                assert_eq!(unroutable_len(cid[0]), Some(len));
                let mut expected = vec![0; len];
                random(len as u64)(&mut expected);
                assert_eq!(cid[1..], expected[1..]);
                for id in 0..7 {
                    assert_eq!(config(id, 2, 5).decode(&cid), Err(Unroutable::Reserved));
                }
            }
            Err(error) => {
                assert!(!(8..=20).contains(&len));
                assert_eq!(error, CidLengthError { min: 8, len });
            }
        }
    }
}

proptest! {
    #[test]
    fn decoding_undoes_generating(
        id in 0u8..7, bytes: [u8; 15], seed: u64, encodes_length: bool, extra in 0usize..15,
    ) {
        for (server_id_len, nonce_len) in length_pairs() {
            let config = config(id, server_id_len, nonce_len)
                .with_extra_len(extra.min(19 - server_id_len - nonce_len))
                .unwrap()
                .with_encoded_length(encodes_length);
            let server_id = ServerId::new(&bytes[..server_id_len]).unwrap();
            let mut configs = Configs::new();
            configs.insert(config).unwrap();
            let mut generator = CidGenerator::new(config, server_id, random(seed)).unwrap();

            let cid = generator.generate();
            prop_assert_eq!(cid.len(), config.cid_len());
            prop_assert_eq!(unroutable_len(cid[0]), None);
            prop_assert_eq!(config.decode(&cid), Ok(server_id));
            prop_assert_eq!(configs.decode(&cid, Delimited::Exactly), Ok((config.id(), server_id)));
            if encodes_length {
                prop_assert_eq!(usize::from(cid[0] & 0x1f) + 1, cid.len());
            }
            // Behind a short header, more bytes follow.
            let mut rest = cid.to_vec();
            rest.extend(bytes);
            prop_assert_eq!(configs.decode(&rest, Delimited::Prefix), Ok((config.id(), server_id)));
            prop_assert_ne!(generator.generate(), cid);
        }
    }

    #[test]
    fn decoding_is_total(
        cid in prop::collection::vec(any::<u8>(), 0..40),
        id in 0u8..7, pair in 0..length_pairs().len(), encodes_length: bool, prefix: bool,
    ) {
        let (server_id_len, nonce_len) = length_pairs()[pair];
        let config = config(id, server_id_len, nonce_len).with_encoded_length(encodes_length);
        let delimited = if prefix { Delimited::Prefix } else { Delimited::Exactly };
        if let Ok(server_id) = config.decode_delimited(&cid, delimited) {
            prop_assert_eq!(server_id.as_bytes(), &cid[1..=server_id_len]);
            prop_assert_eq!(cid[0] >> 5, id);
            prop_assert!(prefix || cid.len() == config.cid_len());
        }
    }
}
