// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How full a table of flow state may become before newcomers are refused.
//!
//! A refused newcomer is served from the table of its service, and counted; an entry that is there
//! never makes room for it. Levels rise at once and fall late, so that a flood does not make them
//! swing.

use super::rules::Level;

/// Where levels change, in percent of a table's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LevelRules {
    /// Above this the rest is reserved for flows of marked slots: at most 99.
    pub high_water: u8,
    /// Below this everything is admitted again: less than `high_water`.
    pub low_water: u8,
}

/// Above this percentage nothing is admitted.
const FULL: u8 = 99;
/// An alert comes at this percentage of the high-water mark.
const ALERT: u8 = 80;

impl Default for LevelRules {
    fn default() -> Self {
        Self {
            high_water: 90,
            low_water: 85,
        }
    }
}

/// How full a table is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Fill {
    /// Entries that it has.
    pub used: u64,
    /// Entries that it has room for.
    pub capacity: u64,
}

impl Fill {
    /// Whether more than `percent` of it is used.
    fn is_above(self, percent: u8) -> bool {
        u128::from(self.used) * 100 > u128::from(self.capacity) * u128::from(percent)
    }

    /// Whether less than `percent` of it is used.
    fn is_below(self, percent: u8) -> bool {
        u128::from(self.used) * 100 < u128::from(self.capacity) * u128::from(percent)
    }
}

impl LevelRules {
    /// Marks at these percentages.
    ///
    /// # Errors
    /// They are not in order, or too high for anything to be reserved.
    pub fn new(high_water: u8, low_water: u8) -> Result<Self, LevelError> {
        if low_water >= high_water || high_water > FULL {
            return Err(LevelError {
                high_water,
                low_water,
            });
        }
        Ok(Self {
            high_water,
            low_water,
        })
    }

    /// The level of a service whose level is `current`, in a table that is so full; `quota` says
    /// the same of the part of the table that the service may use, if there is a bound to it.
    ///
    /// The program, too, raises levels, when an insert finds no room: that, too, lasts until the
    /// table is below the low-water mark.
    pub fn level(&self, current: Level, table: Fill, quota: Option<Fill>) -> Level {
        let risen = if table.is_above(FULL) {
            Level::None
        } else if table.is_above(self.high_water) || quota.is_some_and(|quota| quota.is_above(100))
        {
            Level::Reserve
        } else {
            Level::All
        };
        // The marks of a quota lie as far apart as those of the table, the upper one at its end.
        let below = |quota: Fill| {
            u128::from(quota.used) * u128::from(self.high_water)
                < u128::from(quota.capacity) * u128::from(self.low_water)
        };
        if table.is_below(self.low_water) && quota.is_none_or(below) {
            risen
        } else {
            risen.max(current)
        }
    }

    /// Whether a table is so full that somebody should know, well before anything is refused.
    pub fn alerts(&self, table: Fill) -> bool {
        u128::from(table.used) * 10_000
            > u128::from(table.capacity) * u128::from(self.high_water) * u128::from(ALERT)
    }
}

/// Marks that are out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "levels rise above {high_water} % and fall below {low_water} %: the first must be higher, and at \
     most {FULL}"
)]
#[non_exhaustive]
pub struct LevelError {
    /// Where levels rise.
    pub high_water: u8,
    /// Where they fall.
    pub low_water: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: LevelRules = LevelRules {
        high_water: 90,
        low_water: 85,
    };

    fn fill(used: u64, capacity: u64) -> Fill {
        Fill { used, capacity }
    }

    /// The level after each of these fills of a table for 1000, beginning with everything admitted.
    fn levels(fills: &[u64]) -> Vec<Level> {
        let mut level = Level::All;
        let mut next = |used: &u64| {
            level = RULES.level(level, fill(*used, 1000), None);
            level
        };
        fills.iter().map(&mut next).collect()
    }

    #[test]
    fn levels_rise_at_once_and_fall_late() {
        use Level::{All, None, Reserve};
        assert_eq!(levels(&[0, 850, 900]), [All, All, All]);
        assert_eq!(
            levels(&[901, 900, 850, 849]),
            [Reserve, Reserve, Reserve, All]
        );
        assert_eq!(
            levels(&[990, 991, 990, 901, 850]),
            [Reserve, None, None, None, None]
        );
        assert_eq!(levels(&[1000, 849, 850, 901]), [None, All, All, Reserve]);
    }

    #[test]
    fn a_level_that_the_program_raised_falls_with_the_others() {
        assert_eq!(RULES.level(Level::None, fill(850, 1000), None), Level::None);
        assert_eq!(RULES.level(Level::None, fill(849, 1000), None), Level::All);
    }

    #[test]
    fn a_quota_reserves_and_never_closes() {
        let level = |current, used| RULES.level(current, fill(100, 1000), Some(fill(used, 90)));
        assert_eq!(level(Level::All, 90), Level::All);
        assert_eq!(level(Level::All, 91), Level::Reserve);
        assert_eq!(level(Level::All, 900), Level::Reserve);
        // 85 of 90, as in a table of 100 entries.
        assert_eq!(level(Level::Reserve, 85), Level::Reserve);
        assert_eq!(level(Level::Reserve, 84), Level::All);
        // The table's own marks count all the same.
        let full = RULES.level(Level::All, fill(991, 1000), Some(fill(1, 90)));
        assert_eq!(full, Level::None);
        let quota = Some(fill(1, 90));
        assert_eq!(
            RULES.level(Level::Reserve, fill(900, 1000), quota),
            Level::Reserve
        );
    }

    #[test]
    fn the_alert_comes_before_any_refusal() {
        // 80 % of 90 %.
        assert!(!RULES.alerts(fill(720, 1000)));
        assert!(RULES.alerts(fill(721, 1000)));
        assert!(!RULES.alerts(fill(0, 0)));
    }

    #[test]
    fn numbers_of_any_size_are_compared_exactly() {
        let room = u64::from(u32::MAX);
        assert_eq!(RULES.level(Level::All, fill(room, room), None), Level::None);
        assert_eq!(
            RULES.level(Level::All, fill(u64::MAX, u64::MAX), None),
            Level::None
        );
    }

    #[test]
    fn marks_out_of_order_are_refused() {
        assert_eq!(LevelRules::new(90, 85), Ok(LevelRules::default()));
        for (high, low) in [(85, 85), (80, 90), (100, 85), (0, 0)] {
            let error = LevelRules::new(high, low).expect_err("out of order");
            assert_eq!((error.high_water, error.low_water), (high, low));
        }
    }
}
