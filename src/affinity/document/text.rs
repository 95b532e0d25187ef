// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Texts of the document: connection IDs, times.

use serde::Serializer;

use crate::quic::Cid;

/// Writes a connection ID as lower-case digits.
pub(crate) fn hexadecimal<S: Serializer>(cid: &Cid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cid)
}

/// Seconds since 1970 as RFC 3339 writes them, in UTC: `2026-07-31T08:00:00Z`.
pub fn rfc3339(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Counted from March, so that the odd day of a leap year comes last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Whether a text is a time as RFC 3339 writes it.
pub(super) fn is_rfc3339(text: &str) -> bool {
    let (Some(date), Some(rest)) = (text.get(..19), text.get(19..)) else {
        return false;
    };
    let fits = |pattern: &str, text: &str| {
        pattern.len() == text.len()
            && pattern
                .bytes()
                .zip(text.bytes())
                .all(|(wanted, byte)| match wanted {
                    b'0' => byte.is_ascii_digit(),
                    b'T' => matches!(byte, b'T' | b't'),
                    other => byte == other,
                })
    };
    let number = |from: usize| date[from..from + 2].parse::<u8>().unwrap_or(u8::MAX);
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let offset = |zone: &str| {
        let two = |from: usize| zone[from..from + 2].parse::<u8>().unwrap_or(u8::MAX);
        two(1) <= 23 && two(4) <= 59
    };
    let zoned =
        matches!(zone, "Z" | "z") || (fits("+00:00", zone) || fits("-00:00", zone)) && offset(zone);
    fits("0000-00-00T00:00:00", date)
        && (1..=12).contains(&number(5))
        && (1..=31).contains(&number(8))
        && number(11) <= 23
        && number(14) <= 59
        // A leap second is written as 60.
        && number(17) <= 60
        && zoned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from `date -u -d @SECONDS +%FT%TZ`.
    #[test]
    fn times_are_those_of_date() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_785_484_800, "2026-07-31T08:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
            assert!(is_rfc3339(text), "{text}");
        }
    }

    #[test]
    fn other_forms_are_no_times() {
        for text in [
            "1985-04-12T23:20:50.52Z",
            "1996-12-19T16:39:57-08:00",
            "1990-12-31T23:59:60Z",
            "1937-01-01t12:00:27.87+00:20",
        ] {
            assert!(is_rfc3339(text), "{text}");
        }
        for text in [
            "",
            "now",
            "2026-07-31",
            "2026-07-31T08:00:00",
            "2026-07-31 08:00:00Z",
            "2026-13-31T08:00:00Z",
            "2026-07-00T08:00:00Z",
            "2026-07-31T24:00:00Z",
            "2026-07-31T08:60:00Z",
            "2026-07-31T08:00:61Z",
            "2026-07-31T08:00:00.Z",
            "2026-07-31T08:00:00+0800",
            "2026-07-31T08:00:00+24:00",
            "2026-07-31T08:00:00ZZ",
            "+026-07-31T08:00:00Z",
            "2026-07-31T08:00:0\u{e9}Z",
            "\u{ff12}026-07-31T08:00:00Z",
        ] {
            assert!(!is_rfc3339(text), "{text}");
        }
    }
}
