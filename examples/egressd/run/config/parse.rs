// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What each value means.

use std::fmt::Display;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use guideway::control::files::Place;
use guideway::control::{InstallPolicy, Mode, Policy};
use guideway::egress::Limits;
use guideway::encap::{Dscp, DscpValue, Ecn, Encap};
use guideway::group::{
    Class, Classes, ClassesError, ConfiguredClass, HashMode, Nat64Prefix, PinIdle, Settings,
};
use guideway::id::InterfaceName;
use guideway::maglev::TableSize;
use guideway::placement::HashGroup;
use guideway::srv6::{BaseSid, NodeSid};

use super::gather::Said;
use super::rows::{self, Row};
use super::{Config, Fault, SourceChoice};
use crate::run::http;

/// Why a value is not accepted, beside what would be.
type Read<T> = Result<T, String>;

/// Judges all values; `None` if there is a fault.
pub(super) fn config(said: &[Said], faults: &mut Vec<Fault>) -> Option<Config> {
    let mut values = Values { said, faults };
    let mode = values.take(&rows::MODE, |text| {
        choice(
            text,
            &[("ordered", Mode::Ordered), ("hashed", Mode::Hashed)],
        )
    });
    let hash_mode = values.take(&rows::HASH, |text| {
        choice(
            text,
            &[("source", HashMode::Source), ("flow", HashMode::Flow)],
        )
    });
    let pin_idle = values.take(&rows::PIN_IDLE, pin_idle);
    let limits = limits(&mut values);
    // Without limits the widest ones, so that one fault does not make others.
    let most = limits.map_or(guideway::group::Limits::MAX_MEMBERS, |limits| {
        limits.groups().members().into()
    });
    let pool_min_active = values.take(&rows::POOL_MIN_ACTIVE, |text| number(text, 0, most));
    let classes = classes(&mut values, limits);
    let shard_sids = values.take(&rows::SHARD_SIDS, |text| {
        unique(list(text, |text| {
            text.parse::<BaseSid>().map_err(|error| error.to_string())
        })?)
    });
    let source = values.take(&rows::SOURCE, source);
    let uplinks = values.take(&rows::UPLINKS, |text| {
        let names = unique(list(text, |text| {
            text.parse::<InterfaceName>()
                .map_err(|error| format!("{text:?} {error}"))
        })?)?;
        if names.is_empty() {
            return Err("there is none".to_owned());
        }
        Ok(names)
    });
    let node_sid = values.take(&rows::NODE_SID, |text| {
        text.parse::<NodeSid>().map_err(|error| error.to_string())
    });
    // Any node will do to judge the rest.
    let some_node = node_sid.or_else(|| "2001:db8:0:1::".parse().ok());
    let encap = values.take(&rows::ENCAP, |text| {
        some_node
            .ok_or_else(String::new)
            .and_then(|node| encap(text, node))
    });
    let reject = values.take(&rows::UNSERVED, |text| {
        choice(text, &[("drop", false), ("reject", true)])
    });
    let install_policy = values.take(&rows::INSTALL_POLICY, |text| {
        choice(
            text,
            &InstallPolicy::ALL.map(|policy| (policy.name(), policy)),
        )
    });
    let second = Duration::from_secs(1);
    let sweep = values.take(&rows::SWEEP, |text| {
        duration(text, 5 * second, 600 * second)
    });
    let debounce = values.take(&rows::DEBOUNCE, |text| {
        duration(text, Duration::ZERO, 5 * second)
    });
    let down_hold = values.take(&rows::DOWN_HOLD, |text| {
        duration(text, Duration::ZERO, 60 * second)
    });
    let liveness_before_sync = values.take(&rows::LIVENESS_BEFORE_SYNC, |text| {
        choice(text, &[("true", true), ("false", false)])
    });
    let state_dir = values.take(&rows::STATE_DIR, state_dir);
    let metrics = values.take(&rows::METRICS, |text| {
        http::address(text).map_err(|error| error.to_string())
    });
    let mut policy = Policy::default();
    policy.pool_min_active = pool_min_active?;
    policy.liveness_before_sync = liveness_before_sync?;
    let limits = limits?;
    let hash_mode = hash_mode?;
    Some(Config {
        mode: mode?,
        classes: classes?,
        settings: Settings {
            hash_mode,
            pin_idle: pin_idle?,
            reject: reject?,
            ..Settings::default()
        },
        policy,
        shard_sids: shard_sids?,
        source: source?,
        uplinks: uplinks?,
        encap: Encap {
            node_sid: node_sid?,
            ..encap?
        },
        install_policy: install_policy?,
        sweep: sweep?,
        debounce: debounce?,
        down_hold: down_hold?,
        state_dir: state_dir?,
        limits,
        metrics: metrics?,
    })
}

/// The values, and what is wrong with them so far.
struct Values<'a> {
    said: &'a [Said],
    faults: &'a mut Vec<Fault>,
}

impl Values<'_> {
    fn said(&self, row: &Row) -> Option<&Said> {
        self.said.iter().find(|said| said.row.flag == row.flag)
    }

    /// A value; what is wrong with it is a fault.
    fn take<T>(&mut self, row: &Row, read: impl FnOnce(&str) -> Read<T>) -> Option<T> {
        match self.said(row).map(|said| read(&said.text)) {
            Some(Ok(value)) => Some(value),
            Some(Err(why)) => {
                self.fault(row, &why);
                None
            }
            None => {
                let message = format!(
                    "is missing: say it by the flag, by {} or by the field {}; must be {}",
                    row.variable,
                    row.field(),
                    row.accepted
                );
                let place = format!("--{}", row.flag);
                self.faults.push(Fault::new(place, "missing", message));
                None
            }
        }
    }

    fn fault(&mut self, row: &Row, why: &str) {
        if let Some(said) = self.said(row) {
            let place = said.origin.place(row);
            let why = match why {
                "" => String::new(),
                why => format!(" ({why})"),
            };
            let message = format!("must be {}, got {:?}{why}", row.accepted, said.text);
            self.faults.push(Fault::new(place, "value", message));
        }
    }
}

fn choice<T: Copy>(text: &str, all: &[(&str, T)]) -> Read<T> {
    let found = all.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(String::new)
}

fn number(text: &str, min: u32, max: u32) -> Read<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err("is no number".to_owned());
    }
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("is not from {min} to {max}")),
    }
}

fn duration(text: &str, min: Duration, max: Duration) -> Read<Duration> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (min..=max).contains(&time) {
        Ok(time)
    } else {
        Err(format!("is {}", humantime::format_duration(time)))
    }
}

fn pin_idle(text: &str) -> Read<PinIdle> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.subsec_nanos() != 0 {
        return Err("has a part of a second".to_owned());
    }
    PinIdle::from_secs(time.as_secs()).map_err(|error| error.to_string())
}

/// The entries of a list; an empty text is none.
fn list<T>(text: &str, read: impl Fn(&str) -> Read<T>) -> Read<Vec<T>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|text| read(text.trim())).collect()
}

fn unique<T: PartialEq + Display>(list: Vec<T>) -> Read<Vec<T>> {
    for (at, entry) in list.iter().enumerate() {
        if list[..at].contains(entry) {
            return Err(format!("{entry} is there twice"));
        }
    }
    Ok(list)
}

fn limits(values: &mut Values<'_>) -> Option<Limits> {
    use guideway::group::Limits as Groups;
    let groups = values.take(&rows::GROUPS, |text| number(text, 1, Groups::MAX_GROUPS));
    let members = values.take(&rows::MEMBERS, |text| number(text, 1, Groups::MAX_MEMBERS));
    let table = values.take(&rows::TABLE_SIZE, |text| {
        let slots = number(text, 2, Groups::MAX_TABLE_SIZE)?;
        TableSize::new(slots).map_err(|error| error.to_string())
    });
    let pins = values.take(&rows::PINS, |text| {
        let pins = number(text, 1, u32::MAX)?;
        Limits::default()
            .with_pins(pins)
            .map_err(|error| error.to_string())
    });
    let groups = Groups::new(groups?, members?, table?).ok()?;
    Some(pins?.with_groups(groups))
}

fn classes(values: &mut Values<'_>, limits: Option<Limits>) -> Option<Classes> {
    let row = &rows::NAT64_PREFIXES;
    let prefixes = values.take(row, |text| {
        let prefixes = list(text, nat64)?;
        let ids = prefixes.iter().filter_map(|class| class.hash_group);
        let mut ids: Vec<_> = ids.map(|HashGroup(id)| id).collect();
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two have the hash ID {}", pair[0])),
            None => Ok(prefixes),
        }
    })?;
    let room = limits.map_or_else(Default::default, |limits| limits.groups());
    let widest = guideway::group::Limits::new(
        guideway::group::Limits::MAX_GROUPS,
        u32::from(room.members()),
        room.table_size(),
    );
    // Where the limits are at fault, their room is not this row's.
    let room = match (limits, widest) {
        (None, Ok(widest)) => widest,
        _ => room,
    };
    match Classes::new(prefixes, room) {
        Ok(classes) => Some(classes),
        Err(ClassesError::Duplicate { class, .. }) => {
            values.fault(row, &format!("{class} is there twice"));
            None
        }
        Err(error) => {
            values.fault(row, &error.to_string());
            None
        }
    }
}

/// A prefix, with its hash ID or without.
fn nat64(text: &str) -> Read<ConfiguredClass> {
    let (prefix, id) = match text.split_once('=') {
        Some((prefix, id)) => (prefix, Some(id)),
        None => (text, None),
    };
    let prefix: Nat64Prefix = prefix
        .parse()
        .map_err(|error| format!("{text:?}: {error}"))?;
    let id = id.map(|id| {
        let id = number(id, 1, u8::MAX.into()).map_err(|why| format!("{text:?}: hash ID {why}"))?;
        Ok::<_, String>(HashGroup(u8::try_from(id).unwrap_or(u8::MAX)))
    });
    Ok(ConfiguredClass {
        class: Class::Nat64(prefix),
        hash_group: id.transpose()?,
    })
}

fn source(text: &str) -> Read<SourceChoice> {
    let parts = text.split_once(':').filter(|(_, rest)| !rest.is_empty());
    match parts {
        Some(("file", path)) => Ok(SourceChoice::Files(Place::File(path.into()))),
        Some(("dir", path)) => Ok(SourceChoice::Files(Place::Directory(path.into()))),
        Some(("kube", namespace)) if !is_label(namespace) => {
            Err("is no name of a namespace".to_owned())
        }
        #[cfg(feature = "kube")]
        Some(("kube", namespace)) => Ok(SourceChoice::Kube(namespace.to_owned())),
        #[cfg(not(feature = "kube"))]
        Some(("kube", _)) => Err("takes a build with the feature \"kube\"".to_owned()),
        _ => Err(String::new()),
    }
}

/// Whether a text is a DNS label, as names of namespaces are.
fn is_label(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63 && text.bytes().all(legal) && !text.starts_with('-') && !text.ends_with('-')
}

fn encap(text: &str, node: NodeSid) -> Read<Encap> {
    match text {
        "standard" => return Ok(Encap::standard(node)),
        "compat" => return Ok(Encap::compat(node)),
        _ => {}
    }
    let mut encap = Encap::standard(node);
    let mut seen = Vec::new();
    for part in text.split(',') {
        let (name, value) = part.trim().split_once('=').ok_or_else(|| bad(part))?;
        if seen.contains(&name) {
            return Err(format!("{name} is there twice"));
        }
        seen.push(name);
        match (name, value) {
            ("dscp", "zero") => encap.dscp = Dscp::Zero,
            ("dscp", "copy") => encap.dscp = Dscp::Copy,
            ("dscp", value) => {
                let value = number(value, 0, 63).map_err(|why| format!("dscp {value:?} {why}"))?;
                let value = u8::try_from(value).map_err(|_| bad(part))?;
                encap.dscp = Dscp::Fixed(DscpValue::new(value).map_err(|e| e.to_string())?);
            }
            ("ecn", "compatibility") => encap.ecn = Ecn::Compatibility,
            ("ecn", "normal") => encap.ecn = Ecn::Normal,
            ("label", "on") => encap.flow_label = true,
            ("label", "off") => encap.flow_label = false,
            _ => return Err(bad(part)),
        }
    }
    Ok(encap)
}

fn bad(part: &str) -> String {
    format!("{part:?} is none of these")
}

fn state_dir(text: &str) -> Read<PathBuf> {
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err("is no absolute path".to_owned());
    }
    let mut names = 0;
    // Not `components`, which leaves out what says nothing.
    for name in text.split('/').filter(|name| !name.is_empty()) {
        if name.contains('.') {
            return Err(format!("{name:?} has a dot"));
        }
        names += 1;
    }
    if names == 0 {
        return Err("is the root".to_owned());
    }
    let normal = path
        .components()
        .filter(|part| !matches!(part, Component::CurDir));
    Ok(normal.collect())
}
