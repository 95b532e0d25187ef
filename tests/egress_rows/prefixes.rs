// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Texts of prefixes, and what is in them.

use guideway::route::{InvalidPrefix, Prefix};

#[test]
fn prefixes_have_one_text() {
    for text in [
        "::/0",
        "0.0.0.0/0",
        "64:ff9b::/96",
        "2001:db8::1/128",
        "10.0.0.0/8",
        "255.255.255.255/32",
        "8000::/1",
    ] {
        let prefix: Prefix = text.parse().expect(text);
        assert_eq!(prefix.to_string(), text);
        assert_eq!(serde_json::to_value(prefix).expect("JSON"), text);
    }
}

#[test]
fn prefixes_that_are_none() {
    for text in [
        "",
        "/",
        "::",
        "10.0.0.0",
        "::/",
        "/0",
        "::/+0",
        "::/-0",
        "::/ 0",
        " ::/0",
        "::/0 ",
        "::/0/0",
        "::/0x0",
        "10.0.0/8",
        "::/99999999999",
        "a/0",
        "[::]/0",
        "::%1/0",
    ] {
        let error = text.parse::<Prefix>().expect_err(text);
        assert!(matches!(error, InvalidPrefix::Text { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
    for (text, said) in [
        ("::/129", "prefix ::/129 has 129 bits, more than 128"),
        (
            "10.0.0.0/33",
            "prefix 10.0.0.0/33 has 33 bits, more than 32",
        ),
        (
            "::/4294967295",
            "prefix ::/4294967295 has 4294967295 bits, more than 128",
        ),
        (
            "2001:db8::1/64",
            "prefix 2001:db8::1/64 has host bits set; the prefix is 2001:db8::/64",
        ),
        (
            "::1/0",
            "prefix ::1/0 has host bits set; the prefix is ::/0",
        ),
        (
            "10.0.0.1/31",
            "prefix 10.0.0.1/31 has host bits set; the prefix is 10.0.0.0/31",
        ),
        (
            "128.0.0.0/0",
            "prefix 128.0.0.0/0 has host bits set; the prefix is 0.0.0.0/0",
        ),
    ] {
        assert_eq!(text.parse::<Prefix>().expect_err(text).to_string(), said);
    }
}

#[test]
fn a_prefix_contains_the_addresses_that_begin_like_it() {
    let contains = |prefix: &str, address: &str| {
        let prefix: Prefix = prefix.parse().expect("a prefix");
        prefix.contains(address.parse().expect("an address"))
    };
    assert!(contains("::/0", "ffff::"));
    assert!(contains("0.0.0.0/0", "255.0.0.1"));
    assert!(contains("64:ff9b::/96", "64:ff9b::c633:6401"));
    assert!(!contains("64:ff9b::/96", "64:ff9b:0:0:0:1::"));
    assert!(contains("2001:db8::/33", "2001:db8:7fff::1"));
    assert!(!contains("2001:db8::/33", "2001:db8:8000::"));
    assert!(contains("10.0.0.0/31", "10.0.0.1"));
    assert!(!contains("10.0.0.0/31", "10.0.0.2"));
    assert!(!contains("::/0", "10.0.0.1"));
    assert!(!contains("0.0.0.0/0", "::ffff:10.0.0.1"));
    // IPv6 first, then by address, then the shorter.
    let mut sorted: Vec<Prefix> = ["10.0.0.0/8", "10.0.0.0/7", "8000::/1", "::/0", "::/1"]
        .iter()
        .map(|text| text.parse().expect("a prefix"))
        .collect();
    sorted.sort();
    let texts: Vec<_> = sorted.iter().map(Prefix::to_string).collect();
    assert_eq!(
        texts,
        ["::/0", "::/1", "8000::/1", "10.0.0.0/7", "10.0.0.0/8"]
    );
}
