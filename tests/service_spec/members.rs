// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Each member by itself: both sides of every bound, every text, every type.

use serde_json::{json, Value};

use super::{accept, faults, refuse, server_id, tcp, tuple, with, without};

const S: &str = "/services/0";
const C: &str = "/services/0/quic/configs/0";
const B: &str = "/services/0/backends/0";

#[track_caller]
fn refuse_in(document: Value, pointer: &str, value: Value, code: &str, message: &str) {
    refuse(&with(document, pointer, value), pointer, code, message);
}

fn accept_in(document: Value, pointer: &str, value: Value) {
    accept(&with(document, pointer, value));
}

#[test]
fn instance_id() {
    accept_in(
        tuple(),
        "/instance_id",
        json!("1D9016F2-8957-42bc-9DD7-32D684D76446"),
    );
    let rule = "must be a UUID (8-4-4-4-12 hexadecimal digits), got";
    for (text, shown) in [
        ("", "\"\""),
        ("edge", "edge"),
        (
            "1d9016f2895742bc9dd732d684d76446",
            "1d9016f2895742bc9dd732d684d76446",
        ),
        (
            "+d9016f2-8957-42bc-9dd7-32d684d76446",
            "+d9016f2-8957-42bc-9dd7-32d684d76446",
        ),
        (
            "1d9016f2-8957-42bc-9dd7-32d684d7644\u{ff16}",
            "\"1d9016f2-8957-42bc-9dd7-32d684d7644\u{ff16}\"",
        ),
    ] {
        refuse_in(
            tuple(),
            "/instance_id",
            json!(text),
            "uuid",
            &format!("{rule} {shown}"),
        );
    }
}

#[test]
fn interfaces() {
    let rule = "is not an interface name (1 to 15 bytes, no '/', no white space), got";
    for pointer in ["/interface", "/services/0/backends/0/interface"] {
        for name in ["a", "fifteen-bytes-x", "eth0.100", "..."] {
            accept_in(tuple(), pointer, json!(name));
        }
        for (name, shown) in [
            ("", "\"\""),
            (".", "."),
            ("..", ".."),
            ("a/b", "a/b"),
            ("a b", "\"a b\""),
            ("a\n", "\"a\\n\""),
            ("sixteen-bytes-xy", "sixteen-bytes-xy"),
            ("éééééééé", "\"éééééééé\""),
        ] {
            refuse_in(
                tuple(),
                pointer,
                json!(name),
                "ifname",
                &format!("{rule} {shown}"),
            );
        }
    }
}

#[test]
fn choices() {
    for (document, pointer, texts) in [
        (
            tuple(),
            "/mode".to_owned(),
            &["native", "generic", "offload"][..],
        ),
        (tuple(), "/source_mac".to_owned(), &["keep", "interface"]),
        (tuple(), format!("{S}/protocol"), &["udp", "tcp"]),
        (tuple(), format!("{S}/hash"), &["flow", "source"]),
        (tuple(), format!("{S}/tracking"), &["all", "exceptions"]),
        (
            with(tuple(), "/services/0/hash", json!("source")),
            format!("{S}/fragments"),
            &["drop", "pass", "route"],
        ),
        (
            server_id(),
            format!("{S}/quic/unknown_server_id"),
            &["drop", "fallback"],
        ),
        (
            server_id(),
            format!("{S}/quic/unhealthy"),
            &["fallback", "drop"],
        ),
        (
            tuple(),
            format!("{B}/state"),
            &["ready", "draining", "unhealthy"],
        ),
    ] {
        for text in texts {
            accept_in(document.clone(), &pointer, json!(text));
        }
        let rule = format!("must be one of {}, got", texts.join(", "));
        for (text, shown) in [
            ("turbo", "turbo"),
            ("", "\"\""),
            ("Native", "Native"),
            ("all ", "\"all \""),
        ] {
            refuse_in(
                document.clone(),
                &pointer,
                json!(text),
                "enum",
                &format!("{rule} {shown}"),
            );
        }
    }
    // Each routing needs other members beside it.
    let rule = "must be one of server-id, learned, tuple, got sticky";
    refuse_in(
        server_id(),
        "/services/0/quic/routing",
        json!("sticky"),
        "enum",
        rule,
    );
}

#[test]
fn integers() {
    let max = u64::from(u32::MAX);
    for (document, pointer, min, most) in [
        (tuple(), "/events_per_second".to_owned(), 0, 100_000),
        (
            with(tuple(), "/limits", json!({})),
            "/limits/flows".to_owned(),
            1024,
            16_777_216,
        ),
        (
            with(tuple(), "/limits", json!({})),
            "/limits/cids".to_owned(),
            1024,
            16_777_216,
        ),
        (
            with(
                with(tuple(), "/limits", json!({})),
                "/services/0/maglev_table_size",
                json!(251),
            ),
            "/limits/slots".to_owned(),
            251,
            65_537,
        ),
        (
            with(tuple(), "/limits", json!({})),
            "/limits/memory_mib".to_owned(),
            16,
            1_048_576,
        ),
        (tuple(), format!("{S}/port"), 1, 65_535),
        (tuple(), format!("{S}/short_dcid_len"), 0, 20),
        (server_id(), format!("{C}/config_id"), 0, 6),
        (tuple(), format!("{B}/id"), 1, max),
        (tuple(), format!("{B}/weight"), 0, 65_535),
    ] {
        // Both backends have an id; that of the second must stay another one.
        let document = with(document, "/services/0/backends/1/id", json!(77));
        for value in [min, most] {
            accept_in(document.clone(), &pointer, json!(value));
        }
        let reserved = if pointer.ends_with("config_id") {
            " (7 is reserved for unroutable connection IDs)"
        } else {
            ""
        };
        let rule = format!("must be {min} to {most}{reserved}, got");
        let mut beyond = vec![json!(most + 1), json!(u64::MAX), json!(-1), json!(i64::MIN)];
        beyond.extend((min > 0).then(|| json!(min - 1)));
        for value in beyond {
            let message = format!("{rule} {value}");
            refuse_in(document.clone(), &pointer, value, "range", &message);
        }
    }
}

#[test]
fn lengths_of_configs() {
    let document = || with(server_id(), "/services/0/backends", json!([]));
    for (member, min, most) in [("server_id_len", 1, 15), ("nonce_len", 4, 18)] {
        // The other length at its least, so that the sum stays within its own bound.
        let other = if member == "nonce_len" {
            "server_id_len"
        } else {
            "nonce_len"
        };
        let other_min = if member == "nonce_len" { 1 } else { 4 };
        let document = with(document(), &format!("{C}/{other}"), json!(other_min));
        let pointer = format!("{C}/{member}");
        for value in [min, most] {
            accept_in(document.clone(), &pointer, json!(value));
        }
        for value in [min - 1, most + 1, 256] {
            let message = format!("must be {min} to {most}, got {value}");
            refuse_in(document.clone(), &pointer, json!(value), "range", &message);
        }
    }
    let pointer = format!("{C}/extra_len");
    accept_in(document(), &pointer, json!(12));
    for (extra, sum) in [
        (13_u64, "20"),
        (300, "307"),
        (u64::MAX, "18446744073709551615"),
    ] {
        let message =
            format!("server_id_len + nonce_len + extra_len must be at most 19, got {sum}");
        refuse_in(document(), &pointer, json!(extra), "cid-length", &message);
    }
}

#[test]
fn an_integer_is_written_in_digits_alone() {
    let text = tuple().to_string();
    let written = |number: &str| text.replace("\"port\":443", &format!("\"port\":{number}"));
    let rule = "must be an integer without sign, fraction or exponent, got";
    for (number, shown) in [
        ("443.0", "443.0"),
        ("4.43e2", "443.0"),
        ("443.5", "443.5"),
        ("-0", "-0.0"),
    ] {
        assert_eq!(
            faults(&written(number)),
            [format!("/services/0/port type: {rule} {shown}")]
        );
    }
    for (number, shown) in [
        ("18446744073709551616", "1.8446744073709552e19"),
        ("1e300", "1e300"),
        ("-9223372036854775809", "-9.223372036854776e18"),
        ("-443", "-443"),
    ] {
        let expected = format!("/services/0/port range: must be 1 to 65535, got {shown}");
        assert_eq!(faults(&written(number))[0].replace("e+", "e"), expected);
    }
    for number in ["+443", "0443", "0x1bb", "443_0", ".5", "NaN"] {
        let found = faults(&written(number));
        assert!(
            found.len() == 1 && found[0].starts_with(" json: is not JSON: "),
            "{found:?}"
        );
    }
}

#[test]
fn secrets_are_32_digits_and_never_shown() {
    let seed = "000102030405060708090a0b0c0d0e0f";
    let with_key = || server_id();
    for (document, pointer) in [
        (tuple(), "/hash_seed".to_owned()),
        (with_key(), format!("{C}/key")),
    ] {
        accept_in(document.clone(), &pointer, json!(seed));
        accept_in(document.clone(), &pointer, json!(seed.to_uppercase()));
        for (text, length) in [
            ("", 0),
            ("000102030405060708090a0b0c0d0e0", 31),
            ("000102030405060708090a0b0c0d0e0f0", 33),
            ("0x000102030405060708090a0b0c0d0e0f", 34),
            ("éé0102030405060708090a0b0c0d0e0", 31),
        ] {
            let message = format!("must be 32 hexadecimal digits, got {length} characters");
            refuse_in(document.clone(), &pointer, json!(text), "hex", &message);
        }
        for text in [
            "+f0102030405060708090a0b0c0d0e0f",
            "éé0102030405060708090a0b0c0d0e0f",
        ] {
            let message = "must be 32 hexadecimal digits, got 32 characters, not all of them \
                           hexadecimal digits";
            refuse_in(document.clone(), &pointer, json!(text), "hex", message);
        }
    }
    accept_in(with_key(), &format!("{C}/key"), Value::Null);
    refuse_in(
        tuple(),
        "/hash_seed",
        Value::Null,
        "type",
        "must be a string, got null",
    );
}

#[test]
fn names() {
    let pointer = format!("{S}/name");
    let longest = "x".repeat(63);
    for name in ["a", "0", "A.b_c-9", longest.as_str()] {
        accept_in(tuple(), &pointer, json!(name));
    }
    let rule = "must be 1 to 63 letters, digits, '.', '_' or '-', got";
    let too_long = "x".repeat(64);
    for (name, shown) in [
        ("", "\"\""),
        (".a", ".a"),
        ("-a", "-a"),
        ("_a", "_a"),
        ("a b", "\"a b\""),
        ("a/b", "a/b"),
        ("..", ".."),
        ("ä", "\"ä\""),
        (too_long.as_str(), too_long.as_str()),
    ] {
        refuse_in(
            tuple(),
            &pointer,
            json!(name),
            "name",
            &format!("{rule} {shown}"),
        );
    }
}

#[test]
fn addresses() {
    let pointer = format!("{S}/vip");
    for address in [
        "203.0.113.80",
        "10.0.0.1",
        "2001:db8::80",
        "fd00::1",
        "2001:DB8::",
        "::2",
    ] {
        accept_in(tuple(), &pointer, json!(address));
    }
    for (text, shown) in [
        ("", "\"\""),
        ("example.org", "example.org"),
        ("203.0.113.080", "203.0.113.080"),
        ("203.0.113", "203.0.113"),
        ("203.0.113.80/32", "203.0.113.80/32"),
        ("203.0.113.256", "203.0.113.256"),
        ("[2001:db8::80]", "[2001:db8::80]"),
        ("2001:db8::80%eth0", "2001:db8::80%eth0"),
        ("2001:db8:::80", "2001:db8:::80"),
        (" 203.0.113.80", "\" 203.0.113.80\""),
        ("٢03.0.113.80", "\"٢03.0.113.80\""),
    ] {
        let message = format!("is not an IPv4 or IPv6 address, got {shown}");
        refuse_in(tuple(), &pointer, json!(text), "address", &message);
    }
    for (address, kind) in [
        ("0.0.0.0", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("169.254.1.1", "link-local"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("ff02::1", "multicast"),
        ("fe80::1", "link-local"),
        ("febf::1", "link-local"),
        ("::ffff:203.0.113.80", "IPv4-mapped"),
    ] {
        let message = format!("must be a unicast address a host can own, {address} is {kind}");
        refuse_in(tuple(), &pointer, json!(address), "vip", &message);
    }
}

#[test]
fn link_layer_addresses() {
    let pointer = format!("{B}/mac");
    for mac in [
        "02:00:00:00:01:01",
        "02:aB:Cd:EF:01:23",
        "00:00:00:00:00:01",
    ] {
        accept_in(tuple(), &pointer, json!(mac));
    }
    let rule = "must be six two-digit hexadecimal bytes separated by ':', got";
    for (mac, shown) in [
        ("", "\"\""),
        ("02:00:00:00:01:+f", "02:00:00:00:01:+f"),
        ("2:0:0:0:1:1", "2:0:0:0:1:1"),
        ("02-00-00-00-01-01", "02-00-00-00-01-01"),
        ("02:00:00:00:01", "02:00:00:00:01"),
        ("02:00:00:00:01:01:01", "02:00:00:00:01:01:01"),
        ("02:00:00:00:01:é", "\"02:00:00:00:01:é\""),
    ] {
        refuse_in(
            tuple(),
            &pointer,
            json!(mac),
            "mac",
            &format!("{rule} {shown}"),
        );
    }
    for (mac, kind) in [
        ("00:00:00:00:00:00", "all zero"),
        ("01:00:5e:00:00:01", "multicast"),
        ("33:33:00:00:00:01", "multicast"),
        ("FF:ff:FF:ff:FF:ff", "broadcast"),
    ] {
        let message = format!("must be a unicast address, {mac} is {kind}");
        refuse_in(tuple(), &pointer, json!(mac), "mac", &message);
    }
}

#[test]
fn table_sizes() {
    let pointer = format!("{S}/maglev_table_size");
    for size in [251, 4093, 65_521, 65_537] {
        accept_in(tuple(), &pointer, json!(size));
    }
    for (size, nearest) in [
        (json!(4096), "4093 and 4099"),
        (json!(252), "251 and 257"),
        (json!(250), "251"),
        (json!(241), "251"),
        (json!(0), "251"),
        (json!(-5), "251"),
        (json!(65_536), "65521 and 65537"),
        (json!(65_539), "65537"),
        (json!(u64::MAX), "65537"),
    ] {
        let message = format!("must be a prime from 251 to 65537, got {size} (nearest {nearest})");
        refuse_in(tuple(), &pointer, size, "prime", &message);
    }
    refuse_in(
        tuple(),
        &pointer,
        json!("4093"),
        "type",
        "must be a number, got a string",
    );
}

#[test]
fn a_table_is_no_larger_than_the_limit_of_slots() {
    let document = with(tuple(), "/limits", json!({"slots": 4096}));
    let pointer = format!("{S}/maglev_table_size");
    accept_in(document.clone(), &pointer, json!(4093));
    let message = "must be a prime from 251 to 4096, got 4099 (nearest 4093)";
    refuse_in(document.clone(), &pointer, json!(4099), "prime", message);
    let message = "must be a prime from 251 to 4096, got 65537 (nearest 4093)";
    refuse(&document, &pointer, "prime", message);
}

#[test]
fn durations() {
    for (document, pointer, min, max, longest, too_long) in [
        (
            tuple(),
            format!("{S}/flow_idle"),
            "1s",
            "7d",
            604_800,
            "604801s",
        ),
        (
            tuple(),
            format!("{S}/cid_idle"),
            "1s",
            "7d",
            604_800,
            "7d1s",
        ),
        (
            tuple(),
            format!("{S}/handshake_grace"),
            "0s",
            "60s",
            60,
            "1m1s",
        ),
        (
            server_id(),
            format!("{S}/quic/quarantine"),
            "0s",
            "7d",
            604_800,
            "169h",
        ),
    ] {
        for value in [
            json!("1s"),
            json!(1),
            json!("60s"),
            json!("1m"),
            json!(longest),
        ] {
            accept_in(document.clone(), &pointer, value);
        }
        accept_in(document.clone(), &pointer, json!(max));
        accept_in(document.clone(), &pointer, json!(min));
        let rule = format!("must be a duration from {min} to {max}, got");
        for (value, shown) in [
            (json!(longest + 1), (longest + 1).to_string()),
            (json!(too_long), too_long.to_owned()),
            (json!(-1), "-1".to_owned()),
            (json!(1.5), "1.5".to_owned()),
            (json!(""), "\"\"".to_owned()),
            (json!("90"), "90".to_owned()),
            (json!("+1s"), "+1s".to_owned()),
            (json!("1.5s"), "1.5s".to_owned()),
            (json!("1 s"), "\"1 s\"".to_owned()),
            (json!("1s1m"), "1s1m".to_owned()),
            (json!("PT1S"), "PT1S".to_owned()),
            (
                json!("99999999999999999999s"),
                "99999999999999999999s".to_owned(),
            ),
        ] {
            refuse_in(
                document.clone(),
                &pointer,
                value,
                "duration",
                &format!("{rule} {shown}"),
            );
        }
        let message = "must be a number of seconds or a string, got a boolean";
        refuse_in(document, &pointer, json!(true), "type", message);
    }
    let message = "must be a duration from 1s to 7d, got 0s";
    refuse_in(
        tuple(),
        &format!("{S}/flow_idle"),
        json!("0s"),
        "duration",
        message,
    );

    let spec = accept(&with(tuple(), &format!("{S}/flow_idle"), json!("2h4m")));
    assert_eq!(spec.services()[0].flow_idle.as_secs(), 7440);
    let spec = accept(&with(tuple(), &format!("{S}/flow_idle"), json!("1d2h3m4s")));
    assert_eq!(spec.services()[0].flow_idle.as_secs(), 93_784);
}

#[test]
fn numbers_of_entries() {
    let message = "must have 1 to 1024 entries, got 0";
    refuse_in(tuple(), "/services", json!([]), "count", message);
    let service = |index: usize| {
        let vip = format!("10.0.{}.{}", index / 200, index % 200 + 1);
        json!({"name": format!("s{index}"), "vip": vip, "port": 443, "backends": []})
    };
    let services = |count| Value::Array((0..count).map(service).collect());
    accept_in(tuple(), "/services", services(1024));
    let message = "must have 1 to 1024 entries, got 1025";
    refuse_in(tuple(), "/services", services(1025), "count", message);

    let backend = |id: usize| json!({"id": id, "interface": "vm", "mac": "02:00:00:00:01:01"});
    let backends = |count| Value::Array((1..=count).map(backend).collect());
    let pointer = format!("{S}/backends");
    accept_in(tuple(), &pointer, backends(256));
    let message = "must have 0 to 256 entries, got 257";
    refuse_in(tuple(), &pointer, backends(257), "count", message);

    let config = |id: usize| json!({"config_id": id, "server_id_len": 2, "nonce_len": 5});
    let configs = |count| Value::Array((0..count).map(config).collect());
    let pointer = format!("{S}/quic/configs");
    accept_in(server_id(), &pointer, configs(7));
    let found = faults(&with(server_id(), &pointer, configs(8)).to_string());
    assert_eq!(
        found[0],
        format!("{pointer} count: must have 1 to 7 entries, got 8")
    );
    let found = faults(&with(server_id(), &pointer, json!([])).to_string());
    assert_eq!(
        found,
        [format!("{pointer} count: must have 1 to 7 entries, got 0")]
    );

    let ids = |count: u8| Value::Array((0..count).map(|id| json!(format!("00{id:02x}"))).collect());
    let pointer = format!("{B}/server_id");
    accept_in(server_id(), &pointer, ids(8));
    accept_in(server_id(), &pointer, ids(0));
    let message = "must have 0 to 8 entries, got 9";
    refuse_in(server_id(), &pointer, ids(9), "count", message);
}

#[test]
fn server_ids() {
    let pointer = format!("{B}/server_id");
    accept_in(server_id(), &pointer, json!("C4FF"));
    let rule = "must be an even number of hexadecimal digits, got";
    for (text, shown) in [
        ("", "\"\""),
        ("c46", "c46"),
        ("0xc460", "0xc460"),
        ("c4 60", "\"c4 60\""),
        ("é0", "\"é0\""),
    ] {
        refuse_in(
            server_id(),
            &pointer,
            json!(text),
            "hex",
            &format!("{rule} {shown}"),
        );
        refuse(
            &with(server_id(), &pointer, json!(["c4ff", text])),
            &format!("{pointer}/1"),
            "hex",
            &format!("{rule} {shown}"),
        );
    }
    let message = "must be a string or an array, got a number";
    refuse_in(server_id(), &pointer, json!(50_272), "type", message);
    let found = with(server_id(), &pointer, json!([50_272]));
    refuse(
        &found,
        &format!("{pointer}/0"),
        "type",
        "must be a string, got a number",
    );
}

#[test]
fn types() {
    let other_than = |kind: &str| {
        [
            ("null", Value::Null),
            ("a boolean", json!(true)),
            ("a number", json!(300)),
            ("a string", json!("x")),
            ("an array", json!([])),
            ("an object", json!({})),
        ]
        .into_iter()
        .filter(|(got, _)| *got != kind)
        .collect::<Vec<_>>()
    };
    for (document, pointer, kind) in [
        (tuple(), "/instance_id", "a string"),
        (tuple(), "/interface", "a string"),
        (tuple(), "/mode", "a string"),
        (tuple(), "/hash_seed", "a string"),
        (tuple(), "/source_mac", "a string"),
        (tuple(), "/events_per_second", "a number"),
        (tuple(), "/limits", "an object"),
        (tuple(), "/services", "an array"),
        (tuple(), "/services/0", "an object"),
        (tuple(), "/services/0/name", "a string"),
        (tuple(), "/services/0/vip", "a string"),
        (tuple(), "/services/0/port", "a number"),
        (tuple(), "/services/0/protocol", "a string"),
        (tuple(), "/services/0/short_dcid_len", "a number"),
        (tcp(), "/services/0/quic_only", "a boolean"),
        (tuple(), "/services/0/hash", "a string"),
        (tuple(), "/services/0/tracking", "a string"),
        (tuple(), "/services/0/fragments", "a string"),
        (tuple(), "/services/0/quic", "an object"),
        (server_id(), "/services/0/quic/routing", "a string"),
        (
            with(server_id(), "/services/0/backends", json!([])),
            "/services/0/quic/configs",
            "an array",
        ),
        (
            with(server_id(), "/services/0/backends", json!([])),
            "/services/0/quic/configs/0",
            "an object",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/config_id",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/server_id_len",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/nonce_len",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/extra_len",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/encodes_length",
            "a boolean",
        ),
        (
            server_id(),
            "/services/0/quic/unknown_server_id",
            "a string",
        ),
        (server_id(), "/services/0/quic/unhealthy", "a string"),
        (tuple(), "/services/0/backends", "an array"),
        (tuple(), "/services/0/backends/0", "an object"),
        (tuple(), "/services/0/backends/0/id", "a number"),
        (tuple(), "/services/0/backends/0/interface", "a string"),
        (tuple(), "/services/0/backends/0/mac", "a string"),
        (tuple(), "/services/0/backends/0/weight", "a number"),
        (tuple(), "/services/0/backends/0/state", "a string"),
    ] {
        for (got, value) in other_than(kind) {
            let message = format!("must be {kind}, got {got}");
            refuse_in(document.clone(), pointer, value, "type", &message);
        }
    }
    assert_eq!(faults("[]"), [" type: must be an object, got an array"]);
    assert_eq!(faults("null"), [" type: must be an object, got null"]);
    let message = "must be a string or null, got a number";
    refuse_in(server_id(), &format!("{C}/key"), json!(1), "type", message);
}

#[test]
fn required_members() {
    for (document, pointer) in [
        (tuple(), "/instance_id"),
        (tuple(), "/interface"),
        (tuple(), "/services"),
        (tuple(), "/services/0/name"),
        (tuple(), "/services/0/vip"),
        (tuple(), "/services/0/port"),
        (tuple(), "/services/0/backends"),
        (server_id(), "/services/0/quic/configs/0/config_id"),
        (server_id(), "/services/0/quic/configs/0/server_id_len"),
        (server_id(), "/services/0/quic/configs/0/nonce_len"),
        (tuple(), "/services/0/backends/0/id"),
        (tuple(), "/services/0/backends/0/interface"),
        (tuple(), "/services/0/backends/0/mac"),
    ] {
        refuse(
            &without(document, pointer),
            pointer,
            "missing",
            "is missing",
        );
    }
}
