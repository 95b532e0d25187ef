// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::net::SocketAddr;

use crate::capture::{default_source, udp_frame, UdpFrameError};
use crate::service::{Protocol, Spec};

/// Why no frame can be made around a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The specification has no service of this name.
    #[error("no service is named {name:?}; there are {}", services.join(", "))]
    #[non_exhaustive]
    NoService {
        /// The name.
        name: String,
        /// The services that there are.
        services: Vec<String>,
    },
    /// The service does not take datagrams.
    #[error("service {name} is a {protocol} service: a payload makes a UDP datagram")]
    #[non_exhaustive]
    NotUdp {
        /// The service.
        name: String,
        /// Its protocol.
        protocol: Protocol,
    },
    /// The datagram cannot be made.
    #[error(transparent)]
    Frame(#[from] UdpFrameError),
}

/// The frame of a client's datagram with this payload to a service, from `source` or else from
/// [`default_source`].
///
/// # Errors
/// There is no such service, it is not for UDP, or the datagram cannot be made.
pub fn payload_frame(
    spec: &Spec,
    service: &str,
    source: Option<SocketAddr>,
    payload: &[u8],
) -> Result<Vec<u8>, PayloadError> {
    let found = spec
        .service(service)
        .ok_or_else(|| PayloadError::NoService {
            name: service.to_owned(),
            services: spec.services().iter().map(|s| s.name.clone()).collect(),
        })?;
    if found.protocol != Protocol::Udp {
        return Err(PayloadError::NotUdp {
            name: found.name.clone(),
            protocol: found.protocol,
        });
    }
    let source = source.unwrap_or_else(|| default_source(found.vip));
    let destination = SocketAddr::new(found.vip, found.port);
    Ok(udp_frame(source, destination, payload)?)
}
