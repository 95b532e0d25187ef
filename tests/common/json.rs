// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! JSON documents that differ from others in a few places.

use serde_json::Value;

/// The document with another value at the pointer; a new member or entry is added.
pub(crate) fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Object(members) => {
            members.insert(name.to_owned(), value);
        }
        Value::Array(entries) => {
            let index: usize = name.parse().unwrap();
            entries.truncate(index.max(entries.len()));
            match entries.get_mut(index) {
                Some(entry) => *entry = value,
                None => entries.push(value),
            }
        }
        other => panic!("{pointer} is within {other}"),
    }
    document
}

/// The document without the member.
pub(crate) fn without(mut document: Value, pointer: &str) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let members = document
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .unwrap();
    members.remove(name).unwrap();
    document
}

/// Every pointer into a document.
pub(crate) fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    match value {
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                pointers(entry, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                pointers(member, &format!("{pointer}/{name}"), found);
            }
        }
        _ => {}
    }
}
