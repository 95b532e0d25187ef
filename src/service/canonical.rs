// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The one text of a specification, its digest, and the form that may be shown.

use std::fmt;

use serde::{Serialize, Serializer};

use super::draft::SpecDraft;
use super::members::{config, root};
use super::spec::Spec;
use crate::document::digest::SpecDigest;
use crate::document::scalar::hex_text;
use crate::document::tree::{Member, Node, Value};
use crate::quic::lb::Key;

impl Spec {
    /// The canonical document: every member that the specification may have, with its value in
    /// force, in a fixed order; durations in seconds, hexadecimal text in lower case, services by
    /// name, backends by id, configs by config id, no white space.
    ///
    /// It holds the seed and the keys. [`Spec::from_json`] reads an equal specification from it.
    pub fn to_canonical_json(&self) -> Vec<u8> {
        let document = SpecDraft::from(self).written();
        // A sound specification holds no value that JSON has not, and a vector takes any bytes.
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// The digest of the canonical document, by which plans and generations name it.
    pub fn digest(&self) -> SpecDigest {
        SpecDigest::of(&self.to_canonical_json())
    }

    /// The canonical document as it may be shown: no seed, and for each key what `kcv` makes of it
    /// (a key check value, `None` where none can be computed).
    pub fn redacted(&self, kcv: impl Fn(&Key) -> Option<[u8; 3]>) -> Redacted {
        let mut document = SpecDraft::from(self).written();
        let mut keys = self
            .services
            .iter()
            .flat_map(|service| &service.quic.configs)
            .map(|config| config.key.as_ref());
        hide(&mut document, &mut || keys.next().flatten().and_then(&kcv));
        Redacted(document)
    }
}

/// Puts other values in place of the secrets; `kcv` is asked once per config, in order.
fn hide(value: &mut Value, kcv: &mut impl FnMut() -> Option<[u8; 3]>) {
    match value {
        Value::List(nodes) => nodes.iter_mut().for_each(|node| hide(&mut node.value, kcv)),
        Value::Object(members) => {
            for Member { name, node } in members {
                if name == root::HASH_SEED.name {
                    node.value = Value::Null;
                } else if name == config::KEY.name {
                    let kcv = kcv();
                    if node.value != Value::Null {
                        let shown = kcv.map_or(Value::Null, |kcv| Value::Text(hex_text(&kcv)));
                        let node_of = Node {
                            at: 0,
                            value: shown,
                        };
                        let member = Member {
                            name: "kcv".to_owned(),
                            node: node_of,
                        };
                        node.value = Value::Object(vec![member]);
                    }
                } else {
                    hide(&mut node.value, kcv);
                }
            }
        }
        _ => {}
    }
}

/// A specification without its secrets, to be serialised.
#[derive(Clone)]
pub struct Redacted(Value);

impl Serialize for Redacted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).unwrap_or_default())
    }
}
