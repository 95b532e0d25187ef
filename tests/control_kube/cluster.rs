// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An API server of one kind of object, on loopback, that can be told to misbehave.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

pub(crate) const NAMESPACE: &str = "galactic";
const PATH: &str = "/apis/network.datumapis.com/v1alpha1/namespaces/galactic/egressshards";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    List,
    Watch,
}

/// What a request gets.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A status, header lines and a body.
    Status(u16, &'static str, String),
    /// This text with status 200, as if it were all.
    Text(String),
    /// What is right, so much later.
    Late(Duration),
    /// Nothing, as long as the client waits and the server is not told to end that.
    Silence,
    /// A watch that begins with this text, and then nothing.
    Unfinished(String),
    /// A watch that is accepted and ended at once.
    Hangup,
    /// A watch that goes on but never ends by itself.
    Endless,
}

impl Answer {
    /// A refusal as the server writes it.
    pub(crate) fn refusal(code: u16, message: &str) -> Self {
        Self::Status(code, "", status(code, message).to_string())
    }
}

pub(crate) fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code})
}

/// What open watches do next.
#[derive(Debug, Clone)]
pub(crate) enum Order {
    /// Send this text.
    Send(String),
    /// End as a server does that is shut down.
    End,
    /// Break off.
    Cut,
}

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) verb: Verb,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) at: Instant,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
    /// Type, version and object of each change.
    history: Vec<(&'static str, u64, Value)>,
    /// Versions below are forgotten.
    forgotten: u64,
    always: BTreeMap<Verb, Answer>,
    once: BTreeMap<Verb, VecDeque<Answer>>,
    orders: Vec<Order>,
    asked: Vec<Asked>,
    open: Vec<TcpStream>,
    watches: usize,
    streams_lists: bool,
    /// How often silence was ended.
    silenced: u64,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the server fails")
    }
}

/// The server. Dropping it closes all connections.
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
    kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) fn start(name: &str) -> Self {
        let mut cluster = Self {
            shared: Arc::default(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            acceptor: None,
            kubeconfig: PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
                .join(format!("kube-{name}.json")),
        };
        cluster.shared.lock().version = 100;
        cluster.listen();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{}", cluster.address)}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(&cluster.kubeconfig, config.to_string()).expect("a file");
        cluster
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// Listens, on the port of the last time if there was one.
    pub(crate) fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).expect("a port");
        self.address = listener.local_addr().expect("an address");
        self.shared.lock().stopping = false;
        let shared = Arc::clone(&self.shared);
        self.acceptor = Some(thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let mut state = shared.lock();
                if state.stopping {
                    return;
                }
                let copy = stream.try_clone().expect("a descriptor");
                state.open.push(copy);
                drop(state);
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _ = serve(&shared, &stream);
                    // The copy would keep it open.
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        }));
    }

    /// Stops listening and breaks off all connections.
    pub(crate) fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.change(|state| {
            state.stopping = true;
            for stream in state.open.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        acceptor.join().expect("the acceptor");
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.shared.lock());
        self.shared.changed.notify_all();
        changed
    }

    pub(crate) fn apply(&self, name: &str, mut object: Value) {
        self.change(|state| {
            state.version += 1;
            object["apiVersion"] = json!("network.datumapis.com/v1alpha1");
            object["kind"] = json!("EgressShard");
            object["metadata"]["name"] = json!(name);
            object["metadata"]["namespace"] = json!(NAMESPACE);
            object["metadata"]["resourceVersion"] = json!(state.version.to_string());
            let before = state.objects.insert(name.to_owned(), object.clone());
            let kind = if before.is_some() {
                "MODIFIED"
            } else {
                "ADDED"
            };
            state.history.push((kind, state.version, object));
        });
    }

    pub(crate) fn delete(&self, name: &str) {
        self.change(|state| {
            let mut object = state.objects.remove(name).expect("an object of that name");
            state.version += 1;
            object["metadata"]["resourceVersion"] = json!(state.version.to_string());
            state.history.push(("DELETED", state.version, object));
        });
    }

    /// Forgets what happened so far, as compaction does.
    pub(crate) fn forget(&self) {
        self.change(|state| {
            state.version += 1;
            state.forgotten = state.version;
        });
    }

    /// Moves the version on without any change of an object, and returns it.
    pub(crate) fn advance(&self) -> u64 {
        self.change(|state| {
            state.version += 1000;
            state.version
        })
    }

    pub(crate) fn streams_lists(&self) {
        self.change(|state| state.streams_lists = true);
    }

    pub(crate) fn once(&self, verb: Verb, answer: Answer) {
        self.change(|state| state.once.entry(verb).or_default().push_back(answer));
    }

    pub(crate) fn always(&self, verb: Verb, answer: Answer) {
        self.change(|state| state.always.insert(verb, answer));
    }

    pub(crate) fn behave(&self, verb: Verb) {
        self.change(|state| state.always.remove(&verb));
    }

    /// An order to the watches that are open.
    pub(crate) fn order(&self, order: Order) {
        self.change(|state| state.orders.push(order));
    }

    pub(crate) fn bookmark(&self, version: u64) {
        let object = json!({"kind": "EgressShard", "apiVersion": "network.datumapis.com/v1alpha1",
            "metadata": {"resourceVersion": version.to_string()}});
        self.order(Order::Send(event("BOOKMARK", &object)));
    }

    /// Breaks off what waits in silence.
    pub(crate) fn stop_silence(&self) {
        self.change(|state| state.silenced += 1);
    }

    pub(crate) fn watches(&self) -> usize {
        self.shared.lock().watches
    }

    pub(crate) fn asked(&self, verb: Verb) -> Vec<Asked> {
        let state = self.shared.lock();
        let asked = state.asked.iter().filter(|asked| asked.verb == verb);
        asked.cloned().collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

pub(crate) fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

/// One connection, as long as both sides keep it.
fn serve(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut out = stream.try_clone()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut header = String::from("-");
        while !header.trim().is_empty() {
            header.clear();
            reader.read_line(&mut header)?;
        }
        let target = line.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !line.starts_with("GET ") || path != PATH {
            let refused = Answer::refusal(403, &format!("a test watches for this: {line}"));
            respond(&mut out, &refused)?;
            continue;
        }
        let query: BTreeMap<_, _> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let verb = match query.get("watch") {
            Some(_) => Verb::Watch,
            None => Verb::List,
        };
        let answer = {
            let mut state = shared.lock();
            state.asked.push(Asked {
                verb,
                query: query.clone(),
                at: Instant::now(),
            });
            let once = state.once.get_mut(&verb).and_then(VecDeque::pop_front);
            once.or_else(|| state.always.get(&verb).cloned())
        };
        shared.changed.notify_all();
        match answer {
            Some(Answer::Silence) => return silence(shared, &out),
            Some(Answer::Unfinished(text)) => {
                begin(&mut out)?;
                chunk(&mut out, &text)?;
                return silence(shared, &out);
            }
            Some(Answer::Late(wait)) => thread::sleep(wait),
            Some(Answer::Hangup) => {
                begin(&mut out)?;
                end(&mut out)?;
                continue;
            }
            Some(answer @ (Answer::Status(..) | Answer::Text(_))) => {
                respond(&mut out, &answer)?;
                continue;
            }
            None | Some(Answer::Endless) => {}
        }
        match verb {
            Verb::List => list(shared, &query, &mut out)?,
            Verb::Watch => {
                let endless = matches!(answer, Some(Answer::Endless));
                shared.lock().watches += 1;
                let ended = watch(shared, &query, endless, &mut out);
                shared.lock().watches -= 1;
                ended?;
            }
        }
    }
}

/// Says nothing until the other side gives up, or one of the two is told to end.
fn silence(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    let mut state = shared.lock();
    let silenced = state.silenced;
    while state.silenced == silenced && !state.stopping && !gone(stream) {
        let woken = shared
            .changed
            .wait_timeout(state, Duration::from_millis(50));
        state = woken.expect("no thread of the server fails").0;
    }
    Err(io::ErrorKind::ConnectionAborted.into())
}

fn respond(out: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    let (code, headers, text) = match answer {
        Answer::Status(code, headers, text) => (*code, *headers, text.as_str()),
        Answer::Text(text) => (200, "", text.as_str()),
        other => panic!("{other:?} is no answer"),
    };
    let length = text.len();
    write!(
        out,
        "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{text}"
    )
}

fn number(query: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    query.get(name)?.parse().ok()
}

/// A page; the token of the next one is the number of objects before it and the version.
fn list(shared: &Shared, query: &BTreeMap<String, String>, out: &mut TcpStream) -> io::Result<()> {
    let state = shared.lock();
    let token = query.get("continue").map(|token| {
        let (skip, version) = token.split_once('-').expect("a token of ours");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        (number(skip) as usize, number(version))
    });
    let (skip, version) = token.unwrap_or((0, state.version));
    if version < state.forgotten {
        return respond(out, &Answer::refusal(410, "the token is too old"));
    }
    let limit = number(query, "limit").map_or(usize::MAX, |limit| limit as usize);
    let items: Vec<_> = state
        .objects
        .values()
        .skip(skip)
        .take(limit)
        .cloned()
        .collect();
    let reached = skip + items.len();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if reached < state.objects.len() {
        metadata["continue"] = json!(format!("{reached}-{version}"));
    }
    drop(state);
    let list = json!({"kind": "EgressShardList", "apiVersion": "network.datumapis.com/v1alpha1",
        "metadata": metadata, "items": items});
    respond(out, &Answer::Text(list.to_string()))
}

fn begin(out: &mut TcpStream) -> io::Result<()> {
    out.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
}

fn chunk(out: &mut TcpStream, text: &str) -> io::Result<()> {
    write!(out, "{:x}\r\n{text}\r\n", text.len())
}

fn end(out: &mut TcpStream) -> io::Result<()> {
    out.write_all(b"0\r\n\r\n")
}

/// A watch to its end; an error if the connection ends with it.
fn watch(
    shared: &Shared,
    query: &BTreeMap<String, String>,
    endless: bool,
    out: &mut TcpStream,
) -> io::Result<()> {
    let mut state = shared.lock();
    let mut at = number(query, "resourceVersion").unwrap_or(0);
    let initial = query
        .get("sendInitialEvents")
        .is_some_and(|value| value == "true");
    if initial && !state.streams_lists {
        drop(state);
        return respond(
            out,
            &Answer::refusal(422, "sendInitialEvents is forbidden for watch"),
        );
    }
    begin(out)?;
    if initial {
        at = state.version;
        for object in state.objects.values() {
            chunk(out, &event("ADDED", object))?;
        }
        let end = json!({"metadata": {"resourceVersion": at.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"}}});
        chunk(out, &event("BOOKMARK", &end))?;
    } else if at < state.forgotten {
        chunk(
            out,
            &event("ERROR", &status(410, "too old resource version")),
        )?;
        return end(out);
    }
    let seconds = number(query, "timeoutSeconds").expect("a time");
    let due = Instant::now() + Duration::from_secs(seconds);
    let mut obeyed = state.orders.len();
    loop {
        let news: Vec<_> = state
            .history
            .iter()
            .filter(|(_, version, _)| *version > at)
            .collect();
        for (kind, version, object) in news {
            chunk(out, &event(kind, object))?;
            at = *version;
        }
        while let Some(order) = state.orders.get(obeyed) {
            obeyed += 1;
            match order {
                Order::Send(text) => chunk(out, text)?,
                Order::End => return end(out),
                Order::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() && !endless {
            return end(out);
        }
        if state.stopping || gone(out) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let wait = left.clamp(Duration::from_millis(1), Duration::from_millis(50));
        let woken = shared.changed.wait_timeout(state, wait);
        state = woken.expect("no thread of the server fails").0;
    }
}

/// Whether the other side has closed the connection.
fn gone(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let gone = stream.peek(&mut [0]).is_ok_and(|bytes| bytes == 0);
    stream.set_nonblocking(false).expect("a socket");
    gone
}
