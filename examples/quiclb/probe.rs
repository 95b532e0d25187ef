// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `probe`: what an interface and this kernel offer.

use guideway::quiclb::InterfaceProbe;

use crate::args::ProbeArgs;
use crate::tool::text::or_dash;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(arguments: &ProbeArgs, output: &Output) -> Result<Done, Failure> {
    let probe = InterfaceProbe::of(&arguments.interface)
        .map_err(|error| Failure::from(error).about(&arguments.interface))?;
    output.result(&probe, text)?;
    Ok(Done::Well)
}

fn text(probe: &InterfaceProbe) -> String {
    let mut text = format!("{} (index {})\n", probe.interface, probe.ifindex);
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<16} {value}\n"));
    line("driver", or_dash(probe.driver.as_ref()));
    line("firmware", or_dash(probe.firmware.as_ref()));
    line("bus", or_dash(probe.bus.as_ref()));
    line("PCI device", or_dash(probe.pci_device.as_ref()));
    line("port", or_dash(probe.phys_port_name.as_ref()));
    line("MTU", probe.mtu.to_string());
    line(
        "queues",
        format!("{} receive, {} transmit", probe.queues.rx, probe.queues.tx),
    );
    let features = probe
        .xdp
        .features
        .as_ref()
        .map(|features| features.join(" "));
    line(
        "XDP features",
        features.unwrap_or_else(|| "not told by this kernel".into()),
    );
    line("XDP modes", probe.xdp.modes.join(" "));
    for occupant in &probe.xdp.occupants {
        let name = or_dash(occupant.name.as_ref());
        let link = or_dash(occupant.link_id);
        let id = occupant.program_id;
        line(
            "occupied",
            format!("{} by program {id} ({name}), link {link}", occupant.mode),
        );
    }
    let kernel = &probe.kernel;
    line("kernel", kernel.release.clone());
    let known = |has: Option<bool>| match has {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown (missing rights)",
    };
    line("XDP links", known(kernel.xdp_link).into());
    line("XDP fragments", known(Some(kernel.xdp_frags)).into());
    line("decryption", known(Some(kernel.crypto_kfuncs)).into());
    line("map counts", known(Some(kernel.map_count_kfunc)).into());
    line(
        "offload",
        if probe.offload.eligible_hint {
            "maybe"
        } else {
            "no"
        }
        .into(),
    );
    for blocker in &probe.offload.blockers {
        line("  blocker", blocker.clone());
    }
    for warning in &probe.offload.warnings {
        line("  warning", warning.clone());
    }
    text
}
