// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Documents that are cut, huge, or made to hurt.

use guideway::affinity::{AffinityDocument, DocumentError, ReadOptions};
use proptest::prelude::*;
use serde_json::json;

use super::{read, sound, with};

fn limit(limit_bytes: u64) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.limit_bytes = limit_bytes;
    options
}

#[test]
fn a_document_cut_anywhere_ends_in_the_middle() {
    let text = sound().to_string();
    for end in 0..text.len() {
        let error = read(&text.as_bytes()[..end], &ReadOptions::default()).expect_err("cut");
        assert!(
            matches!(error, DocumentError::Truncated { .. }),
            "{end}: {error}"
        );
        assert!(error
            .to_string()
            .starts_with("ends in the middle, at line 1"));
    }
}

#[test]
fn the_limit_is_exact_and_comes_after_what_is_wrong_before_it() {
    let text = sound().to_string();
    let length = text.len() as u64;
    assert!(read(text.as_bytes(), &limit(length)).is_ok());
    let too_large = |limit_bytes: u64, text: &str| {
        let error = read(text.as_bytes(), &limit(limit_bytes)).expect_err("too large");
        assert_eq!(
            error.to_string(),
            format!("is longer than {limit_bytes} bytes")
        );
    };
    too_large(length - 1, &text);
    too_large(length, &format!("{text}\n"));
    too_large(0, &text);
    too_large(1, &text);
    // What was refused already is told instead.
    let other = format!("{{\"schema\": \"other\"{}", " ".repeat(1000));
    let error = read(other.as_bytes(), &limit(100)).expect_err("other");
    assert!(
        matches!(error, DocumentError::OtherSchema { .. }),
        "{error}"
    );
}

#[test]
fn deep_nesting_is_refused_before_it_costs_anything() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for place in ["/note", "/services/0/note", "/services/0/bindings/0/note"] {
            let hole = with(place, json!("HOLE")).to_string();
            let deep = |depth: usize| {
                let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
                hole.replace("\"HOLE\"", &nested)
            };
            assert!(read(deep(50).as_bytes(), &ReadOptions::default()).is_ok());
            let error = read(deep(100_000).as_bytes(), &ReadOptions::default());
            let error = error.expect_err("deep").to_string();
            assert!(
                error.starts_with("is nested more than 64 deep, at byte "),
                "{error}"
            );
        }
    }
    let error = read("[".repeat(1_000_000).as_bytes(), &ReadOptions::default());
    let error = error.expect_err("deep");
    assert!(error.to_string().contains("expected an object"), "{error}");
}

#[test]
fn long_texts_are_refused_wherever_they_stand() {
    let long = "x".repeat(1_000_000);
    for (place, value) in [
        ("/note", json!(long)),
        ("/instance", json!(long)),
        ("/services/0/bindings/0/cid", json!(long)),
        ("/services/0/bindings/0/origin", json!(long)),
        (&format!("/{long}"), json!(1)),
    ] {
        let text = with(place, value).to_string();
        let error = read(text.as_bytes(), &ReadOptions::default()).expect_err("long");
        let error = error.to_string();
        assert!(
            error.starts_with("has a text of more than 4096 bytes, at byte "),
            "{error}"
        );
    }
    // What is shown of a long text is short.
    let text = with("/services/0/bindings/0/origin", json!("x".repeat(4000))).to_string();
    let error = read(text.as_bytes(), &ReadOptions::default()).expect_err("long");
    assert!(error.to_string().len() < 300, "{error}");
}

#[test]
fn numbers_of_any_size_are_refused_or_passed_over() {
    let digits = "9".repeat(100_000);
    for number in [&digits, &format!("-{digits}"), &format!("0.{digits}")] {
        for place in ["/services/0/bindings/0/last_seen_ns", "/services/0/id"] {
            let hole = with(place, json!("HOLE")).to_string();
            let text = hole.replace("\"HOLE\"", number);
            let error = read(text.as_bytes(), &ReadOptions::default()).expect_err("a number");
            assert!(error.to_string().len() < 300, "{error}");
        }
        let hole = with("/note", json!("HOLE")).to_string();
        let text = hole.replace("\"HOLE\"", number);
        // It may be passed over or be called no number: never anything else.
        match read(text.as_bytes(), &ReadOptions::default()) {
            Ok(document) => assert_eq!(document.bindings(), 4),
            Err(error) => assert!(matches!(error, DocumentError::Json { .. }), "{error}"),
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let text = sound().to_string();
    let at = text.find("quic-api").expect("a name");
    for byte in [0x00, 0x0a, 0x1f, 0x80, 0xc0, 0xff] {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = byte;
        let error = read(&bytes, &ReadOptions::default()).expect_err("no text");
        assert!(
            matches!(error, DocumentError::Json { .. }),
            "{byte:#x} {error}"
        );
    }
    // Half a surrogate pair names no character.
    let half = text.replacen("quic-api", "\\ud800", 1);
    assert!(read(half.as_bytes(), &ReadOptions::default()).is_err());
}

#[test]
fn a_million_duplicates_are_read_as_they_are() {
    let binding = r#"{"cid":"00","backend":1,"origin":"learned","last_seen_ns":1}"#;
    let list = vec![binding; 1_000_000].join(",");
    let hole = with("/services/0/bindings", json!("HOLE")).to_string();
    let text = hole.replace("\"HOLE\"", &format!("[{list}]"));
    let document = AffinityDocument::from_json(text.as_bytes(), &ReadOptions::default());
    assert_eq!(document.expect("sound").bindings(), 1_000_002);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_are_a_document_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, &ReadOptions::default());
    }

    #[test]
    fn a_damaged_document_is_a_document_or_an_error(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        other in any::<prop::sample::Index>(),
        strict in any::<bool>(),
    ) {
        let mut bytes = sound().to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut options = ReadOptions::default();
        options.strict = strict;
        let _ = read(&bytes, &options);
        // A piece of it twice.
        let other = other.index(bytes.len());
        let piece = bytes[at.min(other)..at.max(other)].to_vec();
        bytes.splice(other..other, piece);
        let _ = read(&bytes, &options);
    }
}
