// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The backends of one service.

use std::collections::HashMap;

use super::super::members::{backend as members, service};
use super::super::scalar;
use super::super::spec::{Backend, Routing};
use super::quic;
use crate::document::fault::FaultCode::{self, Conflict, Duplicate};
use crate::document::origin::Origin;
use crate::document::reader::{all, count, Checked, Reader, Report};
use crate::document::scalar::{hex_text, Problem};
use crate::document::tree::{Node, Value};
use crate::id::BackendId;
use crate::quic::lb::ServerId;

/// Owners of what is unique in a service, by their pointers.
#[derive(Default)]
struct Taken {
    ids: HashMap<BackendId, String>,
    server_ids: HashMap<ServerId, String>,
}

pub(super) fn read(
    parent: &Reader<'_>,
    service_origin: Origin,
    quic: &quic::Part,
    report: &mut Report,
) -> Checked<Vec<Backend>> {
    let Some(entries) = parent.list(&service::BACKENDS, report)? else {
        return Ok(Vec::new());
    };
    let mut taken = Taken::default();
    let backends = entries.iter().map(|(index, node, pointer)| {
        let origin = (service_origin, Origin(index));
        backend(node, pointer, origin, quic, &mut taken, report)
    });
    let mut backends = all(backends)?;
    backends.sort_by_key(|backend| backend.id);
    Ok(backends)
}

fn backend(
    node: &Node,
    pointer: String,
    origin: (Origin, Origin),
    quic: &quic::Part,
    taken: &mut Taken,
    report: &mut Report,
) -> Checked<Backend> {
    let reader = Reader::open(&members::TABLE, node, pointer, report)?;
    let id = reader.get(&members::ID, report).map(BackendId::new);
    if let Ok(Some(id)) = id {
        match taken.ids.get(&id) {
            Some(first) => {
                let message = format!("id {id} is already used by {first}");
                reader.fault(&members::ID, Duplicate, message, report);
            }
            None => {
                taken.ids.insert(id, reader.pointer().to_owned());
            }
        }
    }
    let interface = reader.get(&members::INTERFACE, report);
    let mac = reader.get(&members::MAC, report);
    let weight = reader.get(&members::WEIGHT, report);
    let state = reader.get(&members::STATE, report);
    let server_ids = server_ids(&reader, quic, taken, report);
    Ok(Backend {
        id: match id? {
            Some(id) => id,
            // Its bounds leave out 0, for which alone there is no id.
            None => {
                return Err(reader.fault(&members::ID, FaultCode::Range, "must not be 0", report))
            }
        },
        interface: interface?,
        mac: mac?,
        weight: weight?,
        state: state?,
        server_ids: server_ids?,
        origin,
    })
}

fn server_ids(
    reader: &Reader<'_>,
    quic: &quic::Part,
    taken: &mut Taken,
    report: &mut Report,
) -> Checked<Vec<ServerId>> {
    let Some((node, pointer)) = reader.raw(&members::SERVER_ID) else {
        return Ok(Vec::new());
    };
    if let Ok(Routing::Learned | Routing::Tuple) = quic.routing {
        let message = "only server-id routing has server IDs";
        report.fault(node.at, pointer.as_str(), Conflict, message);
    }
    let entries: Vec<(&Node, String)> = match &node.value {
        Value::Text(_) => vec![(node, pointer)],
        Value::List(nodes) => {
            if nodes.len() > members::MAX_SERVER_IDS {
                let bounds = (0, members::MAX_SERVER_IDS);
                count(node.at, &pointer, bounds, nodes.len(), report);
            }
            let pointers = (0..).map(|index: usize| format!("{pointer}/{index}"));
            nodes.iter().zip(pointers).collect()
        }
        other => {
            let problem = Problem::wrong_type("a string or an array", other);
            return Err(report.fault(node.at, pointer, problem.code, problem.message));
        }
    };
    all(entries
        .into_iter()
        .map(|(node, pointer)| server_id(node, pointer, reader.pointer(), quic, taken, report)))
}

fn server_id(
    node: &Node,
    pointer: String,
    owner: &str,
    quic: &quic::Part,
    taken: &mut Taken,
    report: &mut Report,
) -> Checked<ServerId> {
    let bytes = match scalar::server_id(&node.value) {
        Ok(bytes) => bytes,
        Err(Problem { code, message }) => return Err(report.fault(node.at, pointer, code, message)),
    };
    let server_id = ServerId::new(&bytes);
    let fits = |lens: &std::collections::BTreeSet<u8>| {
        u8::try_from(bytes.len()).is_ok_and(|length| lens.contains(&length))
    };
    // Without any config there is a fault already, that of the configs or of the routing.
    if let (Ok(Routing::ServerId), Ok(lens)) = (quic.routing, &quic.server_id_lens) {
        if !lens.is_empty() && !fits(lens) {
            let lens: Vec<String> = lens.iter().map(u8::to_string).collect();
            let message = format!(
                "{} bytes fit no config (server_id_len {})",
                bytes.len(),
                lens.join(", ")
            );
            return Err(report.fault(node.at, pointer, FaultCode::ServerId, message));
        }
    }
    let Ok(server_id) = server_id else {
        let message = format!("{} bytes fit no config (1 to 15)", bytes.len());
        return Err(report.fault(node.at, pointer, FaultCode::ServerId, message));
    };
    if let Some(first) = taken.server_ids.get(&server_id) {
        let message = format!("server ID {} already belongs to {first}", hex_text(&bytes));
        return Err(report.fault(node.at, pointer, Duplicate, message));
    }
    taken.server_ids.insert(server_id, owner.to_owned());
    Ok(server_id)
}
