// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! NAT66 of the kernel's: the one rule that it takes, by netlink as `nft` would write it.
//!
//! ```text
//! table ip6 nat { chain post { type nat hook postrouting priority srcnat; masquerade } }
//! ```

use std::io;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{
    recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag, SockProtocol,
    SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

const TABLE: (u16, &[u8]) = (1, b"nat\0");
const CHAIN: &[u8] = b"post\0";
const NESTED: u16 = libc::NLA_F_NESTED as u16;
/// Where translation of sources has its place among hooks.
const SOURCE_NAT: u32 = 100;
/// The kernel answers at once; this ends a wait for an answer that was lost.
const PATIENCE_SECONDS: i64 = 5;

/// Lets the calling thread's network namespace send every connection that it forwards from the
/// address of the interface by which it leaves.
pub(crate) fn masquerade() -> io::Result<()> {
    let hook = [
        attribute(1, &libc::NF_INET_POST_ROUTING.to_be_bytes()),
        attribute(2, &SOURCE_NAT.to_be_bytes()),
    ];
    let chain = [
        attribute(TABLE.0, TABLE.1),
        attribute(3, CHAIN),
        attribute(4 | NESTED, &hook.concat()),
        attribute(7, b"nat\0"),
    ];
    let expression = attribute(1 | NESTED, &attribute(1, b"masq\0"));
    let rule = [
        attribute(TABLE.0, TABLE.1),
        attribute(2, CHAIN),
        attribute(4 | NESTED, &expression),
    ];
    // One transaction: all of it or nothing.
    let subsystem = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8;
    let batch = [
        message(libc::NFNL_MSG_BATCH_BEGIN as u16, 0, 0, &[]),
        message(
            subsystem | libc::NFT_MSG_NEWTABLE as u16,
            libc::NLM_F_CREATE,
            1,
            &attribute(TABLE.0, TABLE.1),
        ),
        message(
            subsystem | libc::NFT_MSG_NEWCHAIN as u16,
            libc::NLM_F_CREATE,
            2,
            &chain.concat(),
        ),
        message(
            subsystem | libc::NFT_MSG_NEWRULE as u16,
            libc::NLM_F_CREATE | libc::NLM_F_APPEND | libc::NLM_F_ACK,
            3,
            &rule.concat(),
        ),
        message(libc::NFNL_MSG_BATCH_END as u16, 0, 4, &[]),
    ];
    transact(&batch.concat()).map_err(|error| {
        let what = "cannot translate addresses (nf_tables, CONFIG_NFT_MASQ)";
        io::Error::new(error.kind(), format!("{what}: {error}"))
    })
}

/// Sends a batch, and waits for the answer to its last order or for the first error.
fn transact(batch: &[u8]) -> io::Result<()> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )?;
    let patience = TimeVal::seconds(PATIENCE_SECONDS);
    setsockopt(&socket, sockopt::ReceiveTimeout, &patience)?;
    send(socket.as_raw_fd(), batch, MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    // A message of type NLMSG_ERROR: its header, and a code that is 0 for success.
    let code = answer[..length]
        .get(16..20)
        .and_then(|code| code.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A message of nfnetlink: `struct nlmsghdr`, `struct nfgenmsg`, attributes.
fn message(kind: u16, flags: i32, sequence: u32, attributes: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | flags) as u16;
    let mut message = ((20 + attributes.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend([0; 4]);
    // A batch says its subsystem where others say nothing.
    let (family, resource) = match i32::from(kind) {
        libc::NFNL_MSG_BATCH_BEGIN | libc::NFNL_MSG_BATCH_END => (0, libc::NFNL_SUBSYS_NFTABLES),
        _ => (libc::NFPROTO_IPV6, 0),
    };
    message.extend([family as u8, libc::NFNETLINK_V0 as u8]);
    message.extend((resource as u16).to_be_bytes());
    message.extend(attributes);
    message
}

/// `struct nlattr` and its value, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}
