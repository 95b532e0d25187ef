// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What stands against a plan: this version, this machine, or what is live.

use std::fmt::Display;

use super::image::ImageError;
use super::live::Live;
use super::transition::{is_tracked, tracked_in_ns, window_ns};
use super::world::{Decryption, World};
use super::Options;
use crate::id::InterfaceName;
use crate::service::{Fault, FaultCode, Faults, RootArray, Spec, Tracking};

/// What this build or the kernel cannot do.
pub(super) fn kernel(spec: &Spec, world: &World) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some(obstacle) = world.decryption.as_ref().and_then(obstacle) else {
        return faults;
    };
    for service in spec.services() {
        let configs = service.quic.configs.iter();
        for config in configs.filter(|config| config.key.is_some()) {
            let pointer = format!(
                "{}/quic/configs/{}/key",
                service.pointer(),
                config.position()
            );
            faults.push(Fault::new(pointer, FaultCode::Kernel, &*obstacle));
        }
    }
    faults
}

/// What stands against encrypted server IDs, and what to do about it.
fn obstacle(decryption: &Decryption) -> Option<String> {
    let needed = match decryption {
        Decryption::Works => return None,
        Decryption::NotBuilt { compiler } => format!(
            "encrypted server IDs need a build with clang 15 or newer, this one is by {compiler}: \
             build with GUIDEWAY_CLANG=clang-16"
        ),
        Decryption::Missing { release, what } => format!(
            "encrypted server IDs need bpf_crypto and ecb(aes) in the kernel (Linux 6.11), this is \
             {release}: {what}; use a newer kernel"
        ),
    };
    Some(format!(
        "{needed}, plaintext server IDs (\"key\": null) or \"tuple\" routing"
    ))
}

/// Interfaces that do not exist here.
pub(super) fn interfaces(spec: &Spec, world: &World) -> Vec<Fault> {
    if world.devices.is_none() {
        return Vec::new();
    }
    let missing = |pointer: String, name: &InterfaceName| {
        world.device(name).is_none().then(|| {
            Fault::new(
                pointer,
                FaultCode::NoInterface,
                format!("no such interface here: {name}"),
            )
        })
    };
    let targets = spec.services().iter().flat_map(|service| {
        let backends = service.backends.iter();
        backends.filter_map(|backend| {
            missing(
                format!("{}/interface", backend.pointer()),
                &backend.interface,
            )
        })
    });
    missing("/interface".into(), spec.interface())
        .into_iter()
        .chain(targets)
        .collect()
}

/// What a live instance cannot change, or only with the caller's word.
pub(super) fn continuity(live: &Live, spec: &Spec, world: &World, options: Options) -> Vec<Fault> {
    let (old, new) = (live.spec.limits(), spec.limits());
    let sizes = [
        ("flows", old.flows, new.flows),
        ("cids", old.cids, new.cids),
        ("slots", old.slots, new.slots),
    ];
    let mut faults: Vec<_> = sizes
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, _)| fixed(format!("/limits/{name}"), old))
        .collect();
    if live.spec.interface() != spec.interface() {
        faults.push(fixed("/interface".into(), live.spec.interface()));
    }
    if live.spec.mode() != spec.mode() {
        faults.push(fixed("/mode".into(), live.spec.mode()));
    }
    if live.spec.root_array() != spec.root_array() {
        let text = |place: Option<&RootArray>| {
            place.map_or_else(|| "no root array".to_owned(), RootArray::to_string)
        };
        faults.push(fixed("/root_array".into(), text(live.spec.root_array())));
    }
    if options.disruptive {
        return faults;
    }
    if live.spec.hash_seed() != spec.hash_seed() {
        faults.push(Fault::new(
            "/hash_seed",
            FaultCode::Disruptive,
            "a new hash seed moves nearly all live flows; confirm with --disruptive",
        ));
    }
    for service in spec.services() {
        let before = live.placed().find(|(old, _)| old.id == service.id);
        let Some((before, record)) = before else {
            continue;
        };
        if before.hash != service.hash {
            faults.push(Fault::new(
                format!("{}/hash", service.pointer()),
                FaultCode::Disruptive,
                format!(
                    "hashing by {} instead of {} moves nearly all live flows; confirm with \
                     --disruptive",
                    service.hash, before.hash,
                ),
            ));
        }
        let (old, new) = (before.maglev_table_size, service.maglev_table_size);
        if old != new && !is_tracked(live, before, record, world) {
            let window = seconds(window_ns(before, record));
            let wait = match before.tracking {
                Tracking::All => {
                    let rest = seconds(tracked_in_ns(live, before, record, world));
                    format!("or wait until tracking \"all\" has lasted {window}, in {rest}")
                }
                Tracking::Exceptions => {
                    format!("or run with tracking \"all\" for {window} first")
                }
            };
            faults.push(Fault::new(
                format!("{}/maglev_table_size", service.pointer()),
                FaultCode::Disruptive,
                format!(
                    "a new table size ({old} to {new}) moves nearly all live flows; confirm with \
                     --disruptive, {wait}"
                ),
            ));
        }
    }
    faults
}

fn seconds(ns: u64) -> String {
    format!("{}s", ns.div_ceil(1_000_000_000))
}

/// A member of which a live instance has another value than is wanted.
fn fixed(pointer: String, live: impl Display) -> Fault {
    let message = format!(
        "the live instance has {live}, and keeps it: detach --purge and apply again to make it anew"
    );
    Fault::new(pointer, FaultCode::Fixed, message)
}

/// A generation without a layout.
pub(super) fn image(error: ImageError) -> Faults {
    Fault::new("/services", FaultCode::Capacity, error.to_string()).into()
}
