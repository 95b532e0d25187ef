// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Asks the daemon over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use guideway::control::machine::Trigger;
use nix::sys::signal::Signal;

use crate::daemon::{Daemon, PATIENCE};
use crate::netns::within;

/// The status and the body of an answer.
pub(crate) fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

/// The value of a series.
pub(crate) fn series(body: &str, name: &str) -> Option<f64> {
    let mut lines = body.lines();
    let line = lines.find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')
            .map(str::to_owned)
    })?;
    line.split(' ').next()?.parse().ok()
}

/// Waits until a series is so.
#[track_caller]
pub(crate) fn scraped(address: &str, name: &str, wanted: Option<f64>) {
    let last = || get(address, "/metrics").map(|(_, body)| series(&body, name));
    let is_so = within(PATIENCE, || last() == Some(wanted));
    assert!(is_so, "{name}: {:?}, not {wanted:?}", last());
}

/// How often the daemon has swept, for whatever reason.
pub(crate) fn sweeps(address: &str) -> f64 {
    let (_, body) = get(address, "/metrics").expect("an answer");
    let name = |trigger| format!("guideway_egress_sweeps_total{{trigger=\"{trigger}\"}}");
    let counts = Trigger::ALL.map(|trigger| series(&body, &name(trigger)));
    counts.into_iter().flatten().sum()
}

/// Has the daemon sweep, and waits until one is over that began after this was called.
#[track_caller]
pub(crate) fn sweep(address: &str, daemon: &Daemon) {
    // The first one that ends may have begun before.
    for _ in 0..2 {
        let before = sweeps(address);
        daemon.signal(Signal::SIGHUP);
        let swept = within(PATIENCE, || sweeps(address) > before);
        assert!(swept, "{}", daemon.log());
    }
}
