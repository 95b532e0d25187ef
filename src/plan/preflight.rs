// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Checks of what redirected frames need of the machine and do not get everywhere.
//!
//! XDP says nothing about a redirected frame's fate: a target that cannot take it loses every frame
//! in silence. These checks find the known causes before the first frame does.

mod root_array;

use std::collections::BTreeSet;

use serde::Serialize;

use super::world::{Device, Hook, Peer, World};
use crate::service::{Mode, Service, Spec};

/// Frames up to this size fit one buffer of a page beside the room that XDP needs; beyond it a
/// driver receives into several.
const SINGLE_BUFFER_MTU: u32 = 3498;

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Check {
    /// Machine name of the check.
    pub code: CheckCode,
    /// What was looked at: an interface, or a service and backend.
    pub object: String,
    /// What was found.
    pub result: CheckResult,
    /// The finding in words.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    /// As it should be.
    Ok,
    /// It cannot be seen from here; neither good nor in the way.
    Unknown,
    /// It works, but probably not as meant.
    Warning,
    /// Frames will be lost.
    Error,
}

/// Machine name of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CheckCode {
    /// Nobody else's program is on the interface, or at the place in the root array.
    Occupied,
    /// The root array is there, and has the place.
    RootArray,
    /// A root program runs on the interface.
    RootProgram,
    /// The interface and what is at its other end are up.
    TargetDown,
    /// The driver transmits redirected frames.
    TargetXmit,
    /// The other end of a veth pair polls.
    TargetNapi,
    /// The driver has queues for redirected frames.
    TargetQueues,
    /// The driver transmits frames of several buffers.
    TargetFrags,
    /// Senders in front of the balancer complete their checksums.
    TxChecksum,
    /// Frames fit the target.
    Mtu,
    /// The interface is still the one that was published.
    IfindexDrift,
    /// The backend has the address that the specification says.
    MacDrift,
    /// The backend's address is not this host's own.
    OwnMac,
    /// The virtual address is not this host's own.
    VipLocal,
}

impl CheckCode {
    /// Every code.
    pub const ALL: &'static [Self] = &[
        Self::Occupied,
        Self::RootArray,
        Self::RootProgram,
        Self::TargetDown,
        Self::TargetXmit,
        Self::TargetNapi,
        Self::TargetQueues,
        Self::TargetFrags,
        Self::TxChecksum,
        Self::Mtu,
        Self::IfindexDrift,
        Self::MacDrift,
        Self::OwnMac,
        Self::VipLocal,
    ];

    /// The code's text in documents and outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Occupied => "occupied",
            Self::RootArray => "root-array",
            Self::RootProgram => "root-program",
            Self::TargetDown => "target-down",
            Self::TargetXmit => "target-xmit",
            Self::TargetNapi => "target-napi",
            Self::TargetQueues => "target-queues",
            Self::TargetFrags => "target-frags",
            Self::TxChecksum => "tx-checksum",
            Self::Mtu => "mtu",
            Self::IfindexDrift => "ifindex-drift",
            Self::MacDrift => "mac-drift",
            Self::OwnMac => "own-mac",
            Self::VipLocal => "vip-local",
        }
    }
}

impl std::fmt::Display for CheckCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Looks at everything that `spec` needs of `world`; empty for an offline world.
pub fn preflight(spec: &Spec, world: &World) -> Vec<Check> {
    let Some(devices) = &world.devices else {
        return Vec::new();
    };
    let ingress = world.device(spec.interface());
    let mut checks: Vec<_> = match (spec.root_array(), &world.root_array, &world.hook) {
        (Some(place), Some(shared), _) => root_array::checks(spec, place, shared),
        (None, _, Some(hook)) => vec![occupied(spec, hook)],
        _ => Vec::new(),
    };
    checks.extend(reach(spec, world));
    for target in targets(spec, world) {
        let redirects = ingress.is_none_or(|ingress| ingress.index != target.index);
        if spec.mode() == Mode::Native && redirects {
            checks.extend([target_xmit(target), target_queues(target)]);
        }
        if let Some(ingress) = ingress.filter(|_| redirects) {
            checks.extend(target_frags(ingress, target));
            checks.push(mtu(ingress, target));
        }
    }
    if let Some(ingress) = ingress.filter(|_| spec.mode() == Mode::Native) {
        checks.extend(tx_checksum(ingress));
    }
    for service in spec.services() {
        addresses(service, devices, world, &mut checks);
    }
    checks
}

/// What can end on its own while an instance runs: interfaces that are up, and ends of veth pairs
/// that poll.
pub(crate) fn reach(spec: &Spec, world: &World) -> Vec<Check> {
    let ingress = world.device(spec.interface());
    let is_ingress = |target: &Device| ingress.is_some_and(|i| i.index == target.index);
    let mut checks = Vec::new();
    for target in targets(spec, world) {
        checks.push(down(
            target,
            CheckResult::Error,
            "every frame to it is lost",
        ));
        if spec.mode() == Mode::Native && !is_ingress(target) {
            checks.push(target_napi(target));
        }
    }
    if let Some(ingress) = ingress.filter(|i| !targets(spec, world).any(|t| t.index == i.index)) {
        checks.push(down(ingress, CheckResult::Warning, "no packet arrives"));
    }
    checks
}

/// The interfaces of all backends, each once.
fn targets<'a>(spec: &'a Spec, world: &'a World) -> impl Iterator<Item = &'a Device> {
    let names: BTreeSet<_> = spec
        .services()
        .iter()
        .flat_map(|service| service.backends.iter().map(|backend| &backend.interface))
        .collect();
    names.into_iter().filter_map(|name| world.device(name))
}

fn check(code: CheckCode, object: impl ToString, result: CheckResult, message: String) -> Check {
    Check {
        code,
        object: object.to_string(),
        result,
        message,
        remedy: None,
    }
}

impl Check {
    fn remedy(mut self, remedy: String) -> Self {
        self.remedy = Some(remedy);
        self
    }
}

fn occupied(spec: &Spec, hook: &Hook) -> Check {
    let result =
        |result, message: String| check(CheckCode::Occupied, spec.interface(), result, message);
    match hook {
        Hook::Free => result(
            CheckResult::Ok,
            "no foreign program on the interface".into(),
        ),
        Hook::Occupied(program) => {
            result(CheckResult::Error, format!("{program} holds the interface"))
                .remedy("take it off if it is not needed, or use another interface".into())
        }
    }
}

/// Whether an interface is up with something at its other end; if not, `found` and `effect` tell
/// how bad that is.
fn down(device: &Device, found: CheckResult, effect: &str) -> Check {
    let name = &device.name;
    let result = |result, message: String| check(CheckCode::TargetDown, name, result, message);
    match (device.up, device.carrier) {
        (Some(false), _) => {
            result(found, format!("is down: {effect}")).remedy(format!("ip link set {name} up"))
        }
        (_, Some(false)) => match &device.peer {
            Some(Peer::Seen { name: peer, .. }) => {
                result(found, format!("the peer {peer} is down: {effect}"))
                    .remedy(format!("ip link set {peer} up"))
            }
            Some(Peer::OutOfSight { .. }) => result(
                found,
                format!("the peer, in another network namespace, is down: {effect}"),
            )
            .remedy("there: ip link set PEER up".into()),
            None => result(found, format!("has no carrier: {effect}"))
                .remedy("connect it to something that is up".into()),
        },
        (Some(true), Some(true)) => result(CheckResult::Ok, "is up".into()),
        _ => result(CheckResult::Unknown, "cannot tell whether it is up".into()),
    }
}

fn target_xmit(target: &Device) -> Check {
    let result =
        |result, message: String| check(CheckCode::TargetXmit, &target.name, result, message);
    let driver = target.driver.as_deref().unwrap_or("unknown");
    match target.xdp_transmit {
        Some(true) => result(
            CheckResult::Ok,
            format!("driver {driver} transmits redirected frames"),
        ),
        Some(false) => result(
            CheckResult::Error,
            format!("driver {driver} does not transmit redirected frames: all of them are lost"),
        )
        .remedy("use mode generic, or an interface whose driver supports XDP redirect".into()),
        None => result(
            CheckResult::Unknown,
            format!("the kernel does not tell whether driver {driver} transmits redirected frames"),
        ),
    }
}

fn target_napi(target: &Device) -> Check {
    let result =
        |result, message: String| check(CheckCode::TargetNapi, &target.name, result, message);
    match &target.peer {
        None => result(CheckResult::Ok, "not a veth".into()),
        Some(Peer::Seen {
            name,
            polls: Some(true),
            ..
        }) => result(CheckResult::Ok, format!("the peer {name} polls")),
        Some(Peer::Seen {
            name,
            polls: Some(false),
            ..
        }) => result(
            CheckResult::Error,
            format!("the peer {name} does not poll: every redirected frame is lost"),
        )
        .remedy(format!(
            "ethtool -K {name} gro on, or attach an XDP program to {name}"
        )),
        Some(Peer::Seen {
            name, polls: None, ..
        }) => result(
            CheckResult::Unknown,
            format!("cannot tell whether the peer {name} polls"),
        ),
        Some(Peer::OutOfSight { polls: Some(true) }) => result(
            CheckResult::Ok,
            "the peer, in another network namespace, polls".into(),
        ),
        Some(Peer::OutOfSight { polls }) => {
            let (verdict, message) = match polls {
                Some(_) => (
                    CheckResult::Error,
                    "the peer, in another network namespace, does not poll: every redirected frame \
                     is lost",
                ),
                None => (
                    CheckResult::Unknown,
                    "the peer is in another network namespace; unless it polls every frame is lost",
                ),
            };
            result(verdict, message.into())
                .remedy("there: ethtool -K PEER gro on, or attach an XDP program to it".into())
        }
    }
}

fn target_queues(target: &Device) -> Check {
    let result =
        |result, message: String| check(CheckCode::TargetQueues, &target.name, result, message);
    match (target.driver.as_deref(), target.transmit_queues) {
        (Some("veth" | "tun" | "macvlan"), _) => result(
            CheckResult::Ok,
            "the driver needs no queues of its own for XDP".into(),
        ),
        (_, Some(0)) => result(CheckResult::Error, "no transmit queue".into())
            .remedy(format!("ethtool -L {} combined N", target.name)),
        (Some("virtio_net"), _) => result(
            CheckResult::Unknown,
            "virtio needs one free transmit queue per CPU, which it does not tell".into(),
        )
        .remedy("give the device at least twice as many queues as CPUs".into()),
        (_, Some(queues)) => result(CheckResult::Ok, format!("{queues} transmit queues")),
        (_, None) => result(
            CheckResult::Unknown,
            "the number of transmit queues is unknown".into(),
        ),
    }
}

fn target_frags(ingress: &Device, target: &Device) -> Option<Check> {
    if ingress.mtu <= SINGLE_BUFFER_MTU {
        return None;
    }
    let (result, message) = match target.xdp_transmit_frags {
        Some(true) => (
            CheckResult::Ok,
            "transmits frames of several buffers".to_owned(),
        ),
        Some(false) => (
            CheckResult::Warning,
            format!(
                "{} receives frames of up to {} bytes into several buffers, which {} cannot \
                 transmit",
                ingress.name, ingress.mtu, target.name
            ),
        ),
        None => (CheckResult::Unknown, "the driver does not tell".to_owned()),
    };
    Some(check(CheckCode::TargetFrags, &target.name, result, message))
}

fn tx_checksum(ingress: &Device) -> Option<Check> {
    let result =
        |result, message: String| check(CheckCode::TxChecksum, &ingress.name, result, message);
    Some(match ingress.peer.as_ref()? {
        Peer::OutOfSight { .. } => result(
            CheckResult::Unknown,
            "senders behind this veth must complete their checksums themselves".into(),
        )
        .remedy("there: ethtool -K PEER tx off".into()),
        Peer::Seen {
            name,
            transmit_checksum_offload: Some(true),
            ..
        } => result(
            CheckResult::Warning,
            format!("{name} leaves checksums to the device; redirected frames keep wrong ones"),
        )
        .remedy(format!("ethtool -K {name} tx off")),
        Peer::Seen {
            name,
            transmit_checksum_offload: Some(false),
            ..
        } => result(CheckResult::Ok, format!("{name} completes its checksums")),
        Peer::Seen {
            name,
            transmit_checksum_offload: None,
            ..
        } => result(
            CheckResult::Unknown,
            format!("cannot tell whether {name} completes checksums"),
        ),
    })
}

fn mtu(ingress: &Device, target: &Device) -> Check {
    let sizes = format!(
        "{} has {} bytes, {} {}",
        ingress.name, ingress.mtu, target.name, target.mtu
    );
    if target.mtu >= ingress.mtu {
        check(CheckCode::Mtu, &target.name, CheckResult::Ok, sizes)
    } else {
        check(
            CheckCode::Mtu,
            &target.name,
            CheckResult::Error,
            format!("{sizes}: longer frames are lost"),
        )
        .remedy(format!("ip link set {} mtu {}", target.name, ingress.mtu))
    }
}

fn addresses(service: &Service, devices: &[Device], world: &World, checks: &mut Vec<Check>) {
    for backend in &service.backends {
        let object = format!("{}/{}", service.name, backend.id);
        let own = devices
            .iter()
            .find(|device| device.mac == Some(backend.mac));
        checks.push(match own {
            Some(own) => check(
                CheckCode::OwnMac,
                &object,
                CheckResult::Error,
                format!(
                    "{} is the address of {} here: frames would loop",
                    backend.mac, own.name
                ),
            )
            .remedy("give the address of the backend's own interface".into()),
            None => check(
                CheckCode::OwnMac,
                &object,
                CheckResult::Ok,
                "not an address of this host".into(),
            ),
        });
        let device = devices
            .iter()
            .find(|device| device.name == backend.interface);
        if let Some(Peer::Seen {
            name,
            mac: Some(mac),
            ..
        }) = device.and_then(|d| d.peer.as_ref())
        {
            checks.push(if *mac == backend.mac {
                check(
                    CheckCode::MacDrift,
                    &object,
                    CheckResult::Ok,
                    format!("{name} has {mac}"),
                )
            } else {
                check(
                    CheckCode::MacDrift,
                    &object,
                    CheckResult::Warning,
                    format!(
                        "the peer {name} has {mac}, the specification says {}",
                        backend.mac
                    ),
                )
            });
        }
    }
    checks.push(if world.addresses.contains(&service.vip) {
        check(
            CheckCode::VipLocal,
            &service.name,
            CheckResult::Warning,
            format!(
                "this host owns {} itself and may answer for it",
                service.vip
            ),
        )
    } else {
        check(
            CheckCode::VipLocal,
            &service.name,
            CheckResult::Ok,
            "not an address of this host".into(),
        )
    });
}

/// Whether the interfaces of a published generation are still the same ones; `published` gives
/// name and index of each.
pub fn ifindex_drift<'a>(
    published: impl IntoIterator<Item = (&'a str, u32)>,
    world: &World,
) -> Vec<Check> {
    let Some(devices) = &world.devices else {
        return Vec::new();
    };
    let published: BTreeSet<_> = published.into_iter().collect();
    published
        .into_iter()
        .map(|(name, index)| {
            let now = devices.iter().find(|device| device.name.as_str() == name);
            let (result, message) = match now.map(|device| device.index) {
                Some(now) if now == index => (CheckResult::Ok, format!("has index {index}")),
                Some(now) => (
                    CheckResult::Error,
                    format!("was index {index} when published and is {now} now"),
                ),
                None => (CheckResult::Error, format!("index {index} is gone")),
            };
            let check = check(CheckCode::IfindexDrift, name, result, message);
            match result {
                CheckResult::Ok => check,
                _ => check.remedy("apply the specification again".into()),
            }
        })
        .collect()
}
