// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How server ID and nonce are encrypted together: one block of AES where they fill it exactly, a
//! Feistel network of four passes around AES where they do not.
//!
//! The network works on two halves of the same length. Where the number of bytes is odd the middle
//! byte belongs to both: its high bits to the left half, its low bits to the right one. Each pass
//! changes one half by what AES makes of the other.

use super::cipher::{Block, Cipher};
use super::MAX_BLOCK_LEN;

/// The most bytes of half a block.
const MAX_HALF_LEN: usize = MAX_BLOCK_LEN.div_ceil(2);
/// The length of one block of AES.
const SINGLE_PASS_LEN: usize = size_of::<Block>();

/// How many passes a decoder makes of a block of a keyed configuration: it undoes those that the
/// server ID depends on, and where that ends within the left half, the first changed none of it.
pub(super) const fn decoder_passes(server_id_len: usize, nonce_len: usize) -> u8 {
    if server_id_len + nonce_len == SINGLE_PASS_LEN {
        1
    } else if server_id_len > nonce_len {
        4
    } else {
        3
    }
}

/// Encrypts server ID and nonce in place.
pub(super) fn encrypt(cipher: &Cipher, block: &mut [u8]) {
    if let Ok(block) = block.try_into() {
        return cipher.encrypt(block);
    }
    let mut halves = Halves::split(block);
    for pass in 1..=4 {
        halves.pass(cipher, pass);
    }
    halves.join(block);
}

/// Decrypts in place, the server ID at least; the nonce only with all passes.
pub(super) fn decrypt(cipher: &Cipher, block: &mut [u8], passes: u8) {
    if let Ok(block) = block.try_into() {
        return cipher.decrypt(block);
    }
    let mut halves = Halves::split(block);
    for pass in (5 - passes..=4).rev() {
        halves.pass(cipher, pass);
    }
    halves.join(block);
}

struct Halves {
    left: [u8; MAX_HALF_LEN],
    right: [u8; MAX_HALF_LEN],
    /// Bytes of the whole, and of each half.
    whole_len: usize,
    half_len: usize,
}

impl Halves {
    fn split(block: &[u8]) -> Self {
        let whole_len = block.len();
        let half_len = whole_len.div_ceil(2);
        let (mut left, mut right) = ([0; MAX_HALF_LEN], [0; MAX_HALF_LEN]);
        left[..half_len].copy_from_slice(&block[..half_len]);
        right[..half_len].copy_from_slice(&block[whole_len - half_len..]);
        let mut halves = Self {
            left,
            right,
            whole_len,
            half_len,
        };
        halves.part_middle();
        halves
    }

    fn join(&self, block: &mut [u8]) {
        let (left, right) = (&self.left[..self.half_len], &self.right[..self.half_len]);
        block.fill(0);
        block[..self.half_len].copy_from_slice(left);
        let right_at = self.whole_len - self.half_len;
        for (byte, right) in block[right_at..].iter_mut().zip(right) {
            *byte |= right;
        }
    }

    /// Takes from each half what belongs to the other.
    fn part_middle(&mut self) {
        if self.whole_len % 2 == 1 {
            self.left[self.half_len - 1] &= 0xf0;
            self.right[0] &= 0x0f;
        }
    }

    /// One pass, which is its own inverse: odd ones change the right half, even ones the left.
    fn pass(&mut self, cipher: &Cipher, pass: u8) {
        let (changed, other) = match pass % 2 {
            1 => (&mut self.right, &self.left),
            _ => (&mut self.left, &self.right),
        };
        let mut block = Block::default();
        block[..MAX_HALF_LEN].copy_from_slice(other);
        // At most 19.
        block[14] = self.whole_len as u8;
        block[15] = pass;
        cipher.encrypt(&mut block);
        let changed = changed[..self.half_len].iter_mut();
        changed.zip(block).for_each(|(byte, mask)| *byte ^= mask);
        self.part_middle();
    }
}
