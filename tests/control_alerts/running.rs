// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Alerts and dashboard beside what a daemon really exports.

use std::collections::BTreeSet;

use guideway::control::metrics::METRICS;
use nix::sys::signal::Signal;

use crate::daemon::{on_node, send, shard};
use crate::known::Exported;
use crate::scrape::{get, scraped};
use crate::tool::assert_current;
use crate::{dashboard, rules, strict};

#[test]
fn a_daemon_exports_all_that_alerts_and_dashboard_name() {
    assert_current("egressd");
    on_node("alerts-scraped", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let address = "127.0.0.1:19490";
        let metrics = format!("--metrics={address}");
        let daemon = node.ready(&[&metrics, "--nat64-prefixes=64:ff9b::/96"]);
        node.ran(
            &["attach", "tap0", "--table=42", "--argument=0x2a5"],
            &["--nat64-prefixes=64:ff9b::/96"],
        )
        .exits(0);
        assert!(send(1).is_some());
        // Routes are counted by the sweep that comes after them.
        daemon.signal(Signal::SIGHUP);
        let routes = "guideway_egress_group_routes{class=\"nat66\"}";
        scraped(address, routes, Some(1.0));
        let (status, body) = get(address, "/metrics").expect("an answer");
        assert_eq!(status, 200, "{body}");
        daemon.stop();

        let families = strict::parse(&body);
        let known: BTreeSet<_> = METRICS.iter().map(|metric| metric.family()).collect();
        let found: BTreeSet<_> = families.keys().map(String::as_str).collect();
        assert_eq!(found, known);
        for (name, family) in &families {
            assert!(!family.samples.is_empty(), "{name} has no series");
            let help = family.help.as_deref().unwrap_or_default();
            assert!(!help.is_empty(), "{name} is not explained");
        }
        let exported = Exported::by(families);
        rules::assert_exported(&exported);
        dashboard::assert_exported(&exported);
    });
}
