// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The netlink messages about qdiscs and filters (linux/rtnetlink.h, linux/pkt_sched.h,
//! linux/pkt_cls.h).

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::SockProtocol;

use super::FilterId;
use crate::kernel::attach::display_name;
use crate::kernel::netlink::{attributes, order, put, request, text, word};
use crate::kernel::SysError;

/// `TC_H_CLSACT` as parent, its handle, and the filters at its ingress.
const QDISC_PARENT: u32 = 0xffff_fff1;
const QDISC_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;

const TCA_CHAIN: u16 = 11;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const NLA_F_NESTED: u16 = 1 << 15;
const KIND: &[u8] = b"bpf\0";

/// `struct tcmsg`: family, three bytes of padding, interface, handle, parent, info.
const HEAD_BYTES: usize = 20;

fn head(ifindex: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut head = vec![0; 4];
    for word in [ifindex, handle, parent, info] {
        head.extend_from_slice(&word.to_ne_bytes());
    }
    head
}

/// The info of a filter: its priority and the EtherType that it is asked about.
fn info(id: FilterId) -> u32 {
    u32::from(id.priority.get()) << 16 | u32::from((libc::ETH_P_ALL as u16).to_be())
}

/// One filter at the ingress of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) priority: u16,
    pub(super) handle: u32,
    pub(super) protocol: u16,
    pub(super) chain: u32,
    pub(super) kind: String,
    pub(super) program_id: Option<u32>,
    pub(super) name: Option<String>,
    pub(super) direct_action: bool,
}

/// The filters at the ingress of an interface, in the order in which packets come to them within
/// each chain.
pub(super) fn filters(ifindex: u32) -> Result<Vec<Filter>, SysError> {
    let mut filters = Vec::new();
    request(
        SockProtocol::NetlinkRoute,
        libc::RTM_GETTFILTER,
        true,
        &head(ifindex, 0, INGRESS, 0),
        &format!("filters of interface {}", display_name(ifindex)),
        |answer| filters.extend(filter(answer)),
    )?;
    Ok(filters)
}

/// A filter out of a listing; none of a message about a priority as a whole.
fn filter(answer: &[u8]) -> Option<Filter> {
    let info = word(answer, 16)?;
    let mut filter = Filter {
        priority: (info >> 16) as u16,
        handle: word(answer, 8)?,
        protocol: u16::from_be(info as u16),
        chain: 0,
        kind: String::new(),
        program_id: None,
        name: None,
        direct_action: false,
    };
    let mut options = None;
    for (attribute, value) in attributes(answer.get(HEAD_BYTES..)?) {
        match attribute {
            libc::TCA_KIND => filter.kind = text(value),
            libc::TCA_OPTIONS => options = Some(value),
            TCA_CHAIN => filter.chain = word(value, 0)?,
            _ => {}
        }
    }
    let options = options?;
    if filter.kind.as_bytes() == &KIND[..3] {
        for (attribute, value) in attributes(options) {
            match attribute {
                TCA_BPF_NAME => filter.name = Some(text(value)),
                TCA_BPF_ID => filter.program_id = word(value, 0),
                TCA_BPF_FLAGS => {
                    filter.direct_action = word(value, 0)? & TCA_BPF_FLAG_ACT_DIRECT != 0;
                }
                _ => {}
            }
        }
    }
    Some(filter)
}

/// Gives an interface a clsact qdisc, unless it has one or an ingress qdisc, which has the same
/// ingress.
pub(super) fn ensure_qdisc(ifindex: u32) -> Result<(), SysError> {
    let mut body = head(ifindex, QDISC_HANDLE, QDISC_PARENT, 0);
    put(&mut body, libc::TCA_KIND, b"clsact\0");
    let made = order(
        SockProtocol::NetlinkRoute,
        libc::RTM_NEWQDISC,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        &body,
        "create a clsact qdisc on interface",
        display_name(ifindex),
    );
    match made {
        Err(error) if error.errno == libc::EEXIST => Ok(()),
        result => result,
    }
}

/// Makes a filter of a program, which `tc` lists by `name`, where none is: EEXIST otherwise, and
/// ENOSPC or EINVAL if the priority belongs to another protocol or kind.
pub(super) fn create(
    ifindex: u32,
    id: FilterId,
    program: BorrowedFd<'_>,
    name: &str,
) -> Result<(), SysError> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let op = "create a filter on interface";
    put_program(ifindex, id, program, name, flags, op)
}

/// Exchanges the program of a filter in one step, whichever it is; ENOENT if there is no filter.
pub(super) fn replace(
    ifindex: u32,
    id: FilterId,
    program: BorrowedFd<'_>,
    name: &str,
) -> Result<(), SysError> {
    let op = "exchange the program of a filter on interface";
    put_program(ifindex, id, program, name, 0, op)
}

fn put_program(
    ifindex: u32,
    id: FilterId,
    program: BorrowedFd<'_>,
    name: &str,
    flags: i32,
    op: &'static str,
) -> Result<(), SysError> {
    let mut options = Vec::new();
    put(&mut options, TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
    put(
        &mut options,
        TCA_BPF_NAME,
        &[name.as_bytes(), b"\0"].concat(),
    );
    put(
        &mut options,
        TCA_BPF_FLAGS,
        &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes(),
    );
    let mut body = head(ifindex, id.handle.get(), INGRESS, info(id));
    put(&mut body, libc::TCA_KIND, KIND);
    put(&mut body, libc::TCA_OPTIONS | NLA_F_NESTED, &options);
    let interface = display_name(ifindex);
    order(
        SockProtocol::NetlinkRoute,
        libc::RTM_NEWTFILTER,
        flags,
        &body,
        op,
        interface,
    )
}

/// Removes a filter, whichever program it runs; ENOENT if there is none.
pub(super) fn delete(ifindex: u32, id: FilterId) -> Result<(), SysError> {
    let mut body = head(ifindex, id.handle.get(), INGRESS, info(id));
    put(&mut body, libc::TCA_KIND, KIND);
    order(
        SockProtocol::NetlinkRoute,
        libc::RTM_DELTFILTER,
        0,
        &body,
        "remove a filter from interface",
        display_name(ifindex),
    )
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::kernel::netns;

    /// Messages about filters as the kernel sends them, by hand.
    fn answer(handle: u32, info: u32, kind: &str, options: Option<&[u8]>) -> Vec<u8> {
        let mut body = head(7, handle, INGRESS, info);
        put(&mut body, 1, &[kind.as_bytes(), b"\0"].concat());
        put(&mut body, 11, &5_u32.to_ne_bytes());
        if let Some(options) = options {
            put(&mut body, 2, options);
        }
        body
    }

    #[test]
    fn what_is_listed_is_read_and_nonsense_is_not() {
        let mut options = Vec::new();
        put(&mut options, 7, b"theirs\0");
        put(&mut options, 8, &1_u32.to_ne_bytes());
        put(&mut options, 10, &[0xab; 8]);
        put(&mut options, 11, &4711_u32.to_ne_bytes());
        // Priority 49152, and the EtherType of IPv6 in the order of the wire.
        let ipv6 = u32::from(u16::from_ne_bytes([0x86, 0xdd]));
        let bytes = answer(0xa, 49152 << 16 | ipv6, "bpf", Some(&options));
        let mut expected = Filter {
            priority: 49152,
            handle: 0xa,
            protocol: 0x86dd,
            chain: 5,
            kind: "bpf".to_owned(),
            program_id: Some(4711),
            name: Some("theirs".to_owned()),
            direct_action: true,
        };
        assert_eq!(filter(&bytes), Some(expected.clone()));
        // Options of another kind mean something else.
        let bytes = answer(0xa, 49152 << 16 | ipv6, "u32", Some(&options));
        expected.kind = "u32".to_owned();
        (expected.program_id, expected.name, expected.direct_action) = (None, None, false);
        assert_eq!(filter(&bytes), Some(expected));
        assert_eq!(filter(&answer(0, 1 << 16, "bpf", None)), None);
        for end in 0..HEAD_BYTES {
            assert_eq!(filter(&bytes[..end]), None);
        }
    }
    /// As when somebody takes the place, or leaves it, after this process has looked.
    #[test]
    fn the_kernel_creates_only_where_nothing_is_and_exchanges_only_what_is() {
        netns::isolated("kernel::tc::message::exclusive", || {
            let (ifindex, _) = netns::veth("near", "far");
            let load = || netns::foreign_program("theirs", netns::Kind::Classifier).expect("load");
            let (one, two) = (load(), load());
            let id = FilterId::default();
            ensure_qdisc(ifindex).expect("made");
            ensure_qdisc(ifindex).expect("what is there is left");
            let refused = |result: Result<(), SysError>| result.expect_err("refused");

            let error = refused(replace(ifindex, id, one.as_fd(), "one"));
            assert_eq!(error.errno, libc::ENOENT, "{error}");
            create(ifindex, id, one.as_fd(), "one").expect("created");
            let error = refused(create(ifindex, id, two.as_fd(), "two"));
            assert_eq!(error.errno, libc::EEXIST);
            let text = "cannot create a filter on interface near: File exists (os error 17): \
                        Filter already exists";
            assert_eq!(error.to_string(), text);
            let programs = || -> Vec<_> {
                let filters = filters(ifindex).expect("listed").into_iter();
                filters.map(|filter| filter.program_id).collect()
            };
            assert_eq!(programs(), [Some(netns::program_id(&one))]);
            replace(ifindex, id, two.as_fd(), "two").expect("exchanged");
            assert_eq!(programs(), [Some(netns::program_id(&two))]);
            delete(ifindex, id).expect("removed");
            assert_eq!(refused(delete(ifindex, id)).errno, libc::ENOENT);
        });
    }
}
