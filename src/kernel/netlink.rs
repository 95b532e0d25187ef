// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Questions to the kernel by netlink, with all their answers, and orders.

mod batch;
mod order;

use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{
    recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, SockFlag, SockProtocol,
    SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::SysError;

pub(super) use batch::batch;
pub(super) use order::order;

pub(super) const HEADER_BYTES: usize = 16;
/// Where in a header the flags are.
const FLAGS_AT: usize = 6;
/// Larger than any part of an answer that the kernel makes.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// The kernel answers at once; this ends a wait for an answer that was lost.
const PATIENCE_SECONDS: i64 = 5;
const OP: &str = "ask the kernel about";

/// A dump is asked for so often until it is one of a single state.
const DUMPS: usize = 16;

/// A request of the given type with a fixed part, and attributes if any, in `body`; `each` gets
/// the body of every answer. Without `dump` there is one. A dump that a change interrupted may lack
/// what was there all the time, and is asked for again; if every one was interrupted that is
/// `EAGAIN`.
pub(super) fn request(
    protocol: SockProtocol,
    kind: u16,
    dump: bool,
    body: &[u8],
    what: &str,
    each: impl FnMut(&[u8]),
) -> Result<(), SysError> {
    for _ in 0..DUMPS {
        let answer = ask(protocol, kind, dump, body, what)?;
        if !answer.interrupted {
            answer.bodies.iter().map(Vec::as_slice).for_each(each);
            return Ok(());
        }
    }
    Err(SysError::new(OP, what, libc::EAGAIN))
}

fn ask(
    protocol: SockProtocol,
    kind: u16,
    dump: bool,
    body: &[u8],
    what: &str,
) -> Result<Answer, SysError> {
    let told = |errno| SysError::from_nix(OP, what, errno);
    let socket = open(protocol).map_err(told)?;
    let flags = libc::NLM_F_REQUEST | if dump { libc::NLM_F_DUMP } else { 0 };
    let message = message(kind, flags, body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).map_err(told)?;

    let mut answer = Answer::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(told)?;
        let part = &buffer[..length];
        if part.is_empty() {
            return Err(SysError::new(OP, what, libc::EPIPE));
        }
        let ended = answer.take(part, dump);
        if ended.map_err(|errno| SysError::new(OP, what, errno))? {
            return Ok(answer);
        }
    }
}

fn message(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    message.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(body);
    message
}

/// What the kernel answers to one request.
#[derive(Debug, Default)]
struct Answer {
    bodies: Vec<Vec<u8>>,
    /// What was asked for changed while it was listed.
    interrupted: bool,
}

impl Answer {
    /// Takes a part of it, which is whole messages; whether it was the last, or the error that the
    /// kernel answers.
    fn take(&mut self, mut part: &[u8], dump: bool) -> Result<bool, i32> {
        while let Some((kind, body, next)) = split(part, HEADER_BYTES, 4) {
            let flags = half(part, FLAGS_AT).unwrap_or(0);
            self.interrupted |= dump && i32::from(flags) & libc::NLM_F_DUMP_INTR != 0;
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => {
                    return Err(word(body, 0).map_or(libc::EPROTO, |code| -(code as i32)));
                }
                _ => self.bodies.push(body.to_vec()),
            }
            if !dump {
                return Ok(true);
            }
            part = next;
        }
        Ok(false)
    }
}

fn open(protocol: SockProtocol) -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        protocol,
    )?;
    setsockopt(
        &socket,
        sockopt::ReceiveTimeout,
        &TimeVal::seconds(PATIENCE_SECONDS),
    )?;
    Ok(socket)
}

/// Appends an attribute.
pub(super) fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Takes the first item off `bytes`: its type, its body, and what follows. A message begins with
/// a length of four bytes and a type of two, an attribute with two and two.
pub(super) fn split(
    bytes: &[u8],
    header: usize,
    length_bytes: usize,
) -> Option<(u16, &[u8], &[u8])> {
    let length = match length_bytes {
        4 => word(bytes, 0)? as usize,
        _ => half(bytes, 0)? as usize,
    };
    let kind = half(bytes, length_bytes)?;
    let body = bytes.get(header..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, next))
}

/// The attributes in `bytes`: type without the flags in its upper bits, and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const TYPE_MASK: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let (kind, value, next) = split(bytes, 4, 2)?;
        bytes = next;
        Some((kind & TYPE_MASK, value))
    })
}

/// The number at an offset.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A text that ends at its first zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, flags: i32, body: &[u8]) -> Vec<u8> {
        let length = (HEADER_BYTES + body.len()) as u32;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend((kind as u16).to_ne_bytes());
        message.extend((flags as u16).to_ne_bytes());
        message.extend([1, 0, 0, 0, 7, 0, 0, 0]);
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    #[test]
    fn a_dump_is_interrupted_if_any_of_its_messages_says_so() {
        // As in linux/netlink.h, and what a listing of interfaces consists of.
        const NLM_F_MULTI: i32 = 2;
        const NLM_F_DUMP_INTR: i32 = 0x10;
        const RTM_NEWLINK: i32 = 16;
        let dump = |flags: [i32; 3]| {
            let [one, two, done] = flags.map(|flags| NLM_F_MULTI | flags);
            let first = message(RTM_NEWLINK, one, b"lo");
            let second = [
                message(RTM_NEWLINK, two, b"eth0"),
                message(libc::NLMSG_DONE, done, &[0; 4]),
            ];
            let mut answer = Answer::default();
            assert_eq!(answer.take(&first, true), Ok(false));
            assert_eq!(answer.take(&second.concat(), true), Ok(true));
            assert_eq!(answer.bodies, [&b"lo"[..], b"eth0"]);
            answer.interrupted
        };
        assert!(!dump([0; 3]));
        for at in 0..3 {
            let mut flags = [0; 3];
            flags[at] = NLM_F_DUMP_INTR;
            assert!(dump(flags), "{at}");
        }
        let error = message(libc::NLMSG_ERROR, 0, &(-libc::ENODEV).to_ne_bytes());
        assert_eq!(Answer::default().take(&error, true), Err(libc::ENODEV));
        // One answer has no flag of its own for this: the bit means something else there.
        let mut one = Answer::default();
        let text = message(RTM_NEWLINK, NLM_F_DUMP_INTR, b"lo");
        assert_eq!((one.take(&text, false), one.interrupted), (Ok(true), false));
    }

    #[test]
    fn attributes_are_walked_in_steps_of_four_and_end_at_nonsense() {
        // Lengths 5, 4 and 8; the first is padded; the last one claims more than there is.
        let bytes: Vec<u8> = [
            [5_u16.to_ne_bytes(), 3_u16.to_ne_bytes()].concat(),
            vec![b'x', 0, 0, 0],
            [4_u16.to_ne_bytes(), 7_u16.to_ne_bytes()].concat(),
            [8_u16.to_ne_bytes(), 0x8009_u16.to_ne_bytes()].concat(),
            vec![1, 2, 3, 4],
            [9_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat(),
        ]
        .concat();
        let expected: [(u16, &[u8]); 3] = [(3, b"x"), (7, b""), (9, &[1, 2, 3, 4])];
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), expected);
        for end in 0..bytes.len() {
            assert!(attributes(&bytes[..end]).count() <= 3);
        }
        assert_eq!(
            attributes(&[0; 64]).count(),
            0,
            "a length below that of its header"
        );
    }
}
