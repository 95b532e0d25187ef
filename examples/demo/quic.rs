// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Real QUIC on both sides: quinn servers that echo and say which backend they are, and clients
//! that check every byte of the answers.
//!
//! All settings of quinn that touch the wire are at their defaults, the greased QUIC bit among them.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use guideway::quic::lb::{Config, ConfigId, ServerId};
use nix::sys::socket::{setsockopt, sockopt};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::RootCertStore;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::cid;
use super::net::Namespace;

/// The UDP port of the service.
pub(crate) const PORT: u16 = 443;

/// The name in the certificate.
pub(crate) const NAME: &str = "service.example";

/// Longest message either side accepts.
const MESSAGE_BYTES: usize = 16 * 1024;

/// The server ID of backend `number`, below 256, in connection IDs of this form.
pub(crate) fn server_id(config: &Config, number: u32) -> ServerId {
    let mut bytes = vec![0xc4; config.server_id_len()];
    if let Some(last) = bytes.last_mut() {
        *last = number as u8;
    }
    ServerId::new(&bytes).expect("a configuration has legal lengths")
}

/// The QUIC-LB configuration that the servers and the specification share.
pub(crate) fn lb_config() -> Config {
    let id = ConfigId::new(0).expect("0 is one of the seven configuration IDs");
    Config::new(id, 2, 5).expect("2 and 5 bytes are legal lengths")
}

/// A certificate that clients trust, and the TLS sessions that all backends share.
#[derive(Clone)]
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    server: Arc<QuicServerConfig>,
}

impl Identity {
    pub(crate) fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])
            .expect("a self-signed certificate needs nothing that can be missing");
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .expect("the certificate and its key belong together");
        tls.max_early_data_size = u32::MAX;
        let server = QuicServerConfig::try_from(tls)
            .expect("the provider has the cipher suite of QUIC's first packets");
        Identity {
            certificate,
            server: Arc::new(server),
        }
    }

    /// Settings of a server. Its Retry tokens are its own.
    fn server(&self) -> ServerConfig {
        ServerConfig::with_crypto(self.server.clone())
    }

    /// Settings of a client that has seen no server yet.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .expect("a certificate made by this program");
        ClientConfig::with_root_certificates(Arc::new(roots))
            .expect("the provider supports the defaults of TLS 1.3")
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What connection IDs of a server say.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ids {
    /// Nothing.
    Random,
    /// The backend, as [`lb_config`] says.
    Plain,
    /// The backend, by a configuration with a key.
    #[allow(dead_code)] // the demo's are in clear
    Encrypted(Config),
}

impl Ids {
    /// The form of connection IDs that name the backend.
    pub(crate) fn config(self) -> Option<Config> {
        match self {
            Ids::Random => None,
            Ids::Plain => Some(lb_config()),
            Ids::Encrypted(config) => Some(config),
        }
    }
}

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerOptions {
    /// What its connection IDs say.
    pub(crate) ids: Ids,
    /// Clients must prove their address with a Retry first.
    pub(crate) retry: bool,
}

/// The server process of one backend: a thread with a runtime of its own.
pub(crate) struct Server {
    accepted: Arc<AtomicU64>,
    kill: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Starts backend `number` in `namespace`, listening on port [`PORT`] of `addresses`.
    pub(crate) fn start(
        namespace: &Namespace,
        number: u32,
        addresses: &[IpAddr],
        identity: &Identity,
        options: ServerOptions,
    ) -> io::Result<Server> {
        let sockets = addresses
            .iter()
            .map(|&address| bind(namespace, SocketAddr::new(address, PORT)))
            .collect::<io::Result<Vec<_>>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let accepted = Arc::new(AtomicU64::new(0));
        let (kill, killed) = oneshot::channel();
        let (counter, identity) = (accepted.clone(), identity.clone());
        let thread = thread::Builder::new()
            .name(format!("backend-{number}"))
            .spawn(move || {
                runtime.block_on(async {
                    for socket in sockets {
                        let endpoint = endpoint(number, socket, &identity, options);
                        tokio::spawn(serve(endpoint, number, options.retry, counter.clone()));
                    }
                    // Either sent or dropped: both mean the end.
                    let _ = killed.await;
                });
                // Dropping the runtime drops every task where it stands: no connection says
                // good-bye, as with a process that was killed.
            })?;
        Ok(Server {
            accepted,
            kill: Some(kill),
            thread: Some(thread),
        })
    }

    /// Connections that reached this backend and completed their handshake.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Ends it as `kill -9` would: nobody is told.
    pub(crate) fn kill(&mut self) {
        self.kill.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the server was already printed by its thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn endpoint(
    number: u32,
    socket: UdpSocket,
    identity: &Identity,
    options: ServerOptions,
) -> Endpoint {
    let mut config = EndpointConfig::default();
    if let Some(ids) = options.ids.config() {
        cid::name_backend(&mut config, ids, server_id(&ids, number));
    }
    Endpoint::new(
        config,
        Some(identity.server()),
        socket,
        Arc::new(TokioRuntime),
    )
    .expect("a bound socket and a running runtime make an endpoint")
}

async fn serve(endpoint: Endpoint, number: u32, retry: bool, accepted: Arc<AtomicU64>) {
    while let Some(incoming) = endpoint.accept().await {
        if retry && !incoming.remote_address_validated() {
            // Fails only for an address that is validated already.
            let _ = incoming.retry();
            continue;
        }
        let accepted = accepted.clone();
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                accepted.fetch_add(1, Ordering::Relaxed);
                // The connection ends when the client closes it or falls silent.
                let _ = echo_streams(&connection, number).await;
            }
        });
    }
}

async fn echo_streams(
    connection: &Connection,
    number: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        let (mut answer, mut request) = connection.accept_bi().await?;
        let message = request.read_to_end(MESSAGE_BYTES).await?;
        answer.write_all(&number.to_be_bytes()).await?;
        answer.write_all(&message).await?;
        answer.finish()?;
    }
}

/// Why a connection counts as broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Broken {
    /// The first answer did not come in time, or the handshake failed.
    NotOpened(String),
    /// An echo was not answered in time.
    NoAnswer,
    /// The other side, or the stack, closed it.
    Closed(String),
    /// The answer has other bytes than the question.
    WrongBytes,
    /// The answer comes from another backend than the first one.
    OtherBackend { first: u32, now: u32 },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::NotOpened(reason) => write!(f, "not opened: {reason}"),
            Broken::NoAnswer => f.write_str("no answer in time"),
            Broken::Closed(reason) => write!(f, "closed: {reason}"),
            Broken::WrongBytes => f.write_str("wrong bytes in the answer"),
            Broken::OtherBackend { first, now } => {
                write!(f, "backend {now} answers for backend {first}")
            }
        }
    }
}

/// One client with one connection, on a socket of its own.
pub(crate) struct Client {
    endpoint: Endpoint,
    connection: Connection,
    local: Mutex<SocketAddr>,
    /// The backend that answered first.
    pub(crate) backend: u32,
    seed: u64,
    asked: AtomicU64,
    answered: AtomicU64,
    deadline: Duration,
}

impl Client {
    /// Connects from `local`, a new port there, to `remote` and has one echo answered.
    pub(crate) async fn connect(
        namespace: &Namespace,
        identity: &Identity,
        local: IpAddr,
        remote: SocketAddr,
        deadline: Duration,
    ) -> io::Result<Result<Client, Broken>> {
        let socket = bind(namespace, SocketAddr::new(local, 0))?;
        let address = socket.local_addr()?;
        let mut endpoint = Endpoint::new(
            EndpointConfig::default(),
            None,
            socket,
            Arc::new(TokioRuntime),
        )?;
        endpoint.set_default_client_config(identity.client());
        Ok(Client::over(endpoint, address, remote, deadline).await)
    }

    /// A second connection from the same address and port.
    pub(crate) async fn another(&self) -> Result<Client, Broken> {
        Client::over(
            self.endpoint.clone(),
            self.local(),
            self.connection.remote_address(),
            self.deadline,
        )
        .await
    }

    async fn over(
        endpoint: Endpoint,
        local: SocketAddr,
        remote: SocketAddr,
        deadline: Duration,
    ) -> Result<Client, Broken> {
        static SEED: AtomicU64 = AtomicU64::new(1);
        let not_opened = |reason: &dyn fmt::Display| Broken::NotOpened(reason.to_string());
        let connecting = endpoint
            .connect(remote, NAME)
            .map_err(|error| not_opened(&error))?;
        let connection = timeout(deadline, connecting)
            .await
            .map_err(|_| not_opened(&"no handshake in time"))?
            .map_err(|error| not_opened(&error))?;
        let mut client = Client {
            endpoint,
            connection,
            local: Mutex::new(local),
            backend: 0,
            seed: SEED.fetch_add(1, Ordering::Relaxed) << 32,
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            deadline,
        };
        // A completed handshake proves nothing: the client's last flight may go astray.
        client.backend = match client.ask().await {
            Ok(backend) => backend,
            Err(Broken::NoAnswer) => return Err(not_opened(&"no first answer in time")),
            Err(broken) => return Err(broken),
        };
        Ok(client)
    }

    /// One question and its answer, by the same backend as ever.
    pub(crate) async fn echo(&self) -> Result<(), Broken> {
        let now = self.ask().await?;
        if now == self.backend {
            return Ok(());
        }
        Err(Broken::OtherBackend {
            first: self.backend,
            now,
        })
    }

    async fn ask(&self) -> Result<u32, Broken> {
        let sent = message(self.seed + self.asked.fetch_add(1, Ordering::Relaxed));
        let exchange = async {
            let (mut request, mut answer) = self.connection.open_bi().await.map_err(closed)?;
            request.write_all(&sent).await.map_err(closed)?;
            request.finish().map_err(closed)?;
            answer.read_to_end(MESSAGE_BYTES).await.map_err(closed)
        };
        let answer = timeout(self.deadline, exchange)
            .await
            .map_err(|_| Broken::NoAnswer)??;
        match answer.split_first_chunk() {
            Some((backend, echoed)) if echoed == sent => {
                self.answered.fetch_add(1, Ordering::Relaxed);
                Ok(u32::from_be_bytes(*backend))
            }
            _ => Err(Broken::WrongBytes),
        }
    }

    /// Questions answered so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Tells the server that this is the end.
    pub(crate) fn close(&self) {
        self.connection.close(0_u32.into(), b"done");
    }

    /// The address that it sends from.
    pub(crate) fn local(&self) -> SocketAddr {
        *self.local.lock().expect("no holder of the lock panics")
    }

    /// Goes on from a new port of `local`, as after a change of network. The connection also takes
    /// a new connection ID then, as the protocol demands.
    pub(crate) fn migrate(&self, namespace: &Namespace, local: IpAddr) -> io::Result<()> {
        let socket = bind(namespace, SocketAddr::new(local, 0))?;
        *self.local.lock().expect("no holder of the lock panics") = socket.local_addr()?;
        self.endpoint.rebind(socket)
    }
}

fn closed(error: impl fmt::Display) -> Broken {
    Broken::Closed(error.to_string())
}

/// A UDP socket in `namespace`, with room for bursts while the machine is busy.
pub(crate) fn bind(namespace: &Namespace, address: SocketAddr) -> io::Result<UdpSocket> {
    namespace.run(|| {
        let socket = UdpSocket::bind(address)?;
        setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20))?;
        Ok(socket)
    })?
}

/// Bytes that no other message has, of a length between 16 and 1,500 or so: one packet or two.
fn message(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let words = 2 + next() % 186;
    (0..words).flat_map(|_| next().to_be_bytes()).collect()
}
