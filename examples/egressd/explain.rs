// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `explain`: which shard an address goes to, and why.

use std::net::IpAddr;

use clap::Args;
use guideway::egress::explain::{
    Address, AddressExplain, Explain, ExplainedMember, ExplainedRoute, Leads, Transport, Verdict,
    Who,
};
use guideway::egress::Egress;
use guideway::error::ErrorKind;
use guideway::kernel::netdev;
use guideway::kernel::statedir::StateDir;
use guideway::oracle::egress::{By, PinFate};
use guideway::placement::Ports;
use guideway::route::TableId;

use crate::plan::{hash_text, state_text};
use crate::tool::{Done, Failure, Output};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Address of a tenant, where packets come from
    address: IpAddr,
    #[command(flatten)]
    who: WhoArgs,
    /// Where they go [default: by each route of the tenant]
    #[arg(long, value_name = "ADDR")]
    to: Option<IpAddr>,
    /// Protocol, for groups that place by flow; of IPv6 the first next header, whatever follows
    #[arg(long, value_name = "N")]
    protocol: Option<u8>,
    /// Source port, likewise
    #[arg(long, value_name = "N", requires_all = ["protocol", "destination_port"])]
    source_port: Option<u16>,
    /// Destination port, likewise
    #[arg(long, value_name = "N", requires_all = ["protocol", "source_port"])]
    destination_port: Option<u16>,
    /// They are fragments, the first or others
    #[arg(long)]
    fragment: bool,
}

/// Whose packets: the only tenant's, if there is one.
#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// Number of the tenant
    #[arg(long, value_name = "N", conflicts_with = "interface")]
    table: Option<u32>,
    /// An interface of the tenant: its name, or its index if it has none here
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

impl WhoArgs {
    pub(crate) fn who(&self) -> Result<Who, Failure> {
        let Some(name) = &self.interface else {
            return Ok(self
                .table
                .map_or(Who::Only, |table| Who::Table(TableId::new(table))));
        };
        let found = netdev::by_name(name)
            .map_err(|error| Failure::new(error.kind(), &error).about(name))?;
        let ifindex = found
            .map(|interface| interface.index)
            .or_else(|| name.parse().ok());
        ifindex.map(Who::Interface).ok_or_else(|| {
            let message = format!("there is no interface {name} in this network namespace");
            Failure::new(ErrorKind::NotFound, message).about(name)
        })
    }
}

impl ExplainArgs {
    fn address(&self) -> Address {
        let ports = self.source_port.zip(self.destination_port);
        let transport = self.protocol.map(|protocol| Transport {
            protocol,
            ports: ports.map(|(source, destination)| Ports {
                source,
                destination,
            }),
        });
        Address {
            destination: self.to,
            transport,
            fragment: self.fragment,
            ..Address::new(self.address)
        }
    }
}

pub(crate) fn run(
    arguments: &ExplainArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let egress = Egress::open(state)?;
    let explained = egress.explain_address(arguments.who.who()?, &arguments.address())?;
    output.result(&explained, text)?;
    let differ = |explain: &Explain| {
        let states = explain.route.and_then(|route| route.states);
        states.is_some_and(|states| !states.agree)
    };
    Ok(Done::degraded_if(explained.routes.iter().any(differ)))
}

fn text(explained: &AddressExplain) -> String {
    let AddressExplain {
        source,
        destination,
        table,
        interface,
        routes,
        ..
    } = explained;
    let to = destination.map_or_else(String::new, |to| format!(" to {to}"));
    let mut text = format!("{source}{to}, tenant {table} at {interface}\n");
    if routes.is_empty() {
        text.push_str("\nno route of the tenant: the next program gets its packets\n");
    }
    for explain in routes {
        text.push('\n');
        explain_text(explain, &mut text);
    }
    text
}

/// What becomes of a packet, and why, in lines.
pub(crate) fn explain_text(explain: &Explain, text: &mut String) {
    if let Some(route) = &explain.route {
        text.push_str(&format!("{}\n", route_text(route, explain)));
    }
    let verdict = explain.verdict.map_or("it depends", verdict_text);
    let end = explain
        .end
        .map_or_else(String::new, |end| format!(", {end}"));
    let shard = match (&explain.member, &explain.route) {
        (Some(member), _) => format!(" {}", member_text(member)),
        (None, Some(ExplainedRoute { sid: Some(sid), .. })) => format!(" shard {sid}"),
        _ => String::new(),
    };
    text.push_str(&format!(
        "  -> {verdict}{end}{shard}\n     {}\n",
        explain.why
    ));
    if let (Some(hash), Some(word)) = (&explain.hash, explain.word) {
        text.push_str(&format!("     hash {hash}, word {word}\n"));
    }
    if let Some(pin) = &explain.pin {
        let held = match (pin.slot, pin.generation, pin.idle_seconds, pin.left_seconds) {
            (Some(slot), Some(generation), Some(idle), Some(left)) => {
                format!(", slot {slot} generation {generation}, idle {idle} s, holds {left} s more")
            }
            _ => String::new(),
        };
        let fate = pin.fate.map_or("none", fate_text);
        text.push_str(&format!("     pin: {fate}{held}\n"));
    }
    match (&explain.member, &explain.without_pin) {
        (Some(ExplainedMember { by: By::Pin, .. }), Some(other)) => {
            text.push_str(&format!("     without it: {}\n", member_text(other)));
        }
        (Some(ExplainedMember { by: By::Pin, .. }), None) => {
            text.push_str("     without it: nobody\n");
        }
        _ => {}
    }
    if let Some(hop) = &explain.hop {
        let mac = hop
            .mac
            .map_or_else(String::new, |mac| format!(", to {mac}"));
        text.push_str(&format!(
            "     {} -> {}, out by index {}{mac}\n",
            hop.source, hop.destination, hop.ifindex
        ));
    }
    let states = explain.route.and_then(|route| route.states);
    for (name, state) in states
        .iter()
        .flat_map(|states| [("fnv5", states.fnv5), ("fnv12", states.fnv12)])
        .filter(|(_, state)| state.carried != state.expected)
    {
        text.push_str(&format!(
            "     MISMATCH the route carries {name} {:08x}, not {:08x}: it is to be written anew\n",
            state.carried, state.expected
        ));
    }
}

fn route_text(route: &ExplainedRoute, explain: &Explain) -> String {
    let leads = match (route.leads, &explain.group) {
        (Leads::Pass, _) => "pass".to_owned(),
        (Leads::Block, _) => "block".to_owned(),
        (Leads::Unreachable, _) => "unreachable".to_owned(),
        (Leads::Shard, _) => "one shard".to_owned(),
        (_, Some(group)) => format!(
            "{} (group {}, {}, by {}, incarnation {})",
            group.class,
            group.group,
            group.state,
            hash_text(group.hash),
            group.incarnation,
        ),
        (_, None) => match route.group {
            Some(group) => format!("group {group}, which is absent"),
            None => "nowhere".to_owned(),
        },
    };
    format!("{}  {leads}", route.prefix)
}

fn member_text(member: &ExplainedMember) -> String {
    let by = match member.by {
        By::Pin => "its pin",
        By::Table => "the table",
    };
    let state = member.state.map_or("unknown", state_text);
    format!(
        "shard {} (slot {}, generation {}, {state}) by {by}",
        member.sid, member.slot, member.generation
    )
}

pub(crate) fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Next => "next",
        Verdict::Drop => "drop",
        Verdict::Redirect => "redirect",
        Verdict::Answer => "answer",
    }
}

fn fate_text(fate: PinFate) -> &'static str {
    match fate {
        PinFate::Followed => "followed",
        PinFate::Refreshed => "followed, and renewed",
        PinFate::New => "made",
        PinFate::NoRoom => "none, and no room",
        PinFate::NoQuota => "none, and no quota",
        PinFate::Replaced => "replaced",
        PinFate::Stale => "stale",
        PinFate::Torn => "torn",
        PinFate::Dead => "dead",
        _ => "unknown",
    }
}
