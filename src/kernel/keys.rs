// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Keys of encrypted server IDs: whether a program can decrypt here, and the contexts of the
//! kernel's cipher that it does it with.
//!
//! It takes two things: a compiler that can express pointers to kernel objects in a map (clang 15),
//! and a kernel with the `bpf_crypto` functions and `ecb(aes)` (Linux 6.11).

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

use super::map::{Map, ShapeError};
use super::probe;
use super::routine::{LoadError, Routine};
use super::typed::Array;
use super::SysError;
use crate::abi;
use crate::error::ErrorKind;

/// Name of the map of contexts.
pub const MAP: &str = "gw_ql_crypto";

/// Whether the compiler of this build could compile the programs that decrypt.
pub const BUILT: bool = cfg!(guideway_keys);

/// The compiler of the programs of this build, in its own words.
pub const COMPILER: &str = env!("GUIDEWAY_COMPILER");

/// Whether encrypted server IDs can be decoded on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// A program has decrypted a block whose content is known.
    Works,
    /// The programs were compiled by a compiler that cannot express it, [`COMPILER`].
    NotBuilt,
    /// The kernel cannot do it: what it lacks, in words.
    Missing(String),
    /// This process may not try: it takes CAP_BPF and CAP_NET_ADMIN.
    Unknown,
}

/// Tries it, by making a context and decrypting with it. Takes some 20 ms, the first time that it
/// works.
pub fn support() -> Support {
    static WORKS: AtomicBool = AtomicBool::new(false);
    if !BUILT {
        return Support::NotBuilt;
    }
    if WORKS.load(Ordering::Relaxed) {
        return Support::Works;
    }
    // Before anything is loaded, so that nothing fails loudly on a kernel that is too old.
    if !probe::features().crypto_kfuncs {
        let lacks = "it has no bpf_crypto functions, which Linux 6.11 has with CONFIG_CRYPTO";
        return Support::Missing(lacks.into());
    }
    match imp::attempt() {
        Ok(()) => {
            WORKS.store(true, Ordering::Relaxed);
            Support::Works
        }
        Err(LoadError::Permission { .. }) => Support::Unknown,
        Err(LoadError::Sys(error)) if error.errno == libc::EPERM => Support::Unknown,
        Err(LoadError::Sys(error)) if error.kind() == ErrorKind::NotFound => {
            Support::Missing("it has no ecb(aes) (CONFIG_CRYPTO_ECB, CONFIG_CRYPTO_AES)".into())
        }
        Err(error) => Support::Missing(error.to_string().lines().take(1).collect()),
    }
}

/// The contexts of an instance.
#[derive(Debug)]
pub struct Contexts {
    slots: Array<abi::CryptoSlot>,
}

impl Contexts {
    /// Takes the map `gw_ql_crypto`.
    pub fn new(map: Map) -> Result<Self, ShapeError> {
        Array::new(map).map(|slots| Self { slots })
    }

    /// The map itself.
    pub fn map(&self) -> &Map {
        self.slots.map()
    }

    /// The incarnation in each slot; 0 in an empty one.
    pub fn incarnations(&self) -> Result<Vec<u32>, SysError> {
        let slots = self.slots.values()?;
        Ok(slots.iter().map(|slot| slot.incarnation).collect())
    }

    /// Gives up the context in a slot. The kernel wipes and frees it when no packet uses it.
    pub fn remove(&self, slot: u32) -> Result<(), SysError> {
        self.slots.set(slot, &bytemuck::Zeroable::zeroed())
    }

    /// What makes contexts in these slots. Takes CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The kernel or the build cannot, see [`support`].
    pub fn maker(&self) -> Result<Maker, LoadError> {
        imp::maker(&[self.map().try_clone()?])
    }
}

/// Makes contexts.
#[derive(Debug)]
pub struct Maker {
    put: Routine,
}

impl Maker {
    /// Makes a context of a key, in place of the one in the slot.
    ///
    /// # Errors
    /// ENOENT if the kernel has no `ecb(aes)`, EINVAL if there is no such slot, ENOMEM.
    pub fn put(&self, slot: u32, incarnation: u32, key: &[u8; 16]) -> Result<(), SysError> {
        let mut request = abi::KeyRequest {
            slot,
            incarnation,
            key: *key,
        };
        match self.put.call(&mut request)? as i32 {
            0 => Ok(()),
            error => {
                let what = format_args!("the cipher in slot {slot} of {MAP}");
                Err(SysError::new("make", what, -error))
            }
        }
    }
}

#[cfg(guideway_keys)]
mod imp {
    use super::{libc, LoadError, Maker, Map, SysError};
    use crate::kernel::routine::{Options, Routines, Source};
    use crate::kernel::run::Run;

    /// The example of FIPS 197, appendix C.1.
    const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const PLAINTEXT: [u8; 16] = [
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ];
    const CIPHERTEXT: [u8; 16] = [
        0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5,
        0x5a,
    ];

    fn load(reuse: &[Map]) -> Result<Routines, LoadError> {
        let options = Options {
            reuse,
            ..Options::default()
        };
        options.load(Source::Key)
    }

    pub(super) fn maker(reuse: &[Map]) -> Result<Maker, LoadError> {
        let put = load(reuse)?.take("gw_put_key")?;
        Ok(Maker { put })
    }

    pub(super) fn attempt() -> Result<(), LoadError> {
        let mut routines = load(&[])?;
        let maker = Maker {
            put: routines.take("gw_put_key")?,
        };
        maker.put(0, 1, &KEY)?;
        let attempt = routines.take("gw_try_key")?;
        let ran = Run::new(&CIPHERTEXT).run(attempt.program())?;
        if ran.frame == PLAINTEXT {
            return Ok(());
        }
        let error = SysError::new(
            "decrypt a block in",
            attempt.program().name(),
            libc::EBADMSG,
        );
        Err(error.into())
    }
}

#[cfg(not(guideway_keys))]
mod imp {
    use super::{libc, LoadError, Maker, Map, SysError, COMPILER};

    fn unsupported() -> LoadError {
        let programs = format_args!("programs with keys, by {COMPILER}");
        SysError::new("compile", programs, libc::EOPNOTSUPP).into()
    }

    pub(super) fn maker(_: &[Map]) -> Result<Maker, LoadError> {
        Err(unsupported())
    }

    pub(super) fn attempt() -> Result<(), LoadError> {
        Err(unsupported())
    }
}
