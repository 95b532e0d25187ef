// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! EgressShard objects as JSON: one object, or a list of them.
//!
//! An object with a value that cannot be read is left out and reported; the others are as if it were
//! not there. Members that are not used are not looked at. Any bytes are read without a panic, in a
//! time in proportion to their number.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Shard, ShardFault, ShardList};
use crate::document::scalar::shown;
use crate::group::Nat64Prefix;

/// The API group and version of the objects.
pub const API_VERSION: &str = "network.datumapis.com/v1alpha1";
/// Their kind.
pub const KIND: &str = "EgressShard";
/// The kind of a list of them, as their API has it; one of any objects is a `List` of `v1`.
pub const LIST_KIND: &str = "EgressShardList";

/// What an object is called that has no name.
const NAMELESS: &str = "without a name";

/// A text that is no manifest, so that nothing is known of what it should hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
#[non_exhaustive]
pub struct ManifestError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Reads a file's text: one object, or a list of objects. Objects of other kinds are reported as
/// faults, which say that they are in `file`.
///
/// # Errors
/// The text is no JSON, or neither an object nor a list.
pub fn parse(bytes: &[u8], file: &str) -> Result<ShardList, ManifestError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        ManifestError {
            line: 1 + newlines(before),
            message: "is not JSON: not UTF-8".to_owned(),
        }
    })?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| ManifestError {
        line: error.line(),
        message: format!("is not JSON: {error}"),
    })?;
    let mut lines = Lines::of(text, file);
    let mut fail = |at: &RawValue, message: String| ManifestError {
        line: lines.line(at.get()),
        message,
    };
    let Some(members) = object(whole) else {
        let message = format!("must be an object, got {}", kind(whole));
        return Err(fail(whole, message));
    };
    let items = match text_member(&members, "kind").as_deref() {
        Some("List" | LIST_KIND) => match members.get("items") {
            Some(items) if is_null(items) => Vec::new(),
            Some(items) => match list(items) {
                Some(items) => items,
                None => {
                    let message = format!("items: must be an array, got {}", kind(items));
                    return Err(fail(items, message));
                }
            },
            None => return Err(fail(whole, "items: is missing".to_owned())),
        },
        _ => return Ok(collected(&mut lines, [whole], false)),
    };
    // The items of a typed list need not repeat the type.
    let typed = text_member(&members, "kind").as_deref() == Some(LIST_KIND);
    Ok(collected(&mut lines, items, typed))
}

/// Reads the text of one object, as an API answers; its kind may be absent.
///
/// # Errors
/// What is wrong with it.
pub fn shard(text: &str) -> Result<Shard, ShardFault> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => read(raw, true).map_err(|bad| bad.into_fault(None)),
        Err(error) => Err(ShardFault {
            name: NAMELESS.to_owned(),
            at: None,
            text: format!("is not JSON: {error}"),
        }),
    }
}

fn collected<'a>(
    lines: &mut Lines<'_>,
    objects: impl IntoIterator<Item = &'a RawValue>,
    typed: bool,
) -> ShardList {
    let mut list = ShardList::default();
    for object in objects {
        match read(object, typed) {
            Ok(shard) => list.shards.push(shard),
            Err(bad) => list.faults.push(bad.into_fault(Some(lines))),
        }
    }
    list
}

/// An object that cannot be read.
struct Bad<'a> {
    name: Option<String>,
    problems: Vec<Problem<'a>>,
}

/// One value that cannot be.
struct Problem<'a> {
    at: &'a RawValue,
    message: String,
}

impl Bad<'_> {
    /// All that is wrong, at the line of the first of it.
    fn into_fault(self, lines: Option<&mut Lines<'_>>) -> ShardFault {
        let first = self.problems.first().map(|first| first.at.get());
        let at = lines.zip(first);
        let at = at.map(|(lines, first)| (lines.file.to_owned(), lines.line(first)));
        let messages: Vec<_> = self.problems.into_iter().map(|one| one.message).collect();
        ShardFault {
            name: self.name.unwrap_or_else(|| NAMELESS.to_owned()),
            at,
            text: messages.join("; "),
        }
    }
}

fn read(raw: &RawValue, typed: bool) -> Result<Shard, Bad<'_>> {
    let mut fields = Fields {
        problems: Vec::new(),
    };
    let Some(top) = object(raw) else {
        fields.wrong(raw, "", "an object");
        return Err(Bad {
            name: None,
            problems: fields.problems,
        });
    };
    let metadata = fields.object(&top, "", "metadata");
    let name = fields.text(&metadata, "metadata.", "name");
    let namespace = fields.text(&metadata, "metadata.", "namespace");
    let full_name = match (&namespace, &name) {
        (Some(namespace), Some(name)) => Some(format!("{namespace}/{name}")),
        (None, Some(name)) => Some(name.clone()),
        (_, None) => None,
    };
    // Of another kind everything else means something else.
    fields.insist(raw, &top, "apiVersion", API_VERSION, typed);
    fields.insist(raw, &top, "kind", KIND, typed);
    if !fields.problems.is_empty() {
        return Err(Bad {
            name: full_name,
            problems: fields.problems,
        });
    }
    if full_name.is_none() {
        fields.problem(raw, "metadata.name: is missing".to_owned());
    }
    let deleted = fields.text(&metadata, "metadata.", "deletionTimestamp");
    let spec = fields.object(&top, "", "spec");
    let drain = fields.flag(&spec, "spec.", "drain");
    let status = fields.object(&top, "", "status");
    let conditions = fields.conditions(&status);
    let shard = Shard {
        name: full_name.clone().unwrap_or_default(),
        sid: fields.parsed(&status, "status.", "shardSID", |text| {
            text.parse().map_err(|error| format!("is no SID: {error}"))
        }),
        programmed: conditions.programmed.unwrap_or(false),
        ready: conditions.ready.unwrap_or(false),
        terminating: deleted.is_some(),
        drain,
        ipv6: fields
            .text(&status, "status.", "shardAddressIPv6")
            .is_some(),
        ipv4: fields
            .text(&status, "status.", "shardAddressIPv4")
            .is_some(),
        nat64_prefix: fields.parsed(&status, "status.", "nat64Prefix", nat64_prefix),
        well_known_prefix: fields.flag(&status, "status.", "translatesWellKnownPrefix"),
    };
    match fields.problems {
        problems if problems.is_empty() => Ok(shard),
        problems => Err(Bad {
            name: full_name,
            problems,
        }),
    }
}

/// A prefix of 96 bits, whatever stands behind them.
fn nat64_prefix(text: &str) -> Result<Nat64Prefix, String> {
    let rule = "must be an IPv6 prefix of 96 bits";
    let parts = text.split_once('/');
    let parsed = parts.and_then(|(address, bits)| {
        let plain = bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| plain)?;
        Some((address.parse::<IpAddr>().ok()?, bits))
    });
    let Some((address, bits)) = parsed else {
        return Err(rule.to_owned());
    };
    let address = match address {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u32::MAX)).into()
        }
        address => address,
    };
    Nat64Prefix::new(address, bits).map_err(|error| format!("{rule}: {error}"))
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The members of an object; none if it is none.
fn object(raw: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(raw.get()).ok()
}

fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

fn parse_as<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Whether it is no text, and there.
fn is_of_other_type(raw: &RawValue) -> bool {
    !is_null(raw) && kind(raw) != "a string"
}

fn text_member(members: &Members<'_>, name: &str) -> Option<String> {
    members.get(name).and_then(|raw| parse_as(raw))
}

/// The JSON type with its article.
fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The two conditions that count; none where an object has no such condition.
#[derive(Default)]
struct Conditions {
    programmed: Option<bool>,
    ready: Option<bool>,
}

/// Reads members, and collects what is wrong with them. A member that is null is absent.
struct Fields<'a> {
    problems: Vec<Problem<'a>>,
}

impl<'a> Fields<'a> {
    fn problem(&mut self, at: &'a RawValue, message: String) {
        self.problems.push(Problem { at, message });
    }

    fn wrong(&mut self, at: &'a RawValue, place: &str, wanted: &str) {
        let place = match place {
            "" => String::new(),
            place => format!("{place}: "),
        };
        // What has the right type has an escape in it that stands for no character.
        let message = match kind(at) {
            kind if kind == wanted => format!("{place}is malformed"),
            kind => format!("{place}must be {wanted}, got {kind}"),
        };
        self.problem(at, message);
    }

    /// A value as T; a null and what is absent are none.
    fn value<T: Deserialize<'a>>(
        &mut self,
        members: &Members<'a>,
        path: &str,
        name: &str,
        wanted: &str,
    ) -> Option<T> {
        let raw = members.get(name).copied().filter(|raw| !is_null(raw))?;
        let value = parse_as(raw);
        if value.is_none() {
            self.wrong(raw, &format!("{path}{name}"), wanted);
        }
        value
    }

    fn object(&mut self, members: &Members<'a>, path: &str, name: &str) -> Members<'a> {
        let object = self.value(members, path, name, "an object");
        object.unwrap_or_default()
    }

    /// A text; an empty one is none.
    fn text(&mut self, members: &Members<'a>, path: &str, name: &str) -> Option<String> {
        let text: Option<String> = self.value(members, path, name, "a string");
        text.filter(|text| !text.is_empty())
    }

    fn flag(&mut self, members: &Members<'a>, path: &str, name: &str) -> bool {
        let flag = self.value(members, path, name, "true or false");
        flag.unwrap_or(false)
    }

    fn parsed<T>(
        &mut self,
        members: &Members<'a>,
        path: &str,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(members, path, name)?;
        match (parse(&text), members.get(name)) {
            (Ok(value), _) => Some(value),
            (Err(error), Some(raw)) => {
                let message = format!("{path}{name}: {error}, got {}", shown(&text));
                self.problem(raw, message);
                None
            }
            // It was there a moment ago.
            (Err(_), None) => None,
        }
    }

    /// Insists on a text that tells the type of the object.
    fn insist(
        &mut self,
        raw: &'a RawValue,
        members: &Members<'a>,
        name: &str,
        wanted: &str,
        optional: bool,
    ) {
        match self.text(members, "", name) {
            Some(text) if text == wanted => {}
            Some(text) => {
                let message = format!("{name}: must be {wanted}, got {}", shown(&text));
                self.problem(members.get(name).copied().unwrap_or(raw), message);
            }
            // A value of another type is a problem already.
            None if optional || members.get(name).is_some_and(|raw| is_of_other_type(raw)) => {}
            None => self.problem(raw, format!("{name}: is missing, must be {wanted}")),
        }
    }

    /// The conditions of a status. One that is there twice is true only if both are.
    fn conditions(&mut self, status: &Members<'a>) -> Conditions {
        let mut conditions = Conditions::default();
        let entries: Option<Vec<&RawValue>> =
            self.value(status, "status.", "conditions", "an array");
        for (index, entry) in entries.unwrap_or_default().into_iter().enumerate() {
            let place = format!("status.conditions[{index}]");
            let Some(members) = object(entry) else {
                self.wrong(entry, &place, "an object");
                continue;
            };
            let path = format!("{place}.");
            let kind = self.text(&members, &path, "type");
            let is = match kind.as_deref() {
                Some("Programmed") => &mut conditions.programmed,
                Some("Ready") => &mut conditions.ready,
                _ => continue,
            };
            let status = self.text(&members, &path, "status");
            *is = Some(status.as_deref() == Some("True") && is.unwrap_or(true));
        }
        conditions
    }
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// Lines of a file's text, found one after the other in one pass.
struct Lines<'a> {
    file: &'a str,
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str, file: &'a str) -> Self {
        Self {
            file,
            text,
            at: 0,
            line: 1,
        }
    }

    /// The line on which a part of the text begins.
    fn line(&mut self, part: &str) -> usize {
        let start = self.text.as_ptr() as usize;
        let at = (part.as_ptr() as usize).saturating_sub(start);
        if at < self.at {
            *self = Self::of(self.text, self.file);
        }
        let between = self.text.as_bytes().get(self.at..at).unwrap_or_default();
        self.line += newlines(between);
        self.at = at;
        self.line
    }
}
