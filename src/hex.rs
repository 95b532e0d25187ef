// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Hexadecimal text, read strictly: digits only, no sign, prefix or white space.

use std::fmt;

/// Why a text is not the hexadecimal form of a byte string.
///
/// The message never repeats the text, which may be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HexError {
    /// The value has a fixed length, and the text another one.
    #[error("must be {expected} hexadecimal digits, got {found} characters")]
    Length {
        /// Digits that the value has.
        expected: usize,
        /// Characters of the text.
        found: usize,
    },
    /// The value may have several lengths, and the text has none of them.
    #[error("must be {min} to {max} hexadecimal digits, an even number, got {found} characters")]
    Range {
        /// Digits of the shortest value.
        min: usize,
        /// Digits of the longest value.
        max: usize,
        /// Characters of the text.
        found: usize,
    },
    /// A character is not one of `0-9 a-f A-F`.
    #[error("must be hexadecimal digits, character {position} is none")]
    Digit {
        /// Index of the first such character, from 0.
        position: usize,
    },
}

/// Reads exactly `N` bytes.
pub(crate) fn decode_exact<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let found = text.chars().count();
    if found != 2 * N {
        return Err(HexError::Length {
            expected: 2 * N,
            found,
        });
    }
    let mut bytes = [0; N];
    decode_into(text, &mut bytes)?;
    Ok(bytes)
}

/// Reads `min` to `N` bytes into the front of an array; returns it with their number.
pub(crate) fn decode_up_to<const N: usize>(
    text: &str,
    min: usize,
) -> Result<([u8; N], usize), HexError> {
    let found = text.chars().count();
    if found % 2 != 0 || found < 2 * min || found > 2 * N {
        return Err(HexError::Range {
            min: 2 * min,
            max: 2 * N,
            found,
        });
    }
    let mut bytes = [0; N];
    decode_into(text, &mut bytes)?;
    Ok((bytes, found / 2))
}

/// Reads any number of bytes.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    let found = text.chars().count();
    if found % 2 != 0 {
        return Err(HexError::Length {
            expected: found + 1,
            found,
        });
    }
    let mut bytes = vec![0; found / 2];
    decode_into(text, &mut bytes)?;
    Ok(bytes)
}

fn decode_into(text: &str, bytes: &mut [u8]) -> Result<(), HexError> {
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|c| VALUES[usize::from(c)]);
        if (high | low) > 0x0f {
            // Where exactly, in characters.
            let no_digit = |c: char| !c.is_ascii_hexdigit();
            let position = text.chars().position(no_digit).unwrap_or(0);
            return Err(HexError::Digit { position });
        }
        *byte = high << 4 | low;
    }
    Ok(())
}

/// The value of each digit by its byte; 255 for what is none.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        let c = DIGITS[digit as usize];
        values[c as usize] = digit;
        values[c.to_ascii_uppercase() as usize] = digit;
        digit += 1;
    }
    values
};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Bytes as lower-case digits without a prefix.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Writes bytes as lower-case digits without a prefix.
pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_both_cases_make_bytes() {
        assert_eq!(decode_exact::<4>("00fFa19b"), Ok([0x00, 0xff, 0xa1, 0x9b]));
        assert_eq!(decode_up_to::<4>("c460", 1), Ok(([0xc4, 0x60, 0, 0], 2)));
        assert_eq!(decode("00fFa1"), Ok(vec![0x00, 0xff, 0xa1]));
        assert_eq!(decode(""), Ok(vec![]));
        assert!(decode("00f").is_err());
        assert_eq!(encode(&[0x00, 0xff, 0xa1]), "00ffa1");
    }

    #[test]
    fn anything_but_digits_is_refused_where_it_stands() {
        for text in ["+f00", "-f00", " f00", "0xff", "g000", "f00\u{ff10}"] {
            let position = text.chars().position(|c| !c.is_ascii_hexdigit()).unwrap();
            assert_eq!(
                decode_exact::<2>(text),
                Err(HexError::Digit { position }),
                "{text}"
            );
            assert_eq!(
                decode_up_to::<2>(text, 1),
                Err(HexError::Digit { position }),
                "{text}"
            );
        }
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        assert_eq!(
            decode_exact::<2>("ä0"),
            Err(HexError::Length {
                expected: 4,
                found: 2
            })
        );
        let range = |found| {
            Err(HexError::Range {
                min: 2,
                max: 4,
                found,
            })
        };
        assert_eq!(decode_up_to::<2>("", 1), range(0));
        assert_eq!(decode_up_to::<2>("abc", 1), range(3));
        assert_eq!(decode_up_to::<2>("abcdef", 1), range(6));
    }
}
