// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tenants' node: a daemon, the manifests that it reads, and what the kernel has of it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway::egress::pins::Tick;
use guideway::egress::Egress;
use guideway::group::{GroupId, MemberState, Snapshot};
use guideway::kernel::statedir::StateRoot;
use serde_json::json;
use tokio::time::sleep;

use super::net::{argument, interface, Network};
use super::spec::{shard, sid, table, State};

/// Any error, to be shown.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the node counts for a shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gauge {
    /// Sent to it.
    pub(crate) packets: u64,
    /// Addresses bound to it.
    pub(crate) pins: u64,
}

/// The node, with its daemon while there is one.
pub(crate) struct Node {
    network: Arc<Network>,
    files: PathBuf,
    daemon: Option<Child>,
    runs: u32,
}

impl Node {
    /// Gives the node routes to its shards. There is no daemon yet.
    pub(crate) fn new(network: Arc<Network>) -> Result<Node, Failure> {
        let name = format!("guideway-demo-control-{}", std::process::id());
        let files = std::env::temp_dir().join(name);
        fs::create_dir_all(files.join("shards"))?;
        let route = |shard: &super::net::Shard| {
            let locator = sid(shard.number).locator();
            format!(
                "route add {locator}/64 via fe80::2 dev {}\n",
                shard.interface
            )
        };
        network
            .node
            .ip(&network.shards.iter().map(route).collect::<String>())?;
        Ok(Node {
            network,
            files,
            daemon: None,
            runs: 0,
        })
    }

    /// Says of a shard what its manifest says from now on.
    pub(crate) fn manifest(&self, number: u32, state: State) -> Result<(), Failure> {
        let path = self
            .files
            .join("shards")
            .join(format!("shard-{number}.json"));
        if state == State::Absent {
            return Ok(fs::remove_file(path)?);
        }
        let condition = |name: &str| json!({"type": name, "status": "True"});
        let manifest = json!({
            "apiVersion": "network.datumapis.com/v1alpha1",
            "kind": "EgressShard",
            "metadata": {"name": format!("shard-{number}"), "namespace": "demo"},
            "spec": {"drain": state == State::Draining},
            "status": {
                "shardSID": sid(number).to_string(),
                "shardAddressIPv6": "2001:db8:5::2",
                "conditions": [condition("Programmed"), condition("Ready")],
            },
        });
        // As whoever writes manifests should: never half a file.
        let next = self.files.join("next");
        fs::write(&next, manifest.to_string())?;
        Ok(fs::rename(next, path)?)
    }

    /// The tool beside this demo, with what it is told here.
    fn egressd(&self, verb: &[&str]) -> Result<Command, Failure> {
        let this = std::env::current_exe()?;
        let tool = this.with_file_name("egressd");
        if !tool.exists() {
            return Err(format!("{} is missing: build it first", tool.display()).into());
        }
        let uplinks = self
            .network
            .shards
            .iter()
            .map(|shard| shard.interface.as_str());
        let uplinks: Vec<_> = uplinks.collect();
        let mut command = Command::new(tool);
        command
            .args(verb)
            .arg("--mode=hashed")
            .arg("--node-sid=2001:db8:ff01:1:e000::")
            .arg(format!("--uplinks={}", uplinks.join(",")))
            .arg(format!(
                "--source=dir:{}",
                self.files.join("shards").display()
            ))
            .arg("--metrics=off")
            .stdin(Stdio::null());
        Ok(command)
    }

    fn log(&self) -> PathBuf {
        self.files.join(format!("log-{}", self.runs))
    }

    /// Starts the daemon, and waits until it is ready; how long that took.
    pub(crate) async fn start(&mut self) -> Result<Duration, Failure> {
        self.runs += 1;
        let log = File::create(self.log())?;
        let mut command = self.egressd(&["run"])?;
        command.stdout(log.try_clone()?).stderr(log);
        let start = Instant::now();
        self.daemon = Some(self.network.node.run(move || command.spawn())??);
        while !self.said("info ready: ")? {
            if start.elapsed() > PATIENCE {
                return Err(format!("egressd does not get ready: {}", self.lines()?).into());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(start.elapsed())
    }

    fn lines(&self) -> Result<String, Failure> {
        Ok(fs::read_to_string(self.log())?)
    }

    fn said(&self, words: &str) -> Result<bool, Failure> {
        Ok(self.lines()?.contains(words))
    }

    /// The steps that the daemon has done since it was started.
    pub(crate) fn steps(&self) -> Result<usize, Failure> {
        Ok(self.lines()?.matches("info step: ").count())
    }

    /// Ends the daemon as a crash would.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill()?;
            daemon.wait()?;
        }
        Ok(())
    }

    /// Gives a tenant's interface the program, and the tenant its routes.
    pub(crate) fn attach(&self, tenant: u32) -> Result<(), Failure> {
        let (interface, table) = (interface(tenant), table(tenant));
        let argument = argument(tenant);
        let mut command = self.egressd(&[
            "attach",
            &interface,
            &format!("--table={table}"),
            &format!("--argument={argument}"),
        ])?;
        let output = self.network.node.run(move || command.output())??;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    }

    /// The group that is published, if any is.
    pub(crate) fn group(&self) -> Result<Option<Snapshot>, Failure> {
        let read = || {
            let egress = Egress::open(&StateRoot::default().egress())?;
            match GroupId::new(0) {
                Some(group) => egress.group(group),
                None => Ok(None),
            }
        };
        Ok(self.network.node.run(read)??)
    }

    /// Waits until a shard stands so in the group that is published; how long that took since `from`.
    pub(crate) async fn until(
        &self,
        number: u32,
        state: State,
        from: Instant,
    ) -> Result<Duration, Failure> {
        loop {
            let group = self.group()?;
            let members = group.iter().flat_map(|group| group.members.iter());
            let mut members = members.filter(|member| shard(member.sid) == number);
            let is = members.next().map(|member| member.state());
            let wanted = match state {
                State::Absent => None,
                State::Active => Some(MemberState::Active),
                State::Draining => Some(MemberState::Draining),
                State::Unreachable => Some(MemberState::Unreachable),
            };
            if is == wanted {
                return Ok(from.elapsed());
            }
            if from.elapsed() > PATIENCE {
                let log = self.lines()?;
                return Err(format!("shard {number} is {is:?}, not {state:?}: {log}").into());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// What is counted for each shard that is listed.
    pub(crate) fn gauges(&self) -> Result<BTreeMap<u32, Gauge>, Failure> {
        let Some(group) = self.group()? else {
            return Ok(BTreeMap::new());
        };
        let read = || {
            let egress = Egress::open(&StateRoot::default().egress())?;
            let counters = egress.slot_counters(group.group)?;
            let pins = egress.pin_status(Tick::now())?.members;
            Ok::<_, guideway::egress::InstanceError>((counters, pins))
        };
        let (counters, pins) = self.network.node.run(read)??;
        let gauge = |member: &guideway::group::Member| {
            let counted = counters.get(usize::from(member.slot.get()));
            let packets = counted.map_or(0, |counted| counted.packets);
            let pins = pins.get(&(group.group, member.slot)).copied();
            let gauge = Gauge {
                packets: packets.saturating_sub(member.base.packets),
                pins: pins.unwrap_or_default().current,
            };
            (shard(member.sid), gauge)
        };
        Ok(group.members.iter().map(gauge).collect())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // What cannot be removed is in a directory for what may be.
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.files);
    }
}
