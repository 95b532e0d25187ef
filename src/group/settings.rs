// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a group treats packets, apart from its members.

use std::fmt;

use serde::Serialize;

use crate::abi;

/// Bits of a coarse monotonic time in nanoseconds that are below a tick, 1.0737 s.
const TICK_SHIFT: u32 = abi::Tick::GW_TICK_SHIFT.0;
const SECOND_NS: u64 = 1_000_000_000;

/// What of a packet decides its shard.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HashMode {
    /// The source address: all of it goes to one shard (RFC 4787 REQ-2).
    #[default]
    Source,
    /// Addresses, protocol and ports.
    Flow,
}

/// For how long a pin outlives its last packet: whole seconds up to 30 days, or no pins at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct PinIdle(u32);

/// A time that no pin may idle for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("pin idle time of {seconds} s is neither 0 (no pins) nor from 1 s to 2592000 s (30 days)")]
#[non_exhaustive]
pub struct InvalidPinIdle {
    /// The time.
    pub seconds: u64,
}

impl PinIdle {
    /// No pins: nothing looks for one, nothing makes one.
    pub const OFF: Self = Self(0);
    /// The longest, 30 days, in seconds.
    pub const MAX_SECONDS: u64 = 30 * 24 * 3600;

    /// Checks a time in seconds; 0 is [`OFF`](Self::OFF).
    ///
    /// # Errors
    /// More than 30 days.
    pub const fn from_secs(seconds: u64) -> Result<Self, InvalidPinIdle> {
        if seconds <= Self::MAX_SECONDS {
            Ok(Self(seconds as u32))
        } else {
            Err(InvalidPinIdle { seconds })
        }
    }

    /// The time in seconds; 0 for off.
    #[must_use]
    pub const fn as_secs(self) -> u32 {
        self.0
    }

    /// Whether there are no pins.
    #[must_use]
    pub const fn is_off(self) -> bool {
        self.0 == 0
    }

    /// The time in ticks of 2^30 ns, rounded up, so that no pin goes early; 0 for off.
    #[must_use]
    pub const fn ticks(self) -> u32 {
        ticks(self.0 as u64 * SECOND_NS)
    }

    /// How old the time in a pin may become before a packet renews it, in ticks of 2^30 ns: a 64th
    /// of the idle time, at least a second, rounded up; 0 for off.
    #[must_use]
    pub const fn refresh_ticks(self) -> u32 {
        if self.is_off() {
            return 0;
        }
        let part = self.0 as u64 * SECOND_NS / 64;
        ticks(if part < SECOND_NS { SECOND_NS } else { part })
    }
}

const fn ticks(ns: u64) -> u32 {
    // 30 days are 2,414,000 ticks.
    ns.div_ceil(1 << TICK_SHIFT) as u32
}

impl Default for PinIdle {
    /// 2 hours 4 minutes, the least for established TCP connections (RFC 5382).
    fn default() -> Self {
        Self(7440)
    }
}

impl fmt::Display for PinIdle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("off"),
            seconds => write!(f, "{seconds} s"),
        }
    }
}

/// How a group treats packets.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Settings {
    /// What decides a packet's shard.
    pub hash_mode: HashMode,
    /// How long pins live.
    pub pin_idle: PinIdle,
    /// A packet that finds no shard is answered, as far as such a packet may be; otherwise it is
    /// dropped without a word.
    pub reject: bool,
    /// The outer header carries the inner ECN field (normal mode of RFC 6040), for shards that
    /// merge the outer mark when they decapsulate.
    pub ecn_normal: bool,
}

impl Settings {
    /// Those of a group that forwards nothing.
    pub(super) const DISABLED: Self = Self {
        hash_mode: HashMode::Source,
        pin_idle: PinIdle::OFF,
        reject: false,
        ecn_normal: false,
    };
}
