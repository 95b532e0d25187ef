// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause

/// Why a text is not the hexadecimal form of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HexTextError {
    /// A character is neither a digit nor something between digits.
    #[error(
        "character {position} is {found:?}: neither a hexadecimal digit nor white space nor ':'"
    )]
    #[non_exhaustive]
    Digit {
        /// Index of the first such character, from 0.
        position: usize,
        /// The character.
        found: char,
    },
    /// The last byte has one digit only.
    #[error("an odd number of hexadecimal digits: {digits}")]
    #[non_exhaustive]
    Odd {
        /// Digits of the text.
        digits: usize,
    },
}

/// Reads bytes from hexadecimal digits. White space and `:` may stand anywhere.
///
/// # Errors
/// The first other character, or an odd number of digits.
pub fn from_hex(text: &str) -> Result<Vec<u8>, HexTextError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for (position, found) in text.chars().enumerate() {
        if found.is_whitespace() || found == ':' {
            continue;
        }
        let digit = found
            .to_digit(16)
            .ok_or(HexTextError::Digit { position, found })?;
        // A digit is below 16, so it fits a byte.
        let digit = digit as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err(HexTextError::Odd {
            digits: 2 * bytes.len() + 1,
        }),
    }
}
