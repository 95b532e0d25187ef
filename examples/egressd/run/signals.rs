// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Signals: they end the daemon, or have it read its configuration anew.

use std::time::Duration;

use guideway::error::ErrorKind;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::control::{Control, BUDGET};
use super::worker::{now, Ended};
use crate::tool::Failure;

/// How long a sweep is awaited that runs when the daemon is told to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Blocks the signals that the loop takes note of, before there is any other thread.
pub(crate) fn signals() -> Result<SignalFd, Failure> {
    let failed = |error: Errno| Failure::new(ErrorKind::Kernel, format!("signals: {error}"));
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block().map_err(failed)?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    SignalFd::with_flags(&set, flags).map_err(failed)
}

impl Control {
    /// Attends to signals; whether it is to end.
    pub(super) fn signalled(&mut self) -> Result<bool, Failure> {
        loop {
            let signal = self.signals.read_signal();
            let signal =
                signal.map_err(|e| Failure::new(ErrorKind::Kernel, format!("signals: {e}")))?;
            match signal.map(|signal| signal.ssi_signo as i32) {
                None => return Ok(false),
                Some(nix::libc::SIGHUP) => self.reload(),
                Some(_) => {
                    self.farewell();
                    return Ok(true);
                }
            }
        }
    }

    /// Ends: what runs is finished, or left where the next start goes on. Everything forwards on.
    fn farewell(&mut self) {
        self.notify.stopping();
        self.log.info(
            "stopping",
            "everything that is published goes on forwarding",
        );
        self.worker.stop();
        let end = now() + FAREWELL;
        while self.machine.is_sweeping() && now() < end {
            match self.wait(Some(end)) {
                // Told a second time.
                Ok([true, ..]) if matches!(self.signals.read_signal(), Ok(Some(_))) => return,
                Ok([_, _, _, true]) => loop {
                    match self.worker.done() {
                        Ok(Some(Ended::Sweep(done))) => drop(self.swept(*done)),
                        Ok(Some(Ended::Expire(table, result))) => self.tidied(table, result.err()),
                        Ok(None) => break,
                        // What it was at nobody ends any more, but the next start.
                        Err(gone) => return self.log.error("stopping", &gone.to_string()),
                    }
                },
                Ok(_) => {
                    // What is heard meanwhile is for the next start; read, so that it does not spin.
                    let _ = self.monitor.receive(BUDGET);
                    let _ = self.source.acknowledge();
                }
                Err(_) => return,
            }
        }
    }
}
