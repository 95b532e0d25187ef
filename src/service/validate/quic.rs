// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a service reads connection IDs.

use std::collections::{BTreeSet, HashMap};

use super::super::members::{config as member, quic as members, service};
use super::super::spec::{CidConfig, Quic, Routing};
use super::service::Transport;
use crate::document::fault::FaultCode::{CidLength, Conflict, Duplicate, Missing};
use crate::document::origin::Origin;
use crate::document::reader::{Checked, Entries, Reader, Report};
use crate::document::scalar::shown;
use crate::document::tree::{Node, Value};
use crate::quic::lb;

/// A shorter connection ID cannot be told from others well enough to be learned.
const LEARNABLE: u8 = 4;
/// Server ID, nonce and extra bytes of the longest connection ID.
const MAX_BODY: u64 = 19;

/// What other members are compared with, and the whole if it is sound.
pub(super) struct Part {
    /// What is in force: by tuple for what is not UDP.
    pub(super) routing: Checked<Routing>,
    /// Lengths that server IDs may have.
    pub(super) server_id_lens: Checked<BTreeSet<u8>>,
    pub(super) whole: Checked<Quic>,
}

pub(super) fn read(parent: &Reader<'_>, transport: &Transport, report: &mut Report) -> Part {
    let reader = match parent.object_or_empty(&service::QUIC, report) {
        Ok(reader) => reader,
        Err(reported) => {
            let (routing, server_id_lens) = (Err(reported), Err(reported));
            return Part {
                routing,
                server_id_lens,
                whole: Err(reported),
            };
        }
    };

    let given = reader.optional(&members::ROUTING, report);
    let routing = in_force(given, transport);
    if let (Ok(Some(Routing::Learned)), Ok(length)) = (given, transport.short_dcid_len) {
        if length < LEARNABLE && !transport.is_tcp() {
            let message = format!("learned routing needs short_dcid_len of 4 to 20, got {length}");
            reader.fault(&members::ROUTING, Conflict, message, report);
        }
    }
    let entries = reader.list(&members::CONFIGS, report);
    match (&entries, routing) {
        (Ok(None), Ok(Routing::ServerId)) => {
            let message = "server-id routing needs at least one config";
            reader.fault(&members::CONFIGS, Missing, message, report);
        }
        (Ok(Some(_)) | Err(_), Ok(Routing::Learned | Routing::Tuple)) if !transport.is_tcp() => {
            let message = "only server-id routing has configs";
            reader.fault(&members::CONFIGS, Conflict, message, report);
        }
        _ => {}
    }
    let configs = match entries {
        Ok(Some(entries)) => configs(&entries, transport.short_dcid_len, report),
        Ok(None) => Configs {
            lens: Ok(BTreeSet::new()),
            list: Ok(Vec::new()),
        },
        Err(reported) => Configs {
            lens: Err(reported),
            list: Err(reported),
        },
    };
    let unknown_server_id = reader.get(&members::UNKNOWN_SERVER_ID, report);
    let unhealthy = reader.get(&members::UNHEALTHY, report);
    let quarantine = reader.get(&members::QUARANTINE, report);
    let whole = || {
        Ok(Quic {
            routing: routing?,
            configs: configs.list?,
            unknown_server_id: unknown_server_id?,
            unhealthy: unhealthy?,
            quarantine: quarantine?,
        })
    };
    Part {
        routing,
        server_id_lens: configs.lens,
        whole: whole(),
    }
}

fn in_force(given: Checked<Option<Routing>>, transport: &Transport) -> Checked<Routing> {
    if transport.is_tcp() {
        return Ok(Routing::Tuple);
    }
    match given? {
        Some(given) => Ok(given),
        None if transport.short_dcid_len? >= LEARNABLE => {
            transport.protocol?;
            Ok(Routing::Learned)
        }
        None => Ok(Routing::Tuple),
    }
}

struct Configs {
    lens: Checked<BTreeSet<u8>>,
    list: Checked<Vec<CidConfig>>,
}

fn configs(entries: &Entries<'_>, short_dcid_len: Checked<u8>, report: &mut Report) -> Configs {
    let mut lens = Ok(BTreeSet::new());
    let mut list = Ok(Vec::new());
    let mut ids = HashMap::new();
    for (index, node, pointer) in entries.iter() {
        let config = config(
            node,
            pointer,
            Origin(index),
            short_dcid_len,
            &mut ids,
            report,
        );
        match (config.server_id_len, &mut lens) {
            (Ok(length), Ok(lens)) => {
                lens.insert(length);
            }
            (Err(reported), _) => lens = Err(reported),
            _ => {}
        }
        match (config.whole, &mut list) {
            (Ok(config), Ok(list)) => list.push(config),
            (Err(reported), _) => list = Err(reported),
            _ => {}
        }
    }
    if let Ok(list) = &mut list {
        list.sort_by_key(|config| config.config_id);
    }
    Configs { lens, list }
}

struct ConfigPart {
    server_id_len: Checked<u8>,
    whole: Checked<CidConfig>,
}

fn config(
    node: &Node,
    pointer: String,
    origin: Origin,
    short_dcid_len: Checked<u8>,
    ids: &mut HashMap<u8, String>,
    report: &mut Report,
) -> ConfigPart {
    let reader = match Reader::open(&member::TABLE, node, pointer, report) {
        Ok(reader) => reader,
        Err(reported) => {
            return ConfigPart {
                server_id_len: Err(reported),
                whole: Err(reported),
            }
        }
    };
    let config_id = reader.get(&member::CONFIG_ID, report);
    if let Ok(id) = config_id {
        match ids.get(&id) {
            Some(first) => {
                let message = format!("config_id {id} is already used by {first}");
                reader.fault(&member::CONFIG_ID, Duplicate, message, report);
            }
            None => {
                ids.insert(id, reader.pointer().to_owned());
            }
        }
    }
    let server_id_len = reader.get(&member::SERVER_ID_LEN, report);
    let nonce_len = reader.get(&member::NONCE_LEN, report);
    let extra_len = reader.get(&member::EXTRA_LEN, report);
    let key = reader.get(&member::KEY, report);
    let encodes_length = reader.get(&member::ENCODES_LENGTH, report);

    let extra_len = || -> Checked<u8> {
        let (server_id_len, nonce_len, extra_len) = (server_id_len?, nonce_len?, extra_len?);
        let sum = (u64::from(server_id_len) + u64::from(nonce_len)).saturating_add(extra_len);
        if sum > MAX_BODY {
            let message = format!(
                "server_id_len + nonce_len + extra_len must be at most {MAX_BODY}, got {sum}"
            );
            return Err(reader.fault(&member::EXTRA_LEN, CidLength, message, report));
        }
        if let Ok(contract @ 1..) = short_dcid_len {
            if sum + 1 != u64::from(contract) {
                let id = written_id(&reader);
                let bytes = sum + 1;
                let message = format!(
                    "config {id} makes CIDs of {bytes} bytes, short_dcid_len says {contract}"
                );
                report.fault(reader.at(), reader.pointer(), CidLength, message);
            }
        }
        // At most MAX_BODY, so it fits.
        Ok(extra_len as u8)
    }();
    let mut whole = || {
        let (config_id, server_id_len, nonce_len) = (config_id?, server_id_len?, nonce_len?);
        let (extra_len, key, encodes_length) = (extra_len?, key?, encodes_length?);
        let decoder = lb::ConfigId::new(config_id)
            .and_then(|id| lb::Config::new(id, server_id_len.into(), nonce_len.into()).ok())
            .and_then(|config| config.with_extra_len(extra_len.into()).ok())
            .map(|config| config.with_key(key).with_encoded_length(encodes_length))
            // The bounds of the members are the decoder's own.
            .ok_or_else(|| {
                let message = "no connection ID has this form";
                report.fault(reader.at(), reader.pointer(), CidLength, message)
            })?;
        Ok(CidConfig {
            config_id,
            server_id_len,
            nonce_len,
            extra_len,
            key,
            encodes_length,
            decoder,
            origin,
        })
    };
    ConfigPart {
        server_id_len,
        whole: whole(),
    }
}

/// The config's id as the document has it, sound or not.
fn written_id(reader: &Reader<'_>) -> String {
    match reader.raw(&member::CONFIG_ID).map(|(node, _)| &node.value) {
        Some(Value::Integer(id)) => id.to_string(),
        Some(Value::OtherNumber { text, .. }) => text.clone(),
        Some(Value::Text(text)) => shown(text),
        Some(other) => other.kind().to_owned(),
        None => "without id".to_owned(),
    }
}
