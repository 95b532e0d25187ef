// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Members that are numbers or durations, and numbers of entries: both sides of every bound.

use serde_json::{json, Value};

use super::{accept, accept_in, faults, refuse, refuse_in, server_id, tuple, with};

const S: &str = "/services/0";
const C: &str = "/services/0/quic/configs/0";
const B: &str = "/services/0/backends/0";

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
        assert_eq!(faults(&written(number)), [expected]);
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
