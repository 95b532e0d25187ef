// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! AES-128 of single blocks, where the crate is built with it (feature `aes`).

#[cfg(feature = "aes")]
pub(super) use with_aes::Cipher;
#[cfg(not(feature = "aes"))]
pub(super) use without_aes::Cipher;

/// What the cipher works on.
pub(super) type Block = [u8; 16];

#[cfg(feature = "aes")]
mod with_aes {
    use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
    use aes::Aes128;

    use super::Block;
    use crate::quic::lb::Key;

    /// A key made ready for use. Not printed: its content is as secret as the key.
    #[derive(Clone)]
    pub(in crate::quic::lb) struct Cipher(Aes128);

    impl Cipher {
        /// None in a build without AES.
        pub(in crate::quic::lb) fn new(key: &Key) -> Option<Self> {
            Some(Self(Aes128::new(key.secret_bytes().into())))
        }

        pub(in crate::quic::lb) fn encrypt(&self, block: &mut Block) {
            self.0.encrypt_block(block.into());
        }

        pub(in crate::quic::lb) fn decrypt(&self, block: &mut Block) {
            self.0.decrypt_block(block.into());
        }
    }
}

#[cfg(not(feature = "aes"))]
mod without_aes {
    use super::Block;
    use crate::quic::lb::Key;

    /// There is none.
    #[derive(Clone)]
    pub(in crate::quic::lb) enum Cipher {}

    impl Cipher {
        pub(in crate::quic::lb) fn new(_: &Key) -> Option<Self> {
            None
        }

        pub(in crate::quic::lb) fn encrypt(&self, _: &mut Block) {
            match *self {}
        }

        pub(in crate::quic::lb) fn decrypt(&self, _: &mut Block) {
            match *self {}
        }
    }
}
