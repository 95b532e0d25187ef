// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads the members of one object and reports every fault of them.

use std::collections::HashSet;

use super::fault::{Fault, FaultCode, Faults};
use super::field::{Field, Need, Shape, Table};
use super::scalar::{shown, Problem};
use super::tree::{Node, Value};

/// Proof that a fault was reported: only the report can make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported(());

/// A value, or the proof that its fault was reported.
pub(crate) type Checked<T> = Result<T, Reported>;

/// Collects faults in any order, and gives them in the order of the document.
#[derive(Default)]
pub(crate) struct Report {
    faults: Vec<(u32, Fault)>,
}

impl Report {
    /// Reports a fault; `at` is its place in the document.
    pub(crate) fn fault(
        &mut self,
        at: u32,
        pointer: impl Into<String>,
        code: FaultCode,
        message: impl Into<String>,
    ) -> Reported {
        self.faults.push((at, Fault::new(pointer, code, message)));
        Reported(())
    }

    /// Reports what is wrong with one value.
    pub(crate) fn problem(&mut self, at: u32, pointer: String, problem: Problem) -> Reported {
        self.fault(at, pointer, problem.code, problem.message)
    }

    /// The value, unless anything was reported.
    pub(crate) fn finish<T>(mut self, value: Checked<T>) -> Result<T, Faults> {
        // Stable: faults of one place stay in the order in which they were found.
        self.faults.sort_by_key(|&(at, _)| at);
        Faults::check(self.faults.into_iter().map(|(_, fault)| fault).collect())?;
        // Without a fault nothing could make the proof of one.
        value.map_err(|Reported(())| {
            Faults::from(Fault::new(
                "",
                FaultCode::Type,
                "is refused without a reason",
            ))
        })
    }
}

/// One object of the document.
pub(crate) struct Reader<'a> {
    node: &'a Node,
    pointer: String,
}

/// A list of the document.
pub(crate) struct Entries<'a> {
    nodes: &'a [Node],
    pointer: String,
}

impl<'a> Entries<'a> {
    /// Each entry with its index and pointer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &'a Node, String)> + '_ {
        self.nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (index, node, format!("{}/{index}", self.pointer)))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl<'a> Reader<'a> {
    /// Opens an object: it has no members but those of the table, and none of them twice.
    pub(crate) fn open(
        table: &Table,
        node: &'a Node,
        pointer: String,
        report: &mut Report,
    ) -> Checked<Self> {
        let Value::Object(members) = &node.value else {
            let problem = Problem::wrong_type("an object", &node.value);
            return Err(report.problem(node.at, pointer, problem));
        };
        let mut seen = HashSet::with_capacity(members.len());
        for member in members {
            let place = member.node.at;
            if !seen.insert(member.name.as_str()) {
                let message = format!("field {} is given more than once", shown(&member.name));
                let pointer = member_pointer(&pointer, &member.name);
                report.fault(place, pointer, FaultCode::DuplicateMember, message);
            } else if table.find(&member.name).is_none() {
                let hint = nearest(table, &member.name)
                    .map_or_else(String::new, |known| format!(" (did you mean {known}?)"));
                let message = format!("unknown field {}{hint}", shown(&member.name));
                let pointer = member_pointer(&pointer, &member.name);
                report.fault(place, pointer, FaultCode::Unknown, message);
            }
        }
        Ok(Self { node, pointer })
    }

    /// The object's pointer.
    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The object's place in the document.
    pub(crate) fn at(&self) -> u32 {
        self.node.at
    }

    /// Whether the member is there.
    pub(crate) fn has<T>(&self, field: &Field<T>) -> bool {
        self.node.member(field.name).is_some()
    }

    /// The member's value, `None` if it is absent.
    pub(crate) fn optional<T>(&self, field: &Field<T>, report: &mut Report) -> Checked<Option<T>> {
        let Some(node) = self.node.member(field.name) else {
            return Ok(None);
        };
        (field.read)(&node.value, &field.shape)
            .map(Some)
            .map_err(|problem| {
                report.problem(node.at, member_pointer(&self.pointer, field.name), problem)
            })
    }

    /// The member's value or its default; a fault if it has none.
    pub(crate) fn get<T: Clone>(&self, field: &Field<T>, report: &mut Report) -> Checked<T> {
        match (self.optional(field, report)?, &field.need) {
            (Some(value), _) => Ok(value),
            (None, Need::Default(value)) => Ok(value.clone()),
            (None, Need::Required | Need::Optional) => Err(self.missing(field, report)),
        }
    }

    /// The object in this member; `Ok(None)` if it is absent or null and may be.
    pub(crate) fn object(&self, field: &Field<()>, report: &mut Report) -> Checked<Option<Self>> {
        let Some(node) = self.node.member(field.name) else {
            return match field.need {
                Need::Required => Err(self.missing(field, report)),
                Need::Default(()) | Need::Optional => Ok(None),
            };
        };
        let pointer = member_pointer(&self.pointer, field.name);
        match (&field.shape, &node.value) {
            (Shape::Object(table), _)
            | (Shape::Nullable(Shape::Object(table)), Value::Object(_)) => {
                Reader::open(table, node, pointer, report).map(Some)
            }
            (Shape::Nullable(_), Value::Null) => Ok(None),
            (_, other) => {
                let problem = Problem::wrong_type("an object or null", other);
                Err(report.problem(node.at, pointer, problem))
            }
        }
    }

    /// The list in this member; `Ok(None)` if it is absent and may be. One of a wrong length is
    /// reported and read all the same.
    pub(crate) fn list(
        &self,
        field: &Field<()>,
        report: &mut Report,
    ) -> Checked<Option<Entries<'a>>> {
        let Some(node) = self.node.member(field.name) else {
            return match field.need {
                Need::Required => Err(self.missing(field, report)),
                Need::Default(()) | Need::Optional => Ok(None),
            };
        };
        let pointer = member_pointer(&self.pointer, field.name);
        let Value::List(nodes) = &node.value else {
            let problem = Problem::wrong_type("an array", &node.value);
            return Err(report.problem(node.at, pointer, problem));
        };
        if let Shape::List { min, max, .. } = field.shape {
            if !(min..=max).contains(&nodes.len()) {
                count(node.at, &pointer, (min, max), nodes.len(), report);
            }
        }
        Ok(Some(Entries { nodes, pointer }))
    }

    /// The object in this member, or an empty one if it is absent.
    pub(crate) fn object_or_empty(&self, field: &Field<()>, report: &mut Report) -> Checked<Self> {
        if self.has(field) {
            if let Some(reader) = self.object(field, report)? {
                return Ok(reader);
            }
        }
        Ok(Self {
            node: Node::EMPTY,
            pointer: member_pointer(&self.pointer, field.name),
        })
    }

    /// The member as it is written, with its pointer.
    pub(crate) fn raw<T>(&self, field: &Field<T>) -> Option<(&'a Node, String)> {
        let node = self.node.member(field.name)?;
        Some((node, member_pointer(&self.pointer, field.name)))
    }

    /// Reports a fault of the member, or of the object's want of it.
    pub(crate) fn fault<T>(
        &self,
        field: &Field<T>,
        code: FaultCode,
        message: impl Into<String>,
        report: &mut Report,
    ) -> Reported {
        let place = self
            .node
            .member(field.name)
            .map_or(self.node.at, |node| node.at);
        report.fault(
            place,
            member_pointer(&self.pointer, field.name),
            code,
            message,
        )
    }

    /// Reports that the member is absent.
    pub(crate) fn missing<T>(&self, field: &Field<T>, report: &mut Report) -> Reported {
        self.fault(field, FaultCode::Missing, "is missing", report)
    }
}

/// All values, if every one is sound. Unlike collecting, it takes the values behind a faulty one as
/// well, so that their faults are reported.
pub(crate) fn all<T>(values: impl IntoIterator<Item = Checked<T>>) -> Checked<Vec<T>> {
    let mut whole = Ok(Vec::new());
    for value in values {
        match (value, &mut whole) {
            (Ok(value), Ok(values)) => values.push(value),
            (Err(reported), _) => whole = Err(reported),
            (Ok(_), Err(_)) => {}
        }
    }
    whole
}

/// Reports a list of a wrong length.
pub(crate) fn count(
    at: u32,
    pointer: &str,
    (min, max): (usize, usize),
    got: usize,
    report: &mut Report,
) -> Reported {
    let message = format!("must have {min} to {max} entries, got {got}");
    report.fault(at, pointer, FaultCode::Count, message)
}

/// The pointer to a member of an object (RFC 6901).
fn member_pointer(object: &str, name: &str) -> String {
    format!("{object}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The known name nearest to this one, if at most two edits away.
fn nearest(table: &Table, name: &str) -> Option<&'static str> {
    const NEAR: usize = 2;
    let names = table.fields.iter().map(|field| field.name());
    // Far apart in length is far apart; a hostile name is not worth more.
    let near = names
        .filter(|known| known.len().abs_diff(name.len()) <= NEAR)
        .map(|known| (distance(known, name), known));
    near.filter(|&(edits, _)| edits <= NEAR)
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, known)| known)
}

/// Insertions, deletions and replacements of bytes that make one text of another (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, byte) in from.bytes().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(to.bytes()) {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::field::boolean;

    static PORT: Field<bool> = boolean("port", Need::Optional, "");
    static FLOW_IDLE: Field<bool> = boolean("flow_idle", Need::Optional, "");
    static CID_IDLE: Field<bool> = boolean("cid_idle", Need::Optional, "");
    static WEIGHT: Field<bool> = boolean("weight", Need::Optional, "");
    static TABLE: Table = Table {
        about: "",
        fields: &[&PORT, &FLOW_IDLE, &CID_IDLE, &WEIGHT],
    };

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("kitten", "sitting", 3),
            ("port", "prot", 2),
            ("port", "ports", 1),
            ("abc", "", 3),
            ("", "abc", 3),
            ("vip", "vip", 0),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_name_wins_and_far_ones_do_not_count() {
        let table = &TABLE;
        assert_eq!(nearest(table, "prot"), Some("port"));
        assert_eq!(nearest(table, "flow_idel"), Some("flow_idle"));
        assert_eq!(nearest(table, "cid-idle"), Some("cid_idle"));
        assert_eq!(nearest(table, "weighting"), None);
        assert_eq!(nearest(table, ""), None);
    }

    #[test]
    fn pointers_escape_what_rfc_6901_says() {
        assert_eq!(member_pointer("/a", "m~n/o~1"), "/a/m~0n~1o~01");
    }
}
