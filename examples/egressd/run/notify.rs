// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tells the service manager how it goes, by the protocol of `sd_notify(3)`.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variable that names the socket of the service manager.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The variables of the watchdog: its time in microseconds, and for which process it is.
const WATCHDOG_TIME: &str = "WATCHDOG_USEC";
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// The service manager, if there is one that wants to be told.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

/// What is wrong with what the service manager says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotifyError {
    #[error("{SOCKET} {0:?} is neither a path nor an abstract name (@...)")]
    Socket(OsString),
    #[error("{SOCKET}: {0}")]
    Io(#[from] io::Error),
    #[error("{WATCHDOG_TIME} {0:?} is not a number of microseconds above 0")]
    Watchdog(OsString),
}

impl Notify {
    /// The service manager that the environment names.
    ///
    /// # Errors
    /// The environment makes no sense.
    pub(crate) fn from_env() -> Result<Self, NotifyError> {
        Self::new(|name| std::env::var_os(name), std::process::id())
    }

    fn new(variable: impl Fn(&str) -> Option<OsString>, process: u32) -> Result<Self, NotifyError> {
        let socket = variable(SOCKET).filter(|path| !path.is_empty());
        let socket = socket.map(|path| {
            let address = match path.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                [b'/', ..] => SocketAddr::from_pathname(&path)?,
                _ => return Err(NotifyError::Socket(path)),
            };
            let socket = UnixDatagram::unbound()?;
            // A service manager that does not read is no reason to stand still.
            socket.set_nonblocking(true)?;
            Ok((socket, address))
        });
        let others = variable(WATCHDOG_PROCESS).is_some_and(|of| of != *process.to_string());
        let watchdog = variable(WATCHDOG_TIME).filter(|_| !others);
        let watchdog = watchdog.map(|time| {
            let microseconds = time.to_str().and_then(|time| time.parse().ok());
            match microseconds {
                None | Some(0) => Err(NotifyError::Watchdog(time)),
                Some(microseconds) => Ok(Duration::from_micros(microseconds)),
            }
        });
        Ok(Self {
            socket: socket.transpose()?,
            watchdog: watchdog.transpose()?,
        })
    }

    /// The time within which the service manager wants a sign of life; none: it wants none.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Says that the service is ready; `status` is for people.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Says for people how it goes.
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    /// Says that it goes on, if there is a watchdog.
    pub(crate) fn alive(&self) {
        if self.watchdog.is_some() {
            self.send("WATCHDOG=1");
        }
    }

    /// Says that the service ends.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// What cannot be sent is lost: nothing depends on it.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

/// A text that cannot pass for another message.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Notify, NotifyError> {
        let find = |name: &str| {
            let found = variables.iter().find(|(of, _)| *of == name)?;
            Some(OsString::from(found.1))
        };
        Notify::new(find, 42)
    }

    fn receive(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let count = socket.recv(&mut bytes).expect("a message");
        String::from_utf8(bytes[..count].to_vec()).expect("text")
    }

    #[test]
    fn all_is_told_by_path_and_by_abstract_name() {
        let path = std::env::temp_dir().join(format!("guideway-notify-{}", std::process::id()));
        let by_path = UnixDatagram::bind(&path).expect("a socket");
        let name = format!("guideway-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let by_name = UnixDatagram::bind_addr(&address).expect("a socket");
        let named = format!("@{name}");
        let path_text = path.to_str().expect("a text");
        for (socket, text) in [(by_path, path_text), (by_name, &*named)] {
            let timeout = Some(Duration::from_secs(10));
            socket.set_read_timeout(timeout).expect("a timeout");
            let watchdog = (WATCHDOG_TIME, "1000000");
            let notify = of(&[(SOCKET, text), watchdog]).expect("a service manager");
            notify.status("waiting for a list\nREADY=1");
            assert_eq!(receive(&socket), "STATUS=waiting for a list READY=1");
            notify.ready("2 of 2 classes are served");
            assert_eq!(
                receive(&socket),
                "READY=1\nSTATUS=2 of 2 classes are served"
            );
            notify.alive();
            assert_eq!(receive(&socket), "WATCHDOG=1");
            notify.stopping();
            assert_eq!(receive(&socket), "STOPPING=1");
            // Who has no watchdog is not told that it goes on.
            let notify = of(&[(SOCKET, text)]).expect("a service manager");
            notify.alive();
            notify.status("");
            assert_eq!(receive(&socket), "STATUS=");
        }
        std::fs::remove_file(path).expect("a file");
    }

    #[test]
    fn nobody_is_told_without_a_service_manager() {
        let inherited = Notify::from_env().expect("nothing is wrong");
        inherited.alive();
        let notify = of(&[]).expect("nothing is wrong");
        notify.ready("");
        assert_eq!(notify.watchdog(), None);
        assert!(of(&[(SOCKET, "")])
            .expect("nothing is wrong")
            .socket
            .is_none());
    }

    #[test]
    fn a_service_manager_that_reads_nothing_stops_nobody() {
        let name = format!("guideway-deaf-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let deaf = UnixDatagram::bind_addr(&address).expect("a socket");
        let notify = of(&[(SOCKET, &format!("@{name}"))]).expect("a service manager");
        for _ in 0..10_000 {
            notify.status("");
        }
        drop(deaf);
        notify.status("");
    }

    #[test]
    fn the_watchdog_is_for_the_process_that_it_names() {
        let time = (WATCHDOG_TIME, "60000000");
        let minute = Some(Duration::from_secs(60));
        assert_eq!(of(&[time]).expect("a time").watchdog(), minute);
        let ours = of(&[time, (WATCHDOG_PROCESS, "42")]);
        assert_eq!(ours.expect("a time").watchdog(), minute);
        let others = of(&[time, (WATCHDOG_PROCESS, "43")]);
        assert_eq!(others.expect("nothing").watchdog(), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, value) in [
            (SOCKET, "run/notify"),
            (SOCKET, "vsock:2:1"),
            (WATCHDOG_TIME, "0"),
            (WATCHDOG_TIME, "soon"),
            (WATCHDOG_TIME, "-1"),
        ] {
            let error = of(&[(name, value)])
                .expect_err("it makes no sense")
                .to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
