// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Orders about neighbours. All take CAP_NET_ADMIN.

use nix::libc;
use nix::sys::socket::SockProtocol;

use super::neighbour::{
    request, NeighbourKey, NDA_FLAGS_EXT, NDA_PROTOCOL, NTF_EXT_MANAGED, NTF_USE,
};
use crate::kernel::netlink::{batch, put};
use crate::kernel::SysError;

/// What became of one order: the errno that the kernel refused it with.
pub type Outcome = Result<(), i32>;

/// Has the kernel look for these neighbours now, without anybody waiting for it, and from Linux
/// 5.16 on keep their entries alive without packets. `protocol` says from then on who wanted it. An
/// address that an entry has stays.
///
/// Not for entries that [are fixed](super::NeighbourEntry::is_fixed): it would unfix them.
///
/// # Errors
/// The kernel cannot be asked. Each order that it refuses has its own errno in its place.
pub fn manage(keys: &[NeighbourKey], protocol: u8) -> Result<Vec<Outcome>, SysError> {
    let order = |&key: &NeighbourKey| {
        let mut body = request(key, NTF_USE);
        put(&mut body, NDA_PROTOCOL, &[protocol]);
        put(&mut body, NDA_FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes());
        body
    };
    let orders: Vec<_> = keys.iter().map(order).collect();
    give(libc::NLM_F_CREATE, &orders)
}

/// Leaves these neighbours to age as others do. Their entries stay with their addresses; one that
/// is not there is not made.
///
/// # Errors
/// As for [`manage`].
pub fn release(keys: &[NeighbourKey]) -> Result<Vec<Outcome>, SysError> {
    // An update without the flag takes it away. That the entry is in use is what lets it keep its
    // state; it is probed once for that.
    let orders: Vec<_> = keys.iter().map(|&key| request(key, NTF_USE)).collect();
    let outcomes = give(0, &orders)?;
    let gone = |outcome| match outcome {
        Err(libc::ENOENT | libc::ENODEV) => Ok(()),
        other => other,
    };
    Ok(outcomes.into_iter().map(gone).collect())
}

/// Whether the calling thread may give such orders.
///
/// # Errors
/// The kernel cannot be asked.
pub fn may_order() -> Result<bool, SysError> {
    // Rights are looked at before the order, which names no neighbour.
    let nobody = vec![0; super::neighbour::BYTES];
    let outcomes = give(0, &[nobody])?;
    Ok(outcomes != [Err(libc::EPERM)])
}

fn give(flags: i32, orders: &[Vec<u8>]) -> Result<Vec<Outcome>, SysError> {
    let answers = batch(
        SockProtocol::NetlinkRoute,
        libc::RTM_NEWNEIGH,
        libc::NLM_F_ACK | flags,
        orders,
        "keep",
        "neighbours",
    )?;
    Ok(answers.into_iter().map(|answer| answer.map(drop)).collect())
}
