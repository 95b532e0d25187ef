// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What drivers tell through the ethtool ioctl.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType};

use super::netlink::text;
use super::SysError;

// Commands and sizes of <linux/ethtool.h>.
const GDRVINFO: u32 = 0x03;
const GTXCSUM: u32 = 0x16;
const GSG: u32 = 0x18;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GGRO: u32 = 0x2b;
const GCHANNELS: u32 = 0x3c;
const STRING_BYTES: usize = 32;
const SET_STATISTICS: u32 = 1;
/// A driver may grow its list between two calls, and the kernel writes without asking for room.
const SPARE_STATISTICS: usize = 4096;

/// `struct ethtool_drvinfo`: the command, five texts of 32 bytes (driver, version, firmware, bus,
/// expansion ROM), 12 bytes, and five numbers, the second of which counts the statistics.
const DRIVER_INFO_WORDS: usize = 49;
const TEXTS_AT: usize = 4;
const STATISTICS_AT: usize = 45;
/// `struct ethtool_channels`: the command, four maxima, then the queues that receive, transmit, do
/// something else, do both.
const CHANNELS_WORDS: usize = 9;

/// Identity of a driver and its device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Driver {
    /// Name of the driver.
    pub name: String,
    /// Version of the firmware, empty if it has none.
    pub firmware: String,
    /// Address on its bus, such as that of a PCI device; empty for virtual ones.
    pub bus: String,
}

/// Queues in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Channels {
    /// Queues that receive.
    pub rx: u32,
    /// Queues that transmit.
    pub tx: u32,
}

/// A channel to the drivers of the calling thread's network namespace.
#[derive(Debug)]
pub(super) struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    pub(super) fn open() -> Result<Self, SysError> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(|errno| SysError::from_nix("open", "a socket for ethtool", errno))?;
        Ok(Self { socket })
    }

    /// The answer to a command whose structure has `N` words; `None` where the driver has none.
    fn ask<const N: usize>(
        &self,
        interface: &str,
        command: u32,
    ) -> Result<Option<[u32; N]>, SysError> {
        let mut words = [0; N];
        words[0] = command;
        // SAFETY: callers name the number of words that the command's structure has.
        let answer = unsafe { self.call(interface, words.as_mut_ptr().cast())? };
        Ok(answer.map(|()| words))
    }

    /// # Safety
    /// `data` begins with a command and has room for the kernel's answer to it.
    unsafe fn call(&self, interface: &str, data: *mut c_void) -> Result<Option<()>, SysError> {
        let op = "ask the driver of";
        let name = interface.as_bytes();
        // SAFETY: all zeros is a value of this structure of bytes, numbers and pointers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(SysError::new(op, interface, libc::ENODEV));
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(name) {
            *place = *byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data.cast();
        // SAFETY: the request outlives the call; what it points to is the caller's promise.
        let result = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                libc::SIOCETHTOOL as _,
                &mut request,
            )
        };
        if result >= 0 {
            return Ok(Some(()));
        }
        match nix::errno::Errno::last() {
            nix::errno::Errno::EOPNOTSUPP => Ok(None),
            errno => Err(SysError::from_nix(op, interface, errno)),
        }
    }

    pub(super) fn driver(&self, interface: &str) -> Result<Option<Driver>, SysError> {
        let Some(info) = self.ask::<DRIVER_INFO_WORDS>(interface, GDRVINFO)? else {
            return Ok(None);
        };
        let mut texts = bytemuck::bytes_of(&info)[TEXTS_AT..]
            .chunks_exact(STRING_BYTES)
            .map(text);
        let mut known = |skip| {
            texts
                .nth(skip)
                .filter(|text| text != "N/A")
                .unwrap_or_default()
        };
        let (name, firmware, bus) = (known(0), known(1), known(0));
        Ok(Some(Driver {
            name,
            firmware,
            bus,
        }))
    }

    fn flag(&self, interface: &str, command: u32) -> Result<Option<bool>, SysError> {
        Ok(self
            .ask::<2>(interface, command)?
            .map(|[_, value]| value != 0))
    }

    /// Generic receive offload is on.
    pub(super) fn gro(&self, interface: &str) -> Result<Option<bool>, SysError> {
        self.flag(interface, GGRO)
    }

    /// Transmit checksums are left to the device.
    pub(super) fn tx_checksum(&self, interface: &str) -> Result<Option<bool>, SysError> {
        self.flag(interface, GTXCSUM)
    }

    /// Frames in several pieces can be transmitted.
    pub(super) fn scatter_gather(&self, interface: &str) -> Result<Option<bool>, SysError> {
        self.flag(interface, GSG)
    }

    pub(super) fn channels(&self, interface: &str) -> Result<Option<Channels>, SysError> {
        let channels = self.ask::<CHANNELS_WORDS>(interface, GCHANNELS)?;
        Ok(channels.map(|[_, _, _, _, _, rx, tx, _, both]| Channels {
            rx: rx.saturating_add(both),
            tx: tx.saturating_add(both),
        }))
    }

    /// The driver's own counters by name.
    pub(super) fn statistics(&self, interface: &str) -> Result<BTreeMap<String, u64>, SysError> {
        let info = self.ask::<DRIVER_INFO_WORDS>(interface, GDRVINFO)?;
        let announced = info.map_or(0, |info| info[STATISTICS_AT]);
        if announced == 0 {
            return Ok(BTreeMap::new());
        }
        let room = announced as usize + SPARE_STATISTICS;
        // Three words: command, set, number of strings. Then the strings.
        let mut names = vec![0_u32; 3 + room * STRING_BYTES / 4];
        (names[0], names[1], names[2]) = (GSTRINGS, SET_STATISTICS, announced);
        // Two words: command and number of values. Then the values.
        let mut values = vec![0_u64; 1 + room];
        values[0] = bytemuck::cast([GSTATS, announced]);
        // SAFETY: both have room for what the driver announced, and for what it may have added.
        let answered = unsafe {
            self.call(interface, names.as_mut_ptr().cast())?.is_some()
                && self.call(interface, values.as_mut_ptr().cast())?.is_some()
        };
        if !answered {
            return Ok(BTreeMap::new());
        }
        let [_, count] = bytemuck::cast::<u64, [u32; 2]>(values[0]);
        let count = count.min(names[2]) as usize;
        let names = bytemuck::cast_slice::<u32, u8>(&names[3..]).chunks_exact(STRING_BYTES);
        Ok(names
            .map(text)
            .zip(values[1..].iter().copied())
            .take(count)
            .collect())
    }
}
