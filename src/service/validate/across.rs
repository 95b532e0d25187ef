// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Rules between the services of one instance.

use std::collections::HashMap;

use super::super::ident::service_id;
use super::super::members::service as members;
use super::super::spec::Fragments;
use super::service::Part;
use crate::document::fault::FaultCode::{Conflict, Duplicate, ServiceId};
use crate::document::reader::Report;

pub(super) fn check(parts: &[Part<'_>], report: &mut Report) {
    let mut names = HashMap::new();
    let mut endpoints = HashMap::new();
    let mut addresses = HashMap::new();
    let mut ids = HashMap::new();
    for part in parts {
        if let Ok(name) = &part.name {
            let first = *names.entry(name.as_str()).or_insert(part);
            if !std::ptr::eq(first, part) {
                let message = format!("name {name} is already used by {}", first.reader.pointer());
                part.reader
                    .fault(&members::NAME, Duplicate, message, report);
            }
        }
        let (Ok(vip), Ok(protocol)) = (part.vip, part.protocol) else {
            continue;
        };
        let first = *addresses.entry((vip, protocol)).or_insert(part);
        if !std::ptr::eq(first, part) {
            fragments(first, part, report);
        }
        let Ok(port) = part.port else { continue };
        let first = *endpoints.entry((vip, protocol, port)).or_insert(part);
        if !std::ptr::eq(first, part) {
            let message = format!(
                "{vip} {protocol} {port} is already served by {}",
                first.reader.pointer()
            );
            report.fault(part.reader.at(), part.reader.pointer(), Duplicate, message);
            continue;
        }
        let Ok(name) = &part.name else { continue };
        let id = service_id(name, vip, protocol, port);
        let first = *ids.entry(id).or_insert(part);
        if let (false, Ok(other)) = (std::ptr::eq(first, part), &first.name) {
            let message = format!(
                "{name} and {other} ({}) both get the service ID {id}, one needs another name",
                first.reader.pointer()
            );
            part.reader
                .fault(&members::NAME, ServiceId, message, report);
        }
    }
}

/// Later fragments have no port, so all services of one address and protocol share a policy, and
/// one that routes them must be alone.
fn fragments(first: &Part<'_>, part: &Part<'_>, report: &mut Report) {
    let (Ok(policy), Ok(own)) = (first.fragments, part.fragments) else {
        return;
    };
    let pointer = first.reader.pointer();
    let message = if own != policy {
        format!("fragments must equal {policy} of {pointer}, same VIP and protocol")
    } else if own == Fragments::Route {
        format!(
            "fragments \"route\" needs a service alone with its VIP and protocol, {pointer} has \
             the same"
        )
    } else {
        return;
    };
    part.reader
        .fault(&members::FRAGMENTS, Conflict, message, report);
}
