// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What `run`, `check` and `plan --loop` are told: flags, environment, file and defaults, in this
//! order. Nothing is ever replaced by a default because it makes no sense.

mod gather;
mod parse;
mod rows;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use guideway::control::files::Place;
use guideway::control::{Desired, InstallPolicy, Known, Mode, Policy, ShardList};
use guideway::egress::Limits;
use guideway::encap::Encap;
use guideway::error::ErrorKind;
use guideway::group::{Classes, Settings};
use guideway::id::InterfaceName;
use guideway::quiclb::ErrorFault;
use guideway::srv6::BaseSid;
use serde_json::{json, Map, Value};

use crate::tool::Failure;

pub(crate) use gather::Flags;
use gather::{gather, Said};
use rows::Kind;

/// Everything that can be set, judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) classes: Classes,
    pub(crate) settings: Settings,
    pub(crate) policy: Policy,
    pub(crate) shard_sids: Vec<BaseSid>,
    pub(crate) source: SourceChoice,
    pub(crate) uplinks: Vec<InterfaceName>,
    pub(crate) encap: Encap,
    pub(crate) install_policy: InstallPolicy,
    pub(crate) sweep: Duration,
    pub(crate) debounce: Duration,
    pub(crate) down_hold: Duration,
    pub(crate) state_dir: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) metrics: Option<SocketAddr>,
}

/// Where shards come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceChoice {
    /// Files.
    Files(Place),
    /// A namespace of a Kubernetes cluster.
    #[cfg(feature = "kube")]
    Kube(String),
}

/// Something that is wrong with what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The flag, the variable, or the file and its field.
    place: String,
    code: &'static str,
    message: String,
}

impl Fault {
    fn new(place: impl ToString, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            place: place.to_string(),
            code,
            message: message.into(),
        }
    }
}

impl From<Fault> for ErrorFault {
    fn from(fault: Fault) -> Self {
        Self {
            pointer: fault.place,
            code: fault.code.to_owned(),
            message: fault.message,
        }
    }
}

impl Config {
    /// What the node's egress should be, with these shards.
    pub(crate) fn desired(&self, shards: Known<ShardList>) -> Desired {
        Desired {
            mode: self.mode,
            classes: self.classes.clone(),
            settings: self.settings,
            encap: self.encap,
            shards,
            static_sids: self.shard_sids.clone(),
            policy: self.policy,
            overrides: BTreeMap::new(),
        }
    }

    /// Why no class is ever served, whatever the source lists and the node reaches; none if that
    /// depends.
    pub(crate) fn serves_nobody(&self) -> Option<&'static str> {
        let nobody = self.mode == Mode::Ordered && self.shard_sids.is_empty();
        nobody.then_some(
            "--mode ordered without --shard-sids: no class ever has a shard, and packets of new \
             tenants are dropped",
        )
    }

    /// Whether a process that runs by `before` can go on by this.
    ///
    /// # Errors
    /// What takes a new start.
    pub(crate) fn may_replace(&self, before: &Self) -> Result<(), Failure> {
        let mut faults = Vec::new();
        for (row, same) in [
            (&rows::STATE_DIR, self.state_dir == before.state_dir),
            (&rows::GROUPS, self.limits == before.limits),
            (&rows::METRICS, self.metrics == before.metrics),
        ] {
            if !same {
                let message = "is another one than at the start, which takes a new start";
                faults.push(Fault::new(row.field(), "fixed", message));
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(refused(faults)),
        }
    }
}

/// A configuration and where each of its values was said.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    said: Vec<Said>,
}

/// Reads what was said.
///
/// # Errors
/// Everything that is wrong with it, at once.
pub(crate) fn load(flags: &Flags) -> Result<Loaded, Failure> {
    let environment: Vec<_> = std::env::vars_os().collect();
    load_from(flags, &environment).map_err(refused)
}

fn refused(faults: Vec<Fault>) -> Failure {
    let count = faults.len();
    let plural = if count == 1 { "" } else { "s" };
    let message = format!("the configuration is not accepted: {count} fault{plural}");
    Failure::new(ErrorKind::Usage, message).with_faults(faults.into_iter().map(Into::into))
}

fn load_from(flags: &Flags, environment: &[(OsString, OsString)]) -> Result<Loaded, Vec<Fault>> {
    let mut faults = Vec::new();
    let said = gather(flags, environment, &mut faults);
    match parse::config(&said, &mut faults) {
        Some(config) if faults.is_empty() => Ok(Loaded { config, said }),
        _ => Err(faults),
    }
}

impl Loaded {
    /// Each value and where it was said.
    pub(crate) fn document(&self) -> Value {
        let values = self.said.iter().map(|said| {
            let value = match said.row.kind {
                // It was read as one.
                Kind::Number => said
                    .text
                    .trim()
                    .parse::<u64>()
                    .map_or(Value::Null, Value::from),
                Kind::Bool => Value::from(said.text == "true"),
                Kind::List => said
                    .text
                    .split(',')
                    .filter(|text| !text.is_empty())
                    .collect(),
                Kind::Text => Value::from(said.text.as_str()),
            };
            let origin = said.origin.kind();
            let place = said.origin.place(said.row);
            let entry = match origin {
                "default" => json!({"value": value, "origin": origin}),
                _ => json!({"value": value, "origin": origin, "place": place}),
            };
            (said.row.field(), entry)
        });
        let values: Map<String, Value> = values.collect();
        json!({"schema": "guideway.egress.config/v1", "values": values})
    }

    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let mut table = crate::tool::text::Table::new(0, &["", "", ""], &[]);
        for said in &self.said {
            let value = if said.text.is_empty() {
                "-"
            } else {
                &said.text
            };
            let origin = match said.origin.kind() {
                "default" => "default".to_owned(),
                _ => said.origin.place(said.row),
            };
            table.row([&said.row.flag, &value, &origin]);
        }
        let mut text = String::new();
        table.write(&mut text);
        text
    }
}
