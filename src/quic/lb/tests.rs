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

/// The key of the published vectors.
const KEY: &str = "8f95f09245765f80256934e50c66207f";

#[test]
fn a_key_is_never_printed_but_its_check_value_is() {
    let key: Key = KEY.parse().unwrap();
    // openssl enc -aes-128-ecb -nopad -K 8f95f09245765f80256934e50c66207f, of 16 zero bytes
    assert_eq!(key.kcv(), Some([0xd5, 0x9d, 0x5b]));
    let keyed = config(0, 3, 4).with_key(Some(key));
    let generator = CidGenerator::new(keyed, "ed793a".parse().unwrap(), random(0)).unwrap();
    for printed in [format!("{keyed:?}"), format!("{generator:?}")] {
        assert!(printed.contains("Key(d59d5b)"), "{printed}");
        for secret in ["8f95", "8f, 95", "143"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}

#[test]
fn the_cipher_is_that_of_the_standard() {
    // FIPS 197, appendix B and C.1.
    for (key, plaintext, ciphertext) in [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3243f6a8885a308d313198a2e0370734",
            "3925841d02dc09fbdc118597196a0b32",
        ),
        (
            "000102030405060708090a0b0c0d0e0f",
            "00112233445566778899aabbccddeeff",
            "69c4e0d86a7b0430d8cdb78070b4c55a",
        ),
    ] {
        let bytes = |hex| *hex_key(hex).secret_bytes();
        let cipher = cipher::Cipher::new(&hex_key(key)).unwrap();
        let mut block = bytes(plaintext);
        cipher.encrypt(&mut block);
        assert_eq!(block, bytes(ciphertext));
        cipher.decrypt(&mut block);
        assert_eq!(block, bytes(plaintext));
    }
}

fn hex_key(hex: &str) -> Key {
    hex.parse().unwrap()
}

/// The passes of a decoder are what the lengths say.
#[test]
fn a_decoder_makes_as_many_passes_as_the_server_id_needs() {
    for (server_id_len, nonce_len, passes) in [
        (8, 8, 1),
        (1, 15, 1),
        (12, 4, 1),
        (3, 4, 3),
        (4, 4, 3),
        (9, 9, 3),
        (1, 18, 3),
        (5, 4, 4),
        (10, 5, 4),
        (15, 4, 4),
    ] {
        let plain = config(0, server_id_len, nonce_len);
        assert_eq!(plain.decoder_passes(), 0);
        let keyed = plain.with_key(Some(hex_key(KEY)));
        assert_eq!(keyed.decoder_passes(), passes);
    }
}

/// What stands between the first octet and the extra bytes, for server IDs and nonces that count up
/// from 1, and the key of FIPS 197, appendix C.1.
///
/// Computed from the draft's description by a program in another language with another AES
/// (Python's cryptography, which uses OpenSSL): all parities of the length, one and several passes,
/// server IDs shorter and longer than nonces, the least and the greatest length.
#[test]
fn other_programs_encrypt_alike() {
    for (server_id_len, nonce_len, expected) in [
        (1, 4, "7b2bf2919b"),
        (2, 4, "b32e78d3f850"),
        (4, 4, "c74c020ba5cc70bb"),
        (5, 4, "d5bd63471c6f8e268e"),
        (3, 5, "c74c020ba5cc70bb"),
        (8, 8, "0892085605be8f349f584af993df11f8"),
        (4, 12, "0892085605be8f349f584af993df11f8"),
        (2, 13, "48dc5acc42b51d84d69ebe54e9d6e7"),
        (10, 5, "48dc5acc42b51d84d69ebe54e9d6e7"),
        (1, 16, "143c45a96b3de73675e7cabf380100ccd4"),
        (9, 9, "d7f85697037d06ecbb3db791da3b3d6f85ae"),
        (10, 8, "d7f85697037d06ecbb3db791da3b3d6f85ae"),
        (14, 4, "d7f85697037d06ecbb3db791da3b3d6f85ae"),
        (1, 18, "246d36c431f3b43cd4b5c1d66def8bcded6e20"),
        (9, 10, "246d36c431f3b43cd4b5c1d66def8bcded6e20"),
        (10, 9, "246d36c431f3b43cd4b5c1d66def8bcded6e20"),
        (15, 4, "246d36c431f3b43cd4b5c1d66def8bcded6e20"),
    ] {
        let block: Vec<u8> = (1..=server_id_len + nonce_len).map(|n| n as u8).collect();
        let (server_id, nonce) = block.split_at(server_id_len);
        let key = hex_key("000102030405060708090a0b0c0d0e0f");
        let config = config(2, server_id_len, nonce_len)
            .with_key(Some(key))
            .with_encoded_length(true);
        let server_id = ServerId::new(server_id).unwrap();

        // The start of the nonces is the first that is asked of the source.
        let mut first = true;
        let source = |bytes: &mut [u8]| {
            if std::mem::take(&mut first) {
                bytes.copy_from_slice(nonce);
            }
        };
        let cid = CidGenerator::new(config, server_id, source)
            .unwrap()
            .generate()
            .unwrap();
        let octet = (2 << 5) + config.cid_len() - 1;
        assert_eq!(cid.to_string(), format!("{octet:02x}{expected}"));
        assert_eq!(config.decode(&cid), Ok(server_id));
    }
}

#[test]
fn keyed_connection_ids_count_their_nonces() {
    for (server_id_len, nonce_len) in length_pairs() {
        let config = config(1, server_id_len, nonce_len).with_key(Some(hex_key(KEY)));
        let server_id = ServerId::new(&vec![0xab; server_id_len]).unwrap();
        let mut generator = CidGenerator::new(config, server_id, random(1)).unwrap();
        let cipher = cipher::Cipher::new(&hex_key(KEY)).unwrap();
        let mut nonces = (0..300).map(|_| {
            let cid = generator.generate().unwrap();
            let mut block = cid[1..].to_vec();
            let passes = if block.len() == 16 { 1 } else { 4 };
            passes::decrypt(&cipher, &mut block, passes);
            assert_eq!(block[..server_id_len], *server_id.as_bytes());
            // The last bytes are enough to see it count.
            u32::from_be_bytes(*block.last_chunk().unwrap())
        });
        let first = nonces.next().unwrap();
        for (count, nonce) in nonces.enumerate() {
            assert_eq!(nonce, first.wrapping_add(count as u32 + 1));
        }
    }
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
        let cid = generator.generate().unwrap();
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
        key: Option<[u8; 16]>,
    ) {
        for (server_id_len, nonce_len) in length_pairs() {
            let config = config(id, server_id_len, nonce_len)
                .with_extra_len(extra.min(19 - server_id_len - nonce_len))
                .unwrap()
                .with_encoded_length(encodes_length)
                .with_key(key.map(Key::from_bytes));
            let server_id = ServerId::new(&bytes[..server_id_len]).unwrap();
            let mut configs = Configs::new();
            configs.insert(config).unwrap();
            let mut generator = CidGenerator::new(config, server_id, random(seed)).unwrap();

            let cid = generator.generate().unwrap();
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
            prop_assert_ne!(generator.generate().unwrap(), cid);
        }
    }

    #[test]
    fn decoding_is_total(
        cid in prop::collection::vec(any::<u8>(), 0..40),
        id in 0u8..7, pair in 0..length_pairs().len(), encodes_length: bool, prefix: bool,
        key: Option<[u8; 16]>,
    ) {
        let (server_id_len, nonce_len) = length_pairs()[pair];
        let config = config(id, server_id_len, nonce_len)
            .with_encoded_length(encodes_length)
            .with_key(key.map(Key::from_bytes));
        let delimited = if prefix { Delimited::Prefix } else { Delimited::Exactly };
        if let Ok(server_id) = config.decode_delimited(&cid, delimited) {
            prop_assert_eq!(server_id.as_bytes().len(), server_id_len);
            prop_assert!(key.is_some() || *server_id.as_bytes() == cid[1..=server_id_len]);
            prop_assert_eq!(cid[0] >> 5, id);
            prop_assert!(prefix || cid.len() == config.cid_len());
        }
    }
}
