// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Few rights suffice: nothing is opened by its id.

use guideway::egress::apply::How;
use guideway::group::Class;
use serde_json::json;

use crate::capabilities::{enough, keep};
use crate::documents::{class, resolved};
use crate::netns::{isolated, veth};
use crate::support::*;

#[test]
fn everything_works_without_cap_sys_admin() {
    isolated("egress_instance::rights", || {
        let (one, _) = veth("tap0", "inside0");
        let tenants = json!([{"table": 7, "argument": 7, "interfaces": ["tap0"]}]);
        let wanted = resolved(
            &[class("nat66", &[0x10, 0x11]), class(PREFIX, &[0x20])],
            tenants.clone(),
        );
        let less = resolved(&[class("nat66", &[0x11])], json!([]));
        keep(&enough());
        let mut writer = load();
        writer.apply(&wanted, &How::default()).expect("applied");
        drop(writer);
        // Another process reads back what is published.
        let egress = open();
        assert_eq!(egress.groups().expect("readable").len(), 2);
        assert!(egress.encap().expect("readable").is_some());
        assert!(shard_of(&egress, one, "2001:db8::1", "2001:db8:1::1").is_some());
        let mut writer = load();
        let report = writer
            .sweeper()
            .expect("loaded")
            .expire(guideway::egress::pins::Tick::now());
        report.expect("a pass");
        writer.apply(&less, &How::default()).expect("applied");
        let group = writer.groups().expect("readable");
        assert_eq!(group[0].class, Class::Nat66);
        writer.remove().expect("removed");
    });
}
