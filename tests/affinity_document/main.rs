// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The document of bindings: what is written, what is read, and what is refused how.

mod canonical;
mod faults;
mod hostile;
mod schema;

use std::io::Read;

use guideway::affinity::{AffinityDocument, DocumentError, ReadOptions};
use guideway::quiclb::{read_affinity, ReadError};
use serde_json::{json, Value};

/// A sound document: two services, four bindings, one of each origin.
fn sound() -> Value {
    json!({
        "schema": "guideway.affinity/v1",
        "exported_at": "2026-07-31T08:00:00Z",
        "instance": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "services": [
            {"id": 7, "name": "quic-api", "vip": "203.0.113.80", "protocol": "udp", "port": 443,
             "bindings": [
                {"cid": "c46001", "backend": 2, "origin": "learned", "last_seen_ns": 1_000},
                {"cid": "ff".repeat(20), "backend": 4294967295_u32, "origin": "registered",
                 "last_seen_ns": 0},
             ]},
            {"id": 9, "name": "quic-six", "vip": "2001:db8::80", "protocol": "udp", "port": 8443,
             "bindings": [
                {"cid": "00", "backend": 1, "origin": "imported",
                 "last_seen_ns": 18446744073709551615_u64},
                {"cid": "0000", "backend": 1, "origin": "learned", "last_seen_ns": 5},
             ]},
        ],
    })
}

/// [`sound`] with the value at a pointer replaced, or added.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = sound();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = document.pointer_mut(parent).expect(pointer);
    match parent {
        Value::Array(list) => list[name.parse::<usize>().expect("an index")] = value,
        object => object[name] = value,
    }
    document
}

/// [`sound`] without the member at a pointer.
fn without(pointer: &str) -> Value {
    let mut document = sound();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = document.pointer_mut(parent).expect(pointer);
    let removed = parent.as_object_mut().expect("an object").remove(name);
    assert!(removed.is_some(), "{pointer}");
    document
}

/// A source that gives up to so many bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(to.len());
        to[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// Reads a document in memory and, in pieces, as a stream: it must come to the same.
#[track_caller]
fn read(text: &[u8], options: &ReadOptions) -> Result<AffinityDocument, DocumentError> {
    let whole = AffinityDocument::from_json(text, options);
    for piece in [1, 7, usize::MAX] {
        let streamed = match read_affinity(Pieces(text, piece), options) {
            Ok(document) => Ok(document),
            Err(ReadError::Document(error)) => Err(error),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(
            told(&whole),
            told(&streamed),
            "in pieces of {piece}: {:.200}",
            String::from_utf8_lossy(text)
        );
    }
    whole
}

/// A result without columns: the two parsers of serde_json may count an end by one differently.
fn told(result: &Result<AffinityDocument, DocumentError>) -> Result<AffinityDocument, String> {
    result.clone().map_err(|error| {
        let text = error.to_string();
        match text.find(" at line ").or(text.find(" (line ")) {
            Some(end) => text[..end].to_owned(),
            None => text,
        }
    })
}

#[track_caller]
fn accepted(document: &Value) -> AffinityDocument {
    let text = document.to_string();
    read(text.as_bytes(), &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
fn refused(document: &Value) -> DocumentError {
    let text = document.to_string();
    match read(text.as_bytes(), &ReadOptions::default()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error,
    }
}
