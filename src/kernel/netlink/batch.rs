// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Many small questions or orders to the kernel at once, each with its own answer.

use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{recv, send, MsgFlags, SockProtocol};

use super::{message, open, split, word, BUFFER_BYTES, HEADER_BYTES};
use crate::kernel::SysError;

/// Where in a header the number of the request is.
const SEQUENCE_AT: usize = 8;
/// So many are on their way together; their answers fit the smallest receive buffer that a socket
/// is given, with room for what the kernel adds to each.
const ROUND: usize = 32;

/// The answer to each request, in their order: the body of the message that the kernel sent, empty
/// for an order that it carried out, or the errno that it refused with.
///
/// With `NLM_F_ACK` in `flags` they are orders, without it questions that have one answer each.
/// `op` and `object` are what an error says that could not be done.
pub(in crate::kernel) fn batch(
    protocol: SockProtocol,
    kind: u16,
    flags: i32,
    bodies: &[Vec<u8>],
    op: &'static str,
    object: &str,
) -> Result<Vec<Result<Vec<u8>, i32>>, SysError> {
    if bodies.is_empty() {
        return Ok(Vec::new());
    }
    let told = |errno| SysError::from_nix(op, object, errno);
    let socket = open(protocol).map_err(told)?;
    let mut answers = Vec::with_capacity(bodies.len());
    let mut buffer = vec![0; BUFFER_BYTES];
    for round in bodies.chunks(ROUND) {
        let first = answers.len() as u32;
        let request = requests(kind, libc::NLM_F_REQUEST | flags, first, round);
        send(socket.as_raw_fd(), &request, MsgFlags::empty()).map_err(told)?;
        let mut awaited = Awaited::new(first, round.len());
        while awaited.left > 0 {
            let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(told)?;
            if length == 0 {
                return Err(SysError::new(op, object, libc::EPIPE));
            }
            awaited.take(&buffer[..length]);
        }
        answers.extend(awaited.answers.into_iter().flatten());
    }
    Ok(answers)
}

/// One request behind the other, numbered from `first`.
fn requests(kind: u16, flags: i32, first: u32, bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, body) in (first..).zip(bodies) {
        let mut one = message(kind, flags, body);
        one[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&number.to_ne_bytes());
        one.resize(one.len().next_multiple_of(4), 0);
        all.append(&mut one);
    }
    all
}

struct Awaited {
    first: u32,
    answers: Vec<Option<Result<Vec<u8>, i32>>>,
    left: usize,
}

impl Awaited {
    fn new(first: u32, count: usize) -> Self {
        Self {
            first,
            answers: vec![None; count],
            left: count,
        }
    }

    /// Takes a part of the answers, which is whole messages. What answers no request, or one that
    /// has its answer, is left aside.
    fn take(&mut self, mut part: &[u8]) {
        while let Some((kind, body, next)) = split(part, HEADER_BYTES, 4) {
            let place = word(part, SEQUENCE_AT).and_then(|number| {
                let at = number.checked_sub(self.first)?;
                self.answers.get_mut(at as usize)
            });
            if let Some(place @ None) = place {
                let code = || word(body, 0).map_or(-libc::EPROTO, |code| code as i32);
                *place = Some(match i32::from(kind) {
                    libc::NLMSG_ERROR => match code() {
                        0 => Ok(Vec::new()),
                        code => Err(code.saturating_neg()),
                    },
                    _ => Ok(body.to_vec()),
                });
                self.left -= 1;
            }
            part = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: i32, number: u32, body: &[u8]) -> Vec<u8> {
        requests(kind as u16, 0, number, &[body.to_vec()])
    }

    #[test]
    fn answers_find_their_requests_in_whatever_order_they_come() {
        const RTM_NEWROUTE: i32 = 24;
        let refused =
            |number, errno: i32| answer(libc::NLMSG_ERROR, number, &(-errno).to_ne_bytes());
        let mut awaited = Awaited::new(32, 4);
        awaited.take(
            &[
                refused(34, libc::ENETUNREACH),
                answer(RTM_NEWROUTE, 32, b"odd length"),
                answer(RTM_NEWROUTE, 31, b"an older one"),
            ]
            .concat(),
        );
        assert_eq!(awaited.left, 2);
        awaited.take(
            &[
                answer(RTM_NEWROUTE, 32, b"a second answer"),
                answer(RTM_NEWROUTE, 36, b"not asked"),
                refused(33, 0),
                answer(libc::NLMSG_ERROR, 35, b""),
            ]
            .concat(),
        );
        assert_eq!(awaited.left, 0);
        let expected = [
            Some(Ok(b"odd length".to_vec())),
            Some(Ok(Vec::new())),
            Some(Err(libc::ENETUNREACH)),
            Some(Err(libc::EPROTO)),
        ];
        assert_eq!(awaited.answers, expected);
    }

    #[test]
    fn cut_answers_are_no_answers() {
        let whole = answer(24, 0, b"12345678");
        for end in 0..whole.len() {
            let mut awaited = Awaited::new(0, 1);
            awaited.take(&whole[..end]);
            assert_eq!(awaited.left, 1, "cut at {end}");
        }
    }

    #[test]
    fn requests_are_aligned_and_numbered() {
        let bytes = requests(26, 1, 7, &[vec![1; 5], vec![2; 8]]);
        assert_eq!(bytes.len(), 16 + 8 + 16 + 8);
        assert_eq!(word(&bytes, 0), Some(21), "without what fills up");
        assert_eq!(word(&bytes, 8), Some(7));
        assert_eq!(word(&bytes, 24), Some(24));
        assert_eq!(word(&bytes, 32), Some(8));
    }
}
