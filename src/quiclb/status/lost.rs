// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Redirected frames that devices count as lost.
//!
//! The program cannot know: for XDP a frame is gone once it is redirected. A veth counts what it
//! could not hand over as not transmitted, and what it could not redirect at all as dropped on
//! receipt. Other drivers have counters of their own, or none.

use std::collections::BTreeMap;

use crate::id::InterfaceName;
use crate::kernel::netdev::{self, Interface};
use crate::kernel::SysError;

/// Frames lost since the interfaces exist.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// On the way out, by target; none where the driver does not tell.
    targets: BTreeMap<InterfaceName, Option<u64>>,
    /// Where they came in: for targets that the kernel knew to be unable to take them.
    ingress: Option<u64>,
}

impl Lost {
    /// Asks the interfaces of the calling thread's network namespace.
    pub(super) fn ask<'a>(
        ingress: &InterfaceName,
        targets: impl IntoIterator<Item = &'a InterfaceName>,
    ) -> Result<Self, SysError> {
        let devices = netdev::all()?;
        let device = |name: &InterfaceName| {
            let mut devices = devices.iter();
            devices.find(|device| device.name == name.as_str())
        };
        let mut lost = Self {
            ingress: device(ingress)
                .filter(|d| is_veth(d))
                .map(|device| device.dropped.rx),
            ..Default::default()
        };
        for name in targets {
            if !lost.targets.contains_key(name) {
                let told = match device(name) {
                    Some(device) => told(device)?,
                    None => None,
                };
                lost.targets.insert(name.clone(), told);
            }
        }
        Ok(lost)
    }

    /// The sum of what anybody tells; none where nobody does.
    pub(super) fn total(&self) -> Option<u64> {
        let told: Vec<_> = self
            .targets
            .values()
            .copied()
            .chain([self.ingress])
            .flatten()
            .collect();
        if told.is_empty() {
            None
        } else {
            Some(told.iter().fold(0, |sum, count| sum.wrapping_add(*count)))
        }
    }

    /// Those lost on the way to one target; none where its driver does not tell, and where some
    /// were lost before they got to any: nobody knows for which target these were.
    pub(super) fn on_the_way_to(&self, target: &InterfaceName) -> Option<u64> {
        let told = self.targets.get(target).copied().flatten();
        told.filter(|_| self.ingress.is_none_or(|lost| lost == 0))
    }

    /// Targets of which nobody tells anything.
    pub(super) fn untold(&self) -> impl Iterator<Item = &InterfaceName> {
        let untold = self.targets.iter().filter(|(_, told)| told.is_none());
        untold.map(|(name, _)| name)
    }
}

fn is_veth(device: &Interface) -> bool {
    device.kind == "veth"
}

fn told(device: &Interface) -> Result<Option<u64>, SysError> {
    if is_veth(device) {
        return Ok(Some(device.dropped.tx));
    }
    let statistics = device.statistics()?;
    let counts = statistics
        .iter()
        .filter(|(name, _)| counts_lost_frames(name));
    let counts: Vec<_> = counts.map(|(_, count)| *count).collect();
    if counts.is_empty() {
        Ok(None)
    } else {
        Ok(Some(
            counts.iter().fold(0, |sum, count| sum.wrapping_add(*count)),
        ))
    }
}

/// Whether a driver's counter is about redirected frames that were not transmitted. Drivers agree
/// on no name: virtio has `tx0_xdp_tx_drops`, mlx5 `tx_xdp_err`, others `xdp_xmit_errors`.
fn counts_lost_frames(name: &str) -> bool {
    let has = |part| name.contains(part);
    has("xdp") && (has("tx") || has("xmit")) && (has("drop") || has("err"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_lost_frames_are_told_from_others() {
        for name in [
            "tx0_xdp_tx_drops",
            "tx_xdp_err",
            "tx_queue_3_xdp_xmit_errors",
        ] {
            assert!(counts_lost_frames(name), "{name}");
        }
        for name in [
            "rx_xdp_drop",
            "tx_xdp_xmit",
            "tx_dropped",
            "rx0_xdp_redirects",
            "tx_err",
        ] {
            assert!(!counts_lost_frames(name), "{name}");
        }
    }

    #[test]
    fn what_nobody_tells_is_no_zero() {
        let name: InterfaceName = "eth0".parse().unwrap();
        let mut lost = Lost::default();
        lost.targets.insert(name.clone(), None);
        assert_eq!(lost.total(), None);
        assert_eq!(lost.untold().collect::<Vec<_>>(), [&name]);
        lost.ingress = Some(3);
        assert_eq!(lost.total(), Some(3));
        lost.targets.insert(name.clone(), Some(4));
        assert_eq!((lost.total(), lost.untold().count()), (Some(7), 0));
        assert_eq!(lost.on_the_way_to(&name), None, "3 may have been for it");
        lost.ingress = Some(0);
        assert_eq!(lost.on_the_way_to(&name), Some(4));
    }
}
