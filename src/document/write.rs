// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Makes documents, member by member.

use super::field::{Field, Written};
use super::tree::{Member, Node, Value};

/// An object under construction.
#[derive(Default)]
pub(crate) struct Object(Vec<Member>);

impl Object {
    /// Adds a member if there is a value. The field gives the name alone: a draft may hold what
    /// the field does not.
    pub(crate) fn put<T>(mut self, field: &Field<T>, value: Option<&impl Written>) -> Self {
        if let Some(value) = value {
            let node = Node {
                at: 0,
                value: value.written(),
            };
            self.0.push(Member {
                name: field.name.to_owned(),
                node,
            });
        }
        self
    }

    pub(crate) fn done(self) -> Value {
        Value::Object(self.0)
    }
}

impl<T: Written> Written for Vec<T> {
    fn written(&self) -> Value {
        Value::List(
            self.iter()
                .map(|entry| Node {
                    at: 0,
                    value: entry.written(),
                })
                .collect(),
        )
    }
}
