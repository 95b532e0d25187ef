// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Watches the bytes of a document before a parser sees them, so that no document, whatever it
//! holds, costs more memory than a sound one of its length.

use super::DocumentError;

/// Sound documents are five deep.
const DEPTH: u32 = 64;
/// Sound documents have texts of up to 63 bytes.
const TEXT_BYTES: u32 = 4096;

/// The state of the watch between two pieces of a document.
#[derive(Debug)]
pub(crate) struct Guard {
    limit_bytes: u64,
    passed: u64,
    depth: u32,
    /// Bytes of the text it is in.
    text: Option<u32>,
    escaped: bool,
}

/// Why no byte more may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    TooLarge { limit_bytes: u64 },
    TooDeep { at: u64 },
    LongText { at: u64 },
}

impl Stop {
    pub(crate) fn error(self) -> DocumentError {
        match self {
            Self::TooLarge { limit_bytes } => DocumentError::TooLarge { limit_bytes },
            Self::TooDeep { at } => DocumentError::TooDeep { depth: DEPTH, at },
            Self::LongText { at } => DocumentError::LongText {
                limit_bytes: TEXT_BYTES,
                at,
            },
        }
    }
}

impl Guard {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            passed: 0,
            depth: 0,
            text: None,
            escaped: false,
        }
    }

    /// Looks at the next bytes. An error tells how many of them may still pass.
    ///
    /// Of bytes that are not JSON it may think what it likes: the parser stops at the first of them.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Result<(), (usize, Stop)> {
        for (index, &byte) in bytes.iter().enumerate() {
            let at = self.passed;
            let stop = if at >= self.limit_bytes {
                Some(Stop::TooLarge {
                    limit_bytes: self.limit_bytes,
                })
            } else {
                self.step(byte, at)
            };
            if let Some(stop) = stop {
                return Err((index, stop));
            }
            self.passed += 1;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8, at: u64) -> Option<Stop> {
        match (self.text, byte) {
            (Some(_), b'"') if !self.escaped => self.text = None,
            (Some(length), _) => {
                if length >= TEXT_BYTES {
                    return Some(Stop::LongText { at });
                }
                self.escaped = byte == b'\\' && !self.escaped;
                self.text = Some(length + 1);
            }
            (None, b'"') => self.text = Some(0),
            (None, b'{' | b'[') => {
                if self.depth >= DEPTH {
                    return Some(Stop::TooDeep { at });
                }
                self.depth += 1;
            }
            (None, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(text: &str, limit: u64) -> Option<(usize, Stop)> {
        let whole = Guard::new(limit).pass(text.as_bytes()).err();
        // Byte by byte it must come to the same.
        let mut guard = Guard::new(limit);
        let one = text
            .bytes()
            .enumerate()
            .find_map(|(index, byte)| Some((index, guard.pass(&[byte]).err()?.1)));
        assert_eq!(whole, one, "{text:.60}");
        whole
    }

    #[test]
    fn limits_are_exact() {
        assert_eq!(stop("[1]", 3), None);
        assert_eq!(stop("[1]", 2), Some((2, Stop::TooLarge { limit_bytes: 2 })));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(stop(&nested(64), 1000), None);
        assert_eq!(
            stop(&nested(65), 1000),
            Some((64, Stop::TooDeep { at: 64 }))
        );
        let text = |length: usize| format!("\"{}\"", "x".repeat(length));
        assert_eq!(stop(&text(4096), 10_000), None);
        assert_eq!(
            stop(&text(4097), 10_000),
            Some((4097, Stop::LongText { at: 4097 }))
        );
    }

    #[test]
    fn brackets_in_texts_and_escaped_quotes_do_not_count() {
        assert_eq!(stop(&format!("\"{}\"", "[{".repeat(100)), 1000), None);
        let escaped = format!(r#"["{}", {}"#, r#"\"["#.repeat(100), "[".repeat(63));
        assert_eq!(stop(&escaped, 1000), None);
        // The backslash is escaped itself: the text ends, and the brackets count.
        let ended = format!(r#""\\"{}"#, "[".repeat(65));
        assert_eq!(stop(&ended, 1000), Some((68, Stop::TooDeep { at: 68 })));
        // Lists that were closed leave room.
        assert_eq!(stop(&"[]".repeat(1000), 10_000), None);
    }
}
