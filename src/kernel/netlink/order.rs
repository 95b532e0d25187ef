// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Orders to the kernel by netlink: one message, acknowledged or refused with what the kernel says
//! about it.

use std::fmt::Display;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{recv, send, MsgFlags, SockProtocol};

use super::{
    attributes, half, message, open, split, text, word, BUFFER_BYTES, FLAGS_AT, HEADER_BYTES,
};
use crate::kernel::SysError;

/// Sends an order of the given type, with `flags` beside those that every order has. `op` and
/// `object` are what an error says that could not be done.
pub(in crate::kernel) fn order(
    protocol: SockProtocol,
    kind: u16,
    flags: i32,
    body: &[u8],
    op: &'static str,
    object: impl Display,
) -> Result<(), SysError> {
    let told = |errno| SysError::from_nix(op, &object, errno);
    let socket = open(protocol).map_err(told)?;
    ask_for_reasons(&socket);
    let message = message(kind, libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags, body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).map_err(told)?;

    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(told)?;
        if length == 0 {
            return Err(SysError::new(op, object, libc::EPIPE));
        }
        match verdict(&buffer[..length]) {
            Some(Verdict { errno: 0, .. }) => return Ok(()),
            Some(Verdict { errno, detail }) => {
                return Err(SysError {
                    detail,
                    ..SysError::new(op, object, errno)
                })
            }
            None => {}
        }
    }
}

/// Has the kernel add to a refusal what it is about. One that cannot still answers with a number.
fn ask_for_reasons(socket: &OwnedFd) {
    // linux/netlink.h
    const NETLINK_EXT_ACK: libc::c_int = 11;
    let on: libc::c_int = 1;
    // SAFETY: the option is a number of the length that is given, which outlives the call.
    let _ = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            NETLINK_EXT_ACK,
            std::ptr::from_ref(&on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
}

/// What the kernel says to an order; number 0 is consent.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    errno: i32,
    detail: String,
}

/// The verdict among the messages of an answer.
fn verdict(mut part: &[u8]) -> Option<Verdict> {
    while let Some((kind, body, next)) = split(part, HEADER_BYTES, 4) {
        if i32::from(kind) == libc::NLMSG_ERROR {
            let code = word(body, 0).map_or(-libc::EPROTO, |code| code as i32);
            return Some(Verdict {
                errno: code.saturating_neg(),
                detail: detail(half(part, FLAGS_AT).unwrap_or(0), body).unwrap_or_default(),
            });
        }
        part = next;
    }
    None
}

/// The text in a refusal, which is behind the order that it repeats, whole or its header alone.
fn detail(flags: u16, body: &[u8]) -> Option<String> {
    // linux/netlink.h
    const NLM_F_CAPPED: u16 = 0x100;
    const NLM_F_ACK_TLVS: u16 = 0x200;
    const NLMSGERR_ATTR_MSG: u16 = 1;
    const CODE_BYTES: usize = 4;
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let repeated = match flags & NLM_F_CAPPED {
        0 => (word(body, CODE_BYTES)? as usize).checked_next_multiple_of(4)?,
        _ => HEADER_BYTES,
    };
    let extras = body.get(CODE_BYTES.checked_add(repeated)?..)?;
    let (_, said) = attributes(extras).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG)?;
    Some(text(said))
}

#[cfg(test)]
mod tests {
    use super::super::put;
    use super::*;

    /// An answer of the kernel to `order`, of which it repeats so many bytes.
    fn answer(code: i32, flags: u16, order: &[u8], repeated: usize, said: &str) -> Vec<u8> {
        let mut body = code.to_ne_bytes().to_vec();
        body.extend(&order[..repeated]);
        body.resize(body.len().next_multiple_of(4), 0);
        // NLMSGERR_ATTR_OFFS, then NLMSGERR_ATTR_MSG.
        put(&mut body, 2, &7_u32.to_ne_bytes());
        put(&mut body, 1, &[said.as_bytes(), b"\0"].concat());
        message(libc::NLMSG_ERROR as u16, flags.into(), &body)
    }

    #[test]
    fn a_refusal_carries_what_the_kernel_says_wherever_it_is() {
        let order = message(44, 0, b"an odd length");
        let said = "Filter already exists";
        for (flags, repeated) in [(0x200, order.len()), (0x300, HEADER_BYTES)] {
            let bytes = answer(-libc::EEXIST, flags, &order, repeated, said);
            let expected = Verdict {
                errno: libc::EEXIST,
                detail: said.to_owned(),
            };
            assert_eq!(verdict(&bytes), Some(expected));
            for end in 0..bytes.len() {
                assert_eq!(verdict(&bytes[..end]), None, "cut at {end}");
            }
        }
    }

    #[test]
    fn an_answer_without_a_text_is_a_number() {
        let order = message(44, 0, b"");
        let mut body = 0_i32.to_ne_bytes().to_vec();
        body.extend(&order);
        let consent = message(libc::NLMSG_ERROR as u16, 0, &body);
        let none = |errno| Verdict {
            errno,
            detail: String::new(),
        };
        assert_eq!(verdict(&consent), Some(none(0)));
        // Without the flag what follows is no attribute.
        let silent = answer(-libc::EPERM, 0, &order, order.len(), "not a text");
        assert_eq!(verdict(&silent), Some(none(libc::EPERM)));
        // What was made may be echoed before.
        let echo = message(44, 0, b"echo");
        assert_eq!(verdict(&echo), None);
        let both = [echo, consent].concat();
        assert_eq!(verdict(&both), Some(none(0)));
        // A length of the order that cannot be.
        let mut hostile = answer(-libc::EINVAL, 0x200, &order, order.len(), "x");
        hostile[HEADER_BYTES + 4..HEADER_BYTES + 8].fill(0xff);
        assert_eq!(verdict(&hostile), Some(none(libc::EINVAL)));
    }
}
