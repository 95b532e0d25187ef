// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Waits for descriptors, and leaves one alone for a while that fails all the time.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// Until when something that failed is left alone: it may be ready to fail again at once.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Rest(Option<Duration>);

impl Rest {
    /// Takes in that it failed.
    pub(crate) fn failed(&mut self, now: Duration, rest: Duration) {
        self.0 = Some(now.saturating_add(rest));
    }

    /// Takes in that it works.
    pub(crate) fn works(&mut self) {
        self.0 = None;
    }

    /// When it is tried again; none if that may be now.
    pub(crate) fn until(self, now: Duration) -> Option<Duration> {
        self.0.filter(|until| *until > now)
    }
}

/// Which of these have something to tell before the time is over. What is left out has nothing.
pub(crate) fn ready<const N: usize>(
    fds: [Option<BorrowedFd>; N],
    time: Duration,
) -> Result<[bool; N], Errno> {
    // Rounded up: what is looked at too early is not due.
    let milliseconds = time.as_micros().div_ceil(1000);
    let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
    let wanted = fds.iter().flatten();
    let mut wanted: Vec<_> = wanted
        .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
        .collect();
    match poll(&mut wanted, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok([false; N]),
        Err(error) => return Err(error),
    }
    let mut told = wanted.iter().map(|fd| fd.any().unwrap_or(true));
    Ok(fds.map(|fd| fd.is_some() && told.next().unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_failed_is_left_alone_for_its_time_and_no_longer_than_it_fails() {
        let seconds = Duration::from_secs;
        let mut rest = Rest::default();
        assert_eq!(rest.until(seconds(0)), None);
        rest.failed(seconds(10), seconds(30));
        assert_eq!(rest.until(seconds(10)), Some(seconds(40)));
        assert_eq!(rest.until(seconds(39)), Some(seconds(40)));
        assert_eq!(rest.until(seconds(40)), None, "it is tried again");
        rest.failed(seconds(41), seconds(30));
        assert_eq!(rest.until(seconds(41)), Some(seconds(71)));
        rest.works();
        assert_eq!(rest.until(seconds(41)), None);
    }

    #[test]
    fn one_that_is_left_alone_wakes_nobody_though_it_fails_for_ever() {
        let (broken, writer) = nix::unistd::pipe().unwrap();
        // From now on it has something to tell whenever it is asked.
        drop(writer);
        let (other, sender) = nix::unistd::pipe().unwrap();
        let (broken, other) = (broken.as_fd(), other.as_fd());
        let time = Duration::from_millis(20);
        for _ in 0..2 {
            let all = [Some(broken), Some(other)];
            assert_eq!(ready(all, time), Ok([true, false]));
        }
        let start = std::time::Instant::now();
        assert_eq!(ready([None, Some(other)], time), Ok([false, false]));
        assert!(start.elapsed() >= time);
        nix::unistd::write(&sender, b"x").unwrap();
        assert_eq!(ready([None, Some(other)], time), Ok([false, true]));
        assert_eq!(ready([Some(other), None], time), Ok([true, false]));
    }
}
