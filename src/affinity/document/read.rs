// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads the document as a stream: of what was read nothing is kept but the bindings.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::text::is_rfc3339;
use super::{
    AffinityDocument, AffinitySchema, BindingOrigin, CidBinding, DocumentError, ReadOptions,
    ServiceBindings, AFFINITY_SCHEMA,
};
use crate::id::{BackendId, ServiceId};
use crate::quic::Cid;
use crate::service::{Fault, FaultCode, Protocol};

/// Reads one document, up to the end of what the parser has.
pub(crate) fn read<'de, R: serde_json::de::Read<'de>>(
    mut parser: serde_json::Deserializer<R>,
    options: &ReadOptions,
) -> Result<AffinityDocument, DocumentError> {
    let mut reading = Reading {
        options,
        place: Place::default(),
        problem: None,
    };
    let document = Root(&mut reading).deserialize(&mut parser);
    let document = document.and_then(|document| parser.end().map(|()| document));
    match document {
        Ok(mut document) => {
            document.sort();
            Ok(document)
        }
        Err(error) => Err(reading.explain(&error)),
    }
}

/// What goes along while reading.
struct Reading<'o> {
    options: &'o ReadOptions,
    place: Place,
    /// Why reading ended, where it was not the parser that ended it.
    problem: Option<Problem>,
}

/// Where in the document it is.
#[derive(Debug, Default)]
struct Place {
    service: Option<usize>,
    binding: Option<usize>,
    member: Option<Cow<'static, str>>,
}

#[derive(Debug)]
enum Problem {
    Schema(String),
    Flows,
    Fault(Fault),
}

impl Reading<'_> {
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        let Place {
            service,
            binding,
            member,
        } = &self.place;
        if let Some(service) = service {
            pointer = format!("/services/{service}");
        }
        if let Some(binding) = binding {
            pointer.push_str(&format!("/bindings/{binding}"));
        }
        if let Some(member) = member {
            pointer.push('/');
            pointer.push_str(&member.replace('~', "~0").replace('/', "~1"));
        }
        pointer
    }

    /// Ends the reading with a fault of the member it is at.
    fn refuse<E: serde::de::Error>(&mut self, code: FaultCode, message: impl fmt::Display) -> E {
        let fault = Fault::new(self.pointer(), code, message.to_string());
        self.end(Problem::Fault(fault))
    }

    fn end<E: serde::de::Error>(&mut self, problem: Problem) -> E {
        self.problem = Some(problem);
        E::custom("refused")
    }

    /// The error in the document's terms.
    fn explain(mut self, error: &serde_json::Error) -> DocumentError {
        let (line, column) = (error.line(), error.column());
        let place = format!(" at line {line} column {column}");
        let what = error.to_string();
        let what = shown(what.strip_suffix(&place).unwrap_or(&what));
        match (error.classify(), self.problem.take()) {
            (Category::Eof, _) => DocumentError::Truncated { line, column },
            (_, Some(Problem::Flows)) => DocumentError::Flows,
            (_, Some(Problem::Schema(found))) => other_schema(found),
            (_, Some(Problem::Fault(fault))) => DocumentError::Member {
                fault,
                line,
                column,
            },
            (Category::Data, None) => DocumentError::Member {
                fault: Fault::new(self.pointer(), FaultCode::Type, what),
                line,
                column,
            },
            (Category::Syntax | Category::Io, None) => DocumentError::Json { what, line, column },
        }
    }
}

/// A document with another schema: a later one of ours, or somebody else's.
fn other_schema(found: String) -> DocumentError {
    let version = |text: &str| {
        let version = text.strip_prefix("guideway.affinity/v")?;
        let digits = version.bytes().all(|byte| byte.is_ascii_digit());
        (digits && !version.starts_with('0') && !version.is_empty() && version != "1").then_some(())
    };
    match version(&found) {
        Some(()) => DocumentError::NewerSchema {
            found: shown(&found),
        },
        None => DocumentError::OtherSchema {
            found: shown(&found),
        },
    }
}

/// A text as messages show it: short and on one line.
fn shown(text: &str) -> String {
    const MOST: usize = 100;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    if shown.chars().any(char::is_control) {
        shown = shown.escape_debug().to_string();
    }
    shown
}

const ROOT: &[&str] = &["schema", "exported_at", "instance", "services", "flows"];
const SERVICE: &[&str] = &["id", "name", "vip", "protocol", "port", "bindings"];
const BINDING: &[&str] = &["cid", "backend", "origin", "last_seen_ns"];

/// The members of one object, each of which may stand once.
struct Members<'r, 'o, A> {
    reading: &'r mut Reading<'o>,
    map: A,
    known: &'static [&'static str],
    seen: u32,
}

impl<'r, 'o, 'de, A: MapAccess<'de>> Members<'r, 'o, A> {
    fn new(reading: &'r mut Reading<'o>, map: A, known: &'static [&'static str]) -> Self {
        Self {
            reading,
            map,
            known,
            seen: 0,
        }
    }

    /// The next known member, whose value is to be read; none behind the last.
    fn next(&mut self) -> Result<Option<&'static str>, A::Error> {
        loop {
            self.reading.place.member = None;
            let name = Name {
                reading: self.reading,
                known: self.known,
            };
            match self.map.next_key_seed(name)? {
                None => return Ok(None),
                Some(None) => drop(self.map.next_value::<IgnoredAny>()?),
                Some(Some(index)) => {
                    if self.seen & 1 << index != 0 {
                        let message = "is given more than once";
                        return Err(self.reading.refuse(FaultCode::DuplicateMember, message));
                    }
                    self.seen |= 1 << index;
                    return Ok(self.known.get(index).copied());
                }
            }
        }
    }

    fn text<T>(
        &mut self,
        read: impl FnOnce(&str) -> Result<T, (FaultCode, String)>,
    ) -> Result<Option<T>, A::Error> {
        let reading = &mut *self.reading;
        self.map.next_value_seed(Text { reading, read }).map(Some)
    }

    fn integer(&mut self, min: u64, max: u64) -> Result<Option<u64>, A::Error> {
        let reading = &mut *self.reading;
        let integer = Integer { reading, min, max };
        self.map.next_value_seed(integer).map(Some)
    }

    /// The value of a member that must be there.
    fn need<T>(&mut self, name: &'static str, value: Option<T>) -> Result<T, A::Error> {
        value.ok_or_else(|| {
            self.reading.place.member = Some(name.into());
            self.reading.refuse(FaultCode::Missing, "is missing")
        })
    }
}

/// The name of a member: its index among the known ones, none if it is unknown and passed over.
struct Name<'r, 'o> {
    reading: &'r mut Reading<'o>,
    known: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Name<'_, '_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name<'_, '_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        let index = self.known.iter().position(|known| *known == name);
        let known = index.and_then(|index| self.known.get(index).copied());
        self.reading.place.member = Some(match known {
            Some(known) => known.into(),
            None => shown(name).into(),
        });
        if index.is_none() && self.reading.options.strict {
            let message = format!("unknown field {}", shown(name));
            return Err(self.reading.refuse(FaultCode::Unknown, message));
        }
        Ok(index)
    }
}

/// A text and what it must say.
struct Text<'r, 'o, F> {
    reading: &'r mut Reading<'o>,
    read: F,
}

impl<'de, T, F> DeserializeSeed<'de> for Text<'_, '_, F>
where
    F: FnOnce(&str) -> Result<T, (FaultCode, String)>,
{
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_str(self)
    }
}

impl<T, F> Visitor<'_> for Text<'_, '_, F>
where
    F: FnOnce(&str) -> Result<T, (FaultCode, String)>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(|(code, message)| self.reading.refuse(code, message))
    }
}

/// A number without a fraction.
struct Integer<'r, 'o> {
    reading: &'r mut Reading<'o>,
    min: u64,
    max: u64,
}

impl Integer<'_, '_> {
    fn refuse<E: serde::de::Error>(self, found: impl fmt::Display) -> E {
        let Self { reading, min, max } = self;
        let message = format!("must be an integer from {min} to {max}, got {found}");
        reading.refuse(FaultCode::Range, message)
    }
}

impl<'de> DeserializeSeed<'de> for Integer<'_, '_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        from.deserialize_u64(self)
    }
}

impl Visitor<'_> for Integer<'_, '_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an integer from {} to {}", self.min, self.max)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<u64, E> {
        if (self.min..=self.max).contains(&value) {
            Ok(value)
        } else {
            Err(self.refuse(value))
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<u64, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(self.refuse(value)),
        }
    }

    // Of this kind is whatever has a fraction or an exponent, or is too large for any integer.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<u64, E> {
        Err(self.refuse(format_args!("{value:?}")))
    }
}

/// The document itself.
struct Root<'r, 'o>(&'r mut Reading<'o>);

impl<'de> DeserializeSeed<'de> for Root<'_, '_> {
    type Value = AffinityDocument;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Root<'_, '_> {
    type Value = AffinityDocument;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::new(self.0, map, ROOT);
        let (mut schema, mut exported_at, mut instance, mut services) = (None, None, None, None);
        while let Some(name) = members.next()? {
            match name {
                "schema" => {
                    let found = members
                        .text(|text| Ok(text.to_owned()))?
                        .unwrap_or_default();
                    if found != AFFINITY_SCHEMA {
                        return Err(members.reading.end(Problem::Schema(found)));
                    }
                    schema = Some(AffinitySchema::V1);
                }
                "exported_at" => exported_at = members.text(time)?,
                "instance" => instance = members.text(|text| Ok(text.to_owned()))?,
                "services" => {
                    let list = Services(members.reading);
                    services = Some(members.map.next_value_seed(list)?);
                    members.reading.place.service = None;
                }
                _ if members.reading.options.without_flows => {
                    members.map.next_value::<IgnoredAny>()?;
                }
                _ => return Err(members.reading.end(Problem::Flows)),
            }
        }
        Ok(AffinityDocument {
            schema: members.need("schema", schema)?,
            exported_at: members.need("exported_at", exported_at)?,
            instance: members.need("instance", instance)?,
            services: members.need("services", services)?,
        })
    }
}

fn time(text: &str) -> Result<String, (FaultCode, String)> {
    if is_rfc3339(text) {
        Ok(text.to_owned())
    } else {
        let rule = "must be a time such as 2026-07-31T08:00:00Z";
        Err((FaultCode::Type, format!("{rule}, got {}", shown(text))))
    }
}

struct Services<'r, 'o>(&'r mut Reading<'o>);

impl<'de> DeserializeSeed<'de> for Services<'_, '_> {
    type Value = Vec<ServiceBindings>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Services<'_, '_> {
    type Value = Vec<ServiceBindings>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut services = Vec::new();
        self.0.place.member = None;
        loop {
            self.0.place.service = Some(services.len());
            match list.next_element_seed(Service(self.0))? {
                Some(service) => services.push(service),
                None => return Ok(services),
            }
        }
    }
}

struct Service<'r, 'o>(&'r mut Reading<'o>);

impl<'de> DeserializeSeed<'de> for Service<'_, '_> {
    type Value = ServiceBindings;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Service<'_, '_> {
    type Value = ServiceBindings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::new(self.0, map, SERVICE);
        let (mut id, mut name, mut vip, mut protocol) = (None, None, None, None);
        let (mut port, mut bindings) = (None, None);
        while let Some(member) = members.next()? {
            match member {
                "id" => id = members.integer(1, u32::MAX.into())?,
                "name" => name = members.text(|text| Ok(text.to_owned()))?,
                "vip" => vip = members.text(address)?,
                "protocol" => protocol = members.text(protocol_of)?,
                "port" => port = members.integer(1, u16::MAX.into())?,
                _ => {
                    let list = Bindings(members.reading);
                    bindings = Some(members.map.next_value_seed(list)?);
                    members.reading.place.binding = None;
                }
            }
        }
        Ok(ServiceBindings {
            // Its bounds are those of the type.
            id: ServiceId::new(members.need("id", id)? as u32),
            name: members.need("name", name)?,
            vip: members.need("vip", vip)?,
            protocol: members.need("protocol", protocol)?,
            port: members.need("port", port)? as u16,
            bindings: members.need("bindings", bindings)?,
        })
    }
}

fn address(text: &str) -> Result<IpAddr, (FaultCode, String)> {
    text.parse().map_err(|_| {
        let message = format!("is not an IPv4 or IPv6 address, got {}", shown(text));
        (FaultCode::Address, message)
    })
}

fn protocol_of(text: &str) -> Result<Protocol, (FaultCode, String)> {
    let mut all = Protocol::ALL.iter().copied();
    all.find(|protocol| protocol.as_str() == text)
        .ok_or_else(|| choice("udp, tcp", text))
}

fn origin(text: &str) -> Result<BindingOrigin, (FaultCode, String)> {
    let mut all = BindingOrigin::ALL.into_iter();
    all.find(|origin| origin.as_str() == text)
        .ok_or_else(|| choice("learned, registered, imported", text))
}

fn choice(allowed: &str, text: &str) -> (FaultCode, String) {
    let message = format!("must be one of {allowed}, got {}", shown(text));
    (FaultCode::Enum, message)
}

struct Bindings<'r, 'o>(&'r mut Reading<'o>);

impl<'de> DeserializeSeed<'de> for Bindings<'_, '_> {
    type Value = Vec<CidBinding>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Bindings<'_, '_> {
    type Value = Vec<CidBinding>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut bindings = Vec::new();
        self.0.place.member = None;
        loop {
            self.0.place.binding = Some(bindings.len());
            match list.next_element_seed(Binding(self.0))? {
                Some(binding) => bindings.push(binding),
                None => return Ok(bindings),
            }
        }
    }
}

struct Binding<'r, 'o>(&'r mut Reading<'o>);

impl<'de> DeserializeSeed<'de> for Binding<'_, '_> {
    type Value = CidBinding;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Binding<'_, '_> {
    type Value = CidBinding;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::new(self.0, map, BINDING);
        let (mut cid, mut backend, mut from, mut last_seen_ns) = (None, None, None, None);
        while let Some(member) = members.next()? {
            match member {
                "cid" => cid = members.text(connection_id)?,
                "backend" => {
                    // Its bounds are those of the type, so there is one.
                    let id = members.integer(1, u32::MAX.into())?;
                    backend = id.and_then(|id| BackendId::new(id as u32));
                }
                "origin" => from = members.text(origin)?,
                _ => last_seen_ns = members.integer(0, u64::MAX)?,
            }
        }
        Ok(CidBinding {
            cid: members.need("cid", cid)?,
            backend: members.need("backend", backend)?,
            origin: members.need("origin", from)?,
            last_seen_ns: members.need("last_seen_ns", last_seen_ns)?,
        })
    }
}

fn connection_id(text: &str) -> Result<Cid, (FaultCode, String)> {
    text.parse()
        .map_err(|error| (FaultCode::Hex, format!("{error}")))
}
