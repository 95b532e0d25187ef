// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The crate's tables and placement, and nothing else of it than what these use.

/// The numbers that the kernel's programs know, too; the crate reads them from these.
mod abi {
    pub struct EgressLimit(pub u32);

    impl EgressLimit {
        pub const GW_EGRESS_MAX_MEMBERS: Self = Self(256);
        pub const GW_EGRESS_MAX_SLOTS: Self = Self(65_537);
    }

    pub struct Family(pub u32);

    impl Family {
        pub const GW_FAMILY_IPV6: Self = Self(0);
        pub const GW_FAMILY_IPV4: Self = Self(1);
    }
}

#[path = "../../src/addr.rs"]
pub mod addr;
#[allow(dead_code)] // other modules use the rest
#[path = "../../src/hash.rs"]
pub mod hash;
#[allow(dead_code)] // other modules use the rest
#[path = "../../src/hex.rs"]
mod hex;
#[path = "../../src/id.rs"]
pub mod id;
#[path = "../../src/maglev/mod.rs"]
pub mod maglev;
#[path = "../../src/placement/mod.rs"]
pub mod placement;
#[path = "../../src/srv6.rs"]
pub mod srv6;
