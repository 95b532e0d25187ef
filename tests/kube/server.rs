// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! etcd and kube-apiserver on loopback, in a directory of their own.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};
use tokio::runtime::Runtime;

/// What the shipped manifests are posted to.
const MANIFESTS: [&str; 2] = [
    include_str!("../../examples/egressd/kube/crd.yaml"),
    include_str!("../../examples/egressd/kube/role.yaml"),
];

/// A process that ends with the thread that started it.
struct Process(Child);

impl Process {
    fn start(program: &Path, arguments: &[String], log: &Path) -> Self {
        let log = File::create(log).expect("a log");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        // SAFETY: one system call, which is safe between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
        }
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{}: {error}", program.display())))
    }

    /// Asks it to end, and insists after a while.
    fn stop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a process ID"));
        let _ = kill(pid, Signal::SIGTERM);
        let asked = Instant::now();
        while self.0.try_wait().expect("a child").is_none() {
            if asked.elapsed() > Duration::from_secs(10) {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// An API server with the shipped definition and role.
pub(crate) struct Server {
    // Ends before the store does.
    api: Option<Process>,
    _store: Process,
    directory: PathBuf,
    store_port: u16,
    port: u16,
    runtime: Runtime,
    client: Option<Client>,
}

impl Server {
    pub(crate) fn start(name: &str) -> Self {
        let directory =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kube-server-{name}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        let key = rcgen::KeyPair::generate().expect("a key");
        fs::write(directory.join("signing.pem"), key.serialize_pem()).expect("written");
        fs::write(directory.join("public.pem"), key.public_key_pem()).expect("written");
        // What the role is bound to, and who may do anything.
        let tokens = "all,admin,1,system:masters\n\
                      some,system:serviceaccount:guideway:egressd,2\n";
        fs::write(directory.join("tokens.csv"), tokens).expect("written");

        let (store_port, peer_port) = (port(), port());
        let client_url = format!("http://127.0.0.1:{store_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let arguments = [
            format!("--data-dir={}", directory.join("etcd").display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
        ];
        let log = directory.join("etcd.log");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let mut server = Self {
            api: None,
            _store: Process::start(Path::new("etcd"), &arguments, &log),
            store_port,
            port: port(),
            runtime: runtime.expect("a runtime"),
            client: None,
            directory,
        };
        server.start_api();
        for document in MANIFESTS.iter().flat_map(|text| text.split("\n---\n")) {
            server.post_yaml(document, "");
        }
        server.within("the definition is served", |server| {
            server.ask("GET", crate::SHARDS, None).0 == 200
        });
        server
    }

    /// Starts the API server, on the port of the last time, and waits until it is ready.
    pub(crate) fn start_api(&mut self) {
        self.start_api_at(self.port);
    }

    /// The same on another port, where nobody but this test finds it.
    pub(crate) fn start_hidden(&mut self) {
        self.start_api_at(port());
    }

    fn start_api_at(&mut self, port: u16) {
        let binary =
            std::env::var("GUIDEWAY_KUBE_API").expect("make test-kube sets GUIDEWAY_KUBE_API");
        let binary = Path::new(&binary).join("kube-apiserver");
        let inside = |name: &str| self.directory.join(name).display().to_string();
        let arguments = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.store_port),
            "--etcd-compaction-interval=0".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--cert-dir={}", inside("certificates")),
            format!("--token-auth-file={}", inside("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--service-account-key-file={}", inside("public.pem")),
            format!(
                "--service-account-signing-key-file={}",
                inside("signing.pem")
            ),
            "--service-account-issuer=https://guideway.invalid".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        let log = self.directory.join("api.log");
        self.api = Some(Process::start(&binary, &arguments, &log));
        self.within("there is a certificate", |server| {
            server.certificate().exists()
        });
        self.write_kubeconfig(port);
        self.client = None;
        self.within("it is ready", |server| {
            if server.client.is_none() {
                server.client = server.connect();
            }
            server.client.is_some() && server.ask("GET", "/readyz", None).0 == 200
        });
        // What sources read has the usual port.
        self.write_kubeconfig(self.port);
    }

    pub(crate) fn stop_api(&mut self) {
        self.api.take().expect("a server that runs").stop();
        self.client = None;
    }

    fn certificate(&self) -> PathBuf {
        self.directory.join("certificates/apiserver.crt")
    }

    /// With the contexts `admin` and `egressd`.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig.json")
    }

    fn write_kubeconfig(&self, port: u16) {
        let user = |name: &str, token: &str| json!({"name": name, "user": {"token": token}});
        let context =
            |name: &str| json!({"name": name, "context": {"cluster": "test", "user": name}});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "admin",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": self.certificate(),
            }}],
            "users": [user("admin", "all"), user("egressd", "some")],
            "contexts": [context("admin"), context("egressd")],
        });
        fs::write(self.kubeconfig(), config.to_string()).expect("written");
    }

    fn connect(&self) -> Option<Client> {
        self.connect_as("admin")
    }

    fn connect_as(&self, user: &str) -> Option<Client> {
        self.runtime.block_on(async {
            let options = KubeConfigOptions {
                context: Some(user.to_owned()),
                ..KubeConfigOptions::default()
            };
            let file = Kubeconfig::read_from(self.kubeconfig()).ok()?;
            let mut config = Config::from_custom_kubeconfig(file, &options).await.ok()?;
            config.default_retry = false;
            Client::try_from(config).ok()
        })
    }

    /// The status and body of an answer; status 0 if there is none.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let client = self.client.as_ref().expect("a client");
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(ToString::to_string).unwrap_or_default();
        self.send(client, method, path, kind, body)
    }

    /// The same as another user.
    pub(crate) fn ask_as(&self, user: &str, method: &str, path: &str) -> u16 {
        let client = self.connect_as(user).expect("a client");
        self.send(&client, method, path, "application/json", String::new())
            .0
    }

    fn send(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        kind: &str,
        body: String,
    ) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", kind);
        let request = request
            .body(Body::from(body.into_bytes()))
            .expect("a request");
        self.runtime.block_on(async {
            let Ok(answer) = client.send(request).await else {
                return (0, Value::Null);
            };
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            (code, serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    /// A request that must succeed.
    #[track_caller]
    pub(crate) fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, Some(body));
        assert!(
            (200..300).contains(&code),
            "{method} {path}: {code} {answer}"
        );
        answer
    }

    /// Creates what one document of a manifest describes.
    #[track_caller]
    pub(crate) fn post_yaml(&self, document: &str, query: &str) {
        let field = |name: &str| {
            let line = document.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} is missing in {document}"))
                .trim()
        };
        let plural = field("kind:").to_lowercase() + "s";
        let version = field("apiVersion:");
        let root = if version.contains('/') { "apis" } else { "api" };
        let inside = document.lines().any(|line| line == "  namespace: guideway");
        let place = if inside { "/namespaces/guideway" } else { "" };
        let path = format!("/{root}/{version}{place}/{plural}{query}");
        let client = self.client.as_ref().expect("a client");
        let document = document.to_owned();
        let (code, answer) = self.send(client, "POST", &path, "application/yaml", document);
        assert_eq!(code, 201, "POST {path}: {answer}");
    }

    #[track_caller]
    pub(crate) fn within(&mut self, what: &str, mut so: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            let ended = self
                .api
                .as_mut()
                .is_some_and(|api| api.0.try_wait().is_ok_and(|code| code.is_some()));
            if ended || start.elapsed() > Duration::from_secs(180) {
                let log = fs::read_to_string(self.directory.join("api.log")).unwrap_or_default();
                panic!("waited in vain until {what}:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Makes the store forget all versions but the newest.
    pub(crate) fn compact(&self) {
        let newest = self.ask_store("range", &json!({"key": "AA=="}));
        let revision = newest["header"]["revision"]
            .as_str()
            .expect("a revision")
            .to_owned();
        let answer = self.ask_store(
            "compaction",
            &json!({"revision": revision, "physical": true}),
        );
        assert!(answer["header"].is_object(), "{answer}");
    }

    fn ask_store(&self, call: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.store_port)).expect("the store");
        let body = body.to_string();
        write!(
            stream,
            "POST /v3/kv/{call} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}
