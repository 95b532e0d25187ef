// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A node with an uplink, tenants and manifests, and the daemon on it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use guideway::egress::Egress;
use guideway::group::{GroupId, MemberState, Snapshot};
use guideway::kernel::run::ClassifierRun;
use guideway::kernel::statedir::{Section, StateRoot};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use serde_json::{json, Value};

use crate::netns::{ifindex, ip, isolated, veth, within, BPFFS};
use crate::tool::{binary, Ran};
use crate::udp6::frame;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the daemon is told in every test, and the state's size.
const FLAGS: [&str; 7] = [
    "--uplinks=uplink0",
    "--node-sid=2001:db8:ff01:1:e000::",
    "--pins=4096",
    "--mode=hashed",
    "--metrics=off",
    "--debounce=20ms",
    "--down-hold=0",
];

/// A node: `tap0` and `tap1` for tenants, `uplink0` to shards 0x10 to 0x1f, and manifests.
pub(crate) struct Node {
    pub(crate) files: PathBuf,
}

/// Runs a test on a node of its own, or skips it loudly.
pub(crate) fn on_node(name: &'static str, test: impl FnOnce(&Node) + Send + 'static) {
    isolated(name, move || {
        let files =
            std::env::temp_dir().join(format!("guideway-run-{}-{name}", std::process::id()));
        std::fs::create_dir_all(files.join("shards")).expect("a directory");
        for (near, far) in [("tap0", "vm0"), ("tap1", "vm1"), ("uplink0", "peer0")] {
            veth(near, far);
        }
        ip(&[
            "addr",
            "add",
            "2001:db8:ff::1/64",
            "dev",
            "uplink0",
            "nodad",
        ]);
        for number in 0x10..0x20_u16 {
            let node = Node::next_hop(number);
            let mac = format!("02:00:00:00:09:{number:02x}");
            ip(&[
                "neigh",
                "add",
                &node,
                "lladdr",
                &mac,
                "dev",
                "uplink0",
                "nud",
                "permanent",
            ]);
            Node::route(number);
        }
        let node = Node { files };
        test(&node);
    });
}

impl Drop for Node {
    fn drop(&mut self) {
        // A test that failed has more to say than a directory that stays.
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

/// A shard's SID.
pub(crate) fn sid(number: u16) -> String {
    format!("2001:db8:ff09:{number:x}:e000::")
}

/// The manifest of a shard that translates IPv6.
pub(crate) fn shard(number: u16) -> Value {
    json!({
        "apiVersion": "network.datumapis.com/v1alpha1",
        "kind": "EgressShard",
        "metadata": {"name": format!("s{number:x}"), "namespace": "edge"},
        "status": {
            "shardSID": sid(number),
            "shardAddressIPv6": "2001:db8:cccc::1",
            "conditions": [
                {"type": "Programmed", "status": "True"}, {"type": "Ready", "status": "True"},
            ],
        },
    })
}

/// The same of one that drains.
pub(crate) fn draining(number: u16) -> Value {
    let mut shard = shard(number);
    shard["spec"] = json!({"drain": true});
    shard
}

impl Node {
    /// Where the snapshot of the only group is while it is about to be published.
    pub(crate) fn next_snapshot() -> PathBuf {
        let state = StateRoot::new(BPFFS).egress();
        state.pin(Section::Generations, "g0-next")
    }

    fn next_hop(number: u16) -> String {
        format!("2001:db8:ff::{number:x}")
    }

    fn locator(number: u16) -> String {
        format!("2001:db8:ff09:{number:x}::/64")
    }

    /// Lets a shard be reached.
    pub(crate) fn route(number: u16) {
        ip(&[
            "route",
            "add",
            &Self::locator(number),
            "via",
            &Self::next_hop(number),
        ]);
    }

    /// Lets it be reached no more.
    pub(crate) fn unroute(number: u16) {
        ip(&["route", "del", &Self::locator(number)]);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// Writes a manifest as writers should.
    pub(crate) fn manifest(&self, name: &str, text: impl ToString) {
        let next = self.path("next");
        std::fs::write(&next, text.to_string()).expect("written");
        std::fs::rename(next, self.path("shards").join(name)).expect("renamed");
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path("shards").join(name)).expect("removed");
    }

    fn source(&self) -> String {
        format!("--source=dir:{}", self.path("shards").display())
    }

    /// The flags that are the same in every run but for those that `more` says otherwise, and `more`.
    /// What begins with `no:` is left out without another.
    pub(crate) fn flags(&self, more: &[&str]) -> Vec<String> {
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let said = |flag: &&str| name(flag.strip_prefix("no:").unwrap_or(flag));
        let said: Vec<_> = more.iter().map(said).collect();
        let source = self.source();
        let own = FLAGS.iter().copied().chain([source.as_str()]);
        let own = own.filter(|flag| !said.contains(&name(flag)));
        let more = more.iter().copied().filter(|flag| !flag.starts_with("no:"));
        own.chain(more).map(str::to_owned).collect()
    }

    /// Runs a verb of the tool to its end, with the flags of the daemon.
    pub(crate) fn ran(&self, verb: &[&str], more: &[&str]) -> Ran {
        let flags = self.flags(more);
        let arguments: Vec<_> = verb
            .iter()
            .copied()
            .chain(flags.iter().map(String::as_str))
            .collect();
        Ran::with("egressd", &arguments)
    }

    /// One sweep.
    pub(crate) fn once(&self, more: &[&str]) -> Ran {
        self.ran(&["-o", "json", "run", "--once"], more)
    }

    /// Starts the daemon.
    pub(crate) fn start(&self, more: &[&str]) -> Daemon {
        Daemon::start(self, more, |_| {})
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn ready(&self, more: &[&str]) -> Daemon {
        let daemon = self.start(more);
        daemon.says("ready");
        daemon
    }

    /// Gives `tap0` to tenant 42.
    pub(crate) fn attach(&self) {
        self.ran(&["attach", "tap0", "--table=42", "--argument=0x2a5"], &[])
            .exits(0);
    }

    /// The members of the only group that act so, by number.
    pub(crate) fn members(state: MemberState) -> BTreeSet<u16> {
        let members = group().members;
        let of_state = members.iter().filter(|member| member.state() == state);
        of_state.map(|member| member.sid.node_id()).collect()
    }

    /// Waits until the active members are these.
    #[track_caller]
    pub(crate) fn has_active(&self, wanted: &[u16], daemon: &Daemon) {
        let wanted: BTreeSet<u16> = wanted.iter().copied().collect();
        let is_so = || open_group().is_some() && Self::members(MemberState::Active) == wanted;
        assert!(
            within(PATIENCE, is_so),
            "{:?}\n{}",
            open_group(),
            daemon.log()
        );
    }
}

pub(crate) fn egress() -> Egress {
    Egress::open(&StateRoot::new(BPFFS).egress()).expect("an instance")
}

/// The group of NAT66, if it was ever opened.
pub(crate) fn open_group() -> Option<Snapshot> {
    let egress = Egress::open(&StateRoot::new(BPFFS).egress()).ok()?;
    egress.group(GroupId::new(0)?).expect("readable")
}

pub(crate) fn group() -> Snapshot {
    open_group().expect("a group")
}

/// The shard that the program sends a packet of an address of tenant 42 to; none if it drops it.
pub(crate) fn send(host: u16) -> Option<u16> {
    send_to(host, "2001:db8:ffff::1")
}

/// The same of a packet to this destination.
pub(crate) fn send_to(host: u16, destination: &str) -> Option<u16> {
    let frame = frame(&format!("2001:db8:aaaa::{host:x}"), destination);
    let run = ClassifierRun {
        frame: &frame,
        ifindex: ifindex("tap0"),
        gso_bytes: 0,
        mark: 0,
        priority: 0,
    };
    let done = run.run(egress().program()).expect("a run");
    const REDIRECT: i32 = 7;
    // The fourth word of the outer destination address.
    (done.action == REDIRECT).then(|| u16::from_be_bytes([done.frame[44], done.frame[45]]))
}

/// Has so many addresses send a packet; where each went.
pub(crate) fn send_from(hosts: std::ops::Range<u16>) -> Vec<Option<u16>> {
    hosts.map(send).collect()
}

/// The shards among them.
pub(crate) fn shards(sent: &[Option<u16>]) -> BTreeSet<u16> {
    sent.iter().copied().flatten().collect()
}

/// The daemon; it ends with this.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it after `change` of the command.
    pub(crate) fn start(node: &Node, more: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = node.path(&format!("log-{number}"));
        let file = File::create(&log).expect("a log");
        let mut command = Command::new(binary("egressd"));
        command.args(["-o", "json", "run"]).args(node.flags(more));
        command
            .stdout(file.try_clone().expect("a handle"))
            .stderr(file);
        change(&mut command);
        let child = command.spawn().expect("the tool runs");
        Self { child, log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// What it has said so far; a line that is not whole yet is not there.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let log = self.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        whole.lines().map(line).collect()
    }

    /// Messages of one kind of event.
    pub(crate) fn messages(&self, event: &str) -> Vec<String> {
        let lines = self
            .lines()
            .into_iter()
            .filter(|line| line["event"] == event);
        lines
            .map(|line| line["message"].as_str().expect("text").to_owned())
            .collect()
    }

    /// Waits for an event; its first message.
    #[track_caller]
    pub(crate) fn says(&self, event: &str) -> String {
        let said = || !self.messages(event).is_empty();
        assert!(within(PATIENCE, said), "no {event}:\n{}", self.log());
        self.messages(event).remove(0)
    }

    /// Waits for a message with these words.
    #[track_caller]
    pub(crate) fn tells(&self, event: &str, words: &str) -> String {
        let find = || {
            self.messages(event)
                .into_iter()
                .find(|text| text.contains(words))
        };
        assert!(
            within(PATIENCE, || find().is_some()),
            "no {words:?}:\n{}",
            self.log()
        );
        find().expect("there")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("an id");
        kill(Pid::from_raw(id), signal).expect("it runs");
    }

    /// Waits for its end; the exit code, none if a signal ended it.
    pub(crate) fn end(mut self) -> Option<i32> {
        let mut status = None;
        let ended = within(PATIENCE, || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        assert!(ended, "it goes on:\n{}", self.log());
        status.expect("ended").code()
    }

    /// Waits for the end that it was told; the events of all that it said, in order.
    #[track_caller]
    pub(crate) fn events_until_it_ended(self) -> Vec<String> {
        let log = self.log.clone();
        self.stopped();
        let event = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["event"].as_str().expect("text").to_owned()
        };
        read(&log).lines().map(event).collect()
    }

    /// Tells it to end, and waits for that.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.signal(Signal::SIGTERM);
        self.stopped();
    }

    /// Halts all of its threads. What one asked the kernel for may go on to its end.
    pub(crate) fn halt(&self) {
        self.signal(Signal::SIGSTOP);
        let id = Pid::from_raw(i32::try_from(self.child.id()).expect("an id"));
        let status = waitpid(id, Some(WaitPidFlag::WUNTRACED)).expect("it runs");
        assert_eq!(status, WaitStatus::Stopped(id, Signal::SIGSTOP));
    }

    /// Waits for the end that it was told.
    #[track_caller]
    pub(crate) fn stopped(self) {
        let log = self.log.clone();
        assert_eq!(self.end(), Some(0), "{}", read(&log));
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(self) {
        self.signal(Signal::SIGKILL);
        assert_eq!(self.end(), None);
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Of a test that failed; it has ended otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers of the program's counters by name.
pub(crate) fn counter(name: &str) -> u64 {
    let status = Ran::with("egressd", &["-o", "json", "status"]);
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    let packets = &status["packets"];
    let all = [
        &packets["drops"],
        &packets["outcomes"],
        &packets["skips"],
        &status["selection"],
    ];
    let found = all.iter().find_map(|counts| counts[name].as_u64());
    found.unwrap_or_else(|| panic!("{name}: {status}"))
}
