// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use super::MAX_NONCE_LEN;

/// A server has given every nonce out: under this key it can make no connection ID that is
/// different from all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all nonces of {nonce_len} bytes are used: servers and balancer need a new key")]
pub struct NonceExhausted {
    /// Bytes of a nonce.
    pub nonce_len: usize,
}

/// Counts through all nonces of one length, from a start of the caller's, each once.
#[derive(Clone)]
pub(super) struct Nonces {
    /// Big-endian.
    next: [u8; MAX_NONCE_LEN],
    len: usize,
    /// How many there still are. Of the longest ones there are more, but nobody gets that far.
    left: u128,
}

impl Nonces {
    pub(super) fn new(len: usize, random: impl FnOnce(&mut [u8])) -> Self {
        let mut next = [0; MAX_NONCE_LEN];
        random(&mut next[..len]);
        Self {
            next,
            len,
            left: 1_u128.checked_shl(8 * len as u32).unwrap_or(u128::MAX),
        }
    }

    /// Writes the next one into a slice of that length.
    pub(super) fn take(&mut self, nonce: &mut [u8]) -> Result<(), NonceExhausted> {
        self.left = self.left.checked_sub(1).ok_or(NonceExhausted {
            nonce_len: self.len,
        })?;
        let next = &mut self.next[..self.len];
        nonce.copy_from_slice(next);
        for byte in next.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nonce_comes_once_and_then_none() {
        // The least length has too many to go through them in a test; the length is free here.
        let mut nonces = Nonces::new(2, |start| start.copy_from_slice(&[0xfe, 0xfd]));
        let mut seen = vec![false; 1 << 16];
        for turn in 0..1_u32 << 16 {
            let mut nonce = [0; 2];
            nonces.take(&mut nonce).unwrap();
            let number = u16::from_be_bytes(nonce);
            assert_eq!(u32::from(number), (0xfefd + turn) % (1 << 16));
            assert!(!std::mem::replace(&mut seen[usize::from(number)], true));
        }
        for _ in 0..2 {
            let exhausted = nonces.take(&mut [0; 2]).unwrap_err();
            assert_eq!(exhausted, NonceExhausted { nonce_len: 2 });
        }
    }

    #[test]
    fn there_are_as_many_as_the_length_has_values() {
        let left = |len| Nonces::new(len, |_| {}).left;
        assert_eq!(left(4), 4_294_967_296);
        assert_eq!(left(8), 18_446_744_073_709_551_616);
        assert_eq!(left(15), 1_329_227_995_784_915_872_903_807_060_280_344_576);
        assert_eq!(left(16), u128::MAX);
        assert_eq!(left(18), u128::MAX);
    }
}
