// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Objects, lists and events as the API server sends them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::control::manifest;
use crate::control::{Shard, ShardFault};

/// One object: its name in the namespace, and what it says of a shard. Only an answer that breaks
/// the API's rules has an object without a name; its name is empty here.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) read: Result<Shard, ShardFault>,
}

impl Object {
    pub(super) fn read(raw: &RawValue) -> Self {
        Self {
            name: Head::of(raw).name,
            read: manifest::shard(raw.get()),
        }
    }
}

/// What every object has; what is missing or of another type is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) version: String,
    /// This bookmark ends the events that stand for the list.
    pub(super) ends_list: bool,
}

impl Head {
    pub(super) fn of(raw: &RawValue) -> Self {
        let text = |value: &serde_json::Value, name: &str| {
            let text = value.get(name).and_then(|value| value.as_str());
            text.unwrap_or_default().to_owned()
        };
        let Ok(WithMetadata { metadata }) = serde_json::from_str(raw.get()) else {
            return Self::default();
        };
        let annotation = metadata.get("annotations");
        let end = annotation.and_then(|all| all.get("k8s.io/initial-events-end"));
        Self {
            name: text(&metadata, "name"),
            version: text(&metadata, "resourceVersion"),
            ends_list: end.is_some_and(|end| end == "true"),
        }
    }
}

#[derive(Deserialize)]
struct WithMetadata {
    #[serde(default)]
    metadata: serde_json::Value,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl<'a> Page<'a> {
    /// The objects on the page.
    pub(super) fn items(&self) -> impl Iterator<Item = &'a RawValue> + '_ {
        self.items.iter().flatten().copied()
    }

    /// The token of the next page; none behind the last.
    pub(super) fn next(&self) -> Option<&str> {
        let token = self.metadata.r#continue.as_deref();
        token.filter(|token| !token.is_empty())
    }

    /// The version of the whole list.
    pub(super) fn version(&self) -> Option<&str> {
        let version = self.metadata.resource_version.as_deref();
        version.filter(|version| !version.is_empty())
    }
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type")]
    pub(super) kind: EventKind,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum EventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// Why the server refuses, as it says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) message: String,
    pub(super) details: StatusDetails,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StatusDetails {
    pub(super) retry_after_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    #[test]
    fn heads_of_what_breaks_the_rules_are_empty() {
        for text in [
            "{}",
            "[]",
            "3",
            r#"{"metadata": 3}"#,
            r#"{"metadata": {"name": []}}"#,
        ] {
            assert_eq!(Head::of(&raw(text)), Head::default(), "{text}");
        }
        let object = Object::read(&raw("{}"));
        assert!(object.name.is_empty() && object.read.is_err());
    }

    #[test]
    fn the_end_of_the_list_is_an_annotation() {
        let head = |value: &str| {
            Head::of(&raw(&format!(
                r#"{{"kind": "EgressShard", "metadata": {{"resourceVersion": "7",
                    "annotations": {{"k8s.io/initial-events-end": {value}}}}}}}"#
            )))
        };
        assert!(head(r#""true""#).ends_list);
        assert!(!head(r#""false""#).ends_list && !head("null").ends_list);
        assert_eq!(head("1").version, "7");
    }

    #[test]
    fn a_list_may_have_no_items() {
        let text = r#"{"metadata": {"resourceVersion": "5", "continue": ""}, "items": null}"#;
        let page: Page<'_> = serde_json::from_str(text).expect("a page");
        assert_eq!(
            (page.items().count(), page.next(), page.version()),
            (0, None, Some("5"))
        );
    }
}
