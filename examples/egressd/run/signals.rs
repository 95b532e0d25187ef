// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Signals: they end the daemon, or have it read its configuration anew.

use std::time::Duration;

use guideway::error::ErrorKind;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{siginfo, SfdFlags, SignalFd};

use super::control::Control;
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

/// Whether a signal tells the daemon to end.
fn ends(signal: &siginfo) -> bool {
    let number = i32::try_from(signal.ssi_signo).map(Signal::try_from);
    matches!(number, Ok(Ok(Signal::SIGTERM | Signal::SIGINT)))
}

impl Control {
    /// Attends to signals; whether it is to end.
    pub(super) fn signalled(&mut self) -> Result<bool, Failure> {
        loop {
            let signal = self.signals.read_signal();
            let signal =
                signal.map_err(|e| Failure::new(ErrorKind::Kernel, format!("signals: {e}")))?;
            match signal {
                None => return Ok(false),
                Some(signal) if ends(&signal) => {
                    self.farewell();
                    return Ok(true);
                }
                Some(_) => self.reload(),
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
            let Ok([told, heard, listed, done]) = self.wait(Some(end)) else {
                return;
            };
            if told && self.is_told_again() {
                return;
            }
            if done {
                loop {
                    match self.worker.done() {
                        Ok(Some(Ended::Sweep(done))) => drop(self.swept(*done)),
                        Ok(Some(Ended::Expire(table, result))) => self.tidied(table, result.err()),
                        Ok(None) => break,
                        // What it was at nobody ends any more, but the next start.
                        Err(gone) => return self.log.error("stopping", &gone.to_string()),
                    }
                }
            }
            // What is heard meanwhile is for the next start; read, so that it does not spin.
            if heard {
                self.hear();
            }
            if listed {
                let _ = self.source.acknowledge();
            }
        }
    }

    /// Whether a signal that waits tells it to end. Of another configuration nothing would come now.
    fn is_told_again(&self) -> bool {
        loop {
            match self.signals.read_signal() {
                Ok(Some(signal)) if ends(&signal) => return true,
                Ok(Some(_)) => {}
                Ok(None) => return false,
                // Nobody can tell it any more.
                Err(_) => return true,
            }
        }
    }
}
