// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Published QUIC packets and QUIC-LB connection IDs, read as an observer must read them.

use guideway::quic::lb::{CidGenerator, Config, ConfigId, Key, ServerId, Unroutable};
use guideway::quic::{parse, Packet, PacketType, VERSION_2};
use serde_json::Value;

fn vectors() -> Vec<Value> {
    let document: Value = serde_json::from_str(include_str!("vectors/quic.json")).unwrap();
    let vectors = document["vectors"].as_array().unwrap().clone();
    // So that no test passes for want of vectors.
    assert_eq!(vectors.len(), 15);
    vectors
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    let digits = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
    digits
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> Value {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into()
}

/// The contract length under which a vector's connection ID is visible.
fn contract(vector: &Value) -> u8 {
    let dcid = vector["expected"]["dcid"].as_str();
    dcid.map_or(8, |dcid| u8::try_from(dcid.len() / 2).unwrap())
}

/// Form, version, destination and source connection ID, and type, as the vectors write them.
fn reading(packet: Packet<'_>) -> [Value; 5] {
    let null = Value::Null;
    match packet {
        Packet::Long(header) => {
            let name = match header.packet_type() {
                PacketType::Initial => "initial",
                PacketType::ZeroRtt => "0rtt",
                PacketType::Handshake => "handshake",
                PacketType::Retry => "retry",
                PacketType::VersionNegotiation => "version-negotiation",
                PacketType::Unknown => "unknown",
            };
            [
                "long".into(),
                format!("{:08x}", header.version).into(),
                hex(header.dcid),
                header.scid.map_or(null, hex),
                name.into(),
            ]
        }
        Packet::Short(header) => [
            "short".into(),
            null.clone(),
            header.dcid().map_or(null.clone(), hex),
            null,
            "1rtt".into(),
        ],
        Packet::NotQuic(_) => [
            "not-quic".into(),
            null.clone(),
            null.clone(),
            null.clone(),
            null,
        ],
        Packet::Malformed => [
            "error".into(),
            null.clone(),
            null.clone(),
            null.clone(),
            null,
        ],
    }
}

#[test]
fn packets_are_read_as_published() {
    for vector in vectors() {
        let payload = bytes(&vector["udp_payload_hex"]);
        let found = reading(parse(&payload, contract(&vector)));
        let expected = &vector["expected"];
        for (field, found) in ["form", "version", "dcid", "scid"].into_iter().zip(&found) {
            assert_eq!(*found, expected[field], "{field} of {}", vector["name"]);
        }
        if let Some(packet_type) = expected.get("type") {
            assert_eq!(found[4], *packet_type, "type of {}", vector["name"]);
        }
    }
}

#[test]
fn a_contract_of_8_bytes_takes_ciphertext_for_a_connection_id() {
    let vectors = vectors();
    let chacha = vectors
        .iter()
        .find(|v| v["name"] == "rfc9001-v1-chacha20-short")
        .unwrap();
    let payload = bytes(&chacha["udp_payload_hex"]);
    assert_eq!(reading(parse(&payload, 8))[2], "fe4189655e5cd55c");
}

#[test]
fn the_fixed_bit_changes_no_reading() {
    let mut flipped_packets = 0;
    for vector in vectors() {
        let mut payload = bytes(&vector["udp_payload_hex"]);
        let expected = reading(parse(&payload, contract(&vector)));
        // Bit 6 is part of what makes a DTLS record, and an empty payload has none.
        if payload.is_empty() || expected[0] == "not-quic" {
            continue;
        }
        payload[0] ^= 0x40;
        assert_eq!(
            reading(parse(&payload, contract(&vector))),
            expected,
            "{}",
            vector["name"]
        );
        flipped_packets += 1;
    }
    assert_eq!(flipped_packets, 13);
}

/// A configuration with the lengths of these fields.
fn config(id: &Value, server_id: &[u8], nonce_len: usize) -> Config {
    let id = ConfigId::new(id.as_u64().unwrap().try_into().unwrap()).unwrap();
    Config::new(id, server_id.len(), nonce_len).unwrap()
}

#[test]
fn plaintext_server_ids_are_decoded_from_the_bytes_as_printed() {
    let mut decoded = 0;
    for vector in vectors()
        .iter()
        .filter(|v| v.get("cid").is_some() && v["key"].is_null())
    {
        let (cid, server_id) = (
            bytes(&vector["cid"]),
            bytes(&vector["expected"]["server_id"]),
        );
        let config = config(
            &vector["cr_bits"],
            &server_id,
            cid.len() - 1 - server_id.len(),
        );
        assert_eq!(
            config.decode(&cid).unwrap().as_bytes(),
            server_id,
            "{}",
            vector["name"]
        );
        assert_eq!(
            u64::from(config.id().get()),
            vector["expected"]["config_id"]
        );
        decoded += 1;
    }
    assert_eq!(decoded, 2);
}

#[test]
fn the_corrected_vector_is_decoded_with_its_length_bits() {
    let vectors = vectors();
    let printed = vectors
        .iter()
        .find(|v| v["name"] == "quic-lb-plain-1")
        .unwrap();
    let corrected = &printed["corrected_by_us"];
    let (cid, server_id) = (bytes(&corrected["cid"]), bytes(&corrected["server_id"]));
    let nonce = bytes(&corrected["nonce"]);
    let config = config(&printed["cr_bits"], &server_id, nonce.len()).with_encoded_length(true);
    assert_eq!(config.cid_len(), cid.len());
    assert_eq!(config.decode(&cid).unwrap().as_bytes(), server_id);
    // The misprint shifted the length bits: they are not those of the whole.
    assert_eq!(
        config.decode(&bytes(&printed["cid"])),
        Err(Unroutable::Length)
    );

    let payload = bytes(&corrected["udp_payload_hex"]);
    assert_eq!(
        reading(parse(&payload, cid.len() as u8))[2],
        corrected["cid"]
    );
}

/// What the vectors leave out of the draft's appendix: the single pass, and halves of full bytes. The
/// first octet of the second is printed as 0x12, against the draft's own rules for configuration 3.
const FURTHER: [(u8, &str, &str, &str); 2] = [
    (
        2,
        "ed793a51d49b8f5f",
        "ee080dbf48c0d1e5",
        "504dd2d05a7b0de9b2b9907afb5ecf8cc3",
    ),
    (
        3,
        "ed793a51d49b8f5fab",
        "ee080dbf48c0d1e55d",
        "725779c9cc86beb3a3a4a3ca96fce4bfe0cdbc",
    ),
];

#[test]
fn encrypted_server_ids_are_decoded_and_encoded_as_published() {
    let vectors = vectors();
    let published = vectors.iter().filter(|v| v["key"].is_string());
    let mut all: Vec<_> = published
        .map(|vector| {
            assert_eq!(vector["expected"]["server_id"], vector["sid"]);
            assert_eq!(vector["expected"]["config_id"], vector["cr_bits"]);
            [
                &vector["cr_bits"],
                &vector["sid"],
                &vector["nonce"],
                &vector["cid"],
            ]
            .map(Value::clone)
        })
        .collect();
    let key: Key = vectors.last().unwrap()["key"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    all.extend(
        FURTHER.map(|(id, sid, nonce, cid)| [id.into(), sid.into(), nonce.into(), cid.into()]),
    );
    assert_eq!(all.len(), 4);
    for [id, server_id, nonce, cid] in all {
        let (cid, nonce) = (bytes(&cid), bytes(&nonce));
        let server_id = ServerId::new(&bytes(&server_id)).unwrap();
        let config = config(&id, server_id.as_bytes(), nonce.len())
            .with_encoded_length(true)
            .with_key(Some(key));
        assert_eq!(config.cid_len(), cid.len());
        assert_eq!(config.decode(&cid), Ok(server_id));
        // Nonces begin where the source of randomness says.
        let start = |bytes: &mut [u8]| {
            if bytes.len() == nonce.len() {
                bytes.copy_from_slice(&nonce);
            }
        };
        let generated = CidGenerator::new(config, server_id, start)
            .unwrap()
            .generate();
        assert_eq!(generated.as_deref(), Ok(cid.as_slice()));
    }
}

/// The headers of the sample packets in RFC 9369, appendix A.
#[test]
fn version_2_packets_are_read_as_published() {
    let version = format!("{VERSION_2:08x}");
    for (payload, dcid, scid, packet_type) in [
        (
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe6",
            "8394c8f03e515708",
            "",
            "initial",
        ),
        (
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05",
            "",
            "f067a5502a4262b5",
            "initial",
        ),
        (
            "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8",
            "",
            "f067a5502a4262b5",
            "retry",
        ),
    ] {
        let payload = bytes(&payload.into());
        let expected: [Value; 5] =
            ["long", version.as_str(), dcid, scid, packet_type].map(Value::from);
        assert_eq!(reading(parse(&payload, 8)), expected);
    }
}
