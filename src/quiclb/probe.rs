// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an interface and this kernel offer a load balancer. Looks, and tries nothing on the
//! interface.

use serde::Serialize;

use crate::id::InterfaceName;
use crate::kernel::attach::{occupants, AttachError, Mode};
use crate::kernel::{netdev, probe};

/// What an interface and this kernel offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InterfaceProbe {
    /// Names this form.
    pub schema: ProbeSchema,
    /// The interface.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interface: InterfaceName,
    /// Its index.
    pub ifindex: u32,
    /// Kernel driver.
    pub driver: Option<String>,
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// Where the device sits on its bus, in the driver's words.
    pub bus: Option<String>,
    /// That, if it is the address of a PCI device.
    pub pci_device: Option<String>,
    /// Name of the port of a card that has several.
    pub phys_port_name: Option<String>,
    /// Largest payload of a frame in bytes.
    pub mtu: u32,
    /// Queues in use, or made if the driver does not tell.
    pub queues: Queues,
    /// XDP on this interface.
    pub xdp: XdpSupport,
    /// This kernel.
    pub kernel: KernelSupport,
    /// Running on the network card.
    pub offload: OffloadHint,
}

/// Names the form of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ProbeSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.probe/v1")]
    V1,
}

/// Queues of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Queues {
    /// Those that receive.
    pub rx: u32,
    /// Those that transmit.
    pub tx: u32,
}

/// XDP on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct XdpSupport {
    /// What the driver declares, in the kernel's words; none before Linux 6.3, where drivers do
    /// not.
    pub features: Option<Vec<&'static str>>,
    /// Modes that are known to be there. One that is missing may be there all the same where
    /// drivers declare nothing.
    pub modes: Vec<&'static str>,
    /// The programs on its hooks.
    pub occupants: Vec<ProgramOnHook>,
}

/// A program on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProgramOnHook {
    /// Where it runs.
    pub mode: &'static str,
    /// The kernel's number of it.
    pub program_id: u32,
    /// Its name; none without CAP_SYS_ADMIN.
    pub name: Option<String>,
    /// The link that holds it; none without CAP_SYS_ADMIN, or if netlink attached it.
    pub link_id: Option<u32>,
}

/// What this kernel offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct KernelSupport {
    /// As `uname -r` prints it.
    pub release: String,
    /// Programs are attached through links; none without the right to try.
    pub xdp_link: Option<bool>,
    /// Programs take frames of several buffers.
    pub xdp_frags: bool,
    /// Programs can decrypt.
    pub crypto_kfuncs: bool,
    /// Programs can ask a map for its number of elements.
    pub map_count_kfunc: bool,
}

/// Whether the program might run on the card. Only a load that succeeds proves anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct OffloadHint {
    /// Nothing is known that stands against it.
    pub eligible_hint: bool,
    /// What stands against it.
    pub blockers: Vec<String>,
    /// What to know before trying.
    pub warnings: Vec<String>,
}

impl InterfaceProbe {
    /// Looks at an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, or a call that failed.
    pub fn of(interface: &InterfaceName) -> Result<Self, AttachError> {
        let Some(device) = netdev::by_name(interface.as_str())? else {
            return Err(AttachError::NoInterface {
                interface: interface.to_string(),
            });
        };
        let driver = device.driver()?;
        let known = |text: String| Some(text).filter(|text| !text.is_empty());
        let driver_name = driver
            .as_ref()
            .and_then(|driver| known(driver.name.clone()));
        let bus = driver.as_ref().and_then(|driver| known(driver.bus.clone()));
        let channels = device.channels()?;
        let features = device.xdp_features()?;
        let release = probe::release();
        let supported = probe::features();
        let mut modes = Vec::new();
        if features.is_some_and(|features| features.native()) {
            modes.push(mode_text(Mode::Native));
        }
        modes.push(mode_text(Mode::Generic));
        let offloads = features.map(|features| features.offloads());
        if offloads == Some(true) {
            modes.push(mode_text(Mode::Hardware));
        }
        let occupants = occupants(device.index)?.into_iter();
        Ok(Self {
            schema: ProbeSchema::V1,
            interface: interface.clone(),
            ifindex: device.index,
            driver: driver_name.clone(),
            firmware: driver.and_then(|driver| known(driver.firmware)),
            pci_device: bus.clone().filter(|bus| is_pci_address(bus)),
            bus,
            phys_port_name: known(device.phys_port_name.clone()),
            mtu: device.mtu,
            queues: Queues {
                rx: channels.map_or(device.rx_queues, |channels| channels.rx),
                tx: channels.map_or(device.tx_queues, |channels| channels.tx),
            },
            xdp: XdpSupport {
                features: features.map(|features| features.names()),
                modes,
                occupants: occupants
                    .map(|occupant| ProgramOnHook {
                        mode: mode_text(occupant.mode),
                        program_id: occupant.program_id,
                        name: occupant.name,
                        link_id: occupant.link_id,
                    })
                    .collect(),
            },
            kernel: KernelSupport {
                release: release.text,
                xdp_link: supported.xdp_link,
                xdp_frags: supported.xdp_frags,
                crypto_kfuncs: supported.crypto_kfuncs,
                map_count_kfunc: supported.map_count_kfunc,
            },
            offload: offload(offloads, driver_name.as_deref()),
        })
    }
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Native => "native",
        Mode::Generic => "generic",
        Mode::Hardware => "offload",
    }
}

/// Drivers in Linux that take programs for a card, and one that pretends to have one.
const OFFLOADING: [&str; 2] = ["nfp", "netdevsim"];

fn offload(declared: Option<bool>, driver: Option<&str>) -> OffloadHint {
    let mut blockers = Vec::new();
    let mut warnings = vec![
        "a hint only: nothing but a load that succeeds proves that the card takes the program"
            .to_owned(),
        "no driver is known to redirect from a card to another port: backends must be behind this one"
            .to_owned(),
    ];
    match declared {
        Some(true) => {}
        Some(false) => blockers.push("the driver does not declare XDP on the card".to_owned()),
        None => warnings.push("drivers declare nothing before Linux 6.3".to_owned()),
    }
    if !driver.is_some_and(|driver| OFFLOADING.contains(&driver)) {
        blockers.push(format!(
            "driver {} is not known to run programs on a card",
            driver.unwrap_or("unknown")
        ));
    }
    OffloadHint {
        eligible_hint: blockers.is_empty(),
        blockers,
        warnings,
    }
}

/// Whether a text has the form `0000:00:1f.6`.
fn is_pci_address(text: &str) -> bool {
    let form = "hhhh:hh:hh.h";
    text.len() == form.len()
        && text
            .bytes()
            .zip(form.bytes())
            .all(|(byte, form)| match form {
                b'h' => byte.is_ascii_hexdigit(),
                form => byte == form,
            })
}

#[cfg(test)]
mod tests {
    use super::{is_pci_address, offload};

    #[test]
    fn a_hint_names_what_stands_against_it_and_proves_nothing() {
        for (declared, driver, blockers) in [
            (Some(true), Some("nfp"), 0),
            (None, Some("nfp"), 0),
            (Some(false), Some("nfp"), 1),
            (None, Some("veth"), 1),
            (Some(false), None, 2),
        ] {
            let hint = offload(declared, driver);
            assert_eq!(hint.blockers.len(), blockers, "{declared:?} {driver:?}");
            assert_eq!(hint.eligible_hint, blockers == 0);
            assert!(hint.warnings[0].contains("nothing but a load that succeeds"));
        }
    }

    #[test]
    fn pci_addresses_are_told_from_other_places() {
        assert!(is_pci_address("0000:00:1f.6"));
        for other in [
            "",
            "virtio0",
            "0000:00:1f",
            "0000:00:1f.66",
            "0000-00:1f.6",
            "0000:00:1g.6",
        ] {
            assert!(!is_pci_address(other), "{other}");
        }
    }
}
