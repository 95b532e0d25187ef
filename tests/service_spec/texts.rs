// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Members that are texts of some form.

use serde_json::{json, Value};

use super::{accept_in, refuse, refuse_in, server_id, tuple, with};

const S: &str = "/services/0";
const C: &str = "/services/0/quic/configs/0";
const B: &str = "/services/0/backends/0";

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
fn paths() {
    let place = json!({"path": "/sys/fs/bpf/roots", "index": 3});
    let document = with(tuple(), "/root_array", place);
    let pointer = "/root_array/path";
    let longest = format!("/{}", "x".repeat(4094));
    for path in ["/a", "/sys/fs/bpf/a/b-c_d", "/with space/and.dot", &longest] {
        accept_in(document.clone(), pointer, json!(path));
    }
    let longer = format!("{longest}x");
    let cut = format!("\"{}\"...", &longer[..64]);
    let rule = "must be an absolute path without '.', '..' and empty parts, got";
    for (path, shown) in [
        ("", "\"\""),
        ("/", "/"),
        ("roots", "roots"),
        ("/a/", "/a/"),
        ("/a//b", "/a//b"),
        ("/a/./b", "/a/./b"),
        ("/a/../b", "/a/../b"),
        ("/a\0b", "\"/a\\0b\""),
        (&longer, &cut),
    ] {
        let message = format!("{rule} {shown}");
        refuse_in(document.clone(), pointer, json!(path), "path", &message);
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
