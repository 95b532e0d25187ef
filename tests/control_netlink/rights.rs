// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which rights it takes.

use std::time::Duration;

use guideway::control::netlink::{Monitor, Resolver, ResolverError, RECEIVE_BUFFER_BYTES};
use guideway::error::ErrorKind;

use crate::capabilities::{keep, NET_ADMIN};
use crate::netns::isolated;
use crate::scene::*;

#[test]
fn net_admin_is_enough() {
    isolated("control_netlink::net_admin", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        keep(&[NET_ADMIN]);
        let monitor = Monitor::open(&uplinks()).expect("a monitor");
        assert_eq!(monitor.warning(), None);
        let mut resolver = resolver();
        reached(&mut resolver);
        resolve(&mut resolver, &[], Duration::ZERO);
    });
}

#[test]
fn without_rights_it_looks_and_says_what_is_missing() {
    isolated("control_netlink::no_rights", || {
        let _scene = scene();
        node(&format!("route add {BLOCK} via fc00:0::2"));
        let next_hop = reached(&mut resolver());
        keep(&[]);
        let error = Resolver::keeping(&uplinks(), Duration::ZERO).expect_err("a right is missing");
        assert_eq!(error, ResolverError::Permission);
        assert_eq!(error.kind(), ErrorKind::Permission);
        assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
        assert_eq!(way(&mut Resolver::looking(&uplinks())), Ok(next_hop));

        let monitor = Monitor::open(&uplinks()).expect("anybody may listen");
        let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").expect("a limit");
        let limit: usize = limit.trim().parse().expect("a number");
        match monitor.warning() {
            Some(warning) => {
                assert_eq!((warning.asked, warning.got), (RECEIVE_BUFFER_BYTES, limit));
                let text = warning.to_string();
                assert!(
                    text.contains(&limit.to_string()) && text.contains("16777216"),
                    "{text}"
                );
            }
            None => assert!(limit >= RECEIVE_BUFFER_BYTES),
        }
    });
}
