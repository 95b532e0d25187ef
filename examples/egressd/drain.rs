// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `drain-status`: who still needs shards that drain.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use guideway::egress::pins::{Rules, Standing, Tick};
use guideway::egress::{Egress, InstanceError};
use guideway::error::ErrorKind;
use guideway::group::{GroupId, MemberState, Snapshot};
use guideway::kernel::statedir::StateDir;
use guideway::route::TableId;
use guideway::srv6::BaseSid;
use serde_json::{json, Value};

use crate::args::DrainArgs;
use crate::tool::{json, Done, Failure, Output};

/// A shard's pins that are in use.
#[derive(Default)]
struct Needed {
    pins: u64,
    tenants: BTreeSet<TableId>,
    /// Since the last packet of the one that was used last.
    youngest: Option<Duration>,
}

pub(crate) fn run(
    arguments: &DrainArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let about = |error: InstanceError| Failure::from(error).about(state.path().display());
    let egress = Egress::open(state).map_err(about)?;
    let groups = egress.groups_as_they_are().map_err(about)?.known;
    let needed = needed(&egress, &groups).map_err(about)?;
    let named = |sid: BaseSid| arguments.shards.contains(&sid);
    let none = Needed::default();
    let mut shards = Vec::new();
    for group in groups.iter().filter(|group| group.forwards()) {
        for member in &group.members {
            let shown = match arguments.shards.is_empty() {
                true => member.draining,
                false => named(member.sid),
            };
            if shown {
                let needed = needed.get(&(group.group, member.sid)).unwrap_or(&none);
                let (sid, state) = (member.sid, member.state());
                shards.push((group, sid, state, needed));
            }
        }
    }
    let member = |sid: &&BaseSid| !shards.iter().any(|(_, other, _, _)| other == *sid);
    if let Some(sid) = arguments.shards.iter().find(member) {
        let message = format!("shard {sid} is no member of any group");
        return Err(Failure::new(ErrorKind::NotFound, message).about(sid));
    }
    let document: Vec<Value> = shards.iter().map(document).collect();
    let document = json!({"schema": "guideway.egress.drain/v1", "shards": document});
    match output.is_json() {
        true => output.print(&json(&document))?,
        false => output.print(&text(&shards))?,
    };
    Ok(Done::Well)
}

/// A member of a group, how it stands, and who needs it.
type Shard<'a> = (&'a Snapshot, BaseSid, MemberState, &'a Needed);

/// The pins in use of every member, read once.
fn needed(
    egress: &Egress,
    groups: &[Snapshot],
) -> Result<BTreeMap<(GroupId, BaseSid), Needed>, InstanceError> {
    let rules = Rules::new(groups);
    let now = Tick::now();
    let mut needed = BTreeMap::<_, Needed>::new();
    egress.pins()?.for_each(|pin| {
        // A row that makes no sense holds nobody.
        let Some(pin) = pin
            .ok()
            .filter(|pin| rules.standing(pin, now) == Standing::Live)
        else {
            return ControlFlow::Continue(());
        };
        let group = groups.iter().find(|group| group.group == pin.holder.group);
        let members = group.iter().flat_map(|group| group.members.iter());
        let mut members = members.filter(|member| member.slot == pin.held.slot);
        if let Some(member) = members.next() {
            let needed = needed.entry((pin.holder.group, member.sid)).or_default();
            needed.pins += 1;
            needed.tenants.insert(pin.holder.table);
            let age = now.elapsed_since(pin.last_seen);
            needed.youngest = Some(needed.youngest.map_or(age, |youngest| youngest.min(age)));
        }
        ControlFlow::Continue(())
    })?;
    Ok(needed)
}

fn document((group, sid, state, needed): &Shard<'_>) -> Value {
    json!({
        "sid": sid,
        "class": group.class,
        "state": state,
        "pins": needed.pins,
        "tenants": needed.tenants.len(),
        "youngest_seconds": needed.youngest.map(|age| age.as_secs()),
        "pin_idle_seconds": group.settings.pin_idle.as_secs(),
    })
}

fn text(shards: &[Shard<'_>]) -> String {
    if shards.is_empty() {
        return "no shard drains\n".to_owned();
    }
    let mut text = String::new();
    for (group, sid, _, needed) in shards {
        let class = group.class;
        text.push_str(&format!("{sid} of {class}: "));
        match needed.youngest {
            None if group.settings.pin_idle.is_off() => {
                text.push_str("there are no pins: who went there has moved\n");
            }
            None => text.push_str("no pins are left: it can be removed\n"),
            Some(age) => text.push_str(&format!(
                "{} pins of {} tenants, the youngest used {} s ago; removed now, they would go to other \
                 shards\n",
                needed.pins,
                needed.tenants.len(),
                age.as_secs()
            )),
        }
    }
    text
}
