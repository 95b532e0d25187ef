// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A wire that changes the frames it carries: from one interface to others, through a function.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    bind, recvfrom, send, setsockopt, socket, sockopt, AddressFamily, LinkAddr, MsgFlags, SockFlag,
    SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::net::Namespace;

/// Longest frame that is carried.
const FRAME_BYTES: usize = 4096;

/// `PACKET_OUTGOING`: what this machine itself sent on the interface.
const OUTGOING: u8 = 4;

/// A running wire; dropping it cuts it.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Relay {
    /// Carries what arrives on `input` of `namespace`: `change` gets each frame and says which of
    /// `outputs` it leaves by, or `None` for nowhere.
    pub(crate) fn start(
        namespace: &Namespace,
        input: &str,
        outputs: &[&str],
        mut change: impl FnMut(&mut Vec<u8>) -> Option<usize> + Send + 'static,
    ) -> io::Result<Relay> {
        let (from, to) = namespace.run(|| {
            let to = outputs.iter().map(|output| raw_socket(output));
            Ok::<_, io::Error>((raw_socket(input)?, to.collect::<io::Result<Vec<_>>>()?))
        })??;
        // The loop looks at `stop` this often.
        setsockopt(&from, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut buffer = [0; FRAME_BYTES];
            while !stopped.load(Ordering::Relaxed) {
                let (length, source) = match recvfrom::<LinkAddr>(from.as_raw_fd(), &mut buffer) {
                    Ok(received) => received,
                    Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => continue,
                    Err(error) => panic!("receiving from a wire: {error}"),
                };
                if source.is_some_and(|source| source.pkttype() == OUTGOING) {
                    continue;
                }
                let mut frame = buffer[..length].to_vec();
                if let Some(output) = change(&mut frame) {
                    // A wire may lose frames; the stacks repeat them.
                    let _ = send(to[output].as_raw_fd(), &frame, MsgFlags::empty());
                }
            }
        });
        Ok(Relay {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            if thread.join().is_err() && !thread::panicking() {
                panic!("the wire broke, see above");
            }
        }
    }
}

/// A socket that sends and receives whole frames on `interface`.
fn raw_socket(interface: &str) -> io::Result<OwnedFd> {
    let address = getifaddrs()?
        .filter(|found| found.interface_name == interface)
        .find_map(|found| found.address?.as_link_addr().copied())
        .ok_or_else(|| io::Error::other(format!("no interface {interface}")))?;
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )?;
    bind(socket.as_raw_fd(), &address)?;
    setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20))?;
    Ok(socket)
}
